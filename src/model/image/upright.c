/* model/image/upright.c - how a camera was held: the orientation in a JPEG file's Exif data, and pixels
 * turned by it.
 *
 * Exif is a TIFF file in a marker: a byte order, the place of a directory, and in it entries of 12 bytes, a
 * tag, a type, a count and the value.  What is damaged says nothing. */
#include <string.h>

#include "model/image/image.h"

enum { APP1 = 0xe1, START_OF_SCAN = 0xda, ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12, HEADER = 8 };

typedef struct tiff {
    const unsigned char *at;
    size_t bytes;
    bool big; /* the order of bytes */
} tiff;

/* `count` bytes at `place`, which are there. */
static uint32_t number(const tiff *t, size_t place, int count)
{
    uint32_t x = 0;
    for (int i = 0; i < count; i++) x = x << 8 | t->at[place + (size_t)(t->big ? i : count - 1 - i)];
    return x;
}

static int orientation_in(const unsigned char *data, size_t bytes)
{
    tiff t = { data, bytes, true };
    if (bytes < HEADER || (memcmp(data, "II*", 4) != 0 && memcmp(data, "MM\0*", 4) != 0)) return 1;
    t.big = data[0] == 'M';
    const size_t first = number(&t, 4, 4);
    if (first > bytes - 2) return 1;
    const size_t room = (bytes - first - 2) / ENTRY, said = number(&t, first, 2);
    for (size_t i = 0; i < said && i < room; i++) {
        const size_t entry = first + 2 + i * ENTRY;
        if (number(&t, entry, 2) != ORIENTATION || number(&t, entry + 2, 2) != SHORT) continue;
        const uint32_t value = number(&t, entry + 8, 2);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int lnt_exif_orientation(const unsigned char *data, size_t bytes)
{
    static const char name[] = "Exif\0"; /* and the NUL that C adds */
    for (size_t at = 2; at + 4 <= bytes && data[at] == 0xff;) {
        const int marker = data[at + 1];
        const size_t length = (size_t)data[at + 2] << 8 | data[at + 3];
        if (marker == START_OF_SCAN || length < 2 || length > bytes - at - 2) return 1;
        if (marker == APP1 && length >= 2 + sizeof name && memcmp(data + at + 4, name, sizeof name) == 0)
            return orientation_in(data + at + 4 + sizeof name, length - 2 - sizeof name);
        at += 2 + length;
    }
    return 1;
}

/* Orientations 5 to 8 exchange rows and columns. */
static size_t source_of(const lnt_image *in, int orientation, size_t x, size_t y)
{
    const bool turned = orientation >= 5;
    size_t column = turned ? y : x, row = turned ? x : y;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        column = in->width - 1 - column;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        row = in->height - 1 - row;
    return row * in->width + column;
}

lnt_status lnt_image_upright(lnt_ctx *ctx, int orientation, lnt_image *image)
{
    const bool turned = orientation >= 5;
    lnt_image out;
    if (orientation == 1) return LNT_OK;
    const lnt_status status = lnt_image_open(ctx, turned ? image->height : image->width,
                                             turned ? image->width : image->height, &out);
    if (status) return status;
    for (size_t y = 0; y < out.height; y++)
        for (size_t x = 0; x < out.width; x++)
            memcpy(out.rgb + (y * out.width + x) * LNT_IMAGE_COLOURS,
                   image->rgb + source_of(image, orientation, x, y) * LNT_IMAGE_COLOURS, LNT_IMAGE_COLOURS);
    lnt_image_close(ctx, image);
    *image = out;
    return LNT_OK;
}
