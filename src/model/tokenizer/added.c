/* model/tokenizer/added.c - see added.h. */
#include "model/tokenizer/added.h"

#include <string.h>

#include "model/tokenizer/unicode.h"

lnt_status lnt_added_open(lnt_pool *pool, lnt_added *a)
{
    size_t bytes = 1;
    for (size_t i = 0; i < a->count; i++) bytes += a->token[i].text.bytes;
    if (bytes > UINT32_MAX / 2)
        return lnt_fail(pool->ctx, LNT_ERR_FORMAT, "tokenizer: %zu bytes of added tokens", bytes);
    a->node = lnt_pool_take(pool, bytes * sizeof *a->node);
    if (!a->node) return LNT_ERR_MEMORY;
    a->nodes = 1;
    for (size_t i = 0; i < a->count; i++) {
        const lnt_text t = a->token[i].text;
        uint32_t at = 0;
        for (size_t k = 0; k < t.bytes; k++) {
            uint32_t child = a->node[at].child;
            while (child && a->node[child].byte != (unsigned char)t.text[k]) child = a->node[child].next;
            if (!child) {
                child = (uint32_t)a->nodes++;
                a->node[child] =
                    (lnt_added_node){ .next = a->node[at].child, .byte = (unsigned char)t.text[k] };
                a->node[at].child = child;
            }
            at = child;
        }
        if (at) a->node[at].token = (uint32_t)i + 1;
        if (at) a->begins[(unsigned char)t.text[0]] = true;
    }
    return LNT_OK;
}

/* The longest token that text begins with; NULL: none. */
static const lnt_added_token *longest(const lnt_added *a, const char *text, size_t bytes)
{
    const lnt_added_token *best = NULL;
    uint32_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t child = a->node[at].child;
        while (child && a->node[child].byte != (unsigned char)text[i]) child = a->node[child].next;
        if (!child) break;
        at = child;
        if (a->node[at].token) best = &a->token[a->node[at].token - 1];
    }
    return best;
}

bool lnt_added_begins_special(const lnt_added *a, const char *text, size_t bytes)
{
    uint32_t at = 0;
    if (!bytes || !a->count || !a->begins[(unsigned char)text[0]]) return false;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t child = a->node[at].child;
        while (child && a->node[child].byte != (unsigned char)text[i]) child = a->node[child].next;
        if (!child) break;
        at = child;
        if (a->node[at].token && a->token[a->node[at].token - 1].special) return true;
    }
    return false;
}

int32_t lnt_added_exactly(const lnt_added *a, const char *text, size_t bytes)
{
    const lnt_added_token *t = a->count ? longest(a, text, bytes) : NULL;
    return t && t->text.bytes == bytes ? t->token : LNT_NO_TOKEN;
}

static bool within_word(const char *text, size_t bytes, size_t start, size_t end)
{
    return (start && lnt_unicode_is_word(lnt_utf8_before(text, start))) ||
           (end < bytes && lnt_unicode_is_word(lnt_utf8_at(text + end)));
}

static size_t space_before(const char *text, size_t start, size_t least)
{
    while (start > least) {
        size_t at = start - 1;
        while (at > least && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
        if (!lnt_unicode_is_white(lnt_utf8_at(text + at))) break;
        start = at;
    }
    return start;
}

static size_t space_behind(const char *text, size_t bytes, size_t end)
{
    while (end < bytes && lnt_unicode_is_white(lnt_utf8_at(text + end))) end += lnt_utf8_bytes(text + end);
    return end;
}

static lnt_status put(lnt_ctx *ctx, lnt_added_match m, lnt_added_match **match, size_t *room, size_t *count)
{
    if (m.start >= m.end) return LNT_OK;
    const lnt_status status = lnt_grow(ctx, match, room, *count + 1, sizeof **match);
    if (!status) (*match)[(*count)++] = m;
    return status;
}

lnt_status lnt_added_find(lnt_ctx *ctx, const lnt_added *a, const char *text, size_t bytes,
                          lnt_added_bars bars, lnt_added_match **match, size_t *room, size_t *count)
{
    size_t done = 0; /* what is before is in a match */
    size_t bar = 0;  /* those before are behind */
    lnt_status status = LNT_OK;
    *count = 0;
    for (size_t at = 0; !status && a->count && at < bytes;) {
        const lnt_added_token *t =
            a->begins[(unsigned char)text[at]] ? longest(a, text + at, bytes - at) : NULL;
        if (!t) {
            at++;
            continue;
        }
        size_t start = at, end = at + t->text.bytes;
        while (bar < bars.bars && bars.bar[bar] < start) bar++;
        if (t->special && bar < bars.bars && bars.bar[bar] < end) {
            at++;
            continue;
        }
        at = end;
        if (bars.verbatim && t->special) continue;
        if (t->single_word && within_word(text, bytes, start, end)) continue;
        if (t->lstrip) start = space_before(text, start, done);
        if (start < done) start = done;
        if (t->rstrip) end = space_behind(text, bytes, end);
        status = put(ctx, (lnt_added_match){ done, start, LNT_NO_TOKEN }, match, room, count);
        if (!status) status = put(ctx, (lnt_added_match){ start, end, t->token }, match, room, count);
        if (end > done) done = end;
    }
    return status ? status : put(ctx, (lnt_added_match){ done, bytes, LNT_NO_TOKEN }, match, room, count);
}
