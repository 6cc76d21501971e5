/* model/config.c - the keys of a config, and the config from JSON and back. */
#include "model/config_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/linear/feature.h"
#include "io/file.h"
#include "nn/ema.h"

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
LNT_WORDS(filter_word, "bilinear", "bicubic")

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
#define QUIET_WHOLE(k, high) \
    { .key = #k, .kind = LNT_FIELD_WHOLE, .offset = offsetof(lnt_config, k), .most = high, .quiet = true }
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
    QUIET_WHOLE(image, 1 << 14),
    QUIET_WHOLE(patch, 1 << 14),
    QUIET_WHOLE(channels, 16),
    QUIET_WHOLE(class_tokens, 2),
    QUIET_FLAG(pooler),
    QUIET_FLAG(distilled),
    QUIET_REAL(embedding_scale, 1e-6, 1e6),
    QUIET_REAL(logit_cap, 0, 1e6),
    { .key = "pooling", .kind = LNT_FIELD_CHOICE, .offset = offsetof(lnt_config, pooling),
      .choice = pooling_word, .quiet = true },
    QUIET_FLAG(normalise),
    { .key = "pixels", .kind = LNT_FIELD_OBJECT },
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
const lnt_field lnt_attention_fields[] = {
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
    { .key = "pin", .kind = LNT_FIELD_WHOLES, .offset = offsetof(lnt_config, pin), .most = LNT_CONFIG_PINS,
      .count = offsetof(lnt_config, pin_count), .only = TAKES(CUR) },
    { .key = "no_row_copy", .kind = LNT_FIELD_INVERTED_FLAG, .offset = INNER(cur.copy_rows),
      .only = TAKES(CUR) },
    CHOSEN(cur., pinv, pinv_word, TAKES(CUR)),
    COUNTED(cur., pinv_iterations, 64, TAKES(CUR)),
    CHOSEN(cur., pinv_init, init_word, TAKES(CUR)),
    { .key = "ridge", .kind = LNT_FIELD_REAL, .offset = INNER(cur.ridge), .least = 1e-12, .most = 1,
      .only = TAKES(CUR) },
    CHOSEN(cur., activation, weights_word, TAKES(CUR) | TAKES(SOFTMAX)),
    { .key = "cap", .kind = LNT_FIELD_REAL, .offset = INNER(softmax.cap), .most = 1e6, .only = TAKES(SOFTMAX),
      .quiet = true },
    COUNTED(hybrid., window, 1 << 24, TAKES(HYBRID) | TAKES(SOFTMAX)), /* of either */
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

const lnt_field lnt_rotary_fields[] = {
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

#define PIXELS(k) .key = #k, .offset = offsetof(lnt_config, pixels.k)
#define PIXELS_WHOLE(k) { PIXELS(k), .kind = LNT_FIELD_WHOLE, .most = 1 << 14, .quiet = true }
#define PIXELS_REALS(k, size) \
    { PIXELS(k), .kind = LNT_FIELD_REALS, .most = LNT_IMAGE_COLOURS, .quiet = true, \
      .count = offsetof(lnt_config, pixels.size) }

static const lnt_field pixel_fields[] = {
    PIXELS_WHOLE(width),
    PIXELS_WHOLE(height),
    PIXELS_WHOLE(crop_width),
    PIXELS_WHOLE(crop_height),
    { PIXELS(filter), .kind = LNT_FIELD_CHOICE, .choice = filter_word },
    { PIXELS(factor), .kind = LNT_FIELD_REAL, .most = 1e6 },
    PIXELS_REALS(mean, means),
    PIXELS_REALS(deviation, deviations),
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
        status = lnt_fields_read(ctx, path, "model.attention", inner, lnt_attention_fields, config);
    inner = object ? lnt_json_member(object, "rotary") : NULL;
    if (!status) status = lnt_fields_read(ctx, path, "model.rotary", inner, lnt_rotary_fields, config);
    inner = object ? lnt_json_member(object, "pixels") : NULL;
    if (!status) status = lnt_fields_read(ctx, path, "model.pixels", inner, pixel_fields, config);
    inner = object ? lnt_json_member(object, "kinds") : NULL;
    return status || !inner ? status : lnt_config_read_kinds(ctx, path, inner, config);
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
    for (const lnt_field *f = lnt_attention_fields; f->key; f++) {
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
        const lnt_config view = lnt_config_view(config, k);
        status = check_applies(ctx, path, &view, &plain);
    }
    return status;
}

lnt_status lnt_config_check_same(lnt_ctx *ctx, const char *path, const lnt_config *said,
                             const lnt_config *wanted)
{
    lnt_status status = lnt_fields_check_same(ctx, path, "model", model_fields, said, wanted);
    if (!status)
        status = lnt_fields_check_same(ctx, path, "model.attention", lnt_attention_fields, said, wanted);
    if (!status) status = lnt_fields_check_same(ctx, path, "model.rotary", lnt_rotary_fields, said, wanted);
    if (!status) status = lnt_fields_check_same(ctx, path, "model.pixels", pixel_fields, said, wanted);
    return status ? status : lnt_config_check_same_kinds(ctx, path, said, wanted);
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

void lnt_config_put_mechanism(lnt_config *config, lnt_mechanism mechanism, const lnt_config *plain)
{
    if (mechanism == config->attention.mechanism) return;
    config->attention.mechanism = mechanism;
    for (const lnt_field *f = lnt_attention_fields; f->key; f++)
        if (is_foreign(f, config) || lacks(f->key, config)) lnt_field_copy(f, config, plain);
}

lnt_status lnt_config_set_mechanism(lnt_ctx *ctx, const char *mechanism, lnt_config *config)
{
    lnt_config plain;
    lnt_mechanism named = config->attention.mechanism;
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status) status = find_mechanism(ctx, mechanism, &named);
    if (status) return status;
    lnt_config_put_mechanism(config, named, &plain);
    for (size_t k = 1; k <= (size_t)config->kind_count; k++) {
        lnt_config view = lnt_config_view(config, k);
        lnt_config_put_mechanism(&view, named, &plain);
        lnt_config_take_kind(&view, &config->kinds[k - 1]);
    }
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
    lnt_fields_write(out, lnt_attention_fields, config, &plain, false);
    if (!lnt_fields_same(lnt_rotary_fields, config, &plain)) {
        lnt_json_put(out, ",\"rotary\":");
        lnt_fields_write(out, lnt_rotary_fields, config, &plain, false);
    }
    if (!lnt_fields_same(pixel_fields, config, &plain)) {
        lnt_json_put(out, ",\"pixels\":");
        lnt_fields_write(out, pixel_fields, config, &plain, false);
    }
    for (size_t k = 1; k <= (size_t)config->kind_count; k++) {
        lnt_json_put(out, k == 1 ? ",\"kinds\":[" : ",");
        lnt_config_write_kind(out, config, &plain, k);
    }
    lnt_json_put(out, config->kind_count ? "]}" : "}");
}
