/* model/session_score.c - what a decoder says at every token, not only at the last: its logits, and how
 * likely it held what came.  Blocks run by chunks as in session.c; the head then reads a few rows at a time,
 * so that memory does not grow with the text times the vocabulary. */
#include <math.h>
#include <string.h>

#include "model/session.h"
#include "nn/cross_entropy.h"
#include "nn/logistics.h"

enum { ROWS = 64, LOGITS = 1 << 21 }; /* rows the head reads at once, and the numbers they may become */

/* The rows of one chunk: `length` of each sequence, from token `at` of the call on. */
typedef struct chunk {
    lnt_session *s;
    const int32_t *tokens; /* [batch,count], of the call */
    int64_t count, at;
    size_t length;
} chunk;

static size_t outputs_of(const lnt_session *s) { return (size_t)s->model->config.outputs; }

static void fill_logits(const lnt_session *s, size_t row, size_t rows, float *logits)
{
    const float *x = s->network.top + row * (size_t)s->model->config.dim;
    lnt_network_logits(&s->network, s->model->weights, x, rows, logits);
}

/* ---- all logits ------------------------------------------------------------------------------ */

/* Those of the last tokens of the call that are in this chunk. */
static void give_logits(const chunk *c, int64_t last, float *logits)
{
    const int64_t first = c->count - last > c->at ? c->count - last : c->at;
    const int64_t end = c->at + (int64_t)c->length;
    if (first >= end) return;
    for (size_t b = 0; b < c->s->batch; b++) {
        const size_t to = b * (size_t)last + (size_t)(first - (c->count - last));
        fill_logits(c->s, b * c->length + (size_t)(first - c->at), (size_t)(end - first),
                    logits + to * outputs_of(c->s));
    }
}

lnt_status lnt_session_forward_all(lnt_session *s, const int32_t *tokens, int64_t count, int64_t last,
                                   float *logits)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = s->model->ctx;
    if (last < 1 || last > count || !logits)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "last is %lld, must be 1 to count, which is %lld, with logits",
                        (long long)last, (long long)count);
    lnt_status status = lnt_session_begin(s, tokens, count);
    for (int64_t at = 0; !status && at < count;) {
        size_t n;
        status = lnt_session_chunk(s, tokens, count, at, true, &n);
        if (!status) give_logits(&(chunk){ s, tokens, count, at, n }, last, logits);
        at += (int64_t)n;
    }
    for (size_t b = 0; !status && b < s->batch; b++)
        memcpy(s->logits + b * outputs_of(s), logits + ((b + 1) * (size_t)last - 1) * outputs_of(s),
               outputs_of(s) * sizeof *logits);
    return status;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Of row i of a chunk: its sequence, and which token of the call follows it. */
static int64_t next_token(const chunk *c, size_t i, size_t *b)
{
    *b = i / c->length;
    return c->at + (int64_t)(i % c->length) + 1;
}

/* nats [rows] of targets, negative ones 0, by logits. */
static void weigh(const lnt_session *s, const float *logits, const int32_t *targets, double *nats,
                  size_t rows)
{
    const lnt_model *m = s->model;
    if (m->config.output == LNT_OUTPUT_LOGISTICS)
        lnt_logistics_loss(m->ctx, logits, targets, nats, NULL, 1, rows);
    else
        lnt_cross_entropy(m->ctx, logits, targets, nats, NULL, NULL, 1, rows, outputs_of(s));
}

/* What the model can say of a token at all; -1: nothing. */
static int32_t target_of(const lnt_session *s, int32_t token)
{
    const bool pixels = s->model->config.output == LNT_OUTPUT_LOGISTICS;
    return token < (pixels ? LNT_LOGISTICS_VALUES : s->model->config.outputs) ? token : -1;
}

/* Rows first .. first+rows-1 of a chunk, by logits [rows,outputs]. */
static void score_rows(const chunk *c, const float *logits, size_t first, size_t rows, double *nats)
{
    int32_t targets[ROWS] = { 0 };
    double own[ROWS];
    size_t b;
    for (size_t i = 0; i < rows; i++) {
        const int64_t next = next_token(c, first + i, &b);
        targets[i] = next < c->count ? target_of(c->s, c->tokens[(int64_t)b * c->count + next]) : -1;
        if (next == c->count)
            memcpy(c->s->logits + b * outputs_of(c->s), logits + i * outputs_of(c->s),
                   outputs_of(c->s) * sizeof *logits);
    }
    weigh(c->s, logits, targets, own, rows);
    for (size_t i = 0; i < rows; i++) {
        const int64_t next = next_token(c, first + i, &b);
        if (next < c->count) nats[(int64_t)b * c->count + next] = targets[i] < 0 ? (double)INFINITY : own[i];
    }
}

/* The first token of each sequence, by what was fed before. */
static void score_first(const lnt_session *s, const int32_t *tokens, int64_t count, double *nats)
{
    for (size_t b = 0; b < s->batch; b++) {
        const int32_t target = target_of(s, tokens[(int64_t)b * count]);
        double *to = nats + (int64_t)b * count;
        *to = 0;
        if (!s->tokens) continue;
        if (target < 0) *to = (double)INFINITY;
        else weigh(s, s->logits + b * outputs_of(s), &target, to, 1);
    }
}

static lnt_status score_chunks(lnt_session *s, const int32_t *tokens, int64_t count, size_t rows,
                               float *logits, double *nats)
{
    lnt_status status = LNT_OK;
    score_first(s, tokens, count, nats);
    for (int64_t at = 0; !status && at < count;) {
        size_t n;
        status = lnt_session_chunk(s, tokens, count, at, true, &n);
        const chunk c = { s, tokens, count, at, n };
        for (size_t i = 0; !status && i < s->batch * n; i += rows) {
            const size_t some = nn_least(rows, s->batch * n - i);
            fill_logits(s, i, some, logits);
            score_rows(&c, logits, i, some, nats);
        }
        at += (int64_t)n;
    }
    return status;
}

lnt_status lnt_session_score(lnt_session *s, const int32_t *tokens, int64_t count, double *nats)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = s->model->ctx;
    if (!nats) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "nats is NULL");
    lnt_status status = lnt_session_begin(s, tokens, count);
    if (status || !count) return status;
    const size_t some = LOGITS / outputs_of(s), rows = some < 1 ? 1 : nn_least(some, ROWS);
    const size_t bytes = rows * outputs_of(s) * sizeof(float);
    float *logits = lnt_allocate(ctx, bytes, "the logits of some tokens");
    status = logits ? score_chunks(s, tokens, count, rows, logits, nats) : LNT_ERR_MEMORY;
    lnt_release(ctx, logits, bytes);
    return status;
}
