/* model/quoted.c - see quoted.h.  O(bytes of the contents) times the length of the longest special token. */
#include "model/quoted.h"

#include <string.h>

#define MARK "\xef\xb7\x90" /* U+FDD0 */
enum { MARK_BYTES = 3 };

static size_t character(const char *text, size_t bytes)
{
    size_t n = 1;
    while (n < bytes && ((unsigned char)text[n] & 0xc0) == 0x80) n++;
    return n;
}

/* Of marks that text begins with. */
static size_t run_of(const char *text, size_t bytes)
{
    size_t n = 0;
    while (bytes - n * MARK_BYTES >= MARK_BYTES && memcmp(text + n * MARK_BYTES, MARK, MARK_BYTES) == 0) n++;
    return n;
}

static size_t longest_run(const char *text, size_t bytes)
{
    size_t most = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t run = run_of(text + at, bytes - at);
        if (run > most) most = run;
        at += run ? run * MARK_BYTES : 1;
    }
    return most;
}

static size_t count_special(const lnt_codec *codec, const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t at = 0; (at = lnt_codec_next_special(codec, text, bytes, at)) < bytes; at++) count++;
    return count;
}

/* A copy of a content, with a mark in each special token. */
static lnt_status mark(lnt_quoted *q, const lnt_codec *codec, size_t i, size_t special, lnt_chat_message *m)
{
    const size_t bytes = m->content_bytes, all = bytes + special * q->run * MARK_BYTES;
    char *to = q->copy[i].text = lnt_allocate(q->ctx, all + 1, "a message");
    if (!to) return LNT_ERR_MEMORY;
    q->copy[i].bytes = all + 1;
    for (size_t at = 0, next; at < bytes; at = next) {
        const size_t begin = lnt_codec_next_special(codec, m->content, bytes, at);
        next = begin < bytes ? begin + character(m->content + begin, bytes - begin) : bytes;
        memcpy(to, m->content + at, next - at);
        to += next - at;
        for (size_t n = 0; begin < bytes && n < q->run; n++, to += MARK_BYTES) memcpy(to, MARK, MARK_BYTES);
    }
    *to = '\0';
    m->content = q->copy[i].text;
    m->content_bytes = (size_t)(to - m->content);
    return LNT_OK;
}

lnt_status lnt_quoted_open(lnt_ctx *ctx, const lnt_codec *codec, lnt_chat_message *message, size_t count,
                           lnt_quoted *out)
{
    size_t run = 0;
    lnt_status status = LNT_OK;
    *out = (lnt_quoted){ .ctx = ctx, .count = count };
    out->copy = lnt_allocate(ctx, count * sizeof *out->copy, "marked messages");
    if (!out->copy) return LNT_ERR_MEMORY;
    memset(out->copy, 0, count * sizeof *out->copy);
    for (size_t i = 0; i < count; i++) {
        const size_t here = longest_run(message[i].content, message[i].content_bytes);
        if (here > run) run = here;
    }
    for (size_t i = 0; !status && i < count; i++) {
        const size_t special = count_special(codec, message[i].content, message[i].content_bytes);
        if (!special) continue;
        out->run = run + 1;
        status = mark(out, codec, i, special, &message[i]);
    }
    if (status) lnt_quoted_close(out);
    return status;
}

void lnt_quoted_close(lnt_quoted *q)
{
    for (size_t i = 0; i < q->count; i++) lnt_release(q->ctx, q->copy[i].text, q->copy[i].bytes);
    lnt_release(q->ctx, q->copy, q->count * sizeof *q->copy);
    *q = (lnt_quoted){ 0 };
}

/* Takes whole marks out of text, to bytes that are returned; bar NULL: counts alone. */
static size_t strip(const lnt_quoted *q, const char *text, size_t bytes, char *to, size_t *bar, size_t *bars)
{
    size_t used = 0, before = 0; /* before: where the character in front begins */
    *bars = 0;
    for (size_t at = 0; at < bytes;) {
        if (q->run && run_of(text + at, bytes - at) >= q->run) {
            if (bar) bar[*bars] = before;
            ++*bars;
            at += q->run * MARK_BYTES;
            continue;
        }
        const size_t n = character(text + at, bytes - at);
        if (bar) memcpy(to + used, text + at, n);
        before = used;
        used += n;
        at += n;
    }
    return used;
}

lnt_status lnt_quoted_take(const lnt_quoted *q, char **text, size_t *bytes, size_t **bar, size_t *bars)
{
    *bar = NULL;
    const size_t left = strip(q, *text, *bytes, NULL, NULL, bars);
    if (!*bars) return LNT_OK;
    char *to = lnt_allocate(q->ctx, left + 1, "a conversation");
    *bar = lnt_allocate(q->ctx, *bars * sizeof **bar, "the places of quoted tokens");
    if (!to || !*bar) {
        lnt_release(q->ctx, to, left + 1);
        lnt_release(q->ctx, *bar, *bars * sizeof **bar);
        *bar = NULL;
        return LNT_ERR_MEMORY;
    }
    strip(q, *text, *bytes, to, *bar, bars);
    to[left] = '\0';
    lnt_release(q->ctx, *text, *bytes + 1);
    *text = to;
    *bytes = left;
    return LNT_OK;
}
