/* model/see.c - models of images: pixels from files, cut into patches, and what the network makes of them. */
#include <math.h>
#include <string.h>

#include "model/model.h"

static lnt_status check_sees(const lnt_model *model)
{
    if (lnt_config_sees(&model->config)) return LNT_OK;
    return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED, "model: it reads no images");
}

lnt_status lnt_model_read_image(const lnt_model *model, const char *path, float *pixels)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    const lnt_config *c = &model->config;
    lnt_image image;
    if (!path || !pixels) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path and pixels must not be NULL");
    lnt_status status = check_sees(model);
    if (!status && c->channels != LNT_IMAGE_COLOURS)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: it reads %lld channels, and files are read in 3",
                          (long long)c->channels);
    if (!status && !(c->pixels.factor > 0))
        status =
            lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                     "model: without preprocessor_config.json it is not known how images are resized and "
                     "normalised");
    if (!status) status = lnt_image_read(ctx, path, &image);
    if (status) return status;
    status = lnt_image_pixels(ctx, path, &c->pixels, &image, (size_t)c->image, pixels);
    lnt_image_close(ctx, &image);
    return status;
}

/* A patch after the other, row by row, each [channels,patch,patch] as a convolution's kernel is. */
static void cut(const lnt_config *c, const float *pixels, float *patches)
{
    const size_t side = (size_t)c->image, patch = (size_t)c->patch, channels = (size_t)c->channels;
    for (size_t y = 0; y < side; y += patch)
        for (size_t x = 0; x < side; x += patch)
            for (size_t i = 0; i < channels * patch; i++) {
                const size_t row = i / patch * side + y + i % patch; /* of all channels' */
                memcpy(patches, pixels + row * side + x, patch * sizeof *patches);
                patches += patch;
            }
}

static lnt_status check_images(const lnt_model *model, const float *pixels, int64_t batch,
                               const float *logits, size_t *count)
{
    lnt_ctx *ctx = model->ctx;
    const lnt_config *c = &model->config;
    const lnt_status status = check_sees(model);
    if (status) return status;
    if (!pixels || batch < 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pixels must be given, and batch be at least 1");
    if (logits && c->output != LNT_OUTPUT_CLASS)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: it has no logits, for it does not classify");
    if (!lnt_size_product((size_t)batch, (size_t)(c->channels * c->image), (size_t)c->image, count) ||
        *count > SIZE_MAX / sizeof(float))
        return lnt_fail(ctx, LNT_ERR_SHAPE, "batch %lld is too large", (long long)batch);
    for (size_t i = 0; i < *count; i++)
        if (!isfinite(pixels[i])) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pixel %zu is not finite", i);
    return LNT_OK;
}

lnt_status lnt_model_forward_images(lnt_model *model, const float *pixels, int64_t batch, float *logits,
                                    float *vectors)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_network *net = &model->network;
    const lnt_config *c = &model->config;
    size_t count = 0;
    lnt_status status = check_images(model, pixels, batch, logits, &count);
    if (!status) status = lnt_model_make_room(model, (size_t)batch, (size_t)c->length);
    if (status) return status;
    float *patches = lnt_allocate(model->ctx, count * sizeof *patches, "the patches of images");
    if (!patches) return LNT_ERR_MEMORY;
    const size_t each = count / (size_t)batch;
    for (size_t b = 0; b < (size_t)batch; b++) cut(c, pixels + b * each, patches + b * each);
    const lnt_batch in = { .batch = (size_t)batch, .length = (size_t)c->length, .features = patches };
    status = lnt_network_forward(net, model->weights, &in, false, lnt_rng_make(0));
    lnt_release(model->ctx, patches, count * sizeof *patches);
    if (status) return status;
    if (logits) memcpy(logits, net->logits, (size_t)(batch * c->outputs) * sizeof *logits);
    if (vectors) memcpy(vectors, net->pooled, (size_t)(batch * c->dim) * sizeof *vectors);
    return LNT_OK;
}

const char *lnt_model_label(const lnt_model *model, int64_t index)
{
    return !model || index < 0 ? NULL : lnt_labels_name(&model->labels, (size_t)index);
}
