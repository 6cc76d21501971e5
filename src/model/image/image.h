/* model/image/image.h - pictures from files: PNG by libpng, JPEG by libjpeg-turbo, as 8 bits of red, green
 * and blue.
 *
 * What a file has of transparency, colour profiles and gamma is not looked at; of 16 bits the high 8 are
 * taken; CMYK is as Adobe writes it, inverted.  A JPEG is turned as its Exif data say, so that what is up is
 * up.  A file that is cut or damaged gives no picture.  Before memory is taken for pixels, they must be fewer
 * than LNT_IMAGE_PIXELS, and no more than so many bytes of file can be unpacked to. */
#ifndef LNT_MODEL_IMAGE_IMAGE_H
#define LNT_MODEL_IMAGE_IMAGE_H

#include "core/context.h"

enum { LNT_IMAGE_COLOURS = 3, LNT_IMAGE_PIXELS = 1 << 28, LNT_IMAGE_SIDE = 1 << 20 };

typedef struct lnt_image {
    size_t width, height;
    unsigned char *rgb; /* [height,width,3] */
} lnt_image;

/* On failure nothing is held. */
lnt_status lnt_image_read(lnt_ctx *ctx, const char *path, lnt_image *out);
/* From a file in memory; `path` is for sentences. */
lnt_status lnt_image_decode(lnt_ctx *ctx, const char *path, const void *data, size_t bytes, lnt_image *out);
/* An image of that size whose pixels are still to be filled. */
lnt_status lnt_image_open(lnt_ctx *ctx, size_t width, size_t height, lnt_image *out);
void lnt_image_close(lnt_ctx *ctx, lnt_image *image); /* closed already is fine */

/* ---- for the formats --------------------------------------------------------------------------- */

/* A file that is being read. */
typedef struct lnt_image_source {
    lnt_ctx *ctx;
    const char *path;
    const unsigned char *data;
    size_t bytes;
} lnt_image_source;

/* Opens an image of `width` x `height`, of which a byte of the file can hold `each` pixels at the most. */
lnt_status lnt_image_make_room(const lnt_image_source *from, uint64_t width, uint64_t height, uint64_t each,
                               lnt_image *out);
/* The sentence of a file that is no such picture, `what` "PNG". */
lnt_status lnt_image_refuse(const lnt_image_source *from, const char *what, const char *reason);

/* On failure *out may be open. */
lnt_status lnt_png_read(const lnt_image_source *from, lnt_image *out);
lnt_status lnt_jpeg_read(const lnt_image_source *from, lnt_image *out);

/* How the Exif data of a JPEG file say that it lies: 1 to 8, 1 where they say nothing. */
int lnt_exif_orientation(const unsigned char *data, size_t bytes);
/* Turns and mirrors what lies so to what is upright. */
lnt_status lnt_image_upright(lnt_ctx *ctx, int orientation, lnt_image *image);

#endif
