/* model/image/pixels.c - see pixels.h. */
#include "model/image/pixels.h"

/* Columns x .. and rows y .. of an image, side x side of them. */
static void fill(const lnt_image_form *form, const lnt_image *image, size_t x, size_t y, size_t side,
                 float *pixels)
{
    for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) {
        const double mean = form->means ? form->mean[c] : 0,
                     deviation = form->deviations ? form->deviation[c] : 1;
        for (size_t row = 0; row < side; row++) {
            const unsigned char *from = image->rgb + ((y + row) * image->width + x) * LNT_IMAGE_COLOURS + c;
            float *to = pixels + (c * side + row) * side;
            for (size_t i = 0; i < side; i++)
                to[i] = (float)((from[i * LNT_IMAGE_COLOURS] * form->factor - mean) / deviation);
        }
    }
}

lnt_status lnt_image_pixels(lnt_ctx *ctx, const char *path, const lnt_image_form *form,
                            const lnt_image *image, size_t side, float *pixels)
{
    lnt_image resized = { 0 };
    lnt_status status = LNT_OK;
    if (form->width)
        status = lnt_image_resize(ctx, image, (size_t)form->width, (size_t)form->height,
                                  (lnt_filter)form->filter, &resized);
    const lnt_image *all = form->width ? &resized : image;
    const size_t width = form->crop_width ? (size_t)form->crop_width : all->width;
    const size_t height = form->crop_width ? (size_t)form->crop_height : all->height;
    if (!status && (width != side || height != side || width > all->width || height > all->height))
        status = lnt_fail(ctx, LNT_ERR_SHAPE,
                          "'%.300s': has %zu x %zu pixels, the model reads %zu x %zu, and resizes nothing",
                          path, image->width, image->height, side, side);
    if (!status) fill(form, all, (all->width - width) / 2, (all->height - height) / 2, side, pixels);
    lnt_image_close(ctx, &resized);
    return status;
}
