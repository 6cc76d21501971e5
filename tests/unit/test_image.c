/* test_image.c - images from files: every kind of PNG and JPEG has the pixels that it was made of; one that
 * is cut, changed or lies about its size gives one sentence, or pixels; and images in another size are as the
 * formula says.
 *
 * It is built a second time without libpng and libjpeg. */
#include <math.h>
#include <string.h>

#include "image_file.h"
#include "model/image/resize.h"
#include "support.h"
#include "unit/io_support.h"

enum { WIDTH = 13, HEIGHT = 9, SAMPLES = WIDTH * HEIGHT * 4 };

#if defined LNT_PNG || defined LNT_JPEG
/* A file that was changed: an image of what it says, or one sentence. */
static lnt_status try(lnt_ctx *ctx, const void *data, size_t bytes)
{
    lnt_image image;
    void *copy = exact_copy(data, bytes);
    const lnt_status status = lnt_image_decode(ctx, "t", copy, bytes, &image);
    if (status) {
        const char *sentence = lnt_ctx_error(ctx);
        assert_null(image.rgb);
        assert_true(*sentence && !strchr(sentence, '\n'));
    }
    lnt_image_close(ctx, &image);
    free(copy);
    return status;
}

/* No beginning of it is an image, and any byte may be another. */
static void damage(lnt_ctx *ctx, const buffer *file, size_t step)
{
    for (size_t bytes = 0; bytes + 1 < file->used; bytes += step)
        assert_int_not_equal(try(ctx, file->data, bytes), LNT_OK);
    for (size_t at = 0; at < file->used; at += step) {
        const unsigned char was = file->data[at];
        for (int change = 0; change < 4; change++) {
            file->data[at] = change == 0   ? (unsigned char)~was
                             : change == 1 ? 0
                             : change == 2 ? 0xff
                                           : (unsigned char)(was + 1);
            try(ctx, file->data, file->used);
        }
        file->data[at] = was;
    }
}
#endif

/* ---- PNG ----------------------------------------------------------------------------------- */

#ifdef LNT_PNG
static void fill_samples(const png_kind *kind, uint64_t seed, uint16_t *samples)
{
    dice d = { seed };
    for (size_t i = 0; i < (size_t)kind->width * kind->height * png_channels(kind); i++)
        samples[i] = (uint16_t)dice_range(&d, 0, (1 << kind->depth) - 1);
}

/* What a pixel is. */
static void expected(const png_kind *kind, const uint16_t *pixel, unsigned char rgb[3])
{
    if (kind->colour == 3) {
        png_palette(pixel[0], rgb);
        return;
    }
    for (int c = 0; c < 3; c++) {
        const unsigned v = pixel[kind->colour & 2 ? c : 0];
        rgb[c] = (unsigned char)(kind->depth == 16 ? v >> 8 : v * 255 / ((1u << kind->depth) - 1));
    }
}

static void check_png(lnt_ctx *ctx, const png_kind *kind)
{
    uint16_t samples[SAMPLES];
    lnt_image image;
    fill_samples(kind, (uint64_t)(kind->depth + 20 * kind->colour), samples);
    buffer file = png_file(kind, samples);
    assert_ok(ctx, lnt_image_decode(ctx, "t.png", file.data, file.used, &image));
    assert_int_equal(image.width, kind->width);
    assert_int_equal(image.height, kind->height);
    for (size_t i = 0; i < image.width * image.height; i++) {
        unsigned char rgb[3];
        expected(kind, samples + i * png_channels(kind), rgb);
        assert_memory_equal(image.rgb + 3 * i, rgb, 3);
    }
    lnt_image_close(ctx, &image);
    buffer_free(&file);
}

static const struct {
    int colour, depth;
} png_kinds[] = { { 0, 1 }, { 0, 2 }, { 0, 4 }, { 0, 8 }, { 0, 16 }, { 2, 8 }, { 2, 16 }, { 3, 1 },
                  { 3, 2 }, { 3, 4 }, { 3, 8 }, { 4, 8 }, { 4, 16 }, { 6, 8 }, { 6, 16 } };

static void png_files_of_every_kind_have_their_pixels(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = { { WIDTH, HEIGHT }, { 1, 1 }, { 3, 2 }, { 8, 8 } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(png_kinds); i++)
        for (int size = 0; size < COUNT_OF(sizes); size++)
            for (int way = 0; way < 4; way++) {
                const png_kind kind = { .width = sizes[size][0],
                                        .height = sizes[size][1],
                                        .depth = png_kinds[i].depth,
                                        .colour = png_kinds[i].colour,
                                        .interlaced = way & 1,
                                        .says = way & 2 };
                check_png(ctx, &kind);
            }
    lnt_ctx_destroy(ctx);
}

static void png_files_that_are_cut_or_changed_give_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(png_kinds); i += 3) {
        const png_kind kind = { .width = 5,
                                .height = 6,
                                .depth = png_kinds[i].depth,
                                .colour = png_kinds[i].colour,
                                .interlaced = i & 1,
                                .says = true };
        uint16_t samples[SAMPLES];
        fill_samples(&kind, 3, samples);
        buffer file = png_file(&kind, samples);
        damage(ctx, &file, 1);
        buffer_free(&file);
    }
    lnt_ctx_destroy(ctx);
}

/* No memory is taken for pixels that a file cannot hold. */
static void png_files_that_lie_about_their_size_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height;
        const char *says;
    } lies[] = { { 0x7fffffff, 0x7fffffff, "has 2147483647 x 2147483647 pixels, may have 268435456 in all" },
                 { 0x7fffffff, 1, "and 1048576 a side" },
                 { 1 << 20, 1 << 20, "has 1048576 x 1048576 pixels" },
                 { 1 << 14, 1 << 14, "says 16384 x 16384 pixels, which its" },
                 { 0x80000000, 4, "cannot be read as PNG" },
                 { 4, 7, "cannot be read as PNG" } };
    const uint16_t samples[16] = { 0 };
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    for (int i = 0; i < COUNT_OF(lies); i++) {
        const png_kind kind = {
            .width = 4, .height = 4, .depth = 8, .said_width = lies[i].width, .said_height = lies[i].height
        };
        lnt_image image;
        buffer file = png_file(&kind, samples);
        assert_refused(ctx, lnt_image_decode(ctx, "t.png", file.data, file.used, &image),
                       i < 3 ? LNT_ERR_UNSUPPORTED : LNT_ERR_FORMAT, lies[i].says);
        buffer_free(&file);
    }
    assert_true(track.peak_bytes < 1 << 16);
    context_close_tracked(ctx, &track);
}
#else
static void png_files_are_refused_without_libpng(void **state)
{
    (void)state;
    const png_kind kind = { .width = 1, .height = 1, .depth = 8 };
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_image image;
    buffer file = png_file(&kind, (const uint16_t[]){ 7 });
    assert_refused(ctx, lnt_image_decode(ctx, "t.png", file.data, file.used, &image), LNT_ERR_UNSUPPORTED,
                   "'t.png': is a PNG file, and Linnet was built without libpng (package libpng-dev)");
    buffer_free(&file);
    lnt_ctx_destroy(ctx);
}
#endif

/* ---- JPEG ---------------------------------------------------------------------------------- */

#ifdef LNT_JPEG
/* Smooth, so that what the format drops is little. */
static void fill_waves(const jpeg_kind *kind, unsigned char *samples)
{
    for (size_t y = 0; y < kind->height; y++)
        for (size_t x = 0; x < kind->width; x++)
            for (int c = 0; c < kind->channels; c++)
                *samples++ =
                    (unsigned char)(128 + 60 * sin(0.2 * (double)x + c) + 50 * cos(0.15 * (double)y - c));
}

/* Number c of a pixel, of inks that are inverted: light that cyan leaves, and black then. */
static double light_of(const jpeg_kind *kind, const unsigned char *pixel, int c)
{
    if (kind->channels == 1) return pixel[0];
    return kind->channels == 3 ? pixel[c] : pixel[c] * pixel[3] / 255.0;
}

/* How far pixels are from those that the file was made of. */
static double worst(const jpeg_kind *kind, const unsigned char *samples, const lnt_image *image)
{
    double most = 0;
    for (size_t i = 0; i < image->width * image->height; i++)
        for (int c = 0; c < 3; c++)
            most = fmax(most, fabs(image->rgb[3 * i + (size_t)c] -
                                   light_of(kind, samples + i * (size_t)kind->channels, c)));
    return most;
}

static const jpeg_kind jpeg_kinds[] = {
    { .width = 29, .height = 21, .channels = 3, .quality = 100 },
    { .width = 29, .height = 21, .channels = 1, .quality = 100 },
    { .width = 29, .height = 21, .channels = 4, .quality = 100 },
    { .width = 29, .height = 21, .channels = 3, .quality = 100, .progressive = true },
    { .width = 29, .height = 21, .channels = 3, .quality = 100, .halved = true },
    { .width = 29, .height = 21, .channels = 3, .quality = 95, .restart = 1, .halved = true },
    { .width = 1, .height = 1, .channels = 1, .quality = 100 },
};

static void jpeg_files_of_every_kind_have_their_pixels(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(jpeg_kinds); i++) {
        unsigned char samples[29 * 21 * 4];
        lnt_image image;
        fill_waves(&jpeg_kinds[i], samples);
        buffer file = jpeg_file(&jpeg_kinds[i], samples);
        assert_ok(ctx, lnt_image_decode(ctx, "t.jpg", file.data, file.used, &image));
        assert_int_equal(image.width, jpeg_kinds[i].width);
        assert_int_equal(image.height, jpeg_kinds[i].height);
        assert_true(worst(&jpeg_kinds[i], samples, &image) < (jpeg_kinds[i].halved ? 16 : 4));
        lnt_image_close(ctx, &image);
        buffer_free(&file);
    }
    lnt_ctx_destroy(ctx);
}

static void jpeg_files_that_are_cut_or_changed_give_a_sentence(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int i = 0; i < COUNT_OF(jpeg_kinds); i++) {
        unsigned char samples[29 * 21 * 4];
        jpeg_kind kind = jpeg_kinds[i];
        kind.orientation = 6;
        fill_waves(&kind, samples);
        buffer file = jpeg_file(&kind, samples);
        damage(ctx, &file, (size_t)budget(7, 2));
        buffer_free(&file);
    }
    lnt_ctx_destroy(ctx);
}

static void jpeg_files_that_lie_about_their_size_are_refused(void **state)
{
    (void)state;
    tracker track;
    lnt_ctx *ctx = context_tracked(&track, 1, NULL);
    for (int i = 0; i < 2; i++) {
        const unsigned char samples[64] = { 0 };
        const jpeg_kind kind = { .width = 8, .height = 8, .channels = 1, .quality = 50, .progressive = i };
        lnt_image image;
        buffer file = jpeg_file(&kind, samples);
        unsigned char *size = memmem(file.data, file.used, "\0\x0b\x08\0\x08\0\x08", 7);
        assert_non_null(size); /* of the frame: height and width behind its length and its bits */
        memcpy(size + 3, "\x30\0\x30\0", 4);
        assert_refused(ctx, lnt_image_decode(ctx, "t.jpg", file.data, file.used, &image), LNT_ERR_FORMAT,
                       "says 12288 x 12288 pixels, which its");
        memcpy(size + 3, "\xff\xdc\xff\xdc", 4);
        assert_refused(ctx, lnt_image_decode(ctx, "t.jpg", file.data, file.used, &image), LNT_ERR_UNSUPPORTED,
                       "has 65500 x 65500 pixels");
        memcpy(size + 3, "\0\x10\0\x08", 4); /* twice as high as there are blocks for */
        assert_int_not_equal(try(ctx, file.data, file.used), LNT_OK);
        buffer_free(&file);
    }
    assert_true(track.peak_bytes < 1 << 16);
    context_close_tracked(ctx, &track);
}

/* The corner that is bright when the picture is upright, of one that lies by each of the eight orientations.
 */
static void photographs_are_turned_upright(void **state)
{
    (void)state;
    static const struct {
        size_t x, y; /* of the bright block of 4 x 2 in the file */
    } at[] = { { 0, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 }, { 0, 0 }, { 0, 1 }, { 1, 1 }, { 1, 0 } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int orientation = 1; orientation <= 8; orientation++)
        for (int big = 0; big < 2; big++) {
            unsigned char samples[16 * 32] = { 0 };
            const jpeg_kind kind = { .width = 32,
                                     .height = 16,
                                     .channels = 1,
                                     .quality = 90,
                                     .orientation = orientation,
                                     .big = big };
            for (size_t y = 0; y < 8; y++)
                memset(samples + (at[orientation - 1].y * 8 + y) * 32 + at[orientation - 1].x * 16, 200, 16);
            lnt_image image;
            buffer file = jpeg_file(&kind, samples);
            assert_ok(ctx, lnt_image_decode(ctx, "t.jpg", file.data, file.used, &image));
            assert_int_equal(image.width, orientation < 5 ? 32 : 16);
            assert_int_equal(image.height, orientation < 5 ? 16 : 32);
            for (size_t y = 0; y < image.height; y++)
                for (size_t x = 0; x < image.width; x++) {
                    const bool bright = x < image.width / 2 && y < image.height / 2;
                    assert_in_range(image.rgb[3 * (y * image.width + x)], bright ? 190 : 0,
                                    bright ? 210 : 10);
                }
            lnt_image_close(ctx, &image);
            buffer_free(&file);
        }
    lnt_ctx_destroy(ctx);
}
#else
static void jpeg_files_are_refused_without_libjpeg(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_image image;
    assert_refused(
        ctx, lnt_image_decode(ctx, "t.jpg", "\xff\xd8\xff\xe0", 4, &image), LNT_ERR_UNSUPPORTED,
        "'t.jpg': is a JPEG file, and Linnet was built without libjpeg-turbo (package libjpeg62-turbo-dev)");
    lnt_ctx_destroy(ctx);
}
#endif

/* The orientation that pixels are turned by, on its own: what is up may not be where a file says so. */
static void orientations_that_are_damaged_say_nothing(void **state)
{
    (void)state;
    static const unsigned char whole[] = "\xff\xd8\xff\xe1\0\x22"
                                         "Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0";
    assert_int_equal(lnt_exif_orientation(whole, sizeof whole), 6);
    for (size_t bytes = 0; bytes < sizeof whole; bytes++) {
        unsigned char *copy = exact_copy(whole, bytes);
        assert_int_equal(lnt_exif_orientation(copy, bytes), 1);
        free(copy);
    }
    for (size_t at = 0; at < sizeof whole; at++)
        for (int value = 0; value < 256; value++) {
            unsigned char *copy = exact_copy(whole, sizeof whole);
            copy[at] = (unsigned char)value;
            assert_in_range(lnt_exif_orientation(copy, sizeof whole), 1, 8);
            free(copy);
        }
}

/* ---- what is no image ---------------------------------------------------------------------- */

static void what_is_no_image_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_image image = { .width = 1 };
    assert_refused(ctx, lnt_image_decode(ctx, "t", "GIF89a", 6, &image), LNT_ERR_FORMAT,
                   "'t': is neither a PNG nor a JPEG file");
    assert_null(image.rgb);
    assert_refused(ctx, lnt_image_decode(ctx, "t", "\x89P", 2, &image), LNT_ERR_FORMAT, "neither");
    assert_refused(ctx, lnt_image_read(ctx, "absent", &image), LNT_ERR_FILE, "'absent'");
    assert_refused(ctx, lnt_image_read(ctx, ".", &image), LNT_ERR_FILE, "Is a directory");
    put_file("t.png", "", 0);
    assert_refused(ctx, lnt_image_read(ctx, "t.png", &image), LNT_ERR_FORMAT, "neither");
    unlink("t.png");
    lnt_ctx_destroy(ctx);
}

/* ---- another size -------------------------------------------------------------------------- */

static double weight(lnt_filter filter, double x)
{
    x = fabs(x);
    if (filter == LNT_FILTER_BILINEAR) return fmax(0, 1 - x);
    return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* Number i of m that n become, of every `step`-th, over all of them. */
static double mixed(lnt_filter filter, const double *from, size_t step, size_t n, size_t m, size_t i)
{
    const double ratio = (double)n / (double)m, centre = ((double)i + 0.5) * ratio;
    double sum = 0, all = 0;
    for (size_t j = 0; j < n; j++) {
        const double w = weight(filter, ((double)j + 0.5 - centre) / fmax(1, ratio));
        all += w;
        sum += w * from[j * step];
    }
    return fmin(255, fmax(0, sum / all));
}

/* The formula, without rounding between the two ways. */
static double wanted(lnt_filter filter, const lnt_image *in, const lnt_image *out, size_t x, size_t y,
                     size_t c)
{
    double column[64], row[64];
    for (size_t j = 0; j < in->height; j++) {
        for (size_t i = 0; i < in->width; i++) row[i] = in->rgb[(j * in->width + i) * 3 + c];
        column[j] = mixed(filter, row, 1, in->width, out->width, x);
    }
    return mixed(filter, column, 1, in->height, out->height, y);
}

static void check_size(lnt_ctx *ctx, lnt_filter filter, const size_t from[2], const size_t to[2])
{
    dice d = { 4 };
    lnt_image in, out;
    assert_ok(ctx, lnt_image_open(ctx, from[0], from[1], &in));
    for (size_t i = 0; i < from[0] * from[1] * 3; i++) in.rgb[i] = (unsigned char)dice_range(&d, 0, 255);
    assert_ok(ctx, lnt_image_resize(ctx, &in, to[0], to[1], filter, &out));
    assert_int_equal(out.width, to[0]);
    assert_int_equal(out.height, to[1]);
    for (size_t y = 0; y < to[1]; y++)
        for (size_t x = 0; x < to[0]; x++)
            for (size_t c = 0; c < 3; c++)
                assert_true(fabs(out.rgb[(y * to[0] + x) * 3 + c] - wanted(filter, &in, &out, x, y, c)) <
                            1.2);
    if (from[0] == to[0] && from[1] == to[1]) assert_memory_equal(in.rgb, out.rgb, from[0] * from[1] * 3);
    lnt_image_close(ctx, &in);
    lnt_image_close(ctx, &out);
}

static void images_in_another_size_are_as_the_formula_says(void **state)
{
    (void)state;
    static const size_t sizes[][2] = { { 40, 24 }, { 24, 40 }, { 7, 61 }, { 1, 1 }, { 13, 13 }, { 2, 50 } };
    lnt_ctx *ctx = context_new(1, NULL);
    for (int from = 0; from < COUNT_OF(sizes); from++)
        for (int to = 0; to < COUNT_OF(sizes); to++) {
            check_size(ctx, LNT_FILTER_BILINEAR, sizes[from], sizes[to]);
            check_size(ctx, LNT_FILTER_BICUBIC, sizes[from], sizes[to]);
        }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef LNT_PNG
        cmocka_unit_test(png_files_of_every_kind_have_their_pixels),
        cmocka_unit_test(png_files_that_are_cut_or_changed_give_a_sentence),
        cmocka_unit_test(png_files_that_lie_about_their_size_are_refused),
#else
        cmocka_unit_test(png_files_are_refused_without_libpng),
#endif
#ifdef LNT_JPEG
        cmocka_unit_test(jpeg_files_of_every_kind_have_their_pixels),
        cmocka_unit_test(jpeg_files_that_are_cut_or_changed_give_a_sentence),
        cmocka_unit_test(jpeg_files_that_lie_about_their_size_are_refused),
        cmocka_unit_test(photographs_are_turned_upright),
#else
        cmocka_unit_test(jpeg_files_are_refused_without_libjpeg),
#endif
        cmocka_unit_test(orientations_that_are_damaged_say_nothing),
        cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(images_in_another_size_are_as_the_formula_says),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
