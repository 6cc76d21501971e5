/* image_file.h - makes PNG and JPEG files in memory, true ones and lies. */
#ifndef LNT_TESTS_IMAGE_FILE_H
#define LNT_TESTS_IMAGE_FILE_H

#include "gguf_file.h"

/* Of PNG; a sample is a number from 0 to 2^depth - 1. */
typedef struct png_kind {
    uint32_t width, height;
    int depth;       /* 1, 2, 4, 8, 16 */
    int colour;      /* 0 grey, 2 colour, 3 of a palette, 4 grey and alpha, 6 colour and alpha */
    bool interlaced; /* Adam7 */
    bool says;       /* beside what must be, chunks of gamma and transparency, which are not to be used */
    uint32_t said_width, said_height; /* in the header; 0: the truth */
} png_kind;

size_t png_channels(const png_kind *kind);
/* samples [height,width,channels] */
buffer png_file(const png_kind *kind, const uint16_t *samples);
/* What a palette's entry `index` is. */
void png_palette(size_t index, unsigned char rgb[3]);

/* Of JPEG, by libjpeg: LNT_JPEG alone has them. */
typedef struct jpeg_kind {
    uint32_t width, height;
    int channels; /* 1 grey, 3 colour, 4 inks, inverted */
    int quality;
    bool progressive, halved; /* halved: half as many colours as pixels each way */
    int restart;              /* a marker after so many blocks; 0: none */
    int orientation;          /* in Exif data; 0: it has none */
    bool big;                 /* the order of bytes in them */
} jpeg_kind;

#ifdef LNT_JPEG
/* samples [height,width,channels] */
buffer jpeg_file(const jpeg_kind *kind, const unsigned char *samples);
#endif

#endif
