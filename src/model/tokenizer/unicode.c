/* model/tokenizer/unicode.c - see unicode.h.
 *
 * A normal form is found in three walks: characters decomposed, marks of a run sorted by their class (stable,
 * by qsort: a text of nothing but marks must not cost its square), and composed again where the form wants
 * it. */
#include "model/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "io/file.h"

bool lnt_unicode_is_white(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

static bool is_ascii_word(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

#ifdef LNT_UTF8PROC

#include <utf8proc.h>

lnt_status lnt_unicode_check(lnt_ctx *ctx, const char *path)
{
    (void)ctx, (void)path;
    return LNT_OK;
}

static utf8proc_category_t category(uint32_t code) { return utf8proc_category((utf8proc_int32_t)code); }

bool lnt_unicode_is_mark(uint32_t code, bool nonspacing_only)
{
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_MN ||
           (!nonspacing_only && (c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME));
}

bool lnt_unicode_is_other(uint32_t code)
{
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO ||
           c == UTF8PROC_CATEGORY_CS;
}

bool lnt_unicode_is_word(uint32_t code)
{
    if (code < 0x80) return is_ascii_word(code);
    switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* joiners, and letters in circles and squares */
        return code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
               (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
               (code >= 0x1f170 && code <= 0x1f189);
    }
}

/* ---- normal forms -------------------------------------------------------------------------------- */

typedef struct codes {
    lnt_ctx *ctx;
    utf8proc_int32_t *code;
    size_t count, room;
} codes;

enum { DECOMPOSED_MOST = 32 }; /* of one character; Unicode has 18 */

static lnt_status decompose(codes *c, utf8proc_option_t options, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += lnt_utf8_bytes(text + i)) {
        const lnt_status status =
            lnt_grow(c->ctx, &c->code, &c->room, c->count + DECOMPOSED_MOST, sizeof *c->code);
        if (status) return status;
        int boundary = 0;
        const utf8proc_ssize_t n = utf8proc_decompose_char(
            (utf8proc_int32_t)lnt_utf8_at(text + i), c->code + c->count, DECOMPOSED_MOST, options, &boundary);
        if (n > 0 && n <= DECOMPOSED_MOST) c->count += (size_t)n;
    }
    return LNT_OK;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A run of marks by class, those of one class as they were. */
static lnt_status sort_marks(codes *c, size_t start, size_t end)
{
    uint64_t few[16], *key = few;
    const size_t n = end - start, bytes = n * sizeof *key;
    if (n > 16 && !(key = lnt_allocate(c->ctx, bytes, "the marks of a text"))) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const utf8proc_int32_t code = c->code[start + i];
        const uint64_t class = (uint64_t)utf8proc_get_property(code)->combining_class;
        key[i] = class << 56 | (uint64_t)(i & UINT32_MAX) << 24 | (uint64_t)code;
    }
    qsort(key, n, sizeof *key, by_value);
    for (size_t i = 0; i < n; i++) c->code[start + i] = (utf8proc_int32_t)(key[i] & 0xffffff);
    if (key != few) lnt_release(c->ctx, key, bytes);
    return LNT_OK;
}

static lnt_status order_marks(codes *c)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < c->count;) {
        size_t end = i;
        while (end < c->count && utf8proc_get_property(c->code[end])->combining_class) end++;
        if (end - i > 1) status = sort_marks(c, i, end);
        i = end + 1;
    }
    return status;
}

static bool is_ascii(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

lnt_status lnt_unicode_normalise(lnt_ctx *ctx, lnt_unicode_form form, const char *text, size_t bytes,
                                 lnt_chars *to)
{
    if (is_ascii(text, bytes)) return lnt_chars_put(ctx, to, text, bytes);
    const bool compatible = form == LNT_NFKC || form == LNT_NFKD,
               composed = form == LNT_NFC || form == LNT_NFKC;
    const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    codes c = { .ctx = ctx };
    lnt_status status = decompose(&c, (utf8proc_option_t)options, text, bytes);
    if (!status) status = order_marks(&c);
    if (!status && composed) {
        const utf8proc_ssize_t n = utf8proc_normalize_utf32(c.code, (utf8proc_ssize_t)c.count,
                                                            UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (n >= 0) c.count = (size_t)n;
    }
    for (size_t i = 0; !status && i < c.count; i++) status = lnt_chars_put_code(ctx, to, (uint32_t)c.code[i]);
    lnt_release(ctx, c.code, c.room * sizeof *c.code);
    return status;
}

lnt_status lnt_unicode_lower(lnt_ctx *ctx, const char *text, size_t bytes, lnt_chars *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < bytes; i += lnt_utf8_bytes(text + i)) {
        const uint32_t code = lnt_utf8_at(text + i);
        if (code == 0x130) status = lnt_chars_put(ctx, to, "i\xcc\x87", 3); /* the one that becomes two */
        else status = lnt_chars_put_code(ctx, to, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
    }
    return status;
}

#else

lnt_status lnt_unicode_check(lnt_ctx *ctx, const char *path)
{
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    LNT_FILE_FMT
                    ": its tokenizer needs Unicode's tables, and this build has no utf8proc; install "
                    "libutf8proc-dev and build again",
                    path);
}

bool lnt_unicode_is_word(uint32_t code)
{
    return code < 0x80 ? is_ascii_word(code) : !lnt_unicode_is_white(code);
}

/* No codec that would ask these is opened. */
bool lnt_unicode_is_mark(uint32_t code, bool nonspacing_only)
{
    return (void)code, (void)nonspacing_only, false;
}
bool lnt_unicode_is_other(uint32_t code) { return (void)code, false; }

lnt_status lnt_unicode_normalise(lnt_ctx *ctx, lnt_unicode_form form, const char *text, size_t bytes,
                                 lnt_chars *to)
{
    (void)form;
    return lnt_chars_put(ctx, to, text, bytes);
}

lnt_status lnt_unicode_lower(lnt_ctx *ctx, const char *text, size_t bytes, lnt_chars *to)
{
    return lnt_chars_put(ctx, to, text, bytes);
}

#endif
