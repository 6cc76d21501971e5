/* model/image/pixels.h - what an image becomes before a model reads it. */
#ifndef LNT_MODEL_IMAGE_PIXELS_H
#define LNT_MODEL_IMAGE_PIXELS_H

#include "model/image/resize.h"

/* In this order: resized, its middle cut out, multiplied by factor, normalised. */
typedef struct lnt_image_form {
    int64_t width, height;           /* that it is resized to; 0: it is not */
    int64_t crop_width, crop_height; /* 0: nothing is cut off */
    int filter;                      /* lnt_filter */
    double factor;                   /* of pixels from 0 to 255; 0: it is not known what images become */
    double mean[LNT_IMAGE_COLOURS], deviation[LNT_IMAGE_COLOURS];
    int64_t means, deviations; /* a number for each colour, or none */
} lnt_image_form;

/* pixels [3,side,side], red before green before blue; `path` is for the sentence where the image, after all
 * that, has another size. */
lnt_status lnt_image_pixels(lnt_ctx *ctx, const char *path, const lnt_image_form *form,
                            const lnt_image *image, size_t side, float *pixels);

#endif
