/* train/sample.c - memory for batches. */
#include "train/sample.h"

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

lnt_sample lnt_sample_part(const lnt_sample *s, const lnt_config *config, size_t first, size_t count)
{
    const bool features = config->input == LNT_INPUT_FEATURES;
    const size_t targets = config->output == LNT_OUTPUT_CLASS ? 1 : s->length;
    lnt_sample part = { .batch = count, .length = s->length, .lengths = s->lengths + first,
                        .targets = s->targets + first * targets, .labels = s->labels + first };
    if (features) part.features = s->features + first * s->length * (size_t)config->inputs;
    else part.tokens = s->tokens + first * s->length;
    return part;
}

lnt_batch lnt_sample_batch(const lnt_sample *s)
{
    bool full = true;
    for (size_t b = 0; b < s->batch; b++) full &= s->lengths[b] == (int64_t)s->length;
    return (lnt_batch){ .batch = s->batch, .length = s->length, .tokens = s->tokens,
                        .features = s->features, .lengths = full ? NULL : s->lengths };
}
