/* model/tokenizer/vocab.c - see vocab.h. */
#include "model/tokenizer/vocab.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"

enum { PROBES = 1000 }; /* of a good table of this filling: a few dozen */

lnt_status lnt_vocab_open(lnt_pool *pool, const char *path, size_t count, lnt_vocab *out)
{
    *out = (lnt_vocab){ .pool = pool, .path = path, .count = count, .slots = 64 };
    if (count > INT32_MAX / 4)
        return lnt_fail(pool->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: %zu tokens, at most %d", path,
                        count, INT32_MAX / 4);
    while (out->slots < 2 * count) out->slots *= 2;
    out->token = lnt_pool_take(pool, count * sizeof *out->token);
    out->score = lnt_pool_take(pool, count * sizeof *out->score);
    out->special = lnt_pool_take(pool, count * sizeof *out->special);
    out->slot = lnt_pool_take(pool, out->slots * sizeof *out->slot);
    for (int i = 0; i < 256; i++) out->byte[i] = LNT_NO_TOKEN;
    return out->token && out->score && out->special && out->slot ? LNT_OK : LNT_ERR_MEMORY;
}

lnt_status lnt_vocab_set(lnt_vocab *v, int64_t token, const char *text, size_t bytes)
{
    if (token < 0 || (uint64_t)token >= v->count)
        return lnt_fail(v->pool->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: token number %lld, must be 0 to %zu", v->path,
                        (long long)token, v->count - 1);
    if (v->token[token].text)
        return lnt_fail(v->pool->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: two tokens have the number %lld", v->path,
                        (long long)token);
    return lnt_pool_text(v->pool, text, bytes, &v->token[token]);
}

static size_t hash(const lnt_vocab *v, const char *text, size_t bytes)
{
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15) ^ bytes;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, text + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    return (size_t)(h & (v->slots - 1));
}

static bool same(lnt_text a, const char *text, size_t bytes)
{
    return a.bytes == bytes && memcmp(a.text, text, bytes) == 0;
}

lnt_status lnt_vocab_index(lnt_vocab *v, int32_t token, bool takes)
{
    const lnt_text t = v->token[token];
    size_t s = hash(v, t.text, t.bytes);
    for (int probes = 0; v->slot[s]; s = (s + 1) & (v->slots - 1), probes++) {
        const bool known = same(v->token[v->slot[s] - 1], t.text, t.bytes);
        if (known && takes) break;
        if (known)
            return lnt_fail(v->pool->ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": tokenizer: tokens %u and %d have the same spelling", v->path,
                            v->slot[s] - 1, token);
        if (probes == PROBES) /* made so that finding one would take for ever */
            return lnt_fail(v->pool->ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": tokenizer: over %d tokens share a place in a table", v->path,
                            PROBES);
    }
    v->slot[s] = (uint32_t)token + 1;
    if (t.bytes > v->longest) v->longest = t.bytes;
    return LNT_OK;
}

int32_t lnt_vocab_find(const lnt_vocab *v, const char *text, size_t bytes)
{
    if (bytes > v->longest || !v->slots) return LNT_NO_TOKEN;
    for (size_t s = hash(v, text, bytes); v->slot[s]; s = (s + 1) & (v->slots - 1))
        if (same(v->token[v->slot[s] - 1], text, bytes)) return (int32_t)(v->slot[s] - 1);
    return LNT_NO_TOKEN;
}

void lnt_vocab_find_bytes(lnt_vocab *v)
{
    for (int i = 0; i < 256; i++) {
        char spelling[8];
        snprintf(spelling, sizeof spelling, "<0x%02X>", (unsigned)i);
        v->byte[i] = lnt_vocab_find(v, spelling, 6);
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int lnt_byte_token(lnt_text t)
{
    if (t.bytes != 6 || memcmp(t.text, "<0x", 3) != 0 || t.text[5] != '>') return -1;
    const int high = hex(t.text[3]), low = hex(t.text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}
