/* model/tokenizer/codec.c - see codec.h: the way of a text through a codec, and what a codec knows of its
 * tokens.
 *
 * Time is linear in the text, but for the heap of byte-pair encoding. */
#include "model/tokenizer/codec.h"

#include <string.h>

#include "model/tokenizer/inside.h"

/* ---- making and closing -------------------------------------------------------------------------- */

lnt_status lnt_codec_begin(lnt_ctx *ctx, const char *path, lnt_codec **out)
{
    lnt_codec *c = *out = lnt_allocate(ctx, sizeof *c, "a tokenizer");
    if (!c) return LNT_ERR_MEMORY;
    lnt_text copy;
    *c = (lnt_codec){ .ctx = ctx, .pool = { .ctx = ctx } };
    for (int i = 0; i < LNT_ROLES; i++) c->role[i] = LNT_NO_TOKEN;
    c->unknown = LNT_NO_TOKEN;
    const lnt_status status = lnt_pool_text(&c->pool, path, strlen(path), &copy);
    c->path = copy.text;
    if (status) {
        lnt_codec_close(c);
        *out = NULL;
    }
    return status;
}

void lnt_codec_close(lnt_codec *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->normals; i++) lnt_regex_close(c->ctx, c->normal[i].regex);
    for (size_t i = 0; i < c->cuts; i++) lnt_regex_close(c->ctx, c->cut[i].regex);
    for (size_t i = 0; i < c->spells; i++) lnt_regex_close(c->ctx, c->spell[i].regex);
    if (c->kind == &lnt_codec_own) lnt_tokenizer_close(c->ctx, &c->own);
    lnt_pool_close(&c->pool);
    lnt_release(c->ctx, c, sizeof *c);
}

lnt_status lnt_codec_index_all(lnt_codec *codec, bool twice)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < codec->vocab.count; i++)
        if (codec->vocab.token[i].bytes) status = lnt_vocab_index(&codec->vocab, (int32_t)i, twice);
    if (!status) lnt_vocab_find_bytes(&codec->vocab);
    return status;
}

void lnt_codec_set_role(lnt_codec *codec, lnt_codec_role role, int64_t token)
{
    if (token >= 0 && (uint64_t)token < codec->vocab.count && codec->vocab.token[token].text)
        codec->role[role] = (int32_t)token;
}

/* ---- Linnet's own -------------------------------------------------------------------------------- */

lnt_status lnt_codec_open_own(lnt_ctx *ctx, const lnt_tokenizer *own, lnt_codec **out)
{
    *out = NULL;
    if (own->kind == LNT_TOKENS_NONE)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokenizer: of a model whose tokens are no text");
    lnt_codec *c;
    lnt_status status = lnt_codec_begin(ctx, "tokenizer", &c);
    if (!status) status = lnt_tokenizer_copy(ctx, own, &c->own);
    if (status) {
        lnt_codec_close(c);
        return status;
    }
    c->kind = &lnt_codec_own;
    *out = c;
    return LNT_OK;
}

static lnt_status encode_own(lnt_ctx *ctx, const lnt_codec *codec, const char *word, size_t bytes,
                             lnt_scratch *scratch, lnt_tokens *out)
{
    (void)scratch;
    const lnt_status status = lnt_grow(ctx, &out->token, &out->room, out->count + bytes, sizeof *out->token);
    if (!status) out->count += lnt_tokenizer_encode(&codec->own, word, bytes, out->token + out->count);
    return status;
}

const lnt_codec_kind lnt_codec_own = { .name = "own", .encode = encode_own };

/* ---- what it knows ------------------------------------------------------------------------------- */

const char *lnt_codec_kind_name(const lnt_codec *c)
{
    return c->kind == &lnt_codec_own ? lnt_tokenizer_word((int)c->own.kind) : c->kind->name;
}

size_t lnt_codec_count(const lnt_codec *c)
{
    return c->kind == &lnt_codec_own ? lnt_tokenizer_count(&c->own) : c->vocab.count;
}

int32_t lnt_codec_role_token(const lnt_codec *c, lnt_codec_role role) { return c->role[role]; }

int32_t lnt_codec_find(const lnt_codec *c, const char *text, size_t bytes)
{
    for (int i = 0; i < 2; i++) {
        const int32_t token = lnt_added_exactly(&c->added[i], text, bytes);
        if (token != LNT_NO_TOKEN) return token;
    }
    return lnt_vocab_find(&c->vocab, text, bytes);
}

lnt_text lnt_codec_spelling(const lnt_codec *c, int32_t token)
{
    lnt_text out = { NULL, 0 };
    if (token < 0 || (size_t)token >= lnt_codec_count(c)) return out;
    if (c->kind != &lnt_codec_own) return c->vocab.token[token];
    out.text = lnt_tokenizer_decode(&c->own, token, &out.bytes);
    return out;
}

bool lnt_codec_is_special(const lnt_codec *c, int32_t token)
{
    return token >= 0 && (size_t)token < c->vocab.count && c->vocab.special[token];
}

void lnt_codec_frame(const lnt_codec *c, size_t *before, size_t *after)
{
    *before = c->befores;
    *after = c->afters;
}

/* ---- text to tokens ------------------------------------------------------------------------------ */

/* One way of a text: where it is, and what it works with. */
typedef struct journey {
    lnt_ctx *ctx;
    const lnt_codec *codec;
    lnt_added_bars bars;
    lnt_scratch *s;
    lnt_tokens *out;
} journey;

/* Normalised text without added tokens. */
static lnt_status encode_words(const journey *j, const char *text, size_t bytes, bool first)
{
    lnt_words *w = &j->s->words;
    w->text.count = 0;
    lnt_status status = lnt_chars_put(j->ctx, &w->text, text, bytes);
    if (!status) status = lnt_words_cut(j->ctx, j->codec->cut, j->codec->cuts, first, w);
    for (size_t i = 0; !status && i < w->count; i++)
        status = j->codec->kind->encode(j->ctx, j->codec, w->text.text + w->word[i].start, w->word[i].bytes,
                                        j->s, j->out);
    return status;
}

/* Text between the added tokens of the first kind.  Normalising moves bytes, so a bar in it is one for all of
 * it. */
static lnt_status encode_between(const journey *j, const char *text, size_t bytes, bool first, bool verbatim)
{
    const lnt_added_bars bars = { .verbatim = verbatim };
    lnt_scratch *s = j->s;
    size_t count;
    s->text.count = 0;
    lnt_status status = lnt_chars_put(j->ctx, &s->text, text, bytes);
    if (!status) status = lnt_normalise(j->ctx, j->codec->normal, j->codec->normals, &s->text, &s->spare);
    if (status) return status;
    status = lnt_added_find(j->ctx, &j->codec->added[1], s->text.text, s->text.count, bars, &s->match[1],
                            &s->match_room[1], &count);
    for (size_t i = 0; !status && i < count; i++) {
        const lnt_added_match m = s->match[1][i];
        if (m.token != LNT_NO_TOKEN) status = lnt_tokens_put(j->ctx, j->out, m.token);
        else status = encode_words(j, s->text.text + m.start, m.end - m.start, first && m.start == 0);
    }
    return status;
}

static lnt_status encode_text(const journey *j, const char *text, size_t bytes)
{
    size_t count, bar = 0;
    lnt_status status = lnt_added_find(j->ctx, &j->codec->added[0], text, bytes, j->bars, &j->s->match[0],
                                       &j->s->match_room[0], &count);
    for (size_t i = 0; !status && i < count; i++) {
        const lnt_added_match m = j->s->match[0][i];
        while (bar < j->bars.bars && j->bars.bar[bar] < m.start) bar++;
        const bool barred = bar < j->bars.bars && j->bars.bar[bar] < m.end;
        if (m.token != LNT_NO_TOKEN) status = lnt_tokens_put(j->ctx, j->out, m.token);
        else
            status = encode_between(j, text + m.start, m.end - m.start, m.start == 0,
                                    j->bars.verbatim || barred);
    }
    return status;
}

static lnt_status put_frame(const journey *j, const int32_t *token, size_t count)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < count; i++) status = lnt_tokens_put(j->ctx, j->out, token[i]);
    return status;
}

static void close_scratch(lnt_ctx *ctx, lnt_scratch *s)
{
    lnt_words_free(ctx, &s->words);
    lnt_chars_free(ctx, &s->text);
    lnt_chars_free(ctx, &s->spare);
    lnt_chars_free(ctx, &s->piece);
    for (int i = 0; i < 2; i++) lnt_release(ctx, s->match[i], s->match_room[i] * sizeof *s->match[i]);
    lnt_release(ctx, s->symbol, s->symbol_room * sizeof *s->symbol);
    lnt_release(ctx, s->heap, s->heap_room * sizeof *s->heap);
    lnt_release(ctx, s->path, s->path_room * sizeof *s->path);
}

size_t lnt_codec_next_special(const lnt_codec *c, const char *text, size_t bytes, size_t from)
{
    for (; from < bytes; from++)
        for (int i = 0; i < 2; i++)
            if (lnt_added_begins_special(&c->added[i], text + from, bytes - from)) return from;
    return bytes;
}

lnt_status lnt_codec_encode(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                            unsigned flags, lnt_tokens *out)
{
    return lnt_codec_encode_barred(ctx, codec, text, bytes, flags, NULL, 0, out);
}

/* Text as UTF-8, and where its bars are then: own [bars]. */
static lnt_status repair(lnt_ctx *ctx, const char *text, size_t bytes, const size_t *bar, size_t bars,
                         lnt_chars *to, size_t *own)
{
    size_t at = 0;
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < bars; i++) {
        status = lnt_utf8_repair(ctx, to, text + at, bar[i] - at);
        own[i] = to->count;
        at = bar[i];
    }
    return status ? status : lnt_utf8_repair(ctx, to, text + at, bytes - at);
}

lnt_status lnt_codec_encode_barred(lnt_ctx *ctx, const lnt_codec *codec, const char *text, size_t bytes,
                                   unsigned flags, const size_t *bar, size_t bars, lnt_tokens *out)
{
    const size_t before = out->count;
    if (codec->kind == &lnt_codec_own) return encode_own(ctx, codec, text, bytes, NULL, out);
    lnt_scratch s = { 0 };
    lnt_chars repaired = { 0 };
    size_t *own = bars ? lnt_allocate(ctx, bars * sizeof *own, "the places of quoted tokens") : NULL;
    if (bars && !own) return LNT_ERR_MEMORY;
    const journey j = { ctx, codec, { flags & LNT_ENCODE_VERBATIM, own, bars }, &s, out };
    lnt_status status = repair(ctx, text, bytes, bar, bars, &repaired, own);
    if (!status && flags & LNT_ENCODE_FRAMED) status = put_frame(&j, codec->before, codec->befores);
    if (!status) status = encode_text(&j, repaired.text, repaired.count);
    if (!status && flags & LNT_ENCODE_FRAMED) status = put_frame(&j, codec->after, codec->afters);
    if (status) out->count = before;
    lnt_chars_free(ctx, &repaired);
    lnt_release(ctx, own, bars * sizeof *own);
    close_scratch(ctx, &s);
    return status;
}
