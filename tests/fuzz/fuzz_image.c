/* fuzz_image.c - the input is a PNG or JPEG file: it is read, and brought to another size. */
#include "fuzz.h"
#include "model/image/resize.h"

/* Of a longer one more memory may be taken than tools/fuzz.sh allows: a byte may be 1032 of pixels. */
enum { MOST = 16384 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    lnt_image image, small;
    if (size > MOST) return 0;
    const lnt_status status = lnt_image_read(ctx, fuzz_file(data, size), &image);
    fuzz_check(status);
    if (status) return 0;
    fuzz_touch(image.rgb, image.width * image.height * LNT_IMAGE_COLOURS);
    fuzz_check(
        lnt_image_resize(ctx, &image, 5, 7, size % 2 ? LNT_FILTER_BICUBIC : LNT_FILTER_BILINEAR, &small));
    fuzz_touch(small.rgb, 5 * 7 * LNT_IMAGE_COLOURS);
    lnt_image_close(ctx, &small);
    lnt_image_close(ctx, &image);
    return 0;
}
