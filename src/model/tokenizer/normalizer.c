/* model/tokenizer/normalizer.c - see normalizer.h.  Each step goes once over the text. */
#include "model/tokenizer/normalizer.h"

#include <string.h>

static lnt_status put_without_marks(lnt_ctx *ctx, bool nonspacing_only, const lnt_chars *text, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0, n; !status && i < text->count; i += n) {
        n = lnt_utf8_bytes(text->text + i);
        if (n > 1 && lnt_unicode_is_mark(lnt_utf8_at(text->text + i), nonspacing_only)) continue;
        status = lnt_chars_put(ctx, to, text->text + i, n);
    }
    return status;
}

static lnt_status strip(lnt_ctx *ctx, const lnt_normal *step, const lnt_chars *text, lnt_chars *to)
{
    size_t start = 0, end = text->count;
    while (step->left && start < end && lnt_unicode_is_white(lnt_utf8_at(text->text + start)))
        start += lnt_utf8_bytes(text->text + start);
    while (step->right && end > start && lnt_unicode_is_white(lnt_utf8_before(text->text, end)))
        do end--;
        while (end > start && ((unsigned char)text->text[end] & 0xc0) == 0x80);
    return lnt_chars_put(ctx, to, text->text + start, end - start);
}

static lnt_status replace_text(lnt_ctx *ctx, const lnt_normal *step, const lnt_chars *text, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t at = 0; !status && at < text->count;) {
        const char *rest = text->text + at,
                   *hit = memmem(rest, text->count - at, step->from.text, step->from.bytes);
        const size_t plain = hit ? (size_t)(hit - rest) : text->count - at;
        status = lnt_chars_put(ctx, to, rest, plain);
        if (!status && hit) status = lnt_chars_put(ctx, to, step->to.text, step->to.bytes);
        at += plain + (hit ? step->from.bytes : 0);
    }
    return status;
}

static lnt_status replace_matches(lnt_ctx *ctx, const lnt_normal *step, const lnt_chars *text, lnt_chars *to)
{
    lnt_search search;
    size_t at = 0, start, end;
    bool found = text->count > 0;
    lnt_status status = lnt_search_open(ctx, step->regex, &search);
    if (status) return status;
    lnt_search_on(&search, text->text, text->count);
    while (!status && found) {
        status = lnt_search_next(&search, &start, &end, &found);
        if (status || !found) break;
        status = lnt_chars_put(ctx, to, text->text + at, start - at);
        if (!status) status = lnt_chars_put(ctx, to, step->to.text, step->to.bytes);
        at = end;
    }
    lnt_search_close(&search);
    return status ? status : lnt_chars_put(ctx, to, text->text + at, text->count - at);
}

/* ---- BERT ---------------------------------------------------------------------------------------- */

static lnt_status clean(lnt_ctx *ctx, const lnt_chars *text, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0, n; !status && i < text->count; i += n) {
        n = lnt_utf8_bytes(text->text + i);
        const uint32_t code = lnt_utf8_at(text->text + i);
        if (lnt_unicode_is_white(code) && (code > 13 || code == 9 || code == 10 || code == 13))
            status = code == 0x85 ? LNT_OK
                                  : lnt_chars_put(ctx, to, " ", 1); /* U+0085 is a control character first */
        else if (code && code != 0xfffd && !lnt_unicode_is_other(code))
            status = lnt_chars_put(ctx, to, text->text + i, n);
    }
    return status;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static lnt_status space_chinese(lnt_ctx *ctx, const lnt_chars *text, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0, n; !status && i < text->count; i += n) {
        n = lnt_utf8_bytes(text->text + i);
        const bool chinese = is_chinese(lnt_utf8_at(text->text + i));
        if (chinese) status = lnt_chars_put(ctx, to, " ", 1);
        if (!status) status = lnt_chars_put(ctx, to, text->text + i, n);
        if (!status && chinese) status = lnt_chars_put(ctx, to, " ", 1);
    }
    return status;
}

static lnt_status strip_accents(lnt_ctx *ctx, const lnt_chars *text, lnt_chars *to)
{
    lnt_chars apart = { 0 };
    lnt_status status = lnt_unicode_normalise(ctx, LNT_NFD, text->text, text->count, &apart);
    if (!status) status = put_without_marks(ctx, true, &apart, to);
    lnt_chars_free(ctx, &apart);
    return status;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static lnt_status apply(lnt_ctx *ctx, const lnt_normal *step, const lnt_chars *text, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    switch (step->kind) {
    case LNT_NORMAL_FORM: return lnt_unicode_normalise(ctx, step->form, text->text, text->count, to);
    case LNT_NORMAL_LOWER: return lnt_unicode_lower(ctx, text->text, text->count, to);
    case LNT_NORMAL_STRIP: return strip(ctx, step, text, to);
    case LNT_NORMAL_MARKS: return put_without_marks(ctx, false, text, to);
    case LNT_NORMAL_REPLACE: return (step->regex ? replace_matches : replace_text)(ctx, step, text, to);
    case LNT_NORMAL_PREPEND:
        status = lnt_chars_put(ctx, to, step->to.text, step->to.bytes);
        return status ? status : lnt_chars_put(ctx, to, text->text, text->count);
    case LNT_NORMAL_CLEAN: return clean(ctx, text, to);
    case LNT_NORMAL_CHINESE: return space_chinese(ctx, text, to);
    case LNT_NORMAL_ACCENTS: return strip_accents(ctx, text, to);
    case LNT_NORMAL_CHARSMAP: return lnt_charsmap_apply(ctx, step->map, text->text, text->count, to);
    }
    return status;
}

lnt_status lnt_normalise(lnt_ctx *ctx, const lnt_normal *step, size_t steps, lnt_chars *text,
                         lnt_chars *spare)
{
    lnt_status status = LNT_OK;
    const size_t most = lnt_chars_most(text->count);
    for (size_t i = 0; !status && i < steps && text->count; i++) {
        spare->count = 0;
        spare->most = most;
        status = apply(ctx, &step[i], text, spare);
        const lnt_chars made = *spare;
        *spare = *text;
        *text = made;
    }
    text->most = spare->most = 0;
    return status;
}
