/* model/config_check.c - what cannot be: a config whose parts do not go together is refused in a sentence,
 * and what it leaves to be derived is filled in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/problem.h"
#include "io/file.h"
#include "model/config_parts.h"
#include "nn/logistics.h"

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
    if (status || lnt_fields_same(lnt_rotary_fields, c, &plain)) return status;
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

static lnt_status check_bias(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    if (c->bias < 0) return LNT_OK;
    if ((unsigned)c->bias == lnt_config_usual_bias(c)) c->bias = -1;
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

/* What a network of images cannot be without; NULL: nothing is missing. */
static const char *image_lacks(const lnt_config *c)
{
    return c->kind != LNT_ENCODER                                        ? "kind encoder"
           : c->input != LNT_INPUT_FEATURES                              ? "input features"
           : c->output != LNT_OUTPUT_CLASS && c->output != LNT_OUTPUT_VECTOR ? "output class or vector"
           : c->embedding == LNT_EMBEDDING_CNN                           ? "embedding table"
           : c->distance_bias                                            ? "no distance_bias"
                                                                         : NULL;
}

/* That what an image becomes is what the network reads. */
static lnt_status check_pixels(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    const lnt_image_form *p = &c->pixels;
    const int64_t width = p->crop_width ? p->crop_width : p->width;
    const int64_t height = p->crop_width ? p->crop_height : p->height;
    for (int64_t i = 0; i < p->deviations; i++)
        if (!(p->deviation[i] >= 1e-12))
            return refuse(ctx, path, "deviation of pixels must be above 0");
    if ((p->means && p->means != LNT_IMAGE_COLOURS) || (p->deviations && p->deviations != LNT_IMAGE_COLOURS))
        return refuse(ctx, path, "mean and deviation of pixels have 3 numbers each, or none");
    if (!p->width != !p->height || !p->crop_width != !p->crop_height)
        return refuse(ctx, path, "pixels have a width and a height, or neither");
    if (width && (width != c->image || height != c->image))
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model: images are made %lld x %lld, and read %lld x %lld", path,
                        (long long)width, (long long)height, (long long)c->image, (long long)c->image);
    if (p->width && (p->width < width || p->height < height))
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model: of images of %lld x %lld none of %lld x %lld can be cut", path,
                        (long long)p->width, (long long)p->height, (long long)width, (long long)height);
    return LNT_OK;
}

static lnt_status check_image(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    if (!lnt_config_sees(c)) {
        const bool parts = c->patch || c->channels || c->class_tokens || c->pixels.factor > 0;
        return parts ? refuse(ctx, path, "patch, channels, class_tokens and pixels are for images")
                     : LNT_OK;
    }
    if (image_lacks(c))
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model: images need %s", path, image_lacks(c));
    if (!c->patch || c->image % c->patch || !c->channels)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.image is %lld, must be a multiple of patch, which is %lld, and "
                                     "channels at least 1", path, (long long)c->image, (long long)c->patch);
    const int64_t side = c->image / c->patch, tokens = c->class_tokens + side * side;
    if (c->inputs != c->channels * c->patch * c->patch || c->length != tokens)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.inputs is %lld and length %lld, by image and patch they are "
                                     "%lld and %lld", path, (long long)c->inputs, (long long)c->length,
                        (long long)(c->channels * c->patch * c->patch), (long long)tokens);
    return check_pixels(ctx, path, c);
}

static lnt_status check_heads_of_images(lnt_ctx *ctx, const char *path, const lnt_config *c)
{
    if (c->pooler && !lnt_config_pools(c))
        return refuse(ctx, path, "a pooler is for a network that gives one vector for a sequence");
    if (c->distilled && (c->class_tokens != 2 || c->pooling != LNT_POOL_FIRST || c->pooler ||
                         c->output != LNT_OUTPUT_CLASS || c->logit_cap > 0))
        return refuse(ctx, path, "distilled needs class_tokens 2, output class, pooling first, and neither "
                                 "pooler nor logit_cap");
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

static lnt_status check_scores(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    const bool laplace = c->attention.cur.activation == LNT_ACTIVATION_LAPLACE;
    const lnt_mechanism mechanism = c->attention.mechanism;
    if (laplace && mechanism != LNT_CUR && !lnt_config_is_full(c))
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
    lnt_attn_desc desc = lnt_config_attention(c, 0);
    desc.length_q = desc.length_k = c->length; /* pinned tokens are some of a sequence */
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
        if (!lnt_config_has_layer(kind, (size_t)l)) continue;
        count++;
        most = l;
        for (int64_t i = 0; i < index; i++)
            if (lnt_config_has_layer(&c->kinds[i], (size_t)l))
                return lnt_fail(ctx, LNT_ERR_FORMAT,
                                LNT_FILE_FMT ": model.kinds[%d] and [%d] both have layer %d", path, (int)i,
                                (int)index, (int)l);
    }
    if (count && most < c->layers) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": model.kinds[%d] has %s %lld layers", path,
                    (int)index, count ? "layers beyond the model's" : "none of the model's",
                    (long long)c->layers);
}

static lnt_status resolve_kinds(lnt_ctx *ctx, const char *path, lnt_config *c)
{
    lnt_status status = LNT_OK;
    for (int64_t i = 0; !status && i < c->kind_count; i++) {
        lnt_config view = lnt_config_view(c, (size_t)i + 1);
        status = check_layers(ctx, path, c, i);
        if (!status) status = check_rotary(ctx, path, &view);
        if (!status) status = check_scores(ctx, path, &view);
        if (!status) status = check_attention(ctx, path, &view);
        fill_shape(&view);
        if (!status) status = check_problem(ctx, path, &view);
        lnt_config_take_kind(&view, &c->kinds[i]);
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
    if (!status) status = check_image(ctx, path, config);
    if (!status) status = check_heads_of_images(ctx, path, config);
    if (!status) status = check_ends(ctx, path, config);
    if (!status) status = check_attention(ctx, path, config);
    if (config->ff == 0) config->ff = 4 * config->dim;
    fill_shape(config);
    if (!status) status = check_problem(ctx, path, config);
    return status ? status : resolve_kinds(ctx, path, config);
}
