/* model/config.c - see config.h. */
#include "model/config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/linear/feature.h"
#include "attention/problem.h"
#include "model/fields.h"
#include "io/file.h"
#include "nn/ema.h"
#include "nn/logistics.h"

LNT_WORDS(kind_word, "decoder", "encoder")
LNT_WORDS(activation_word, "relu", "gelu", "silu", "swiglu", "gelu_erf", "geglu", "geglu_erf")
LNT_WORDS(norm_word, "layer", "rms")
LNT_WORDS(bias_word, "norm", "qkv", "out", "feed", "head") /* in the order of LNT_BIAS_... */
LNT_WORDS(pairs_word, "adjacent", "halves")
LNT_WORDS(scaling_word, "none", "linear", "llama3", "yarn")
LNT_WORDS(place_word, "pre", "post", "both")
LNT_WORDS(position_word, "none", "learned", "sinusoidal", "rotary")
LNT_WORDS(embedding_word, "table", "cnn")
LNT_WORDS(input_word, "tokens", "features")
LNT_WORDS(output_word, "tokens", "logistics", "class", "frames", "vector")
LNT_WORDS(pooling_word, "mean", "first", "last", "none")

static const char *mechanism_word(int i) { return lnt_mechanism_name((lnt_mechanism)i); }
static const char *far_word(int i) { return i <= LNT_TAYLOR ? mechanism_word(i) : NULL; }
static const char *map_word(int i) { return lnt_feature_map_name((lnt_feature_map)i); }
static const char *normalize_word(int i) { return lnt_normalize_name((lnt_normalize)i); }
static const char *select_word(int i) { return lnt_select_name((lnt_select)i); }
static const char *pinv_word(int i) { return lnt_pinv_name((lnt_pinv)i); }
static const char *init_word(int i) { return lnt_pinv_init_name((lnt_pinv_init)i); }
static const char *weights_word(int i) { return lnt_activation_name((lnt_activation)i); }

#define WHOLE(k, low, high) LNT_WHOLE_FIELD(lnt_config, k, low, high)
#define REAL(k, low, high) LNT_REAL_FIELD(lnt_config, k, low, high)
#define QUIET_REAL(k, low, high)                                                                      \
    { .key = #k, .kind = LNT_FIELD_REAL, .offset = offsetof(lnt_config, k), .least = low,             \
      .most = high, .quiet = true }
#define QUIET_FLAG(k) \
    { .key = #k, .kind = LNT_FIELD_FLAG, .offset = offsetof(lnt_config, k), .quiet = true }
#define CHOICE(k, member, words) \
    { .key = k, .kind = LNT_FIELD_CHOICE, .offset = offsetof(lnt_config, member), .choice = words }
#define FLAG(k, member) { .key = k, .kind = LNT_FIELD_FLAG, .offset = offsetof(lnt_config, member) }
#define INNER(k) offsetof(lnt_config, attention.k)

static const lnt_field model_fields[] = {
    CHOICE("kind", kind, kind_word),
    WHOLE(dim, 1, 1 << 16),
    WHOLE(layers, 1, LNT_CONFIG_LAYERS),
    WHOLE(heads, 1, 4096),
    WHOLE(kv_heads, 0, 4096),
    WHOLE(head_dim, 0, 4096),
    WHOLE(ff, 0, 1 << 18),
    WHOLE(length, 1, 1 << 24),
    CHOICE("activation", activation, activation_word),
    CHOICE("norm", norm, norm_word),
    CHOICE("norm_place", post, place_word),
    CHOICE("position", position, position_word),
    CHOICE("embedding", embedding, embedding_word),
    FLAG("tied", tied),
    WHOLE(averages, 0, LNT_EMA_HIDDEN),
    WHOLE(values, 0, 1 << 18),
    FLAG("distance_bias", distance_bias),
    REAL(dropout, 0, 0.95),
    REAL(drop_path, 0, 0.95),
    CHOICE("input", input, input_word),
    CHOICE("output", output, output_word),
    WHOLE(inputs, 0, 1 << 24),
    WHOLE(outputs, 0, 1 << 24),
    { .key = "bias", .kind = LNT_FIELD_WORDS, .offset = offsetof(lnt_config, bias), .choice = bias_word,
      .quiet = true },
    QUIET_REAL(epsilon, 1e-30, 1),
    QUIET_FLAG(parallel),
    QUIET_FLAG(qk_norm),
    QUIET_FLAG(embedding_norm),
    QUIET_REAL(embedding_scale, 1e-6, 1e6),
    QUIET_REAL(logit_cap, 0, 1e6),
    { .key = "pooling", .kind = LNT_FIELD_CHOICE, .offset = offsetof(lnt_config, pooling),
      .choice = pooling_word, .quiet = true },
    QUIET_FLAG(normalise),
    { .key = "attention", .kind = LNT_FIELD_OBJECT },
    { .key = "rotary", .kind = LNT_FIELD_OBJECT },
    { .key = "kinds", .kind = LNT_FIELD_LIST },
    { .key = NULL },
};

#define TAKES(mechanism) (1 << LNT_##mechanism)
/* A key, and the room of lnt_attn_desc that its field of that name is in: "taylor." or nothing. */
#define CHOSEN(room, k, words, mechanisms) \
    { .key = #k, .kind = LNT_FIELD_CHOICE, .offset = INNER(room k), .choice = words, .only = mechanisms }
#define COUNTED(room, k, high, mechanisms) \
    { .key = #k, .kind = LNT_FIELD_WHOLE, .offset = INNER(room k), .most = high, .only = mechanisms }
#define SAID(room, k, mechanisms) \
    { .key = #k, .kind = LNT_FIELD_FLAG, .offset = INNER(room k), .only = mechanisms }

/* .only: the mechanisms that take it. */
static const lnt_field attention_fields[] = {
    CHOSEN(, mechanism, mechanism_word, 0),
    { .key = "scale", .kind = LNT_FIELD_REAL, .offset = INNER(scale), .least = -1e6, .most = 1e6,
      .only = TAKES(SOFTMAX) | TAKES(TAYLOR) | TAKES(CUR) | TAKES(HYBRID) },
    CHOSEN(linear., feature_map, map_word, TAKES(LINEAR) | TAKES(HYBRID)),
    COUNTED(linear., features, 1 << 16, TAKES(LINEAR) | TAKES(HYBRID)),
    { .key = "eps", .kind = LNT_FIELD_REAL, .offset = INNER(linear.eps), .most = 1,
      .only = TAKES(LINEAR) },
    COUNTED(taylor., terms, LNT_CONFIG_TERMS, TAKES(TAYLOR) | TAKES(HYBRID)),
    { .key = "coefficients", .kind = LNT_FIELD_REALS, .offset = offsetof(lnt_config, coefficients),
      .most = LNT_CONFIG_TERMS, .count = offsetof(lnt_config, coefficient_count),
      .only = TAKES(TAYLOR) | TAKES(HYBRID) },
    CHOSEN(taylor., normalize, normalize_word, TAKES(TAYLOR)),
    { .key = "learned_temperature", .kind = LNT_FIELD_FLAG,
      .offset = offsetof(lnt_config, learned_temperature) },
    SAID(taylor., output_norm, TAKES(TAYLOR)),
    SAID(, compensated, TAKES(LINEAR) | TAKES(TAYLOR)),
    COUNTED(cur., landmarks, 1 << 20, TAKES(CUR)),
    CHOSEN(cur., select, select_word, TAKES(CUR)),
    COUNTED(cur., embed_column, 1 << 16, TAKES(CUR)),
    SAID(cur., separate_indices, TAKES(CUR)),
    { .key = "no_row_copy", .kind = LNT_FIELD_INVERTED_FLAG, .offset = INNER(cur.copy_rows),
      .only = TAKES(CUR) },
    CHOSEN(cur., pinv, pinv_word, TAKES(CUR)),
    COUNTED(cur., pinv_iterations, 64, TAKES(CUR)),
    CHOSEN(cur., pinv_init, init_word, TAKES(CUR)),
    { .key = "ridge", .kind = LNT_FIELD_REAL, .offset = INNER(cur.ridge), .least = 1e-12, .most = 1,
      .only = TAKES(CUR) },
    CHOSEN(cur., activation, weights_word, TAKES(CUR) | TAKES(SOFTMAX)),
    COUNTED(hybrid., window, 1 << 20, TAKES(HYBRID)),
    COUNTED(hybrid., sink, 1 << 20, TAKES(HYBRID)),
    { .key = "far", .kind = LNT_FIELD_CHOICE, .offset = INNER(hybrid.far), .choice = far_word,
      .first = LNT_LINEAR, .only = TAKES(HYBRID) },
    { .key = "decay", .kind = LNT_FIELD_REALS, .offset = offsetof(lnt_config, decay),
      .most = LNT_CONFIG_DECAYS, .count = offsetof(lnt_config, decay_count),
      .only = TAKES(LINEAR) | TAKES(HYBRID) },
    { .key = NULL },
};

#define TURNING(k) .key = #k, .offset = offsetof(lnt_config, rotary.k), .quiet = true
#define TURNING_REAL(k, low, high) { TURNING(k), .kind = LNT_FIELD_REAL, .least = low, .most = high }
#define TURNING_WHOLE(k, high) { TURNING(k), .kind = LNT_FIELD_WHOLE, .most = high }

static const lnt_field rotary_fields[] = {
    TURNING_REAL(base, 1.001, 1e12),
    TURNING_WHOLE(dims, 4096),
    { TURNING(off), .kind = LNT_FIELD_FLAG },
    { .key = "pairs", .kind = LNT_FIELD_CHOICE, .offset = offsetof(lnt_config, rotary.halves),
      .choice = pairs_word, .quiet = true },
    { TURNING(scaling), .kind = LNT_FIELD_CHOICE, .choice = scaling_word },
    TURNING_REAL(factor, 1e-3, 1e6),
    TURNING_REAL(low_freq_factor, 1e-3, 1e6),
    TURNING_REAL(high_freq_factor, 1e-3, 1e6),
    TURNING_REAL(beta_fast, 1e-3, 1e6),
    TURNING_REAL(beta_slow, 1e-3, 1e6),
    TURNING_WHOLE(original_length, 1 << 24),
    TURNING_REAL(magnitude, 0, 1e3),
    { TURNING(divisors), .kind = LNT_FIELD_REALS, .most = LNT_ROTARY_DIVISORS,
      .count = offsetof(lnt_config, rotary.divisor_count) },
    { .key = NULL },
};

static const lnt_field kind_fields[] = {
    { .key = "layers", .kind = LNT_FIELD_LIST },
    LNT_WHOLE_FIELD(lnt_attention_kind, every, 1, LNT_CONFIG_LAYERS),
    LNT_WHOLE_FIELD(lnt_attention_kind, offset, 0, LNT_CONFIG_LAYERS - 1),
    { .key = "attention", .kind = LNT_FIELD_OBJECT },
    { .key = "rotary", .kind = LNT_FIELD_OBJECT },
    { .key = NULL },
};

lnt_status lnt_config_default(lnt_ctx *ctx, lnt_config *out)
{
    *out = (lnt_config){ .dim = 128, .layers = 4, .heads = 8, .length = 128,
                         .activation = LNT_ACT_GELU, .position = LNT_POSITION_LEARNED,
                         .bias = -1, .epsilon = 1e-5, .embedding_scale = 1,
                         .rotary = { .base = 10000, .factor = 1, .low_freq_factor = 1,
                                     .high_freq_factor = 4, .beta_fast = 32, .beta_slow = 1 } };
    if (lnt_attn_desc_init(&out->attention, sizeof out->attention))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "the attention of a model has no defaults");
    return LNT_OK;
}

/* ---- kinds of attention ---------------------------------------------------------------------- */

/* The config as if kind k were that of all layers, and back. */
static lnt_config with_kind(const lnt_config *c, size_t k)
{
    lnt_config view = *c;
    if (k == 0) return view;
    const lnt_attention_kind *kind = &c->kinds[k - 1];
    view.attention = kind->attention;
    memcpy(view.coefficients, kind->coefficients, sizeof view.coefficients);
    view.coefficient_count = kind->coefficient_count;
    memcpy(view.decay, kind->decay, sizeof view.decay);
    view.decay_count = kind->decay_count;
    view.learned_temperature = kind->learned_temperature;
    view.rotary = kind->rotary;
    return view;
}

static void take_kind(const lnt_config *view, lnt_attention_kind *kind)
{
    kind->attention = view->attention;
    memcpy(kind->coefficients, view->coefficients, sizeof kind->coefficients);
    kind->coefficient_count = view->coefficient_count;
    memcpy(kind->decay, view->decay, sizeof kind->decay);
    kind->decay_count = view->decay_count;
    kind->learned_temperature = view->learned_temperature;
    kind->rotary = view->rotary;
}

static bool has_layer(const lnt_attention_kind *kind, size_t layer)
{
    return kind->layers[layer / 64] >> layer % 64 & 1;
}

size_t lnt_config_kind(const lnt_config *c, size_t layer)
{
    for (size_t k = (size_t)c->kind_count; k > 0; k--)
        if (has_layer(&c->kinds[k - 1], layer)) return k;
    return 0;
}

static void put_mechanism(lnt_config *config, lnt_mechanism mechanism, const lnt_config *plain);

/* What a kind begins from: the attention of the model, under the mechanism that the kind names. */
static lnt_config begin_kind(const lnt_config *config, const lnt_config *plain,
                             const lnt_json_node *attention)
{
    lnt_config view = *config;
    const lnt_json_node *named = attention ? lnt_json_member(attention, "mechanism") : NULL;
    for (int i = 0; named && named->type == LNT_JSON_STRING && mechanism_word(i); i++)
        if (!strcmp(mechanism_word(i), named->text)) put_mechanism(&view, (lnt_mechanism)i, plain);
    return view;
}

static lnt_status read_layers(lnt_ctx *ctx, const char *path, const char *section,
                              const lnt_json_node *list, lnt_attention_kind *kind)
{
    for (const lnt_json_node *c = list->child; c; c = c->next) {
        if (c->type != LNT_JSON_INTEGER || c->integer < 0 || c->integer >= LNT_CONFIG_LAYERS)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": %s.layers must be a list of layers, the first being 0", path,
                            section);
        kind->layers[c->integer / 64] |= UINT64_C(1) << c->integer % 64;
    }
    return LNT_OK;
}

static lnt_status read_kind(lnt_ctx *ctx, const char *path, const lnt_json_node *node,
                            const lnt_config *config, const lnt_config *plain, int64_t index,
                            lnt_attention_kind *kind)
{
    char section[32], inner[48];
    snprintf(section, sizeof section, "model.kinds[%d]", (int)index);
    *kind = (lnt_attention_kind){ 0 };
    lnt_status status = lnt_fields_read(ctx, path, section, node, kind_fields, kind);
    if (status) return status;
    const lnt_json_node *attention = lnt_json_member(node, "attention");
    const lnt_json_node *rotary = lnt_json_member(node, "rotary"), *layers = lnt_json_member(node, "layers");
    if (!layers == !kind->every)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s needs layers or every, and not both", path,
                        section);
    if (layers) status = read_layers(ctx, path, section, layers, kind);
    lnt_config view = begin_kind(config, plain, attention);
    snprintf(inner, sizeof inner, "%s.attention", section);
    if (!status) status = lnt_fields_read(ctx, path, inner, attention, attention_fields, &view);
    snprintf(inner, sizeof inner, "%s.rotary", section);
    if (!status) status = lnt_fields_read(ctx, path, inner, rotary, rotary_fields, &view);
    take_kind(&view, kind);
    return status;
}

static lnt_status read_kinds(lnt_ctx *ctx, const char *path, const lnt_json_node *list, lnt_config *config)
{
    lnt_config plain;
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status && list->count >= LNT_CONFIG_KINDS)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds has more than %d kinds of attention",
                        path, LNT_CONFIG_KINDS - 1);
    config->kind_count = 0;
    for (const lnt_json_node *c = list->child; !status && c; c = c->next) {
        const int64_t i = config->kind_count;
        status = read_kind(ctx, path, c, config, &plain, i, &config->kinds[i]);
        config->kind_count++;
    }
    return status;
}

lnt_status lnt_config_read(lnt_ctx *ctx, const char *path, const lnt_json_node *object,
                           lnt_config *config)
{
    lnt_status status = lnt_fields_read(ctx, path, "model", object, model_fields, config);
    const lnt_json_node *inner = object ? lnt_json_member(object, "attention") : NULL;
    if (!status)
        status = lnt_fields_read(ctx, path, "model.attention", inner, attention_fields, config);
    inner = object ? lnt_json_member(object, "rotary") : NULL;
    if (!status) status = lnt_fields_read(ctx, path, "model.rotary", inner, rotary_fields, config);
    inner = object ? lnt_json_member(object, "kinds") : NULL;
    return status || !inner ? status : read_kinds(ctx, path, inner, config);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static lnt_status refuse(lnt_ctx *ctx, const char *path, const char *sentence)
{
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model: %s", path, sentence);
}

static lnt_status check_heads(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->heads % c->kv_heads)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.kv_heads is %lld, must divide heads, which is %lld",
                        path, (long long)c->kv_heads, (long long)c->heads);
    if (c->head_dim == 0 && c->dim % c->heads)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.dim is %lld, must be a multiple of heads, which is "
                                     "%lld, or head_dim must be given",
                        path, (long long)c->dim, (long long)c->heads);
    if (c->head_dim == 0) c->head_dim = c->dim / c->heads;
    if (c->position == LNT_POSITION_ROTARY && c->head_dim % 2)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.head_dim is %lld, must be even for rotary positions, "
                                     "which turn pairs", path, (long long)c->head_dim);
    return LNT_OK;
}

/* What the scaling of rotary positions cannot be without; NULL: nothing is missing. */
static const char *scaling_lacks(const lnt_rotary *r)
{
    return r->scaling == LNT_ROTARY_NONE && r->factor != 1     ? "a scaling, beside factor"
           : r->scaling >= LNT_ROTARY_LLAMA3 && !r->original_length ? "original_length"
           : r->scaling == LNT_ROTARY_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor)
               ? "a high_freq_factor above low_freq_factor"
           : r->scaling == LNT_ROTARY_YARN && !(r->beta_fast > r->beta_slow)
               ? "a beta_fast above beta_slow"
               : NULL;
}

static lnt_status check_rotary(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    const lnt_rotary *r = &c->rotary;
    lnt_config plain;
    const lnt_status status = lnt_config_default(ctx, &plain);
    const int64_t width = (int64_t)lnt_rotary_width(r, (size_t)c->head_dim);
    if (status || lnt_fields_same(rotary_fields, c, &plain)) return status;
    if (c->position != LNT_POSITION_ROTARY)
        return refuse(ctx, path, "rotary says how rotary positions turn; position must be rotary");
    if (width % 2 || width > c->head_dim)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.rotary.dims is %lld, must be even, and at most head_dim, which "
                                     "is %lld", path, (long long)width, (long long)c->head_dim);
    if (scaling_lacks(r))
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.rotary needs %s", path, scaling_lacks(r));
    if (r->divisor_count && r->divisor_count != width / 2)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.rotary has %lld divisors for %lld pairs", path,
                        (long long)r->divisor_count, (long long)(width / 2));
    for (int64_t i = 0; i < r->divisor_count; i++)
        if (!(r->divisors[i] > 0))
            return refuse(ctx, path, "the divisors of rotary positions must be above 0");
    return LNT_OK;
}

static unsigned usual_bias(const lnt_config *c)
{
    return c->norm == LNT_NORM_LAYER ? LNT_BIAS_ALL : LNT_BIAS_HEAD;
}

static lnt_status check_bias(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    if (c->bias < 0) return LNT_OK;
    if ((unsigned)c->bias == usual_bias(c)) c->bias = -1;
    if (lnt_config_bias(c) & LNT_BIAS_NORM && c->norm != LNT_NORM_LAYER)
        return refuse(ctx, path, "bias norm is for norm layer; rms has none");
    return LNT_OK;
}

static lnt_status check_branches(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    if (c->parallel && c->post == LNT_PLACE_POST)
        return refuse(ctx, path, "parallel branches have norms before them; norm_place must be pre or both");
    if (c->logit_cap > 0 && c->output != LNT_OUTPUT_TOKENS && c->output != LNT_OUTPUT_CLASS)
        return refuse(ctx, path, "logit_cap is for logits of tokens or classes");
    return LNT_OK;
}

static lnt_status check_pooling(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    const bool vector = c->output == LNT_OUTPUT_VECTOR;
    if (vector && c->outputs == 0) c->outputs = c->dim;
    if (vector && c->outputs != c->dim)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.outputs is %lld, must be dim, which is %lld: a vector is "
                                     "what the blocks made", path, (long long)c->outputs, (long long)c->dim);
    if (c->pooling && !vector && c->output != LNT_OUTPUT_CLASS)
        return refuse(ctx, path, "pooling is for outputs class and vector");
    if (c->pooling == LNT_POOL_NONE && !vector)
        return refuse(ctx, path, "pooling none is for output vector");
    if (c->normalise && !vector) return refuse(ctx, path, "normalise is for output vector");
    return LNT_OK;
}

static lnt_status check_ends(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    const bool generates = lnt_config_generates(c);
    if (c->output != LNT_OUTPUT_VECTOR && generates != (c->kind == LNT_DECODER))
        return refuse(ctx, path, generates ? "this task predicts the next token; kind must be decoder"
                                           : "this task sees whole sequences; kind must be encoder");
    if (c->kind == LNT_DECODER && c->embedding == LNT_EMBEDDING_CNN)
        return refuse(ctx, path, "embedding cnn looks ahead; kind must be encoder");
    if (c->tied && (c->output != LNT_OUTPUT_TOKENS || c->inputs != c->outputs))
        return refuse(ctx, path, "tied needs a task whose outputs are its input tokens");
    if (c->inputs < 1 || c->outputs < 1)
        return refuse(ctx, path, "inputs and outputs must be at least 1");
    if (c->output == LNT_OUTPUT_TOKENS && c->outputs > c->inputs)
        return refuse(ctx, path, "outputs are tokens that come back in; they exceed inputs");
    if (c->output == LNT_OUTPUT_LOGISTICS &&
        (c->outputs != LNT_LOGISTICS_WIDTH || c->inputs < LNT_LOGISTICS_VALUES))
        return refuse(ctx, path, "a mixture of logistics has 30 outputs and at least 256 inputs");
    if (generates && c->input != LNT_INPUT_TOKENS)
        return refuse(ctx, path, "a decoder reads tokens, not features");
    return LNT_OK;
}

static lnt_status check_attention(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    const lnt_attn_desc *a = &c->attention;
    if (a->mechanism == LNT_CUR && c->kind == LNT_DECODER)
        return refuse(ctx, path, "mechanism cur sees whole sequences, and is for encoders; this model is a "
                                 "decoder");
    if (a->mechanism == LNT_HYBRID && c->kind == LNT_ENCODER)
        return refuse(ctx, path, "mechanism hybrid is causal, and is for decoders; this model is an encoder");
    if (a->taylor.terms == 0 && (a->mechanism == LNT_TAYLOR || c->coefficient_count))
        c->attention.taylor.terms = 3; /* 1 + x + x^2/2 is above 0: no denominator vanishes in training */
    if (c->coefficient_count && c->coefficient_count != c->attention.taylor.terms)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.attention has %lld coefficients for %lld terms", path,
                        (long long)c->coefficient_count, (long long)c->attention.taylor.terms);
    if (c->decay_count && c->kind == LNT_ENCODER)
        return refuse(ctx, path, "attention.decay goes by age; kind must be decoder");
    if (c->decay_count == 1)
        for (; c->decay_count < c->kv_heads && c->decay_count < LNT_CONFIG_DECAYS; c->decay_count++)
            c->decay[c->decay_count] = c->decay[0];
    if (c->decay_count && c->decay_count != c->kv_heads)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.attention has %lld decays for %lld kv_heads; one does "
                                     "for up to %d", path, (long long)c->decay_count,
                        (long long)c->kv_heads, LNT_CONFIG_DECAYS);
    return LNT_OK;
}

/* Exact attention of MEGA, where the library's softmax is not it. */
static bool is_full(const lnt_config *c)
{
    return c->averages && c->attention.mechanism == LNT_SOFTMAX &&
           (c->distance_bias || c->attention.cur.activation == LNT_ACTIVATION_LAPLACE);
}

static lnt_status check_scores(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    const bool laplace = c->attention.cur.activation == LNT_ACTIVATION_LAPLACE;
    const lnt_mechanism mechanism = c->attention.mechanism;
    if (laplace && mechanism != LNT_CUR && !is_full(c))
        return refuse(ctx, path, "attention.activation laplace is for mechanism cur, or for softmax "
                                 "in blocks with averages");
    if (c->distance_bias && mechanism != LNT_SOFTMAX)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model: distance_bias needs mechanism softmax; %s never has "
                                     "all scores, so none can be added to",
                        path, lnt_mechanism_name(mechanism));
    return LNT_OK;
}

/* What MEGA's blocks cannot be without; NULL: nothing is missing. */
static const char *mega_lacks(const lnt_config *c)
{
    return c->kind == LNT_DECODER                    ? "kind encoder"
           : c->post != LNT_PLACE_PRE                ? "norm_place pre"
           : c->norm != LNT_NORM_LAYER               ? "norm layer"
           : c->position == LNT_POSITION_ROTARY      ? "positions that are not rotary"
           : c->kv_heads != c->heads                 ? "as many kv_heads as heads"
           : c->learned_temperature                  ? "no learned_temperature"
           : c->bias >= 0                            ? "every bias"
           : c->qk_norm                              ? "no qk_norm"
           : c->parallel                             ? "branches that are not parallel"
           : c->kind_count                           ? "one kind of attention"
                                                     : NULL;
}

static lnt_status check_mega(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    if (!c->averages && c->values) return refuse(ctx, path, "values is for blocks with averages");
    if (!c->averages && c->distance_bias)
        return refuse(ctx, path, "distance_bias is for blocks with averages");
    if (!c->averages) return LNT_OK;
    if (c->values == 0) c->values = 2 * c->dim;
    if (c->values % c->heads)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.values is %lld, must be a multiple of heads, which is "
                                     "%lld", path, (long long)c->values, (long long)c->heads);
    if (mega_lacks(c))
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model: averages need %s", path,
                        mega_lacks(c));
    c->attention.dim_value = c->values / c->heads;
    return LNT_OK;
}

/* What every plan would say of the attention, but with the file's name. */
static lnt_status check_problem(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    const lnt_attn_desc desc = lnt_config_attention(c, 0);
    lnt_attn_desc resolved;
    char reason[LNT_ERROR_CAPACITY];
    if (lnt_problem_resolve(ctx, &desc, &resolved) == LNT_OK) return LNT_OK;
    snprintf(reason, sizeof reason, "%s", lnt_ctx_error(ctx));
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.attention: %s", path, reason);
}

static void fill_shape(lnt_config *c)
{
    c->attention.causal = c->kind == LNT_DECODER;
    c->attention.heads = c->heads;
    c->attention.kv_heads = c->kv_heads;
    c->attention.dim = c->head_dim;
}

/* The layers of a kind, which must be there, and of no other. */
static lnt_status check_layers(lnt_ctx *ctx, const char *path, lnt_config *c, int64_t index)
{
    lnt_attention_kind *kind = &c->kinds[index];
    int64_t count = 0, most = -1;
    if (kind->every) memset(kind->layers, 0, sizeof kind->layers);
    for (int64_t l = kind->offset; kind->every && l < c->layers; l += kind->every)
        kind->layers[l / 64] |= UINT64_C(1) << l % 64;
    for (int64_t l = 0; l < LNT_CONFIG_LAYERS; l++) {
        if (!has_layer(kind, (size_t)l)) continue;
        count++;
        most = l;
        for (int64_t i = 0; i < index; i++)
            if (has_layer(&c->kinds[i], (size_t)l))
                return lnt_fail(ctx, LNT_ERR_FORMAT,
                                LNT_FILE_FMT ": model.kinds[%d] and [%d] both have layer %d", path, (int)i,
                                (int)index, (int)l);
    }
    if (count && most < c->layers) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds[%d] has %s %lld layers", path,
                    (int)index, count ? "layers beyond the model's" : "none of the model's", (long long)c->layers);
}

static lnt_status resolve_kinds(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    lnt_status status = LNT_OK;
    for (int64_t i = 0; !status && i < c->kind_count; i++) {
        lnt_config view = with_kind(c, (size_t)i + 1);
        status = check_layers(ctx, path, c, i);
        if (!status) status = check_rotary(ctx, path, &view);
        if (!status) status = check_scores(ctx, path, &view);
        if (!status) status = check_attention(ctx, path, &view);
        fill_shape(&view);
        if (!status) status = check_problem(ctx, path, &view);
        take_kind(&view, &c->kinds[i]);
    }
    return status;
}

lnt_status lnt_config_resolve(lnt_ctx *ctx, const char *path, lnt_config *config)
{
    lnt_status status = check_heads(ctx, path, config);
    if (!status) status = check_rotary(ctx, path, config);
    if (!status) status = check_bias(ctx, path, config);
    if (!status) status = check_branches(ctx, path, config);
    if (!status) status = check_mega(ctx, path, config);
    if (!status) status = check_scores(ctx, path, config);
    if (!status) status = check_pooling(ctx, path, config);
    if (!status) status = check_ends(ctx, path, config);
    if (!status) status = check_attention(ctx, path, config);
    if (config->ff == 0) config->ff = 4 * config->dim;
    fill_shape(config);
    if (!status) status = check_problem(ctx, path, config);
    return status ? status : resolve_kinds(ctx, path, config);
}

static bool is_foreign(const lnt_field *f, const lnt_config *c)
{
    return f->only && !(f->only & 1 << c->attention.mechanism);
}

static bool draws_features(const lnt_attn_desc *a)
{
    return lnt_feature_is_random(a->linear.feature_map);
}

static bool selects_column(const lnt_attn_desc *a) { return a->cur.select == LNT_SELECT_EMBED; }
static bool takes_ridge(const lnt_attn_desc *a) { return a->cur.pinv == LNT_PINV_RIDGE; }
static bool iterates(const lnt_attn_desc *a) { return a->cur.pinv == LNT_PINV_ITERATE; }

static bool is_far(const lnt_attn_desc *a, lnt_mechanism far)
{
    return a->mechanism != LNT_HYBRID || a->hybrid.far == far;
}

static bool has_linear(const lnt_attn_desc *a) { return is_far(a, LNT_LINEAR); }
static bool has_taylor(const lnt_attn_desc *a) { return is_far(a, LNT_TAYLOR); }

/* Keys that mean something beside another one only. */
static const struct {
    const char *key;
    bool (*used)(const lnt_attn_desc *a);
    const char *needs;
} conditions[] = {
    { "features", draws_features, "feature_map fourier or positive" },
    { "embed_column", selects_column, "select embed" },
    { "ridge", takes_ridge, "pinv ridge" },
    { "pinv_iterations", iterates, "pinv iterate" },
    { "pinv_init", iterates, "pinv iterate" },
    { "feature_map", has_linear, "far linear" },
    { "terms", has_taylor, "far taylor" },
    { "coefficients", has_taylor, "far taylor" },
};

/* What the key needs and does not find; NULL: nothing. */
static const char *lacks(const char *key, const lnt_config *c)
{
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++)
        if (!strcmp(conditions[i].key, key) && !conditions[i].used(&c->attention))
            return conditions[i].needs;
    return NULL;
}

static lnt_status check_applies(lnt_ctx *ctx, const char *path, const lnt_config *config,
                                const lnt_config *plain_config)
{
    const lnt_config plain = *plain_config;
    for (const lnt_field *f = attention_fields; f->key; f++) {
        const char *needs = lacks(f->key, config);
        if (lnt_field_same(f, config, &plain)) continue;
        if (is_foreign(f, config))
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": model.attention.%s does not apply to mechanism %s", path,
                            f->key, lnt_mechanism_name(config->attention.mechanism));
        if (needs)
            return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.attention.%s needs %s", path,
                            f->key, needs);
    }
    return LNT_OK;
}

lnt_status lnt_config_check_applies(lnt_ctx *ctx, const char *path, const lnt_config *config)
{
    lnt_config plain;
    lnt_status status = lnt_config_default(ctx, &plain);
    for (size_t k = 0; !status && k <= (size_t)config->kind_count; k++) {
        const lnt_config view = with_kind(config, k);
        status = check_applies(ctx, path, &view, &plain);
    }
    return status;
}

static lnt_status check_same_kinds(lnt_ctx *ctx, const char *path, const lnt_config *said,
                                   const lnt_config *wanted)
{
    bool same = said->kind_count == wanted->kind_count;
    for (size_t k = 1; same && k <= (size_t)said->kind_count; k++) {
        const lnt_config a = with_kind(said, k), b = with_kind(wanted, k);
        same = lnt_fields_same(attention_fields, &a, &b) && lnt_fields_same(rotary_fields, &a, &b) &&
               !memcmp(said->kinds[k - 1].layers, wanted->kinds[k - 1].layers, sizeof said->kinds->layers);
    }
    if (same) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds must be as they were", path);
}

lnt_status lnt_config_check_same(lnt_ctx *ctx, const char *path, const lnt_config *said,
                             const lnt_config *wanted)
{
    lnt_status status = lnt_fields_check_same(ctx, path, "model", model_fields, said, wanted);
    if (!status)
        status = lnt_fields_check_same(ctx, path, "model.attention", attention_fields, said, wanted);
    if (!status) status = lnt_fields_check_same(ctx, path, "model.rotary", rotary_fields, said, wanted);
    return status ? status : check_same_kinds(ctx, path, said, wanted);
}

static lnt_status find_mechanism(lnt_ctx *ctx, const char *name, lnt_mechanism *out)
{
    for (int i = 0; mechanism_word(i); i++)
        if (!strcmp(mechanism_word(i), name)) {
            *out = (lnt_mechanism)i;
            return LNT_OK;
        }
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "mechanism '%.40s' is not known", name);
}

static void put_mechanism(lnt_config *config, lnt_mechanism mechanism, const lnt_config *plain)
{
    if (mechanism == config->attention.mechanism) return;
    config->attention.mechanism = mechanism;
    for (const lnt_field *f = attention_fields; f->key; f++)
        if (is_foreign(f, config) || lacks(f->key, config)) lnt_field_copy(f, config, plain);
}

lnt_status lnt_config_set_mechanism(lnt_ctx *ctx, const char *mechanism, lnt_config *config)
{
    lnt_config plain;
    lnt_mechanism named = config->attention.mechanism;
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status) status = find_mechanism(ctx, mechanism, &named);
    if (status) return status;
    put_mechanism(config, named, &plain);
    for (size_t k = 1; k <= (size_t)config->kind_count; k++) {
        lnt_config view = with_kind(config, k);
        put_mechanism(&view, named, &plain);
        take_kind(&view, &config->kinds[k - 1]);
    }
    return LNT_OK;
}

static void write_layers(lnt_json_text *out, const lnt_attention_kind *kind)
{
    char text[64];
    bool first = true;
    snprintf(text, sizeof text, "{\"every\":%d,\"offset\":%d", (int)kind->every, (int)kind->offset);
    lnt_json_put(out, kind->every ? text : "{\"layers\":[");
    for (size_t l = 0; !kind->every && l < LNT_CONFIG_LAYERS; l++) {
        if (!has_layer(kind, l)) continue;
        snprintf(text, sizeof text, "%s%zu", first ? "" : ",", l);
        lnt_json_put(out, text);
        first = false;
    }
    if (!kind->every) lnt_json_put(out, "]");
}

/* What is other than in what the kind begins from when it is read. */
static void write_kind(lnt_json_text *out, const lnt_config *config, const lnt_config *plain, size_t k)
{
    const lnt_config view = with_kind(config, k);
    lnt_config begin = *config;
    put_mechanism(&begin, view.attention.mechanism, plain);
    begin.attention.mechanism = config->attention.mechanism; /* the word itself is written */
    write_layers(out, &config->kinds[k - 1]);
    lnt_json_put(out, ",\"attention\":");
    lnt_fields_write_changes(out, attention_fields, &view, &begin);
    lnt_json_put(out, ",\"rotary\":");
    lnt_fields_write_changes(out, rotary_fields, &view, &begin);
    lnt_json_put(out, "}");
}

void lnt_config_write(lnt_json_text *out, const lnt_config *config)
{
    lnt_config plain;
    const lnt_status status = lnt_config_default(NULL, &plain);
    assert(!status);
    (void)status;
    lnt_fields_write(out, model_fields, config, &plain, true);
    lnt_json_put(out, ",\"attention\":");
    lnt_fields_write(out, attention_fields, config, &plain, false);
    if (!lnt_fields_same(rotary_fields, config, &plain)) {
        lnt_json_put(out, ",\"rotary\":");
        lnt_fields_write(out, rotary_fields, config, &plain, false);
    }
    for (size_t k = 1; k <= (size_t)config->kind_count; k++) {
        lnt_json_put(out, k == 1 ? ",\"kinds\":[" : ",");
        write_kind(out, config, &plain, k);
    }
    lnt_json_put(out, config->kind_count ? "]}" : "}");
}

/* Of scores; NaN: what attention takes by itself. */
static double scale_of(const lnt_config *c)
{
    const bool weighs = c->averages && c->attention.cur.activation == LNT_ACTIVATION_LAPLACE;
    if (!isnan(c->attention.scale) || !weighs) return c->attention.scale;
    return 1 / (double)c->length; /* as MEGA has it: weights have no sum */
}

static lnt_full_shape full_shape(const lnt_config *c)
{
    const double scale = scale_of(c);
    return (lnt_full_shape){ .used = is_full(c),
                             .laplace = c->attention.cur.activation == LNT_ACTIVATION_LAPLACE,
                             .reach = c->distance_bias ? (size_t)c->length : 0,
                             .scale = isnan(scale) ? 1 / sqrt((double)c->head_dim) : scale };
}

unsigned lnt_config_bias(const lnt_config *c) { return c->bias < 0 ? usual_bias(c) : (unsigned)c->bias; }

const lnt_rotary *lnt_config_rotary(const lnt_config *c, size_t kind)
{
    return kind ? &c->kinds[kind - 1].rotary : &c->rotary;
}

bool lnt_config_normalises(const lnt_config *c, size_t kind)
{
    const lnt_attn_desc *a = kind ? &c->kinds[kind - 1].attention : &c->attention;
    return a->mechanism == LNT_TAYLOR && a->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

lnt_block_shape lnt_config_block(const lnt_config *config, size_t kind)
{
    const lnt_config view = with_kind(config, kind), *c = &view;
    return (lnt_block_shape){ .dim = (size_t)c->dim, .heads = (size_t)c->heads,
                              .kv_heads = (size_t)c->kv_heads, .head_dim = (size_t)c->head_dim,
                              .ff = (size_t)c->ff, .depth = (size_t)c->layers,
                              .activation = (lnt_act)c->activation, .norm = (lnt_norm_kind)c->norm,
                              .epsilon = c->epsilon, .bias = lnt_config_bias(c),
                              .post = c->post == LNT_PLACE_POST, .after = c->post == LNT_PLACE_BOTH,
                              .parallel = c->parallel != 0, .qk_norm = c->qk_norm != 0,
                              .rotary = c->position == LNT_POSITION_ROTARY && !c->rotary.off,
                              .half = c->rotary.halves ? lnt_rotary_width(&c->rotary, (size_t)c->head_dim) / 2
                                                       : 0,
                              .temperature = c->learned_temperature != 0,
                              .averages = (size_t)c->averages, .values = (size_t)c->values,
                              .full = full_shape(c), .dropout = c->dropout, .drop_path = c->drop_path };
}

lnt_attn_desc lnt_config_attention(const lnt_config *c, size_t kind)
{
    const lnt_config view = with_kind(c, kind);
    const lnt_attention_kind *own = kind ? &c->kinds[kind - 1] : NULL;
    lnt_attn_desc desc = view.attention;
    desc.scale = scale_of(&view);
    if (view.coefficient_count) desc.taylor.coefficients = own ? own->coefficients : c->coefficients;
    if (view.decay_count) desc.decay = own ? own->decay : c->decay;
    return desc;
}
