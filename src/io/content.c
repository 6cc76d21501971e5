/* io/content.c - reads a file whole; a gzip file (RFC 1952) is unpacked and its checksum compared. */
#include "io/content.h"

#include <string.h>

#include "io/file.h"
#include "io/inflate.h"

enum { HEADER = 10, TRAILER = 8 };
static const unsigned char magic[] = { 0x1f, 0x8b, 8 }; /* the last: deflated */
enum { FLAG_CRC = 2, FLAG_EXTRA = 4, FLAG_NAME = 8, FLAG_COMMENT = 16 };

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

static uint32_t little32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* CRC-32 of gzip, a byte at a time: a file is unpacked once. */
static uint32_t crc32(const char *data, size_t bytes)
{
    uint32_t crc = ~UINT32_C(0), table[256];
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int i = 0; i < 8; i++) r = r >> 1 ^ (r & 1 ? UINT32_C(0xedb88320) : 0);
        table[b] = r;
    }
    for (size_t i = 0; i < bytes; i++) crc = crc >> 8 ^ table[(crc ^ (unsigned char)data[i]) & 255];
    return ~crc;
}

/* Past the optional parts of a gzip header; 0 where it is cut off. */
static size_t header_bytes(const unsigned char *p, size_t bytes)
{
    size_t at = HEADER;
    const unsigned char flags = p[3];
    if (flags & FLAG_EXTRA) {
        if (at + 2 > bytes) return 0;
        at += 2 + (size_t)p[at] + ((size_t)p[at + 1] << 8);
    }
    for (int part = FLAG_NAME; part <= FLAG_COMMENT; part *= 2) {
        if (!(flags & part)) continue;
        while (at < bytes && p[at]) at++;
        at++;
    }
    if (flags & FLAG_CRC) at += 2;
    return at + TRAILER <= bytes ? at : 0;
}

/* The member of a gzip file that `p` begins with, as lnt_inflate has it. */
static lnt_inflated unpack_member(const unsigned char *p, size_t bytes, char *out, size_t room,
                                  size_t *read, size_t *made)
{
    const size_t start = bytes < HEADER + TRAILER || memcmp(p, magic, sizeof magic) != 0
                             ? 0 : header_bytes(p, bytes);
    if (!start) return LNT_INFLATE_BROKEN;
    const lnt_inflated how = lnt_inflate(p + start, bytes - start - TRAILER, (unsigned char *)out, room,
                                         read, made);
    const unsigned char *trailer = p + start + *read;
    *read += start + TRAILER;
    if (how != LNT_INFLATE_DONE) return how;
    const bool same = crc32(out, *made) == little32(trailer) && (uint32_t)*made == little32(trailer + 4);
    return same ? LNT_INFLATE_DONE : LNT_INFLATE_BROKEN;
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

/* Member by member, of which most files have one: its size stands at the end. */
static lnt_status unpack_into(lnt_ctx *ctx, const char *path, const lnt_content *packed, lnt_content *out)
{
    const unsigned char *p = (const unsigned char *)packed->data;
    size_t at = 0, used = 0, read = 0, made = 0;
    while (at < packed->bytes) {
        const size_t left = packed->bytes - at;
        lnt_status status = LNT_OK;
        switch (unpack_member(p + at, left, out->data + used, out->bytes - used, &read, &made)) {
        case LNT_INFLATE_DONE:
            at += read;
            used += made;
            break;
        case LNT_INFLATE_FULL: status = resize(ctx, out, used, 2 * out->bytes + 4 * left); break;
        case LNT_INFLATE_BROKEN:
            status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": its gzip content is broken", path);
        }
        if (status) return status;
    }
    return used == out->bytes ? LNT_OK : resize(ctx, out, used, used);
}

static lnt_status unpack(lnt_ctx *ctx, const char *path, lnt_content *content)
{
    const uint32_t size = little32((const unsigned char *)content->data + content->bytes - 4);
    if (size / 1032 > content->bytes) /* what deflate can make of so few bytes */
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": its gzip size is impossible", path);
    lnt_content out;
    lnt_status status = allocate(ctx, size, &out);
    if (status) return status;
    status = unpack_into(ctx, path, content, &out);
    lnt_content_free(ctx, status ? &out : content);
    if (!status) *content = out;
    return status;
}

lnt_status lnt_content_read(lnt_ctx *ctx, const char *path, lnt_content *out)
{
    *out = (lnt_content){ 0 };
    lnt_status status = read_plain(ctx, path, out);
    if (status || out->bytes < HEADER + TRAILER || memcmp(out->data, magic, 2) != 0)
        return status;
    status = unpack(ctx, path, out);
    if (status) lnt_content_free(ctx, out);
    return status;
}
