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
    WHOLE(layers, 1, 1024),
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

lnt_status lnt_config_read(lnt_ctx *ctx, const char *path, const lnt_json_node *object,
                           lnt_config *config)
{
    lnt_status status = lnt_fields_read(ctx, path, "model", object, model_fields, config);
    const lnt_json_node *inner = object ? lnt_json_member(object, "attention") : NULL;
    if (!status)
        status = lnt_fields_read(ctx, path, "model.attention", inner, attention_fields, config);
    inner = object ? lnt_json_member(object, "rotary") : NULL;
    if (!status) status = lnt_fields_read(ctx, path, "model.rotary", inner, rotary_fields, config);
    return status;
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
    const lnt_attn_desc desc = lnt_config_attention(c);
    lnt_attn_desc resolved;
    char reason[LNT_ERROR_CAPACITY];
    if (lnt_problem_resolve(ctx, &desc, &resolved) == LNT_OK) return LNT_OK;
    snprintf(reason, sizeof reason, "%s", lnt_ctx_error(ctx));
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.attention: %s", path, reason);
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
    config->attention.causal = config->kind == LNT_DECODER;
    config->attention.heads = config->heads;
    config->attention.kv_heads = config->kv_heads;
    config->attention.dim = config->head_dim;
    return status ? status : check_problem(ctx, path, config);
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

lnt_status lnt_config_check_applies(lnt_ctx *ctx, const char *path, const lnt_config *config)
{
    lnt_config plain;
    const lnt_status status = lnt_config_default(ctx, &plain);
    if (status) return status;
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

lnt_status lnt_config_check_same(lnt_ctx *ctx, const char *path, const lnt_config *said,
                             const lnt_config *wanted)
{
    lnt_status status = lnt_fields_check_same(ctx, path, "model", model_fields, said, wanted);
    if (!status)
        status = lnt_fields_check_same(ctx, path, "model.attention", attention_fields, said, wanted);
    if (!status) status = lnt_fields_check_same(ctx, path, "model.rotary", rotary_fields, said, wanted);
    return status;
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

lnt_status lnt_config_set_mechanism(lnt_ctx *ctx, const char *mechanism, lnt_config *config)
{
    lnt_config plain;
    lnt_mechanism named = config->attention.mechanism;
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status) status = find_mechanism(ctx, mechanism, &named);
    if (status || named == config->attention.mechanism) return status;
    config->attention.mechanism = named;
    for (const lnt_field *f = attention_fields; f->key; f++)
        if (is_foreign(f, config) || lacks(f->key, config)) lnt_field_copy(f, config, &plain);
    return LNT_OK;
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
    lnt_json_put(out, "}");
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

bool lnt_config_normalises(const lnt_config *c)
{
    return c->attention.mechanism == LNT_TAYLOR && c->attention.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

lnt_block_shape lnt_config_block(const lnt_config *c)
{
    return (lnt_block_shape){ .dim = (size_t)c->dim, .heads = (size_t)c->heads,
                              .kv_heads = (size_t)c->kv_heads, .head_dim = (size_t)c->head_dim,
                              .ff = (size_t)c->ff, .depth = (size_t)c->layers,
                              .activation = (lnt_act)c->activation, .norm = (lnt_norm_kind)c->norm,
                              .epsilon = c->epsilon, .bias = lnt_config_bias(c),
                              .post = c->post == LNT_PLACE_POST, .after = c->post == LNT_PLACE_BOTH,
                              .parallel = c->parallel != 0, .qk_norm = c->qk_norm != 0,
                              .rotary = c->position == LNT_POSITION_ROTARY,
                              .half = c->rotary.halves ? lnt_rotary_width(&c->rotary, (size_t)c->head_dim) / 2
                                                       : 0,
                              .temperature = c->learned_temperature != 0,
                              .averages = (size_t)c->averages, .values = (size_t)c->values,
                              .full = full_shape(c), .dropout = c->dropout, .drop_path = c->drop_path };
}

lnt_attn_desc lnt_config_attention(const lnt_config *c)
{
    lnt_attn_desc desc = c->attention;
    desc.scale = scale_of(c);
    if (c->coefficient_count) desc.taylor.coefficients = c->coefficients;
    if (c->decay_count) desc.decay = c->decay;
    return desc;
}
