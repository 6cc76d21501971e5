/* train/loss.c - see loss.h. */
#include "train/loss.h"

#include <assert.h>
#include <math.h>

#include "nn/cross_entropy.h"
#include "nn/ctc.h"
#include "nn/logistics.h"

void lnt_loss_take_scratch(lnt_arena *arena, const lnt_config *config, size_t batch, size_t length,
                   lnt_loss_scratch *out)
{
    const bool frames = config->output == LNT_OUTPUT_FRAMES;
    const size_t n = batch * length, labels = nn_least(length, LNT_LABELS_MOST);
    out->lattice_size = frames ? lnt_ctc_scratch(length, (size_t)config->outputs, labels) : 0;
    out->loss = lnt_arena_take(arena, n, sizeof *out->loss);
    out->hit = lnt_arena_take(arena, n, sizeof *out->hit);
    out->lattice = lnt_arena_take(arena, batch * out->lattice_size, sizeof *out->lattice);
    out->read = lnt_arena_take(arena, frames ? n : 0, sizeof *out->read);
}

static size_t edit_distance(const int32_t *a, size_t n, const int32_t *b, size_t m)
{
    size_t row[LNT_LABELS_MOST + 1];
    assert(m <= LNT_LABELS_MOST);
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t change = corner + (a[i - 1] != b[j - 1]);
            const size_t insert = row[j - 1] + 1, remove = row[j] + 1;
            corner = row[j];
            row[j] = change < insert ? change : insert;
            row[j] = row[j] < remove ? row[j] : remove;
        }
    }
    return row[m];
}

static void read_utterances(const lnt_network *net, const lnt_sample *s, const lnt_loss_scratch *scratch,
                            lnt_score *score)
{
    const size_t classes = (size_t)net->config->outputs;
    for (size_t b = 0; b < s->batch; b++) {
        int32_t *read = scratch->read + b * s->length;
        const size_t count = lnt_ctc_decode(net->logits + b * s->length * classes, read,
                                            (size_t)s->lengths[b], classes);
        const size_t said = (size_t)s->labels[b];
        score->edits += (double)edit_distance(read, count, s->targets + b * s->length, said);
        score->words += (double)said;
    }
}

static void loss_frames(lnt_network *net, const lnt_sample *s, bool gradient, double weight,
                        const lnt_loss_scratch *scratch, lnt_score *score)
{
    const size_t classes = (size_t)net->config->outputs, length = s->length;
    read_utterances(net, s, scratch, score);
#pragma omp parallel for schedule(dynamic) num_threads(net->ctx->threads)
    for (int64_t b = 0; b < (int64_t)s->batch; b++) {
        real *x = net->logits + (size_t)b * length * classes;
        const size_t frames = (size_t)s->lengths[b];
        scratch->loss[b] = lnt_ctc_loss(x, s->targets + (size_t)b * length, gradient ? x : NULL,
                                     weight, frames, classes, (size_t)s->labels[b],
                                     scratch->lattice + (size_t)b * scratch->lattice_size);
        for (size_t i = frames * classes; gradient && i < length * classes; i++) x[i] = 0;
    }
    for (size_t b = 0; b < s->batch; b++) {
        const bool counts = s->lengths[b] > 0 && isfinite(scratch->loss[b]);
        score->loss += counts ? scratch->loss[b] : 0;
        score->targets += counts;
        if (!counts) score->units -= (double)s->labels[b];
    }
}

static size_t rows_of(const lnt_config *config, const lnt_sample *s)
{
    return config->output == LNT_OUTPUT_CLASS ? s->batch : s->batch * s->length;
}

static size_t count_targets(const lnt_config *config, const lnt_sample *s)
{
    size_t count = 0;
    for (size_t i = 0; i < rows_of(config, s); i++) count += s->targets[i] >= 0;
    return count;
}

double lnt_loss_weight(const lnt_config *config, const lnt_sample *batch)
{
    const size_t count = config->output == LNT_OUTPUT_FRAMES ? batch->batch
                                                             : count_targets(config, batch);
    return count ? 1 / (double)count : 0;
}

void lnt_loss(lnt_network *net, const lnt_sample *s, bool gradient, double weight,
              const lnt_loss_scratch *scratch, lnt_score *score)
{
    const lnt_config *c = net->config;
    const size_t rows = rows_of(c, s);
    if (c->output == LNT_OUTPUT_FRAMES) {
        loss_frames(net, s, gradient, weight, scratch, score);
        return;
    }
    if (c->output == LNT_OUTPUT_LOGISTICS)
        lnt_logistics_loss(net->ctx, net->logits, s->targets, scratch->loss,
                           gradient ? net->logits : NULL, weight, rows);
    else
        lnt_cross_entropy(net->ctx, net->logits, s->targets, scratch->loss, scratch->hit,
                          gradient ? net->logits : NULL, weight, rows, (size_t)c->outputs);
    score->targets += (double)count_targets(c, s);
    for (size_t i = 0; i < rows; i++) {
        score->loss += scratch->loss[i];
        if (c->output != LNT_OUTPUT_LOGISTICS) score->hits += scratch->hit[i];
    }
}

void lnt_score_add(lnt_score *score, const lnt_score *more)
{
    score->loss += more->loss;
    score->targets += more->targets;
    score->hits += more->hits;
    score->units += more->units;
    score->edits += more->edits;
    score->words += more->words;
}
