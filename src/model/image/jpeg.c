/* model/image/jpeg.c - JPEG files, by libjpeg-turbo: grey, colour and CMYK, in one scan or in many. */
#include "model/image/image.h"

#ifdef LNT_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

/* A block of 64 pixels is a bit at the least, where it is coded by Huffman. */
enum { PIXELS_A_BYTE = 64 * 8, SCANS = 100, CMYK = 4 };

typedef struct reading {
    struct jpeg_error_mgr errors; /* the first: libjpeg gives its address */
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    const lnt_image_source *from;
    lnt_image *out;
    unsigned char *row; /* [width,4] of CMYK */
    lnt_status status;
    jmp_buf stop; /* libjpeg leaves by it, and so do we */
} reading;

static _Noreturn void leave(reading *r, const char *reason)
{
    if (!r->status) r->status = lnt_image_refuse(r->from, "JPEG", reason);
    longjmp(r->stop, 1);
}

static _Noreturn void fail(j_common_ptr jpeg)
{
    reading *r = (reading *)(void *)jpeg->err;
    char sentence[JMSG_LENGTH_MAX];
    r->errors.format_message(jpeg, sentence);
    leave(r, sentence);
}

/* Warnings below 0 are of damage that libjpeg would fill with grey; these four leave the pixels as they were.
 */
static void judge(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
                          code == JWRN_BOGUS_PROGRESSION || code == JWRN_JFIF_MAJOR;
    if (level < 0 && !harmless) fail(jpeg);
}

static void be_silent(j_common_ptr jpeg) { (void)jpeg; }

/* Each scan of a progressive file walks all of its blocks, however short it is. */
static void count_scans(j_common_ptr jpeg)
{
    reading *r = (reading *)(void *)jpeg->err;
    if (r->jpeg.input_scan_number > SCANS) leave(r, "it has more than 100 scans");
}

/* Of c, m, y and k, which are inverted: 255 is no ink. */
static void mix_inks(const unsigned char *cmyk, unsigned char *rgb, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) {
            const unsigned light = cmyk[CMYK * i + 3], ink = 255u - cmyk[CMYK * i + c];
            rgb[LNT_IMAGE_COLOURS * i + c] = (unsigned char)(light - (ink * light + 127) / 255);
        }
}

static void read_rows(reading *r)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    while (jpeg->output_scanline < jpeg->output_height) {
        unsigned char *to = r->out->rgb + (size_t)jpeg->output_scanline * r->out->width * LNT_IMAGE_COLOURS;
        JSAMPROW row = r->row ? r->row : to;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (r->row) mix_inks(r->row, to, r->out->width);
    }
}

static void read_all(reading *r)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    jpeg_create_decompress(jpeg);
    r->progress.progress_monitor = count_scans;
    jpeg->progress = &r->progress;
    jpeg_mem_src(jpeg, r->from->data, (unsigned long)r->from->bytes);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->arith_code) leave(r, "it is coded arithmetically, which is not known here");
    r->status = lnt_image_make_room(r->from, jpeg->image_width, jpeg->image_height, PIXELS_A_BYTE, r->out);
    if (r->status) longjmp(r->stop, 1);
    const bool inks = jpeg->num_components == CMYK;
    jpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    if (inks) r->row = lnt_allocate(r->from->ctx, r->out->width * CMYK, "a row of an image");
    if (inks && !r->row) {
        r->status = LNT_ERR_MEMORY;
        longjmp(r->stop, 1);
    }
    jpeg_start_decompress(jpeg);
    read_rows(r);
    jpeg_finish_decompress(jpeg);
}

static void run(reading *r)
{
    if (!setjmp(r->stop)) read_all(r);
}

lnt_status lnt_jpeg_read(const lnt_image_source *from, lnt_image *out)
{
    reading r = { .from = from, .out = out };
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = fail;
    r.errors.emit_message = judge;
    r.errors.output_message = be_silent;
    run(&r);
    lnt_release(from->ctx, r.row, out->width * CMYK);
    jpeg_destroy_decompress(&r.jpeg);
    return r.status ? r.status
                    : lnt_image_upright(from->ctx, lnt_exif_orientation(from->data, from->bytes), out);
}

#else

lnt_status lnt_jpeg_read(const lnt_image_source *from, lnt_image *out)
{
    (void)out;
    return lnt_fail(from->ctx, LNT_ERR_UNSUPPORTED,
                    "'%.300s': is a JPEG file, and Linnet was built without libjpeg-turbo (package "
                    "libjpeg62-turbo-dev)",
                    from->path);
}
#endif
