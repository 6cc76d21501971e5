/* model/image/resize.h - an image in another size. */
#ifndef LNT_MODEL_IMAGE_RESIZE_H
#define LNT_MODEL_IMAGE_RESIZE_H

#include "model/image/image.h"

typedef enum lnt_filter { LNT_FILTER_BILINEAR = 0, LNT_FILTER_BICUBIC = 1 } lnt_filter;

/* On failure *out is closed. */
lnt_status lnt_image_resize(lnt_ctx *ctx, const lnt_image *in, size_t width, size_t height, lnt_filter filter,
                            lnt_image *out);

#endif
