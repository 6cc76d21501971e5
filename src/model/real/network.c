/* model/real/network.c - embedding, positions, blocks, a last norm, and a head:
 *
 *     x = embed(in) + position;   x = block_l(x) for each l;   logits = norm(x) w + b
 *
 * where a classifier's head reads the mean over the sequence, and a model of vectors has no head.  Learned
 * class tokens may stand before the features; of two heads, one reads the first and one the second of them,
 * and logits are the mean of both.  Memory without backward does not grow with the number of layers; with
 * it, every layer keeps what its gradient needs. */
#include "model/network.h"

#include <math.h>
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

/* Parameter i in weights, or in gradients, which forward has not (NULL). */
static real *at(const lnt_network *net, const real *weights, size_t i)
{
    const lnt_layout_entry *e = &net->layout->entries[i];
    return weights && e->count ? (real *)(uintptr_t)weights + e->offset : NULL;
}

static void block_params(const lnt_network *net, const real *weights, size_t l,
                         real *out[LNT_BLOCK_PARAMS])
{
    for (int i = 0; i < LNT_BLOCK_PARAMS; i++)
        out[i] = at(net, weights, lnt_layout_block(l, i));
}

/* The same of the weights in bf16. */
static const uint16_t *at_bf16(const lnt_network *net, size_t i)
{
    return net->bf16 ? net->bf16 + net->layout->entries[i].offset : NULL;
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

static size_t length_of(const lnt_batch *in, size_t b)
{
    return in->lengths ? (size_t)in->lengths[b] : in->length;
}

/* The tokens first .. end-1 whose mean stands for sequence b. */
static void pooled_tokens(const lnt_network *net, const lnt_batch *in, size_t b, size_t *first, size_t *end)
{
    const size_t length = length_of(in, b);
    const int pooling = net->states ? LNT_POOL_LAST : net->config->pooling;
    *first = pooling == LNT_POOL_LAST && length ? length - 1 : 0;
    *end = pooling == LNT_POOL_FIRST && length ? 1 : length;
}

static lnt_dense pooler_layer(const lnt_network *net, const real *w, const real *g)
{
    const size_t dim = (size_t)net->config->dim;
    return (lnt_dense){ .in = dim, .out = dim,
                        .w = at(net, w, LNT_PARAM_POOLER), .b = at(net, w, LNT_PARAM_POOLER_BIAS),
                        .packed = lnt_weight_at(net->packed, LNT_PARAM_POOLER),
                        .dw = at(net, g, LNT_PARAM_POOLER), .db = at(net, g, LNT_PARAM_POOLER_BIAS) };
}

/* A dense layer and tanh over what was pooled. */
static void bend(lnt_network *net, const real *w, size_t rows)
{
    const lnt_dense layer = pooler_layer(net, w, NULL);
    const size_t count = rows * layer.in;
    memcpy(net->unbent, net->pooled, count * sizeof *net->pooled);
    lnt_dense_forward(net->ctx, &layer, net->unbent, net->pooled, rows);
    for (size_t i = 0; i < count; i++) net->pooled[i] = (real)tanh((double)net->pooled[i]);
}

/* What the second head reads: the second token. */
static void pool_second(lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++)
        memcpy(net->pooled + (in->batch + b) * dim, net->top + (b * in->length + 1) * dim,
               dim * sizeof *net->pooled);
}

/* What the head reads of each sequence, where that is one vector. */
static void pool(lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++) {
        const real *x = net->top + b * in->length * dim;
        real *y = net->pooled + b * dim;
        size_t first, end;
        pooled_tokens(net, in, b, &first, &end);
        if (end - first == 1) {
            memcpy(y, x + first * dim, dim * sizeof *y);
            continue;
        }
        memset(y, 0, dim * sizeof *y);
        for (size_t t = first; t < end; t++)
            for (size_t i = 0; i < dim; i++) y[i] += x[t * dim + i];
        for (size_t i = 0; end && i < dim; i++) y[i] /= (real)(end - first);
    }
}

/* The head's input, and its matrix [dim,outputs]: tied, the embedding seen the other way. */
static const real *head_input(const lnt_network *net)
{
    const bool one = net->states || lnt_config_pools(net->config);
    return one ? net->pooled : net->top;
}

static lnt_matrix head_matrix(const lnt_network *net, const real *w, size_t head)
{
    const bool tied = net->config->tied;
    const size_t of = tied ? LNT_PARAM_EMBED : head;
    const size_t row = (size_t)(tied ? net->config->dim : net->config->outputs);
    lnt_matrix m = { at(net, w, of), row, 1, at_bf16(net, of), NULL };
    if (tied) m = nn_transposed(m);
    m.packed = lnt_weight_at(net->packed, of);
    return m;
}

/* cap tanh(x / cap) of each logit; slopes (NULL: not wanted) get 1 - tanh^2. */
static void cap_logits(const lnt_network *net, real *logits, real *slopes, size_t count)
{
    const double cap = net->config->logit_cap;
    const int threads = lnt_threads_for(net->ctx, 40 * (double)count);
    if (!(cap > 0)) return;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) {
        const double bent = tanh((double)logits[i] / cap);
        logits[i] = (real)(cap * bent);
        if (slopes) slopes[i] = (real)(1 - bent * bent);
    }
}

/* head: LNT_PARAM_HEAD or LNT_PARAM_HEAD2. */
static void fill_logits(const lnt_network *net, const real *w, size_t head, const real *x, size_t rows,
                        real *logits, real *slopes)
{
    const size_t dim = (size_t)net->config->dim, outputs = (size_t)net->config->outputs;
    lnt_product_biased(net->ctx, logits, outputs, nn_rows(x, dim), head_matrix(net, w, head),
                       at(net, w, head + 1), rows, outputs, dim);
    cap_logits(net, logits, slopes, rows * outputs);
}

/* The mean of the logits of both heads. */
static void fill_means(const lnt_network *net, const real *w, size_t rows)
{
    const size_t outputs = (size_t)net->config->outputs;
    const real *second = net->pooled + rows * (size_t)net->config->dim;
    fill_logits(net, w, LNT_PARAM_HEAD, net->pooled, rows, net->logits, NULL);
    fill_logits(net, w, LNT_PARAM_HEAD2, second, rows, net->second, NULL);
    for (size_t i = 0; i < rows * outputs; i++) net->logits[i] = (net->logits[i] + net->second[i]) / 2;
}

void lnt_network_logits(const lnt_network *net, const real *w, const real *x, size_t rows, real *logits)
{
    fill_logits(net, w, LNT_PARAM_HEAD, x, rows, logits, NULL);
}

static real length_of_vector(const lnt_network *net, const real *x)
{
    const size_t dim = (size_t)net->config->dim;
    return (real)fmax(sqrt((double)nn_kernels(net->ctx)->dot(x, x, dim)), 1e-12);
}

/* Vectors take the place of logits. */
static void fill_vectors(lnt_network *net, size_t rows)
{
    const size_t dim = (size_t)net->config->dim;
    memcpy(net->logits, head_input(net), rows * dim * sizeof *net->logits);
    for (size_t i = 0; net->config->normalise && i < rows; i++) {
        real *y = net->logits + i * dim;
        nn_kernels(net->ctx)->scale(y, 1 / length_of_vector(net, y), dim);
    }
}

static void head(lnt_network *net, const real *w, const lnt_batch *in)
{
    const size_t rows = lnt_network_rows(net, in);
    if (in->headless) return;
    if (head_input(net) == net->pooled) pool(net, in);
    if (net->second) pool_second(net, in);
    if (net->unbent) bend(net, w, rows);
    if (net->config->output == LNT_OUTPUT_VECTOR) fill_vectors(net, rows);
    else if (net->second) fill_means(net, w, rows);
    else fill_logits(net, w, LNT_PARAM_HEAD, head_input(net), rows, net->logits, net->slopes);
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
        block_params(net, w, l, params);
        for (int i = 0; i < LNT_BLOCK_PARAMS; i++) bf16[i] = at_bf16(net, lnt_layout_block(l, i));
        const lnt_weight *packed = net->packed ? net->packed + lnt_layout_block(l, 0) : NULL;
        const lnt_block block = { .shape = &kind->shape, .attention = &attention, .w = params,
                                  .packed = packed, .bf16 = bf16, .kept = &net->kept[l] };
        const lnt_status status = lnt_block_forward(&pass, &block, block_input(net, l));
        if (status) return status;
    }
    last_norm(net, w, in);
    head(net, w, in);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* The gradient of what stands for a sequence, to the tokens it is made of. */
static void spread(const lnt_network *net, const lnt_batch *in)
{
    const size_t dim = (size_t)net->config->dim;
    for (size_t b = 0; b < in->batch; b++) {
        size_t first, end;
        pooled_tokens(net, in, b, &first, &end);
        for (size_t t = 0; t < in->length; t++)
            for (size_t i = 0; i < dim; i++)
                net->grad[(b * in->length + t) * dim + i] =
                    t >= first && t < end ? net->dpooled[b * dim + i] / (real)(end - first) : 0;
        if (net->second)
            memcpy(net->grad + (b * in->length + 1) * dim, net->dpooled + (in->batch + b) * dim,
                   dim * sizeof *net->grad);
    }
}

/* dx from dy in net->logits: of y = x / |x|, dx = (dy - y (y.dy)) / |x|. */
static void vectors_back(const lnt_network *net, real *dx, size_t rows)
{
    const size_t dim = (size_t)net->config->dim;
    memcpy(dx, net->logits, rows * dim * sizeof *dx);
    for (size_t i = 0; net->config->normalise && i < rows; i++) {
        const real *x = head_input(net) + i * dim;
        const real r = 1 / length_of_vector(net, x);
        const real along = r * r * nn_kernels(net->ctx)->dot(x, net->logits + i * dim, dim);
        for (size_t c = 0; c < dim; c++) dx[i * dim + c] = r * (net->logits[i * dim + c] - along * x[c]);
    }
}

/* dx from the gradient of logits, and what the parameters of a head get of it. */
static void logits_back(lnt_network *net, const real *w, real *g, size_t head, const real *x, real *dx,
                        size_t rows)
{
    const size_t dim = (size_t)net->config->dim, outputs = (size_t)net->config->outputs;
    lnt_product(net->ctx, dx, dim, nn_rows(net->logits, outputs), nn_transposed(head_matrix(net, w, head)),
                rows, dim, outputs, false);
    if (net->config->tied)
        lnt_product(net->ctx, at(net, g, LNT_PARAM_EMBED), dim,
                    nn_transposed(nn_rows(net->logits, outputs)), nn_rows(x, dim), outputs, dim,
                    rows, true);
    else
        lnt_product(net->ctx, at(net, g, head), outputs, nn_transposed(nn_rows(x, dim)),
                    nn_rows(net->logits, outputs), dim, outputs, rows, true);
    real *bias = at(net, g, head + 1);
    if (bias) lnt_columns_sum(net->ctx, bias, net->logits, rows, outputs);
}

/* From net->logits to dx, of what the heads read. */
static void heads_back(lnt_network *net, const real *w, real *g, real *dx, size_t rows)
{
    const size_t dim = (size_t)net->config->dim, count = rows * (size_t)net->config->outputs;
    for (size_t i = 0; net->slopes && i < count; i++) net->logits[i] *= net->slopes[i];
    for (size_t i = 0; net->second && i < count; i++) net->logits[i] /= 2;
    logits_back(net, w, g, LNT_PARAM_HEAD, head_input(net), dx, rows);
    if (net->second)
        logits_back(net, w, g, LNT_PARAM_HEAD2, net->pooled + rows * dim, dx + rows * dim, rows);
}

/* From net->dpooled, in its place. */
static void unbend(lnt_network *net, const real *w, real *g, size_t rows)
{
    const lnt_dense layer = pooler_layer(net, w, g);
    real *bent = net->pooled; /* its gradient takes its place */
    for (size_t i = 0; i < rows * layer.in; i++) bent[i] = net->dpooled[i] * (1 - bent[i] * bent[i]);
    lnt_dense_backward(net->ctx, &layer, net->unbent, bent, net->dpooled, rows);
}

static void head_back(lnt_network *net, const real *w, real *g, const lnt_batch *in)
{
    const size_t rows = lnt_network_rows(net, in);
    const bool pooled = head_input(net) == net->pooled;
    real *dx = pooled ? net->dpooled : net->grad;
    if (net->config->output == LNT_OUTPUT_VECTOR) vectors_back(net, dx, rows);
    else heads_back(net, w, g, dx, rows);
    if (net->unbent) unbend(net, w, g, rows);
    if (pooled) spread(net, in);
}

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
    head_back(net, w, g, in);
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
