/* model/tokenizer/detokenizer.c - see detokenizer.h.
 *
 * The spelling of a token goes through its steps, and then byte by byte through a gate that lets only whole
 * characters out.  O(bytes) for each token. */
#include "model/tokenizer/detokenizer.h"

#include <string.h>

#include "model/tokenizer/inside.h"

struct lnt_detokenizer {
    lnt_ctx *ctx;
    const lnt_codec *codec;
    bool skip_special;
    bool first;              /* no token has come yet */
    lnt_chars piece, spare;  /* the spelling of one token */
    lnt_chars out;
    char held[4];            /* the beginning of a character */
    size_t holds;
    bool apart;              /* each byte of what is held stands for itself, if it is broken */
    const lnt_spell *strip;  /* of the whole text, or NULL */
    size_t lead, trail;      /* characters still to strip at the start; those that may end the text */
};

static void begin(lnt_detokenizer *d)
{
    const lnt_codec *c = d->codec;
    d->first = true;
    d->holds = d->trail = 0;
    d->strip =
        c->spells && c->spell[c->spells - 1].kind == LNT_SPELL_WHOLE_STRIP ? &c->spell[c->spells - 1] : NULL;
    d->lead = d->strip ? d->strip->start : 0;
}

lnt_status lnt_detokenizer_open(lnt_ctx *ctx, const lnt_codec *codec, bool skip_special,
                                lnt_detokenizer **out)
{
    *out = lnt_allocate(ctx, sizeof **out, "a detokenizer");
    if (!*out) return LNT_ERR_MEMORY;
    **out = (lnt_detokenizer){ .ctx = ctx, .codec = codec, .skip_special = skip_special };
    begin(*out);
    return LNT_OK;
}

void lnt_detokenizer_close(lnt_detokenizer *d)
{
    if (!d) return;
    lnt_chars_free(d->ctx, &d->piece);
    lnt_chars_free(d->ctx, &d->spare);
    lnt_chars_free(d->ctx, &d->out);
    lnt_release(d->ctx, d, sizeof *d);
}

/* ---- the gate ------------------------------------------------------------------------------------ */

/* A whole character. */
static lnt_status put(lnt_detokenizer *d, const char *character, size_t bytes)
{
    lnt_status status = LNT_OK;
    if (d->strip && bytes == d->strip->from.bytes && memcmp(character, d->strip->from.text, bytes) == 0) {
        if (d->lead) return d->lead--, LNT_OK;
        if (d->strip->stop) return d->trail++, LNT_OK;
    }
    for (d->lead = 0; !status && d->trail; d->trail--)
        status = lnt_chars_put(d->ctx, &d->out, d->strip->from.text, d->strip->from.bytes);
    return status ? status : lnt_chars_put(d->ctx, &d->out, character, bytes);
}

/* The first `bytes` held are no character. */
static lnt_status replace(lnt_detokenizer *d, size_t bytes)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < (d->apart ? bytes : 1); i++) status = put(d, LNT_REPLACEMENT, 3);
    d->holds -= bytes;
    memmove(d->held, d->held + bytes, d->holds);
    return status;
}

static lnt_status let_go(lnt_detokenizer *d) { return d->holds ? replace(d, d->holds) : LNT_OK; }

static lnt_status pass(lnt_detokenizer *d, const char *text, size_t bytes, bool apart)
{
    lnt_status status = d->apart == apart ? LNT_OK : let_go(d);
    d->apart = apart;
    for (size_t i = 0; !status && i < bytes; i++) {
        d->held[d->holds++] = text[i];
        while (!status && d->holds) {
            uint32_t code;
            const int n = lnt_utf8_take(d->held, d->holds, &code);
            if (n == 0) break;
            if (n < 0) {
                status = replace(d, (size_t)-n);
            } else {
                status = put(d, d->held, d->holds);
                d->holds = 0;
            }
        }
    }
    return status;
}

/* ---- one token ----------------------------------------------------------------------------------- */

static lnt_status replace_all(lnt_detokenizer *d, lnt_regex *regex, lnt_text from, lnt_text to)
{
    const lnt_normal step = { .kind = LNT_NORMAL_REPLACE, .regex = regex, .from = from, .to = to };
    return lnt_normalise(d->ctx, &step, 1, &d->piece, &d->spare);
}

/* What English writes without the space that stands between its tokens. */
static lnt_status clean_up(lnt_detokenizer *d)
{
    static const char *const from[] = { " .",  " ?",      " !",  " ,",   " ' ", " n't",
                                        " 'm", " do not", " 's", " 've", " 're" };
    static const char *const to[] = { ".", "?", "!", ",", "'", "n't", "'m", " don't", "'s", "'ve", "'re" };
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < sizeof from / sizeof from[0]; i++)
        status =
            replace_all(d, NULL, (lnt_text){ from[i], strlen(from[i]) }, (lnt_text){ to[i], strlen(to[i]) });
    return status;
}

static lnt_status put_space_before(lnt_detokenizer *d)
{
    const lnt_normal step = { .kind = LNT_NORMAL_PREPEND, .to = { " ", 1 } };
    if (!d->piece.count) return lnt_chars_put(d->ctx, &d->piece, " ", 1);
    return lnt_normalise(d->ctx, &step, 1, &d->piece, &d->spare);
}

static lnt_status join_pieces(lnt_detokenizer *d, const lnt_spell *s)
{
    lnt_status status = LNT_OK;
    const bool goes_on = d->piece.count >= s->from.bytes && s->from.bytes &&
                         memcmp(d->piece.text, s->from.text, s->from.bytes) == 0;
    if (!d->first && goes_on) {
        d->piece.count -= s->from.bytes;
        memmove(d->piece.text, d->piece.text + s->from.bytes, d->piece.count);
    } else if (!d->first) {
        status = put_space_before(d);
    }
    return !status && s->clean_up ? clean_up(d) : status;
}

static void strip_piece(lnt_detokenizer *d, const lnt_spell *s)
{
    const size_t n = s->from.bytes;
    char *text = d->piece.text;
    size_t start = 0, end = d->piece.count;
    for (size_t i = 0; i < s->start && end - start >= n && memcmp(text + start, s->from.text, n) == 0; i++)
        start += n;
    for (size_t i = 0; i < s->stop && end - start >= n && memcmp(text + end - n, s->from.text, n) == 0; i++)
        end -= n;
    d->piece.count = end - start;
    if (d->piece.count) memmove(text, text + start, d->piece.count);
}

static lnt_status apply(lnt_detokenizer *d, const lnt_spell *s)
{
    const lnt_text nothing = { "", 0 }, space = { " ", 1 };
    switch (s->kind) {
    case LNT_SPELL_REPLACE: return replace_all(d, s->regex, s->from, s->to);
    case LNT_SPELL_METASPACE:
        return replace_all(d, NULL, s->from, d->first && s->drop_first ? nothing : space);
    case LNT_SPELL_WORDPIECE: return join_pieces(d, s);
    case LNT_SPELL_APART: return d->first ? LNT_OK : put_space_before(d);
    case LNT_SPELL_STRIP: return strip_piece(d, s), LNT_OK;
    case LNT_SPELL_BYTES:
    case LNT_SPELL_WHOLE_STRIP: break; /* of the gate */
    }
    return LNT_OK;
}

static lnt_status refuse_growth(const lnt_detokenizer *d, lnt_text token)
{
    return lnt_fail(d->ctx, LNT_ERR_FORMAT, "tokenizer: its decoder makes over %zu bytes of a token",
                    lnt_chars_most(token.bytes));
}

static lnt_status spell(lnt_detokenizer *d, lnt_text token)
{
    const lnt_codec *c = d->codec;
    int byte = -1;
    d->piece.count = 0;
    lnt_status status = lnt_chars_put(d->ctx, &d->piece, token.text, token.bytes);
    for (size_t i = 0; !status && i < c->spells; i++) {
        if (d->piece.count > lnt_chars_most(token.bytes)) return refuse_growth(d, token);
        if (c->spell[i].kind == LNT_SPELL_BYTES)
            byte = lnt_byte_token((lnt_text){ d->piece.text, d->piece.count });
        else status = apply(d, &c->spell[i]);
    }
    d->first = false;
    if (status) return status;
    const char alone = (char)(unsigned char)byte;
    return byte < 0 ? pass(d, d->piece.text, d->piece.count, false) : pass(d, &alone, 1, true);
}

static lnt_status give(lnt_detokenizer *d, lnt_text *text)
{
    const lnt_status status = lnt_chars_put(d->ctx, &d->out, "", 1); /* the NUL */
    *text = (lnt_text){ d->out.text, status ? 0 : --d->out.count };
    return status;
}

lnt_status lnt_detokenizer_put(lnt_detokenizer *d, int32_t token, lnt_text *text)
{
    *text = (lnt_text){ "", 0 };
    const size_t count = lnt_codec_count(d->codec);
    if (token < 0 || (size_t)token >= count)
        return lnt_fail(d->ctx, LNT_ERR_ARGUMENT, "tokenizer: token %d, must be 0 to %zu", token, count - 1);
    d->out.count = 0;
    lnt_status status = LNT_OK;
    const lnt_text spelling = lnt_codec_spelling(d->codec, token);
    if (spelling.text && !(d->skip_special && lnt_codec_is_special(d->codec, token)))
        status = spell(d, spelling);
    return status ? status : give(d, text);
}

lnt_status lnt_detokenizer_end(lnt_detokenizer *d, lnt_text *text)
{
    d->out.count = 0;
    lnt_status status = let_go(d);
    const size_t stop = d->strip ? d->strip->stop : 0;
    for (size_t kept = d->trail > stop ? d->trail - stop : 0; !status && kept; kept--)
        status = lnt_chars_put(d->ctx, &d->out, d->strip->from.text, d->strip->from.bytes);
    begin(d);
    *text = (lnt_text){ "", 0 };
    return status ? status : give(d, text);
}

lnt_status lnt_codec_decode(lnt_ctx *ctx, const lnt_codec *codec, const int32_t *tokens, size_t count,
                            bool skip_special, char **text, size_t *bytes)
{
    lnt_detokenizer *d;
    lnt_chars all = { 0 };
    lnt_text piece;
    *text = NULL;
    *bytes = 0;
    lnt_status status = lnt_detokenizer_open(ctx, codec, skip_special, &d);
    for (size_t i = 0; !status && i <= count; i++) {
        status = i < count ? lnt_detokenizer_put(d, tokens[i], &piece) : lnt_detokenizer_end(d, &piece);
        if (!status) status = lnt_chars_put(ctx, &all, piece.text, piece.bytes);
    }
    lnt_detokenizer_close(d);
    char *out = status ? NULL : lnt_allocate(ctx, all.count + 1, "a text");
    if (out) {
        if (all.count) memcpy(out, all.text, all.count);
        out[all.count] = '\0';
        *text = out;
        *bytes = all.count;
    }
    lnt_chars_free(ctx, &all);
    return status ? status : out ? LNT_OK : LNT_ERR_MEMORY;
}
