/* model/tokenizer/wordpiece.c - WordPiece: the longest token that begins a word, then the longest piece that
 * goes on, marked by a prefix ("##"); a word that does not come out is unknown.
 *
 * O(c L) look-ups for a word of c characters, at most a hundred or so, and tokens of at most L. */
#include <string.h>

#include "model/tokenizer/inside.h"

static size_t characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i += lnt_utf8_bytes(text + i)) count++;
    return count;
}

/* The longest token of word[at ...): its bytes, or 0. */
static lnt_status longest(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes, size_t at,
                          lnt_scratch *s, int32_t *token, size_t *found)
{
    const lnt_text prefix = at ? codec->wordpiece.prefix : (lnt_text){ "", 0 };
    s->piece.count = 0;
    lnt_status status = lnt_chars_put(ctx, &s->piece, prefix.text, prefix.bytes);
    if (!status) status = lnt_chars_put(ctx, &s->piece, word + at, bytes - at);
    *found = 0;
    for (size_t n = bytes - at; !status && n;) {
        *token = lnt_vocab_find(&codec->vocab, s->piece.text, prefix.bytes + n);
        if (*token != LNT_NO_TOKEN) return *found = n, LNT_OK;
        while (--n && ((unsigned char)word[at + n] & 0xc0) == 0x80)
            continue; /* to where a character begins */
    }
    return status;
}

static lnt_status encode(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes, lnt_scratch *s,
                         lnt_tokens *out)
{
    const size_t before = out->count;
    const bool long_word =
        bytes > 4 * codec->wordpiece.most || characters(word, bytes) > codec->wordpiece.most;
    lnt_status status = LNT_OK;
    bool known = !long_word;
    for (size_t at = 0; !status && known && at < bytes;) {
        size_t found;
        int32_t token = LNT_NO_TOKEN;
        status = longest(ctx, codec, word, bytes, at, s, &token, &found);
        if (!status && found) status = lnt_tokens_put(ctx, out, token);
        known = found > 0;
        at += found;
    }
    if (status || known) return status;
    out->count = before;
    return lnt_tokens_put(ctx, out, codec->unknown);
}

const lnt_codec_kind lnt_codec_wordpiece = { .name = "wordpiece", .encode = encode };
