/* model/real/network.c - embedding, positions, blocks, a last norm, and a head:
 *
 *     x = embed(in) + position;   x = block_l(x) for each l;   logits = norm(x) w + b
 *
 * where learned class tokens may stand before what is embedded; the head is in head.c.  Memory without
 * backward does not grow with the number of layers; with it, every layer keeps what its gradient needs. */
#include "model/network_parts.h"

#include <string.h>

#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/position.h"
#include "plan/plan.h"

/* ---- opening ------------------------------------------------------------------------------- */

static size_t kind_count(const lnt_network *net) { return (size_t)net->config->kind_count + 1; }
static size_t head_count(const lnt_network *net) { return net->config->distilled ? 2 : 1; }

/* Kinds are alike but for their attention: what one layer after another uses is that of the largest. */
static lnt_attention largest_attention(const lnt_network *net)
{
    lnt_attention largest = net->kinds[0].attention;
    for (size_t k = 1; k < kind_count(net); k++)
        if (net->kinds[k].attention.kept > largest.kept) largest = net->kinds[k].attention;
    return largest;
}

static void lay_out_blocks(lnt_network *net, lnt_arena *arena, size_t n)
{
    const size_t layers = (size_t)net->config->layers;
    const lnt_attention largest = largest_attention(net);
    lnt_block_kept kept;
    net->kept = lnt_arena_take(arena, layers, sizeof *net->kept);
    for (size_t l = 0; l < layers; l++) {
        const lnt_layer_kind *kind = lnt_network_kind(net, l);
        if (l == 0 || net->backward)
            lnt_block_take_kept(arena, &kind->shape, net->backward ? &kind->attention : &largest, n, &kept);
        if (net->kept) net->kept[l] = kept;
    }
    if (net->backward)
        lnt_block_take_scratch(arena, &net->kinds[0].shape, net->batch, net->length,
                               (size_t)net->ctx->threads, &net->scratch);
}

static void lay_out_turns(lnt_network *net, lnt_arena *arena)
{
    const size_t dim = (size_t)net->config->head_dim;
    for (size_t k = 0; k < kind_count(net); k++) {
        lnt_layer_kind *kind = &net->kinds[k];
        if (!kind->shape.rotary) continue;
        kind->turns = nn_take(arena, net->length, dim);
        kind->frequencies = lnt_arena_take(arena, dim / 2, sizeof *kind->frequencies);
        if (kind->frequencies)
            lnt_rotary_frequencies(lnt_config_rotary(net->config, k), dim, kind->frequencies);
    }
}

/* Scratch that the attention of one layer after another uses. */
static void lay_out_attention(lnt_network *net, lnt_arena *arena)
{
    const size_t heads = (size_t)net->config->heads, dim = (size_t)net->config->head_dim;
    double *temperature = lnt_arena_take(arena, heads, sizeof *temperature);
    double *dtemperature = lnt_arena_take(arena, heads, sizeof *dtemperature);
    real *tuned = NULL, *scores = NULL;
    bool tunes = false;
    for (size_t k = 0; k < kind_count(net); k++)
        tunes |= lnt_attention_tunes_queries(&net->kinds[k].attention);
    if (tunes) tuned = nn_take(arena, net->batch * net->length, heads * dim);
    if (net->kinds[0].shape.full.used)
        scores = nn_take(arena, net->backward ? 2 * net->length : net->length, lnt_full_row(net->length));
    for (size_t k = 0; k < kind_count(net); k++) {
        lnt_attention *attention = &net->kinds[k].attention;
        attention->plan_temperature = temperature;
        attention->plan_dtemperature = dtemperature;
        attention->tuned = tuned;
        attention->scores = scores;
    }
}

static void lay_out(lnt_network *net, lnt_arena *arena)
{
    const lnt_config *c = net->config;
    const size_t n = net->batch * net->length, dim = (size_t)c->dim;
    const bool one = net->states || lnt_config_pools(c);
    for (int i = 0; c->embedding == LNT_EMBEDDING_CNN && i < LNT_CONV_KEPT; i++)
        net->conv[i] = nn_take(arena, n, dim);
    net->embedded = nn_take(arena, n, dim);
    if (c->embedding_norm) net->unnormed = nn_take(arena, n, dim);
    if (c->embedding_norm) net->stat_embedded = nn_take(arena, n, 2);
    lay_out_blocks(net, arena, n);
    net->top = nn_take(arena, n, dim);
    net->stat = nn_take(arena, n, 2);
    net->pooled = nn_take(arena, head_count(net) * net->batch, dim);
    if (c->pooler) net->unbent = nn_take(arena, net->batch, dim);
    if (c->distilled) net->second = nn_take(arena, net->batch, (size_t)c->outputs);
    net->logits = nn_take(arena, one ? net->batch : n, (size_t)c->outputs);
    if (net->backward && c->logit_cap > 0)
        net->slopes = nn_take(arena, one ? net->batch : n, (size_t)c->outputs);
    if (net->backward) net->grad = nn_take(arena, n, dim);
    if (net->backward) net->dpooled = nn_take(arena, head_count(net) * net->batch, dim);
    if (c->position == LNT_POSITION_SINUSOIDAL) net->positions = nn_take(arena, net->length, dim);
    lay_out_turns(net, arena);
    lay_out_attention(net, arena);
}

static bool is_used(const lnt_network *net, size_t kind)
{
    for (size_t l = 0; l < (size_t)net->config->layers; l++)
        if (lnt_config_kind(net->config, l) == kind) return true;
    return false;
}

static lnt_status open_plan(lnt_network *net, size_t kind)
{
    lnt_attention *attention = &net->kinds[kind].attention;
    lnt_attn_desc desc = lnt_config_attention(net->config, kind);
    desc.dtype = LNT_REAL_DTYPE;
    desc.batch = (int64_t)net->batch;
    desc.length_q = (int64_t)net->length;
    desc.backward = net->backward;
    const size_t heads = attention->heads;
    double *ones = lnt_allocate(net->ctx, heads * sizeof *ones, "the temperatures");
    if (!ones) return LNT_ERR_MEMORY;
    for (size_t h = 0; h < heads; h++) ones[h] = 1;
    if (lnt_attention_tunes_plan(attention)) desc.taylor.temperature = ones;
    lnt_plan_info info = { .size = sizeof info };
    lnt_status status = lnt_plan_create(net->ctx, &desc, &attention->plan);
    lnt_release(net->ctx, ones, heads * sizeof *ones);
    if (!status) status = lnt_plan_describe(attention->plan, &info);
    attention->kept = info.kept_bytes;
    return status;
}

lnt_status lnt_network_open(lnt_ctx *ctx, const lnt_config *config, const lnt_layout *layout,
                            size_t batch, size_t length, bool backward, lnt_state **states,
                            lnt_network *out)
{
    *out = (lnt_network){ .ctx = ctx, .config = config, .layout = layout, .batch = batch,
                          .length = length, .backward = backward, .states = states };
    lnt_status status = LNT_OK;
    for (size_t k = 0; k < kind_count(out); k++)
        out->kinds[k] = (lnt_layer_kind){
            .shape = lnt_config_block(config, k),
            .attention = { .heads = (size_t)config->heads, .kv_heads = (size_t)config->kv_heads,
                           .dim = (size_t)config->head_dim,
                           .normalised = lnt_config_normalises(config, k) }
        };
    for (size_t k = 0; !status && k < kind_count(out); k++) {
        out->kinds[k].attention.learned = out->kinds[k].shape.temperature;
        if (!states && !out->kinds[k].shape.full.used && is_used(out, k)) status = open_plan(out, k);
    }
    lnt_arena counting = { 0 };
    lay_out(out, &counting);
    if (!status) status = lnt_arena_open(ctx, &counting, "a model's activations", &out->memory);
    if (!status) lay_out(out, &out->memory);
    else lnt_network_close(out);
    return status;
}

void lnt_network_close(lnt_network *net)
{
    if (!net->ctx) return;
    for (size_t k = 0; k < kind_count(net); k++) lnt_plan_destroy(net->kinds[k].attention.plan);
    lnt_arena_close(net->ctx, &net->memory);
    *net = (lnt_network){ 0 };
}

/* ---- forward ------------------------------------------------------------------------------- */

static void block_params(const lnt_network *net, const real *weights, size_t l,
                         real *out[LNT_BLOCK_PARAMS])
{
    for (int i = 0; i < LNT_BLOCK_PARAMS; i++)
        out[i] = at(net, weights, lnt_layout_block(l, i));
}

/* A pass whose rng is still that of no block. */
static lnt_pass make_pass(const lnt_network *net, const lnt_batch *in, bool training)
{
    return (lnt_pass){ .ctx = net->ctx, .batch = in->batch, .length = in->length,
                       .lengths = in->lengths, .training = training };
}

/* What embeds features; w, g as in at. */
static lnt_dense features_layer(const lnt_network *net, const real *w, const real *g)
{
    return (lnt_dense){ .in = (size_t)net->config->inputs, .out = (size_t)net->config->dim,
                        .w = at(net, w, LNT_PARAM_EMBED), .b = at(net, w, LNT_PARAM_EMBED_BIAS),
                        .packed = lnt_weight_at(net->packed, LNT_PARAM_EMBED),
                        .dw = at(net, g, LNT_PARAM_EMBED), .db = at(net, g, LNT_PARAM_EMBED_BIAS) };
}

static lnt_conv conv_layer(const lnt_network *net, const real *w, const real *g, size_t i)
{
    const size_t dim = (size_t)net->config->dim, param = LNT_PARAM_CONV + 2 * i;
    return (lnt_conv){ .in = dim, .out = dim,
                       .w = at(net, w, param), .b = at(net, w, param + 1),
                       .dw = at(net, g, param), .db = at(net, g, param + 1) };
}

/* Where the embedding goes: what the first block sees, or what the norm before it does. */
static real *embedded_at(const lnt_network *net) { return net->unnormed ? net->unnormed : net->embedded; }

/* Class tokens stand before the features of each sequence. */
static void embed_features(const lnt_network *net, const real *w, const lnt_batch *in, real *x)
{
    const lnt_dense features = features_layer(net, w, NULL);
    const size_t dim = (size_t)net->config->dim, own = (size_t)net->config->class_tokens;
    const size_t rows = in->length - own;
    if (!own) {
        lnt_dense_forward(net->ctx, &features, in->features, x, in->batch * rows);
        return;
    }
    for (size_t b = 0; b < in->batch; b++) {
        real *at_b = x + b * in->length * dim;
        memcpy(at_b, at(net, w, LNT_PARAM_CLASS), own * dim * sizeof *x);
        lnt_dense_forward(net->ctx, &features, in->features + b * rows * features.in, at_b + own * dim, rows);
    }
}

static void embed(lnt_network *net, const real *w, const lnt_batch *in, const lnt_pass *pass)
{
    const lnt_config *c = net->config;
    const lnt_weight *packed = lnt_weight_at(net->packed, LNT_PARAM_EMBED);
    const size_t n = nn_tokens(pass), dim = (size_t)c->dim;
    const bool cnn = c->embedding == LNT_EMBEDDING_CNN;
    real *x = cnn ? net->conv[0] : embedded_at(net);
    if (c->input == LNT_INPUT_TOKENS && packed)
        lnt_embedding_unpack(net->ctx, in->tokens, packed, x, n);
    else if (c->input == LNT_INPUT_TOKENS)
        lnt_embedding_forward(net->ctx, in->tokens, at(net, w, LNT_PARAM_EMBED), x, n, dim);
    else
        embed_features(net, w, in, x);
    if (c->embedding_scale != 1) nn_kernels(net->ctx)->scale(x, (real)c->embedding_scale, n * dim);
    for (size_t i = 0; cnn && i < LNT_CONV_LAYERS; i++) { /* the last has no activation */
        real *y = i + 1 < LNT_CONV_LAYERS ? net->conv[2 * i + 1] : embedded_at(net);
        const lnt_conv conv = conv_layer(net, w, NULL, i);
        lnt_conv_forward(pass, &conv, net->conv[2 * i], y);
        if (i + 1 < LNT_CONV_LAYERS)
            lnt_act_forward(net->ctx, LNT_ACT_GELU, y, net->conv[2 * i + 2], n, dim);
    }
}

/* The tables of these positions, unless they are there. */
static void fill_positions(lnt_network *net, const lnt_batch *in)
{
    const lnt_config *c = net->config;
    if (net->position_count >= in->length && net->first_position == in->first) return;
    net->first_position = in->first;
    net->position_count = in->length;
    for (size_t k = 0; k < kind_count(net); k++)
        if (net->kinds[k].turns)
            lnt_rotary_table(net->kinds[k].turns, in->first, in->length, lnt_config_rotary(c, k),
                             net->kinds[k].frequencies, (size_t)c->head_dim);
    if (net->positions) lnt_sinusoidal_table(net->positions, in->first, in->length, (size_t)c->dim);
}

static void add_positions(lnt_network *net, const real *w, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    const real *table = at(net, w, LNT_PARAM_POSITION);
    fill_positions(net, in);
    if (table) table += (size_t)in->first * dim;
    if (net->config->position == LNT_POSITION_SINUSOIDAL) table = net->positions;
    if (table) lnt_position_add(net->ctx, embedded_at(net), table, in->batch, in->length, dim);
}

/* The norm whose gain is this parameter; w, g as in at. */
static lnt_norm norm_layer(const lnt_network *net, const real *w, const real *g, size_t gain)
{
    return (lnt_norm){ .kind = (lnt_norm_kind)net->config->norm, .width = (size_t)net->config->dim,
                       .epsilon = net->config->epsilon,
                       .gain = at(net, w, gain), .bias = at(net, w, gain + 1),
                       .dgain = at(net, g, gain), .dbias = at(net, g, gain + 1) };
}

static void norm_embedded(lnt_network *net, const real *w, const lnt_batch *in)
{
    const lnt_norm norm = norm_layer(net, w, NULL, LNT_PARAM_EMBED_NORM_GAIN);
    if (net->unnormed)
        lnt_norm_forward(net->ctx, &norm, net->unnormed, net->embedded, net->stat_embedded,
                         in->batch * in->length);
}

static void last_norm(lnt_network *net, const real *w, const lnt_batch *in)
{
    const lnt_norm norm = norm_layer(net, w, NULL, LNT_PARAM_NORM_GAIN);
    const size_t n = in->batch * in->length;
    const real *x = net->kept[net->config->layers - 1].out;
    if (net->config->post == LNT_PLACE_POST)
        memcpy(net->top, x, n * norm.width * sizeof *x);
    else
        lnt_norm_forward(net->ctx, &norm, x, net->top, net->stat, n);
}

/* What block l sees. */
static const real *block_input(const lnt_network *net, size_t l)
{
    return l ? net->kept[l - 1].out : net->embedded;
}

lnt_status lnt_network_forward(lnt_network *net, const real *w, const lnt_batch *in, bool training,
                               lnt_rng rng)
{
    const size_t layers = (size_t)net->config->layers;
    lnt_pass pass = make_pass(net, in, training);
    embed(net, w, in, &pass);
    add_positions(net, w, in);
    norm_embedded(net, w, in);
    if (training)
        lnt_dropout(net->ctx, lnt_rng_split(rng, layers), net->config->dropout, net->embedded,
                    in->batch * in->length * (size_t)net->config->dim);
    for (size_t l = 0; l < layers; l++) {
        real *params[LNT_BLOCK_PARAMS];
        const uint16_t *bf16[LNT_BLOCK_PARAMS];
        pass.rng = lnt_rng_split(rng, l);
        const lnt_layer_kind *kind = lnt_network_kind(net, l);
        lnt_attention attention = kind->attention;
        pass.rotary = kind->turns;
        attention.state = net->states ? net->states[l] : NULL;
        attention.watcher = net->watcher;
        attention.watcher.layer = (int64_t)l;
        block_params(net, w, l, params);
        for (int i = 0; i < LNT_BLOCK_PARAMS; i++) bf16[i] = at_bf16(net, lnt_layout_block(l, i));
        const lnt_weight *packed = net->packed ? net->packed + lnt_layout_block(l, 0) : NULL;
        const lnt_block block = { .shape = &kind->shape, .attention = &attention, .w = params,
                                  .packed = packed, .bf16 = bf16, .kept = &net->kept[l] };
        const lnt_status status = lnt_block_forward(&pass, &block, block_input(net, l));
        if (status) return status;
    }
    last_norm(net, w, in);
    lnt_network_head(net, w, in);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* What class tokens and the layer over features get of grad [batch,length,dim]. */
static void features_back(const lnt_network *net, const real *w, real *g, const lnt_batch *in,
                          const real *grad)
{
    const lnt_dense features = features_layer(net, w, g);
    const size_t dim = (size_t)net->config->dim, own = (size_t)net->config->class_tokens;
    const size_t rows = in->length - own;
    if (!own) {
        lnt_dense_backward(net->ctx, &features, in->features, grad, NULL, in->batch * rows);
        return;
    }
    for (size_t b = 0; b < in->batch; b++) {
        const real *at_b = grad + b * in->length * dim;
        real *tokens = at(net, g, LNT_PARAM_CLASS);
        for (size_t i = 0; i < own * dim; i++) tokens[i] += at_b[i];
        lnt_dense_backward(net->ctx, &features, in->features + b * rows * features.in, at_b + own * dim, NULL,
                           rows);
    }
}

/* From net->grad, of what the first block saw; the scratch of blocks is free by now. */
static void embed_back(lnt_network *net, const real *w, real *g, const lnt_batch *in,
                       const lnt_pass *pass)
{
    const lnt_config *c = net->config;
    const size_t n = nn_tokens(pass), dim = (size_t)c->dim;
    real *grad = net->grad, *other = net->scratch.dim;
    for (size_t i = LNT_CONV_LAYERS; c->embedding == LNT_EMBEDDING_CNN && i-- > 0;) {
        if (i + 1 < LNT_CONV_LAYERS)
            lnt_act_backward(net->ctx, LNT_ACT_GELU, net->conv[2 * i + 1], net->conv[2 * i + 2], grad,
                             grad, n, dim);
        const lnt_conv conv = conv_layer(net, w, g, i);
        lnt_conv_backward(pass, &conv, net->conv[2 * i], grad, other);
        real *swap = grad;
        grad = other;
        other = swap;
    }
    if (c->embedding_scale != 1) nn_kernels(net->ctx)->scale(grad, (real)c->embedding_scale, n * dim);
    if (c->input == LNT_INPUT_TOKENS)
        lnt_embedding_backward(net->ctx, in->tokens, grad, at(net, g, LNT_PARAM_EMBED), n, dim);
    else
        features_back(net, w, g, in, grad);
}

lnt_status lnt_network_backward(lnt_network *net, const real *w, real *g, const lnt_batch *in,
                                bool training, lnt_rng rng)
{
    const size_t layers = (size_t)net->config->layers, dim = (size_t)net->config->dim;
    const size_t n = in->batch * in->length;
    const lnt_norm norm = norm_layer(net, w, g, LNT_PARAM_NORM_GAIN);
    const lnt_norm first = norm_layer(net, w, g, LNT_PARAM_EMBED_NORM_GAIN);
    lnt_pass pass = make_pass(net, in, training);
    lnt_network_head_back(net, w, g, in);
    if (net->config->post != LNT_PLACE_POST)
        lnt_norm_backward(net->ctx, &norm, block_input(net, layers), net->stat, net->grad, net->grad,
                          false, n);
    for (size_t l = layers; l-- > 0;) {
        real *params[LNT_BLOCK_PARAMS], *grads[LNT_BLOCK_PARAMS];
        const lnt_layer_kind *kind = lnt_network_kind(net, l);
        pass.rng = lnt_rng_split(rng, l);
        pass.rotary = kind->turns;
        block_params(net, w, l, params);
        block_params(net, g, l, grads);
        const lnt_block block = { .shape = &kind->shape, .attention = &kind->attention, .w = params,
                                  .kept = &net->kept[l], .g = grads, .scratch = &net->scratch };
        const lnt_status status = lnt_block_backward(&pass, &block, block_input(net, l), net->grad);
        if (status) return status;
    }
    if (training)
        lnt_dropout(net->ctx, lnt_rng_split(rng, layers), net->config->dropout, net->grad, n * dim);
    if (net->unnormed)
        lnt_norm_backward(net->ctx, &first, net->unnormed, net->stat_embedded, net->grad, net->grad,
                          false, n);
    real *table = at(net, g, LNT_PARAM_POSITION);
    if (table)
        lnt_position_backward(net->ctx, net->grad, table + (size_t)in->first * dim, in->batch,
                              in->length, dim);
    embed_back(net, w, g, in, &pass);
    return LNT_OK;
}
