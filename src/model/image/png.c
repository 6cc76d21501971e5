/* model/image/png.c - PNG files, by libpng: every colour type and depth, interlaced or not. */
#include "model/image/image.h"

#ifdef LNT_PNG
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

/* Deflate makes at the most 1032 bytes of one. */
enum { BITS_A_BYTE = 1032 * 8 };

typedef struct reading {
    const lnt_image_source *from;
    size_t at; /* bytes that were read */
    png_structp png;
    png_infop info;
    lnt_image *out;
    lnt_status status;
    jmp_buf stop; /* libpng leaves by it, and so do we */
} reading;

static _Noreturn void fail(png_structp png, png_const_charp reason)
{
    reading *r = png_get_error_ptr(png);
    char sentence[96];
    snprintf(sentence, sizeof sentence, "%s", reason);
    if (!r->status) r->status = lnt_image_refuse(r->from, "PNG", sentence);
    longjmp(r->stop, 1);
}

/* What libpng mends by itself. */
static void ignore(png_structp png, png_const_charp reason)
{
    (void)png;
    (void)reason;
}

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    reading *r = png_get_io_ptr(png);
    if (count > r->from->bytes - r->at) png_error(png, "the file is cut");
    memcpy(to, r->from->data + r->at, count);
    r->at += count;
}

/* Every pixel becomes 8 bits of red, green and blue. */
static void set_conversions(png_structp png, int depth, int colour)
{
    if (depth == 16) png_set_strip_16(png);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png); /* of fewer bits too */
    png_set_strip_alpha(png);
}

static void read_all(reading *r)
{
    png_structp png = r->png;
    png_set_read_fn(png, r, read_bytes);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* also those that libpng knows */
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);         /* the sentence is ours */
    png_read_info(png, r->info);
    const png_uint_32 width = png_get_image_width(png, r->info), height = png_get_image_height(png, r->info);
    const int depth = png_get_bit_depth(png, r->info), bits = depth * png_get_channels(png, r->info);
    r->status = lnt_image_make_room(r->from, width, height, (uint64_t)(BITS_A_BYTE / bits), r->out);
    if (r->status) longjmp(r->stop, 1);
    set_conversions(png, depth, png_get_color_type(png, r->info));
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, r->info);
    if (png_get_rowbytes(png, r->info) != (size_t)width * LNT_IMAGE_COLOURS)
        png_error(png, "its colours are not known");
    for (int pass = 0; pass < passes; pass++)
        for (png_uint_32 y = 0; y < height; y++)
            png_read_row(png, r->out->rgb + (size_t)y * width * LNT_IMAGE_COLOURS, NULL);
    png_read_end(png, NULL);
}

static void run(reading *r)
{
    if (!setjmp(r->stop)) read_all(r);
}

lnt_status lnt_png_read(const lnt_image_source *from, lnt_image *out)
{
    reading r = { .from = from, .out = out };
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info)
        r.status = lnt_fail(from->ctx, LNT_ERR_MEMORY, "there is no memory to read a PNG file");
    else
        run(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.status;
}

#else

lnt_status lnt_png_read(const lnt_image_source *from, lnt_image *out)
{
    (void)out;
    return lnt_fail(from->ctx, LNT_ERR_UNSUPPORTED,
                    "'%.300s': is a PNG file, and Linnet was built without libpng (package libpng-dev)",
                    from->path);
}
#endif
