/* task/content.c - reads a file whole; zlib unpacks what gzip has packed, and compares its checksum. */
#include "task/content.h"

#include <string.h>
#ifdef LNT_ZLIB
#include <limits.h>
#include <zlib.h>
#endif

#include "io/file.h"

enum { LEAST = 18 }; /* bytes of a gzip file: a header of 10, a trailer of 8 */

static lnt_status allocate(lnt_ctx *ctx, size_t bytes, lnt_content *out)
{
    *out = (lnt_content){ lnt_allocate(ctx, bytes + 1, "the content of a file"), bytes };
    if (!out->data) return LNT_ERR_MEMORY;
    out->data[bytes] = '\0';
    return LNT_OK;
}

void lnt_content_free(lnt_ctx *ctx, lnt_content *content)
{
    lnt_release(ctx, content->data, content->bytes + 1);
    *content = (lnt_content){ 0 };
}

static lnt_status read_plain(lnt_ctx *ctx, const char *path, lnt_content *out)
{
    lnt_file_reader reader;
    lnt_status status = lnt_file_open(ctx, path, &reader);
    if (status) return status;
    if (reader.size > SIZE_MAX / 2)
        status = lnt_fail(ctx, LNT_ERR_FILE, "cannot read " LNT_FILE_FMT ": it is too large", path);
    else status = allocate(ctx, (size_t)reader.size, out);
    if (!status) status = lnt_file_read(&reader, out->data, out->bytes);
    lnt_file_close(&reader);
    if (status) lnt_content_free(ctx, out);
    return status;
}

#ifdef LNT_ZLIB
/* zlib's memory is the context's; how much it is stands before it. */
static void *take(void *ctx, uInt count, uInt size)
{
    size_t bytes = 0;
    const bool fits = lnt_size_product(count, size, 1, &bytes) && bytes < SIZE_MAX - LNT_ALIGN;
    size_t *block = fits ? lnt_allocate(ctx, LNT_ALIGN + bytes, "what zlib needs") : NULL;
    if (!block) return NULL;
    *block = LNT_ALIGN + bytes;
    return (char *)block + LNT_ALIGN;
}

static void give(void *ctx, void *memory)
{
    void *block = (char *)memory - LNT_ALIGN;
    lnt_release(ctx, block, *(size_t *)block);
}

/* The first `used` of its bytes stay. */
static lnt_status resize(lnt_ctx *ctx, lnt_content *content, size_t used, size_t bytes)
{
    lnt_content other;
    const lnt_status status = allocate(ctx, bytes, &other);
    if (status) return status;
    memcpy(other.data, content->data, used);
    lnt_content_free(ctx, content);
    *content = other;
    return LNT_OK;
}

static uInt part(size_t bytes) { return bytes < UINT_MAX ? (uInt)bytes : UINT_MAX; }

/* Member by member, of which most files have one. */
static lnt_status unpack_into(lnt_ctx *ctx, const char *path, z_stream *z, const lnt_content *packed,
                              lnt_content *out)
{
    size_t at = 0, used = 0;
    lnt_status status = LNT_OK;
    for (int said = Z_OK; !status && (said != Z_STREAM_END || at < packed->bytes);) {
        if (said == Z_STREAM_END) inflateReset(z);
        const uInt left = part(packed->bytes - at), room = part(out->bytes - used);
        z->next_in = (Bytef *)packed->data + at;
        z->next_out = (Bytef *)out->data + used;
        z->avail_in = left;
        z->avail_out = room;
        said = inflate(z, Z_NO_FLUSH);
        at += left - z->avail_in;
        used += room - z->avail_out;
        if (said == Z_OK || said == Z_STREAM_END) continue;
        if (said == Z_MEM_ERROR) status = LNT_ERR_MEMORY;
        else if (said == Z_BUF_ERROR && !room)
            status = resize(ctx, out, used, 2 * out->bytes + 4 * (packed->bytes - at) + LEAST);
        else status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": its gzip content is broken", path);
    }
    return status || used == out->bytes ? status : resize(ctx, out, used, used);
}

static lnt_status unpack(lnt_ctx *ctx, const char *path, lnt_content *content)
{
    const unsigned char *last = (const unsigned char *)content->data + content->bytes - 4;
    uint32_t size = 0;
    for (int i = 3; i >= 0; i--) size = size << 8 | last[i];
    if (size / 1032 > content->bytes) /* what deflate can make of so few bytes */
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": its gzip size is impossible", path);
    lnt_content out;
    lnt_status status = allocate(ctx, size, &out);
    if (status) return status;
    z_stream z = { .zalloc = take, .zfree = give, .opaque = ctx };
    status = inflateInit2(&z, 16 + MAX_WBITS) == Z_OK ? unpack_into(ctx, path, &z, content, &out)
                                                     : LNT_ERR_MEMORY;
    inflateEnd(&z);
    lnt_content_free(ctx, status ? &out : content);
    if (!status) *content = out;
    return status;
}
#else
static lnt_status unpack(lnt_ctx *ctx, const char *path, lnt_content *content)
{
    (void)content;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    LNT_FILE_FMT ": it is packed by gzip, and this library was built without zlib; "
                    "unpack it, or install zlib1g-dev and build again",
                    path);
}
#endif

lnt_status lnt_content_read(lnt_ctx *ctx, const char *path, lnt_content *out)
{
    *out = (lnt_content){ 0 };
    lnt_status status = read_plain(ctx, path, out);
    if (status || out->bytes < LEAST || memcmp(out->data, "\x1f\x8b", 2) != 0) return status;
    status = unpack(ctx, path, out);
    if (status) lnt_content_free(ctx, out);
    return status;
}
