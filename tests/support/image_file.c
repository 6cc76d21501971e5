/* image_file.c - see image_file.h.  PNG as its specification says, deflated into stored blocks, by no
 * library. */
#include "image_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/image/image.h"

/* ---- PNG ----------------------------------------------------------------------------------- */

static void put_big(buffer *b, uint32_t x)
{
    const unsigned char bytes[4] = { (unsigned char)(x >> 24), (unsigned char)(x >> 16),
                                     (unsigned char)(x >> 8), (unsigned char)x };
    buffer_put(b, bytes, sizeof bytes);
}

static uint32_t checksum(const unsigned char *data, size_t count)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static void put_chunk(buffer *b, const char *name, const void *data, size_t count)
{
    put_big(b, (uint32_t)count);
    const size_t from = b->used;
    buffer_put(b, name, 4);
    if (count) buffer_put(b, data, count);
    put_big(b, checksum(b->data + from, b->used - from));
}

static void put_stored(buffer *b, const unsigned char *data, size_t count)
{
    enum { BLOCK = 5000 };
    uint32_t low = 1, high = 0;
    buffer_put(b, "\x78\x01", 2);
    for (size_t at = 0; at < count || !at; at += BLOCK) {
        const size_t n = count - at < BLOCK ? count - at : BLOCK;
        const unsigned char head[5] = { at + n >= count, (unsigned char)n, (unsigned char)(n >> 8),
                                        (unsigned char)~n, (unsigned char)(~n >> 8) };
        buffer_put(b, head, sizeof head);
        buffer_put(b, data + at, n);
    }
    for (size_t i = 0; i < count; i++) {
        low = (low + data[i]) % 65521;
        high = (high + low) % 65521;
    }
    put_big(b, high << 16 | low);
}

size_t png_channels(const png_kind *kind)
{
    static const size_t channels[] = { 1, 0, 3, 1, 2, 0, 4 };
    return channels[kind->colour];
}

void png_palette(size_t index, unsigned char rgb[3])
{
    rgb[0] = (unsigned char)(7 * index);
    rgb[1] = (unsigned char)(255 - 3 * index);
    rgb[2] = (unsigned char)(index * index);
}

/* The pixels x, x + dx, ... of a row, their bits side by side. */
static void put_row(const png_kind *kind, const uint16_t *row, size_t x, size_t dx, buffer *b)
{
    const size_t channels = png_channels(kind);
    unsigned bits = 0, count = 0;
    buffer_put(b, "\0", 1); /* no filter */
    for (; x < kind->width; x += dx)
        for (size_t c = 0; c < channels; c++)
            for (int bit = kind->depth; bit-- > 0;) {
                bits = bits << 1 | (row[x * channels + c] >> bit & 1u);
                if (++count % 8 == 0) buffer_put(b, &(unsigned char){ (unsigned char)bits }, 1);
            }
    if (count % 8) buffer_put(b, &(unsigned char){ (unsigned char)(bits << (8 - count % 8)) }, 1);
}

static void put_pixels(const png_kind *kind, const uint16_t *samples, buffer *b)
{
    static const size_t first[7][2] = {
        { 0, 0 }, { 4, 0 }, { 0, 4 }, { 2, 0 }, { 0, 2 }, { 1, 0 }, { 0, 1 }
    };
    static const size_t step[7][2] = { { 8, 8 }, { 8, 8 }, { 4, 8 }, { 4, 4 }, { 2, 4 }, { 2, 2 }, { 1, 2 } };
    const size_t row = kind->width * png_channels(kind);
    for (int pass = 0; pass < (kind->interlaced ? 7 : 1); pass++) {
        const size_t x = kind->interlaced ? first[pass][0] : 0, dx = kind->interlaced ? step[pass][0] : 1;
        const size_t dy = kind->interlaced ? step[pass][1] : 1;
        for (size_t y = kind->interlaced ? first[pass][1] : 0; x < kind->width && y < kind->height; y += dy)
            put_row(kind, samples + y * row, x, dx, b);
    }
}

buffer png_file(const png_kind *kind, const uint16_t *samples)
{
    buffer head = { 0 }, pixels = { 0 }, packed = { 0 }, file = { 0 };
    unsigned char palette[256][3];
    put_big(&head, kind->said_width ? kind->said_width : kind->width);
    put_big(&head, kind->said_height ? kind->said_height : kind->height);
    const unsigned char rest[5] = { (unsigned char)kind->depth, (unsigned char)kind->colour, 0, 0,
                                    kind->interlaced };
    buffer_put(&head, rest, sizeof rest);
    buffer_put(&file, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(&file, "IHDR", head.data, head.used);
    if (kind->says) put_chunk(&file, "gAMA", "\0\0\x10\0", 4);
    for (size_t i = 0; i < 256; i++) png_palette(i, palette[i]);
    if (kind->colour == 3) put_chunk(&file, "PLTE", palette, (size_t)3 << kind->depth);
    if (kind->says && kind->colour == 3) put_chunk(&file, "tRNS", "\0", 1);
    if (kind->says && kind->colour == 0) put_chunk(&file, "tRNS", "\0\1", 2);
    put_pixels(kind, samples, &pixels);
    put_stored(&packed, pixels.data, pixels.used);
    put_chunk(&file, "IDAT", packed.data, packed.used);
    put_chunk(&file, "IEND", NULL, 0);
    buffer_free(&head);
    buffer_free(&pixels);
    buffer_free(&packed);
    return file;
}

/* ---- JPEG ---------------------------------------------------------------------------------- */

#ifdef LNT_JPEG
#include <jpeglib.h>

static void put_exif(struct jpeg_compress_struct *jpeg, const jpeg_kind *kind)
{
    static const unsigned char big[] =
        "Exif\0\0MM\0*\0\0\0\x08\0\2\1\x0f\0\3\0\0\0\1\0\x09\0\0\1\x12\0\3\0\0\0\1\0?\0\0\0\0\0";
    static const unsigned char little[] =
        "Exif\0\0II*\0\x08\0\0\0\2\0\x0f\1\3\0\1\0\0\0\x09\0\0\0\x12\1\3\0\1\0\0\0?\0\0\0\0\0\0";
    unsigned char data[sizeof big - 1];
    memcpy(data, kind->big ? big : little, sizeof data);
    *(unsigned char *)memchr(data, '?', sizeof data) = (unsigned char)kind->orientation;
    if (kind->orientation) jpeg_write_marker(jpeg, JPEG_APP0 + 1, data, sizeof data);
}

buffer jpeg_file(const jpeg_kind *kind, const unsigned char *samples)
{
    static const J_COLOR_SPACE spaces[] = { JCS_UNKNOWN, JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB, JCS_CMYK };
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long bytes = 0;
    buffer file = { 0 };
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &bytes);
    jpeg.image_width = kind->width;
    jpeg.image_height = kind->height;
    jpeg.input_components = kind->channels;
    jpeg.in_color_space = spaces[kind->channels];
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, kind->quality, TRUE);
    if (kind->progressive) jpeg_simple_progression(&jpeg);
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = kind->halved ? 2 : 1;
    jpeg.restart_interval = (unsigned)kind->restart;
    jpeg_start_compress(&jpeg, TRUE);
    put_exif(&jpeg, kind);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(samples + (size_t)jpeg.next_scanline * kind->width *
                                                           (size_t)kind->channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    buffer_put(&file, data, bytes);
    free(data);
    return file;
}
#endif
