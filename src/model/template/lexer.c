/* model/template/lexer.c - see lexer.h.  One pass, no going back: linear in the text. */
#include "model/template/lexer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "io/number.h"

bool lnt_template_fail(const lnt_template_pool *pool, lnt_span source, size_t at, const char *format, ...)
{
    size_t line = 1, start = 0;
    char what[300];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    for (char *c = what; *c; c++) /* what a template says must not reach a terminal as control */
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    for (size_t i = 0; i < at && i < source.bytes; i++)
        if (source.text[i] == '\n') line++, start = i + 1;
    lnt_fail(pool->ctx, LNT_ERR_FORMAT, LNT_TEMPLATE_FMT ", line %zu, column %zu: %s", pool->where, line,
             lnt_characters_count((lnt_span){ source.text + start, at - start }) + 1, what);
    return false;
}

bool lnt_lexer_open(lnt_template_pool *pool, const char *text, size_t bytes, lnt_lexer *out)
{
    char *copy = lnt_template_pool_take(pool, bytes + 1, 1);
    if (!copy) return false;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        copy[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    n -= n && copy[n - 1] == '\n';
    copy[n] = 0;
    *out = (lnt_lexer){ .pool = pool, .source = { copy, n }, .inside = LNT_TOKEN_TEXT };
    return true;
}

static bool wrong(const lnt_lexer *x, size_t at, const char *what)
{
    return lnt_template_fail(x->pool, x->source, at, "%s", what);
}

/* The source ends in NUL, so looking one byte ahead is safe. */
static char look(const lnt_lexer *x, size_t ahead)
{
    return x->at + ahead < x->source.bytes ? x->source.text[x->at + ahead] : 0;
}

static lnt_span rest(const lnt_lexer *x)
{
    return (lnt_span){ x->source.text + x->at, x->source.bytes - x->at };
}

static void skip_space(lnt_lexer *x)
{
    x->at = x->source.bytes - lnt_characters_strip(rest(x), (lnt_span){ 0 }, true, false).bytes;
}

/* ---- text between tags --------------------------------------------------------------------- */

/* Text from `from` to the tag, whose sign is '-', '+' or another character. */
static lnt_span text_before(const lnt_lexer *x, size_t from, size_t tag, char sign, bool print)
{
    lnt_span text = { x->source.text + from, tag - from };
    if (sign == '-') return lnt_characters_strip(text, (lnt_span){ 0 }, false, true);
    if (sign == '+' || print) return text;
    size_t line = text.bytes;
    while (line && text.text[line - 1] != '\n') line--;
    const bool begins = line > 0 || from == 0 || x->source.text[from - 1] == '\n';
    const lnt_span blank = { text.text + line, text.bytes - line };
    if (begins && lnt_characters_strip(blank, (lnt_span){ 0 }, true, false).bytes == 0) text.bytes = line;
    return text;
}

/* Steps over the end of a block or comment at x->at: its sign, the two bytes, and white space. */
static void step_over_end(lnt_lexer *x, bool trim)
{
    const char sign = look(x, 0);
    const bool has_sign = sign == '-' || sign == '+';
    x->at += has_sign ? 3 : 2;
    if (sign == '-') skip_space(x);
    else if (trim && !has_sign && look(x, 0) == '\n') x->at++;
}

static bool skip_comment(lnt_lexer *x, size_t tag)
{
    const size_t end = lnt_span_find(x->source, LNT_SPAN("#}"), x->at);
    if (end == SIZE_MAX) return wrong(x, tag, "a comment without its end '#}'");
    const char before = x->source.text[end - 1];
    x->at = end - (end > x->at && (before == '-' || before == '+'));
    step_over_end(x, true);
    return true;
}

/* Whether "NAME %}" follows at x->at; steps over it.  A newline after it is trimmed or not. */
static bool step_over_word(lnt_lexer *x, const char *name, bool trim)
{
    lnt_lexer y = *x;
    skip_space(&y);
    const size_t n = strlen(name);
    if (rest(&y).bytes < n || memcmp(rest(&y).text, name, n) != 0) return false;
    y.at += n;
    skip_space(&y);
    const size_t sign = look(&y, 0) == '-' || (trim && look(&y, 0) == '+');
    if (look(&y, sign) != '%' || look(&y, sign + 1) != '}') return false;
    step_over_end(&y, trim);
    *x = y;
    return true;
}

/* What {% raw %} says to leave alone, up to its end. */
static bool raw_text(lnt_lexer *x, size_t tag, lnt_token *out)
{
    const size_t from = x->at;
    for (size_t end = from; (end = lnt_span_find(x->source, LNT_SPAN("{%"), end)) != SIZE_MAX; end += 2) {
        x->at = end + 2;
        const char sign = look(x, 0);
        x->at += sign == '-' || sign == '+';
        if (!step_over_word(x, "endraw", true)) continue;
        *out = (lnt_token){ .kind = LNT_TOKEN_TEXT,
                            .at = from,
                            .text = text_before(x, from, end, sign, false) };
        return true;
    }
    return wrong(x, tag, "{% raw %} without {% endraw %}");
}

static size_t find_tag(const lnt_lexer *x)
{
    for (size_t i = x->at; i + 1 < x->source.bytes; i++) {
        const char *open = memchr(x->source.text + i, '{', x->source.bytes - i);
        if (!open || (i = (size_t)(open - x->source.text)) + 1 == x->source.bytes) break;
        if (strchr("%{#", open[1]) && open[1]) return i;
    }
    return x->source.bytes;
}

/* Text up to the next tag, or the begin of that tag where it stands here. */
static bool next_outside(lnt_lexer *x, lnt_token *out)
{
    while (x->at < x->source.bytes) {
        const size_t from = x->at, tag = find_tag(x);
        const bool end = tag == x->source.bytes;
        const char kind = end ? 0 : x->source.text[tag + 1];
        x->at = tag;
        const char sign = end ? 0 : look(x, 2);
        const lnt_span text = end ? (lnt_span){ x->source.text + from, tag - from }
                                  : text_before(x, from, tag, sign, kind == '{');
        if (tag > from && text.bytes) { /* the tag is next: nothing of it is taken yet */
            *out = (lnt_token){ .kind = LNT_TOKEN_TEXT, .at = from, .text = text };
            return true;
        }
        if (end) break;
        x->at += sign == '-' || sign == '+' ? 3 : 2;
        if (kind == '#') {
            if (!skip_comment(x, tag)) return false;
        } else if (kind == '%' && step_over_word(x, "raw", false)) {
            return raw_text(x, tag, out);
        } else {
            x->inside = kind == '%' ? LNT_TOKEN_BLOCK : LNT_TOKEN_PRINT;
            x->brackets = 0;
            *out = (lnt_token){ .kind = x->inside, .at = tag };
            return true;
        }
    }
    *out = (lnt_token){ .kind = LNT_TOKEN_END, .at = x->source.bytes };
    return true;
}

/* ---- inside a tag -------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static int hex_digit(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The character of \x, \u, \U and octal escapes; `at` stands after the backslash.  False: not well formed. */
static bool escape_code(const lnt_lexer *x, size_t *at, uint32_t *code)
{
    const char c = x->source.text[*at];
    *code = 0;
    if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && x->source.text[*at] >= '0' && x->source.text[*at] <= '7'; i++)
            *code = *code * 8 + (uint32_t)(x->source.text[(*at)++] - '0');
        return true;
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    for (int i = 0; i < digits; i++) {
        const int digit = *at + 1 + (size_t)i < x->source.bytes
                              ? hex_digit(x->source.text[*at + 1 + (size_t)i])
                              : -1;
        if (digit < 0) return false;
        *code = *code << 4 | (uint32_t)digit;
    }
    *at += 1 + (size_t)digits;
    return *code < 0xd800 || (*code > 0xdfff && *code < 0x110000);
}

/* One escape: x->source.text[*at - 1] is the backslash.  Unknown ones stay as they are, as in Python. */
static bool unescape(const lnt_lexer *x, size_t *at, char *to, size_t *used)
{
    static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = x->source.text[*at], *known = c ? strchr(from, c) : NULL;
    uint32_t code;
    if (known) {
        to[(*used)++] = into[known - from];
        ++*at;
    } else if (c == '\n') {
        ++*at;
    } else if (c == 'N') {
        return wrong(x, *at - 1, "the escape \\N{...} is not known; write the character itself");
    } else if (c && strchr("xuU01234567", c)) {
        const size_t start = *at - 1;
        if (!escape_code(x, at, &code)) return wrong(x, start, "an escape that is no character");
        *used += lnt_characters_put(code, to + *used);
    } else {
        to[(*used)++] = '\\';
    }
    return true;
}

static bool lex_string(lnt_lexer *x, lnt_token *out)
{
    const size_t start = x->at;
    const char quote = look(x, 0), *s = x->source.text;
    size_t end = start + 1, used = 0;
    while (end < x->source.bytes && s[end] != quote) end += s[end] == '\\' ? 2 : 1;
    if (end >= x->source.bytes) return wrong(x, start, "a string without its end");
    /* An escape is no shorter than its character. */
    char *to = lnt_template_pool_take(x->pool, end - start + 4, 1);
    if (!to) return false;
    for (size_t i = start + 1; i < end;) {
        if (s[i] != '\\') to[used++] = s[i++];
        else if (i++, !unescape(x, &i, to, &used)) return false;
    }
    x->at = end + 1;
    *out = (lnt_token){ .kind = LNT_TOKEN_STRING, .at = start, .text = { to, used } };
    return true;
}

static size_t digits_end(const lnt_lexer *x, size_t at)
{
    const char *s = x->source.text;
    while (is_digit(s[at]) || (s[at] == '_' && is_digit(s[at + 1]))) at++;
    return at;
}

static bool lex_number(lnt_lexer *x, lnt_token *out)
{
    const char *s = x->source.text;
    const size_t start = x->at;
    size_t end = digits_end(x, start), used = 0;
    char digits[64];
    bool real = false;
    const bool after_point = start > 0 && s[start - 1] == '.'; /* "a.0.1": no fraction */
    if (!after_point && s[end] == '.' && is_digit(s[end + 1])) real = true, end = digits_end(x, end + 1);
    const size_t sign = s[end] && strchr("+-", s[end + 1]) && s[end + 1] ? 2 : 1;
    if (!after_point && (s[end] == 'e' || s[end] == 'E') && is_digit(s[end + sign]))
        real = true, end = digits_end(x, end + sign);
    if (is_name(s[end]) ||
        (!real && s[start] == '0' && end - start > 1 && strspn(s + start, "0_") < end - start))
        return wrong(x, start, "a number that is not decimal");
    *out = (lnt_token){ .kind = real ? LNT_TOKEN_REAL : LNT_TOKEN_INTEGER, .at = start,
                        .text = { s + start, end - start } };
    for (size_t i = start; i < end; i++) {
        if (s[i] == '_') continue;
        if (used == sizeof digits - 1) return wrong(x, start, "a number of more than 63 digits");
        digits[used++] = s[i];
        if (!real && (__builtin_mul_overflow(out->integer, 10, &out->integer) ||
                      __builtin_add_overflow(out->integer, s[i] - '0', &out->integer)))
            return wrong(x, start, "an integer beyond 64 bits");
    }
    digits[used] = 0;
    if (real) out->real = lnt_number_read(digits);
    x->at = end;
    return true;
}

static bool lex_sign(lnt_lexer *x, lnt_token *out)
{
    static const struct {
        char text[3];
        int sign;
    } two[] = { { "==", LNT_SIGN_EQUAL }, { "!=", LNT_SIGN_UNEQUAL }, { "<=", LNT_SIGN_LESS_EQUAL },
                { ">=", LNT_SIGN_MORE_EQUAL }, { "//", LNT_SIGN_FLOOR }, { "**", LNT_SIGN_POWER } };
    const char c = look(x, 0);
    *out = (lnt_token){
        .kind = LNT_TOKEN_SIGN, .sign = c, .at = x->at, .text = { x->source.text + x->at, 1 }
    };
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (c == two[i].text[0] && look(x, 1) == two[i].text[1]) {
            *out = (lnt_token){ .kind = LNT_TOKEN_SIGN, .sign = two[i].sign, .at = x->at,
                                .text = { x->source.text + x->at, 2 } };
            x->at += 2;
            return true;
        }
    if (!c || !strchr("+-/*%~[](){}<>=.:|,", c))
        return wrong(x, x->at, "a character that means nothing here");
    x->brackets += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (x->brackets < 0) return wrong(x, x->at, "a bracket that closes none");
    x->at++;
    return true;
}

/* Whether the tag ends here; steps over that. */
static bool at_end_of_tag(lnt_lexer *x)
{
    const bool block = x->inside == LNT_TOKEN_BLOCK;
    if (x->brackets) return false;
    const size_t sign = look(x, 0) == '-' || (block && look(x, 0) == '+');
    if (look(x, sign) != (block ? '%' : '}') || look(x, sign + 1) != '}') return false;
    step_over_end(x, block);
    return true;
}

static bool next_inside(lnt_lexer *x, lnt_token *out)
{
    skip_space(x);
    const size_t at = x->at;
    if (at == x->source.bytes)
        return wrong(x, at, x->inside == LNT_TOKEN_BLOCK ? "the template ends before '%}'"
                                                         : "the template ends before '}}'");
    if (at_end_of_tag(x)) {
        *out = (lnt_token){ .kind = x->inside == LNT_TOKEN_BLOCK ? LNT_TOKEN_BLOCK_END : LNT_TOKEN_PRINT_END,
                            .at = at };
        x->inside = LNT_TOKEN_TEXT;
        return true;
    }
    const char c = look(x, 0);
    if (c == '\'' || c == '"') return lex_string(x, out);
    if (is_digit(c)) return lex_number(x, out);
    if (!is_name(c)) return lex_sign(x, out);
    size_t end = at;
    while (is_name(x->source.text[end])) end++;
    *out = (lnt_token){ .kind = LNT_TOKEN_NAME, .at = at, .text = { x->source.text + at, end - at } };
    x->at = end;
    return true;
}

bool lnt_lexer_next(lnt_lexer *x, lnt_token *out)
{
    return x->inside == LNT_TOKEN_TEXT ? next_outside(x, out) : next_inside(x, out);
}
