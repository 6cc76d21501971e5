/* model/layout.c - see layout.h. */
#include "model/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "cpu/kernels.h"
#include "nn/conv.h"

static lnt_param conv_param(const lnt_config *c, int i)
{
    static const char *const names[] = { "conv1.weight", "conv1.bias", "conv2.weight",
                                         "conv2.bias",   "conv3.weight", "conv3.bias" };
    const size_t dim = (size_t)c->dim;
    if (c->embedding != LNT_EMBEDDING_CNN) return (lnt_param){ 0 };
    if (i % 2) return lnt_param_vector(names[i], dim, 0);
    return (lnt_param){ .name = names[i], .rank = 3, .shape = { LNT_CONV_TAPS, dim, dim },
                        .decays = true,
                        .deviation = 1 / sqrt((double)LNT_CONV_TAPS * (double)dim) };
}

/* Those that networks of images have. */
static lnt_param later_param(const lnt_config *c, int i)
{
    const size_t dim = (size_t)c->dim, outputs = (size_t)c->outputs;
    const double by_width = 1 / sqrt((double)dim);
    const lnt_param none = { 0 };
    switch (i) {
    case LNT_PARAM_CLASS:
        return c->class_tokens ? lnt_param_matrix("class.weight", (size_t)c->class_tokens, dim, 0) : none;
    case LNT_PARAM_POOLER: return c->pooler ? lnt_param_matrix("pooler.weight", dim, dim, by_width) : none;
    case LNT_PARAM_POOLER_BIAS: return c->pooler ? lnt_param_vector("pooler.bias", dim, 0) : none;
    case LNT_PARAM_HEAD2:
        return c->distilled ? lnt_param_matrix("head2.weight", dim, outputs, by_width) : none;
    case LNT_PARAM_HEAD2_BIAS:
        return c->distilled && lnt_config_bias(c) & LNT_BIAS_HEAD ? lnt_param_vector("head2.bias", outputs, 0)
                                                                  : none;
    default: return none;
    }
}

static lnt_param outer_param(const lnt_config *c, int i)
{
    const size_t dim = (size_t)c->dim, inputs = (size_t)c->inputs, outputs = (size_t)c->outputs;
    const bool features = c->input == LNT_INPUT_FEATURES, norm_bias = lnt_config_bias(c) & LNT_BIAS_NORM;
    const double by_width = 1 / sqrt((double)dim);
    const lnt_param none = { 0 };
    const bool headless = c->tied || c->output == LNT_OUTPUT_VECTOR;
    if (i >= LNT_PARAM_CONV && i <= LNT_PARAM_CONV_LAST) return conv_param(c, i - LNT_PARAM_CONV);
    switch (i) {
    case LNT_PARAM_EMBED: /* tied, it is the head as well */
        return lnt_param_matrix("embed.weight", inputs, dim,
                      features ? 1 / sqrt((double)inputs) : c->tied ? by_width : 0.5);
    case LNT_PARAM_EMBED_BIAS: return features ? lnt_param_vector("embed.bias", dim, 0) : none;
    case LNT_PARAM_POSITION:
        return c->position == LNT_POSITION_LEARNED
                   ? lnt_param_matrix("position.weight", (size_t)c->length, dim, c->tied ? by_width : 0.5)
                   : none;
    case LNT_PARAM_NORM_GAIN: return c->post == LNT_PLACE_POST ? none : lnt_param_vector("norm.gain", dim, 1);
    case LNT_PARAM_NORM_BIAS:
        return c->post == LNT_PLACE_POST || !norm_bias ? none : lnt_param_vector("norm.bias", dim, 0);
    case LNT_PARAM_HEAD: return headless ? none : lnt_param_matrix("head.weight", dim, outputs, by_width);
    case LNT_PARAM_HEAD_BIAS:
        return lnt_config_bias(c) & LNT_BIAS_HEAD && c->output != LNT_OUTPUT_VECTOR
                   ? lnt_param_vector("head.bias", outputs, 0)
                   : none;
    case LNT_PARAM_EMBED_NORM_GAIN:
        return c->embedding_norm ? lnt_param_vector("embed_norm.gain", dim, 1) : none;
    case LNT_PARAM_EMBED_NORM_BIAS:
        return c->embedding_norm && norm_bias ? lnt_param_vector("embed_norm.bias", dim, 0) : none;
    default: return later_param(c, i);
    }
}

/* As if later parameters, which begin as constants, were not there: a seed draws what it always drew. */
static uint64_t stream_of(size_t i)
{
    if (i == LNT_PARAM_POOLER || i == LNT_PARAM_HEAD2) return UINT64_MAX - i; /* no block's */
    if (i < LNT_PARAM_OUTER) return i;
    return LNT_PARAM_DRAWN + (i - LNT_PARAM_OUTER) / LNT_BLOCK_PARAMS * LNT_BLOCK_DRAWN +
           (i - LNT_PARAM_OUTER) % LNT_BLOCK_PARAMS;
}

/* Places entry i after those before it. */
static lnt_status add_entry(lnt_ctx *ctx, lnt_layout *layout, size_t i, lnt_param param, int block)
{
    lnt_layout_entry *e = &layout->entries[i];
    *e = (lnt_layout_entry){ .param = param, .offset = layout->size, .stream = stream_of(i) };
    if (!param.name) return LNT_OK;
    if (block < 0) snprintf(e->name, sizeof e->name, "%s", param.name);
    else snprintf(e->name, sizeof e->name, "blocks.%d.%s", block, param.name);
    size_t count = 1, next;
    bool fits = true;
    for (int axis = 0; axis < param.rank; axis++)
        fits &= lnt_size_product(count, param.shape[axis], 1, &count);
    fits = fits && !__builtin_add_overflow(count, layout->size + LNT_PAD, &next) &&
           next < SIZE_MAX / 64;
    if (!fits)
        return lnt_fail(ctx, LNT_ERR_MEMORY, "model: %s alone exceeds the address space", e->name);
    e->count = count;
    layout->parameters += count;
    layout->size += lnt_round_up(count, LNT_PAD);
    return LNT_OK;
}

lnt_status lnt_layout_open(lnt_ctx *ctx, const lnt_config *config, lnt_layout *out)
{
    *out = (lnt_layout){ .entry_count = lnt_layout_block((size_t)config->layers, 0) };
    out->entries = lnt_allocate(ctx, out->entry_count * sizeof *out->entries, "the parameters' names");
    if (!out->entries) return LNT_ERR_MEMORY;
    lnt_status status = LNT_OK;
    for (int i = 0; !status && i < LNT_PARAM_OUTER; i++)
        status = add_entry(ctx, out, (size_t)i, outer_param(config, i), -1);
    for (int l = 0; !status && l < (int)config->layers; l++) {
        const lnt_block_shape block = lnt_config_block(config, lnt_config_kind(config, (size_t)l));
        for (int i = 0; !status && i < LNT_BLOCK_PARAMS; i++)
            status = add_entry(ctx, out, lnt_layout_block((size_t)l, i), lnt_block_param(&block, i), l);
    }
    if (status) lnt_layout_close(ctx, out);
    return status;
}

bool lnt_layout_packs(size_t i)
{
    if (i < LNT_PARAM_OUTER)
        return i == LNT_PARAM_EMBED || i == LNT_PARAM_HEAD || i == LNT_PARAM_POOLER || i == LNT_PARAM_HEAD2;
    const size_t own = (i - LNT_PARAM_OUTER) % LNT_BLOCK_PARAMS;
    return own == LNT_BLOCK_QKV || own == LNT_BLOCK_OUT || own == LNT_BLOCK_UP || own == LNT_BLOCK_DOWN;
}

void lnt_layout_leave_out(lnt_layout *layout, size_t i)
{
    const size_t size = lnt_round_up(layout->entries[i].count, LNT_PAD);
    layout->entries[i].count = 0;
    for (size_t j = i + 1; j < layout->entry_count; j++) layout->entries[j].offset -= size;
    layout->size -= size;
}

void lnt_layout_close(lnt_ctx *ctx, lnt_layout *layout)
{
    lnt_release(ctx, layout->entries, layout->entry_count * sizeof *layout->entries);
    *layout = (lnt_layout){ 0 };
}

void lnt_layout_init(const lnt_layout *layout, uint64_t seed, float *weights)
{
    const lnt_rng rng = lnt_rng_make(seed);
    memset(weights, 0, layout->size * sizeof *weights);
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        const lnt_rng own = lnt_rng_split(rng, e->stream);
        for (size_t j = 0; j < e->count; j++)
            weights[e->offset + j] = (float)(e->param.constant +
                                             (e->param.deviation > 0
                                                  ? e->param.deviation * lnt_rng_normal(own, j)
                                                  : 0));
    }
}
