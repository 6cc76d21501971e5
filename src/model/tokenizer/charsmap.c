/* model/tokenizer/charsmap.c - see charsmap.h.
 *
 * A cluster of fewer than 6 bytes is replaced whole where the trie knows how it begins, else each of its
 * characters is: so does Hugging Face, whose tokens these have to be. */
#include "model/tokenizer/charsmap.h"

#include <string.h>

#include "io/file.h"

#ifdef LNT_UTF8PROC

#include <utf8proc.h>

size_t lnt_grapheme_bytes(const char *text, size_t left)
{
    utf8proc_int32_t state = 0, before, code;
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)text;
    size_t at = lnt_utf8_bytes(text);
    utf8proc_iterate(s, (utf8proc_ssize_t)left, &before);
    while (at < left) {
        utf8proc_iterate(s + at, (utf8proc_ssize_t)(left - at), &code);
        if (utf8proc_grapheme_break_stateful(before, code, &state)) break;
        at += lnt_utf8_bytes(text + at);
        before = code;
    }
    return at;
}

#else

size_t lnt_grapheme_bytes(const char *text, size_t left) { return (void)left, lnt_utf8_bytes(text); }

#endif

static uint32_t little32(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

lnt_status lnt_charsmap_open(lnt_pool *pool, const char *path, lnt_text blob, lnt_charsmap *out)
{
    const size_t trie = blob.bytes >= 4 ? little32(blob.text) : 0;
    if (!trie || trie % 4 || trie > blob.bytes - 4)
        return lnt_fail(pool->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: a precompiled_charsmap of %zu bytes with a trie of %zu",
                        path, blob.bytes, trie);
    *out = (lnt_charsmap){ .units = trie / 4 };
    out->unit = lnt_pool_take(pool, trie);
    if (!out->unit) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < out->units; i++) out->unit[i] = little32(blob.text + 4 + 4 * i);
    return lnt_pool_text(pool, blob.text + 4 + trie, blob.bytes - 4 - trie, &out->normal);
}

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* What stands for the shortest beginning of text that the trie knows; false: it knows none. */
static bool look_up(const lnt_charsmap *map, const char *text, size_t bytes, lnt_text *out)
{
    size_t at = offset_of(map->unit[0]);
    for (size_t i = 0; i < bytes && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        at ^= c;
        if (at >= map->units || (map->unit[at] & (1u << 31 | 0xff)) != c) return false;
        const uint32_t unit = map->unit[at];
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        const size_t place = at < map->units ? map->unit[at] & ~(1u << 31) : SIZE_MAX;
        if (place >= map->normal.bytes) return false;
        const char *normal = map->normal.text + place;
        *out = (lnt_text){ normal, strnlen(normal, map->normal.bytes - place) };
        return true;
    }
    return false;
}

lnt_status lnt_charsmap_apply(lnt_ctx *ctx, const lnt_charsmap *map, const char *text, size_t bytes,
                              lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0, cluster; !status && i < bytes; i += cluster) {
        lnt_text normal;
        cluster = lnt_grapheme_bytes(text + i, bytes - i);
        if (cluster < 6 && look_up(map, text + i, cluster, &normal)) {
            status = lnt_chars_put(ctx, to, normal.text, normal.bytes);
            continue;
        }
        for (size_t k = 0, n; !status && k < cluster; k += n) {
            n = lnt_utf8_bytes(text + i + k);
            if (!look_up(map, text + i + k, n, &normal)) normal = (lnt_text){ text + i + k, n };
            status = lnt_chars_put(ctx, to, normal.text, normal.bytes);
        }
    }
    return status;
}
