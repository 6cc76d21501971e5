/* train/sample.c - batches, and parts of them with sequences of similar length. */
#include "train/sample.h"

#include <stdlib.h>
#include <string.h>

void lnt_sample_take(lnt_arena *arena, const lnt_config *config, size_t batch, size_t length,
                     lnt_sample *out)
{
    const size_t n = batch * length;
    const bool features = config->input == LNT_INPUT_FEATURES;
    out->batch = batch;
    out->length = length;
    out->tokens = lnt_arena_take(arena, features ? 0 : n, sizeof *out->tokens);
    out->features =
        lnt_arena_take(arena, features ? n * (size_t)config->inputs : 0, sizeof *out->features);
    out->lengths = lnt_arena_take(arena, batch, sizeof *out->lengths);
    out->targets = lnt_arena_take(arena, n, sizeof *out->targets);
    out->labels = lnt_arena_take(arena, batch, sizeof *out->labels);
}

static int by_length(const void *a, const void *b)
{
    const lnt_example *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

void lnt_sample_order(const lnt_sample *s, lnt_example *order)
{
    for (size_t b = 0; b < s->batch; b++)
        order[b] = (lnt_example){ nn_least((size_t)s->lengths[b], s->length), b };
    qsort(order, s->batch, sizeof *order, by_length);
}

/* The tokens of the longest sequence, which is the first; more where labels of CTC need the room. */
static size_t cut_length(const lnt_sample *s, const lnt_config *config, const lnt_example *order,
                         size_t count)
{
    size_t longest = order[0].length > 0 ? order[0].length : 1;
    for (size_t i = 0; config->output == LNT_OUTPUT_FRAMES && i < count; i++)
        if ((size_t)s->labels[order[i].index] > longest) longest = (size_t)s->labels[order[i].index];
    return longest;
}

/* Row `from` of x, numbers of `size` bytes, becomes row `to` of y. */
static void copy_row(void *y, size_t to, size_t row, const void *x, size_t from, size_t long_row,
                     size_t size)
{
    memcpy((char *)y + to * row * size, (const char *)x + from * long_row * size, row * size);
}

void lnt_sample_gather(const lnt_sample *s, const lnt_config *config, const lnt_example *order,
                       size_t count, lnt_sample *out)
{
    const bool class = config->output == LNT_OUTPUT_CLASS;
    const size_t row = cut_length(s, config, order, count), inputs = (size_t)config->inputs;
    out->batch = count;
    out->length = row;
    for (size_t i = 0; i < count; i++) {
        const size_t b = order[i].index;
        if (config->input == LNT_INPUT_FEATURES)
            copy_row(out->features, i, row * inputs, s->features, b, s->length * inputs,
                     sizeof *s->features);
        else
            copy_row(out->tokens, i, row, s->tokens, b, s->length, sizeof *s->tokens);
        copy_row(out->targets, i, class ? 1 : row, s->targets, b, class ? 1 : s->length,
                 sizeof *s->targets);
        out->lengths[i] = s->lengths[b];
        out->labels[i] = s->labels[b];
    }
}

lnt_batch lnt_sample_batch(const lnt_sample *s)
{
    bool full = true;
    for (size_t b = 0; b < s->batch; b++) full &= s->lengths[b] == (int64_t)s->length;
    return (lnt_batch){ .batch = s->batch, .length = s->length, .tokens = s->tokens,
                        .features = s->features, .lengths = full ? NULL : s->lengths };
}
