/* model/tokenizer/regex.c - see regex.h.
 *
 * Tokenizers are written for Oniguruma.  What differs in PCRE2 is rewritten: \s is Unicode's white space, \w
 * is letters, marks, decimal digits, connectors and the small figures of Latin-1; ^ and $ are of lines. */
#include "model/tokenizer/regex.h"

#include "io/file.h"

#ifdef LNT_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum {
    PATTERN_MOST = 1 << 16,  /* bytes */
    MATCH_LIMIT = 10000000,  /* steps of one match */
    HEAP_LIMIT = 64 * 1024   /* KiB of one match */
};

struct lnt_regex {
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_context *limits;
};

/* ---- memory: PCRE2 releases without saying how much ---------------------------------------------- */

typedef struct prefix {
    _Alignas(16) size_t bytes;
} prefix;

static void *take(size_t bytes, void *ctx)
{
    if (bytes > SIZE_MAX - sizeof(prefix)) return NULL;
    prefix *p = lnt_allocate(ctx, bytes + sizeof *p, "a regular expression");
    if (!p) return NULL;
    p->bytes = bytes;
    return p + 1;
}

static void give(void *memory, void *ctx)
{
    if (!memory) return;
    prefix *p = (prefix *)memory - 1;
    lnt_release(ctx, p, p->bytes + sizeof *p);
}

/* ---- compiling ----------------------------------------------------------------------------------- */

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

static const char *rewritten(char letter, bool in_class)
{
    switch (letter) {
    case 's': return "\\p{White_Space}";
    case 'S': return "\\P{White_Space}";
    case 'w': return in_class ? WORD : "[" WORD "]";
    case 'W': return in_class ? NULL : "[^" WORD "]";
    default: return NULL;
    }
}

static lnt_status rewrite(lnt_ctx *ctx, lnt_text pattern, lnt_chars *to)
{
    bool in_class = false;
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < pattern.bytes; i++) {
        const char *s = pattern.text + i;
        if (*s == '\\' && i + 1 < pattern.bytes) {
            const char *other = rewritten(s[1], in_class);
            status = other ? lnt_chars_put(ctx, to, other, strlen(other)) : lnt_chars_put(ctx, to, s, 2);
            i++;
            continue;
        }
        if (*s == '[') in_class = true;
        if (*s == ']') in_class = false;
        status = lnt_chars_put(ctx, to, s, 1);
    }
    return status;
}

static lnt_status refuse(lnt_ctx *ctx, const char *path, lnt_text pattern, int error, size_t where)
{
    if (error == PCRE2_ERROR_HEAP_FAILED) return LNT_ERR_MEMORY;
    PCRE2_UCHAR reason[120] = "";
    pcre2_get_error_message(error, reason, sizeof reason);
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tokenizer: the regular expression '%.*s' at %zu: %s",
                    path, (int)(pattern.bytes < 60 ? pattern.bytes : 60), pattern.text, where,
                    (const char *)reason);
}

static lnt_status compile(lnt_ctx *ctx, const char *path, lnt_text pattern, lnt_regex *out)
{
    lnt_chars text = { 0 };
    int error = 0;
    PCRE2_SIZE where = 0;
    lnt_status status = rewrite(ctx, pattern, &text);
    pcre2_compile_context *options = status ? NULL : pcre2_compile_context_create(out->memory);
    if (!status && !options) status = LNT_ERR_MEMORY;
    if (!status) {
        out->code = pcre2_compile((PCRE2_SPTR)(text.text ? text.text : ""), text.count,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                  &where, options);
        if (!out->code) status = refuse(ctx, path, pattern, error, where);
    }
    pcre2_compile_context_free(options);
    lnt_chars_free(ctx, &text);
    if (status) return status;
    out->limits = pcre2_match_context_create(out->memory);
    if (!out->limits) return LNT_ERR_MEMORY;
    pcre2_set_match_limit(out->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(out->limits, HEAP_LIMIT);
    return LNT_OK;
}

lnt_status lnt_regex_open(lnt_ctx *ctx, const char *path, lnt_text pattern, lnt_regex **out)
{
    *out = NULL;
    if (pattern.bytes > PATTERN_MOST)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tokenizer: a regular expression of %zu bytes, at most %d", path,
                        pattern.bytes, PATTERN_MOST);
    lnt_regex *regex = lnt_allocate(ctx, sizeof *regex, "a regular expression");
    if (!regex) return LNT_ERR_MEMORY;
    *regex = (lnt_regex){ .memory = pcre2_general_context_create(take, give, ctx) };
    const lnt_status status = regex->memory ? compile(ctx, path, pattern, regex) : LNT_ERR_MEMORY;
    if (status) lnt_regex_close(ctx, regex);
    else *out = regex;
    return status;
}

void lnt_regex_close(lnt_ctx *ctx, lnt_regex *regex)
{
    if (!regex) return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->limits);
    pcre2_general_context_free(regex->memory);
    lnt_release(ctx, regex, sizeof *regex);
}

/* ---- matching ------------------------------------------------------------------------------------ */

lnt_status lnt_search_open(lnt_ctx *ctx, const lnt_regex *regex, lnt_search *out)
{
    *out = (lnt_search){ .ctx = ctx, .regex = regex, .text = "" };
    pcre2_general_context *memory =
        pcre2_general_context_create(take, give, ctx); /* of this thread's context */
    if (memory) out->match = pcre2_match_data_create(1, memory);
    pcre2_general_context_free(memory);
    return out->match ? LNT_OK : LNT_ERR_MEMORY;
}

void lnt_search_on(lnt_search *s, const char *text, size_t bytes)
{
    s->text = text;
    s->bytes = bytes;
    s->at = 0;
}

lnt_status lnt_search_next(lnt_search *s, size_t *start, size_t *end, bool *found)
{
    *found = false;
    if (s->at > s->bytes) return LNT_OK;
    const int result = pcre2_match(s->regex->code, (PCRE2_SPTR)s->text, s->bytes, s->at, PCRE2_NO_UTF_CHECK,
                                   s->match, s->regex->limits);
    if (result == PCRE2_ERROR_NOMATCH) {
        s->at = s->bytes + 1;
        return LNT_OK;
    }
    if (result == PCRE2_ERROR_NOMEMORY) return LNT_ERR_MEMORY;
    if (result < 0) {
        PCRE2_UCHAR reason[120] = "";
        pcre2_get_error_message(result, reason, sizeof reason);
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        "tokenizer: its regular expression gave up at byte %zu of the text: %s", s->at,
                        (const char *)reason);
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->match);
    *start =
        at[0] < s->at ? s->at : at[0]; /* \K may set the start before the last match, or behind the end */
    *end = at[1] < *start ? *start : at[1];
    *found = true;
    if (*end > *start) s->at = *end;
    else s->at = *end < s->bytes ? *end + lnt_utf8_bytes(s->text + *end) : s->bytes + 1;
    return LNT_OK;
}

void lnt_search_close(lnt_search *s)
{
    pcre2_match_data_free(s->match);
    s->match = NULL;
}

#else

lnt_status lnt_regex_open(lnt_ctx *ctx, const char *path, lnt_text pattern, lnt_regex **out)
{
    (void)pattern;
    *out = NULL;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    LNT_FILE_FMT
                    ": its tokenizer needs regular expressions, and this build has no PCRE2; install "
                    "libpcre2-dev and build again",
                    path);
}

/* Without an open regex there is no search. */
void lnt_regex_close(lnt_ctx *ctx, lnt_regex *regex) { (void)ctx, (void)regex; }

lnt_status lnt_search_open(lnt_ctx *ctx, const lnt_regex *regex, lnt_search *out)
{
    *out = (lnt_search){ .ctx = ctx, .regex = regex, .text = "" };
    return LNT_OK;
}

void lnt_search_on(lnt_search *s, const char *text, size_t bytes)
{
    s->text = text;
    s->bytes = bytes;
}

lnt_status lnt_search_next(lnt_search *s, size_t *start, size_t *end, bool *found)
{
    *start = *end = s->at = s->bytes;
    *found = false;
    return LNT_OK;
}

void lnt_search_close(lnt_search *s) { (void)s; }

#endif
