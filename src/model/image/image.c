/* model/image/image.c - see image.h. */
#include "model/image/image.h"

#include <string.h>

#include "io/file.h"

enum { FILE_BYTES = 1 << 30 };

lnt_status lnt_image_open(lnt_ctx *ctx, size_t width, size_t height, lnt_image *out)
{
    *out = (lnt_image){ .width = width, .height = height };
    out->rgb = lnt_allocate(ctx, width * height * LNT_IMAGE_COLOURS, "the pixels of an image");
    return out->rgb ? LNT_OK : LNT_ERR_MEMORY;
}

void lnt_image_close(lnt_ctx *ctx, lnt_image *image)
{
    lnt_release(ctx, image->rgb, image->width * image->height * LNT_IMAGE_COLOURS);
    *image = (lnt_image){ 0 };
}

lnt_status lnt_image_make_room(const lnt_image_source *from, uint64_t width, uint64_t height, uint64_t each,
                               lnt_image *out)
{
    if (width < 1 || height < 1 || width > LNT_IMAGE_SIDE || height > LNT_IMAGE_SIDE ||
        width * height > LNT_IMAGE_PIXELS)
        return lnt_fail(from->ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": has %llu x %llu pixels, may have %d in all, and %d a side",
                        from->path, (unsigned long long)width, (unsigned long long)height, LNT_IMAGE_PIXELS,
                        LNT_IMAGE_SIDE);
    if (width * height / each > from->bytes)
        return lnt_fail(from->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": says %llu x %llu pixels, which its %zu bytes cannot hold", from->path,
                        (unsigned long long)width, (unsigned long long)height, from->bytes);
    return lnt_image_open(from->ctx, (size_t)width, (size_t)height, out);
}

lnt_status lnt_image_refuse(const lnt_image_source *from, const char *what, const char *reason)
{
    return lnt_fail(from->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": cannot be read as %s: %s", from->path, what,
                    reason);
}

lnt_status lnt_image_decode(lnt_ctx *ctx, const char *path, const void *data, size_t bytes, lnt_image *out)
{
    static const unsigned char png[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' },
                               jpeg[] = { 0xff, 0xd8, 0xff };
    const lnt_image_source from = { .ctx = ctx, .path = path, .data = data, .bytes = bytes };
    lnt_status status;
    *out = (lnt_image){ 0 };
    if (bytes >= sizeof png && memcmp(data, png, sizeof png) == 0)
        status = lnt_png_read(&from, out);
    else if (bytes >= sizeof jpeg && memcmp(data, jpeg, sizeof jpeg) == 0)
        status = lnt_jpeg_read(&from, out);
    else
        status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is neither a PNG nor a JPEG file", path);
    if (status) lnt_image_close(ctx, out);
    return status;
}

lnt_status lnt_image_read(lnt_ctx *ctx, const char *path, lnt_image *out)
{
    lnt_file_reader reader;
    *out = (lnt_image){ 0 };
    lnt_status status = lnt_file_open(ctx, path, &reader);
    if (status) return status;
    if (reader.size > FILE_BYTES)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, LNT_FILE_FMT ": has %llu bytes, an image may have %d",
                          path, (unsigned long long)reader.size, FILE_BYTES);
    const size_t bytes = (size_t)reader.size;
    void *data = status ? NULL : lnt_allocate(ctx, bytes, "an image file");
    if (!status && !data) status = LNT_ERR_MEMORY;
    if (!status) status = lnt_file_read(&reader, data, bytes);
    if (!status) status = lnt_image_decode(ctx, path, data, bytes, out);
    lnt_release(ctx, data, bytes);
    lnt_file_close(&reader);
    return status;
}
