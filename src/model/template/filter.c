/* model/template/filter.c - filters of one value; those over lists are in list_filter.c. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/number.h"
#include "model/template/builtin.h"
#include "model/template/render.h"

static bool in_case(lnt_render *r, const lnt_call *call, enum lnt_case to, lnt_value *out)
{
    lnt_span text;
    return lnt_print_span(r, call->self, &text) && lnt_text_case(r, to, text, out);
}

static bool upper(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return in_case(r, c, LNT_CASE_UPPER, out);
}
static bool lower(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return in_case(r, c, LNT_CASE_LOWER, out);
}
static bool capitalize(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return in_case(r, c, LNT_CASE_CAPITAL, out);
}
static bool title(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return in_case(r, c, LNT_CASE_TITLE_FILTER, out);
}

static bool string(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span text;
    if (!lnt_print_span(r, call->self, &text)) return false;
    *out = lnt_value_text(text);
    return true;
}

static bool trim(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span text, set = { 0 };
    if (!lnt_print_span(r, call->self, &text)) return false;
    if (call->arg[0].kind != LNT_VALUE_NONE && !lnt_call_text(r, call, 0, set, &set)) return false;
    *out = lnt_value_text(lnt_characters_strip(text, set, true, true));
    return lnt_render_spend(r, (text.bytes - out->is.string.bytes) * (1 + set.bytes) / 8);
}

static bool length(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    int64_t count;
    if (!lnt_value_length(r, call->self, &count)) return false;
    *out = lnt_value_integer(count);
    return true;
}

static bool or_default(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    (void)r;
    const bool absent = call->self->kind == LNT_VALUE_UNDEFINED ||
                        (lnt_call_truth(call, 1, false) && !lnt_value_truth(call->self));
    *out = !absent ? *call->self
           : call->arg[0].kind == LNT_VALUE_MISSING ? lnt_value_text(LNT_SPAN("")) : call->arg[0];
    return true;
}

static bool replace(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span text, old, with;
    int64_t count;
    return lnt_print_span(r, call->self, &text) && lnt_print_span(r, &call->arg[0], &old) &&
           lnt_print_span(r, &call->arg[1], &with) && lnt_call_integer(r, call, 2, -1, &count) &&
           lnt_text_replace(r, text, old, with, count, out);
}

static bool to_json(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_json_style style = { .ascii = lnt_call_truth(call, 0, false),
                             .sorted = lnt_call_truth(call, 3, false),
                             .between = LNT_SPAN(", "),
                             .after_key = LNT_SPAN(": ") };
    const lnt_value *indent = &call->arg[1], *separators = &call->arg[2];
    int64_t width;
    lnt_buffer to = { 0 };
    if (indent->kind == LNT_VALUE_STRING) {
        style.indent = indent->is.string;
    } else if (lnt_value_is_integer(indent, &width)) {
        if (width > 100) return lnt_render_fail(r, "an indent of %lld, at most 100", (long long)width);
        char *blank = lnt_template_pool_take(&r->pool, 100, 1);
        if (!blank) return false;
        memset(blank, ' ', 100);
        style.indent = (lnt_span){ blank, width > 0 ? (size_t)width : 0 };
    } else if (indent->kind != LNT_VALUE_MISSING && indent->kind != LNT_VALUE_NONE) {
        return lnt_render_fail(r, "an indent of %s", lnt_value_name(indent));
    }
    if (style.indent.text) style.between = LNT_SPAN(",");
    if (separators->kind != LNT_VALUE_MISSING && separators->kind != LNT_VALUE_NONE) {
        lnt_list two;
        if (!lnt_value_iterate(r, separators, &two)) return false;
        if (two.count != 2 || two.item[0].kind != LNT_VALUE_STRING || two.item[1].kind != LNT_VALUE_STRING)
            return lnt_render_fail(r, "the separators of JSON are two strings");
        style.between = two.item[0].is.string;
        style.after_key = two.item[1].is.string;
    }
    if (!lnt_print_json(r, &to, call->self, &style)) return false;
    *out = lnt_value_text((lnt_span){ to.text, to.bytes });
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* The text without white space and the '_' between digits, where it is made of the bytes of
 * numbers; false: not. */
static bool number_text(lnt_span text, char *to, size_t room)
{
    size_t used = 0;
    text = lnt_characters_strip(text, (lnt_span){ 0 }, true, true);
    for (size_t i = 0; i < text.bytes; i++) {
        const char c = text.text[i];
        if (c == '_' && i && i + 1 < text.bytes && isdigit((unsigned char)text.text[i - 1]) &&
            isdigit((unsigned char)text.text[i + 1]))
            continue;
        if (!c || !strchr("0123456789+-.eEinfatyINFATY", c) || used == room - 1) return false;
        to[used++] = c;
    }
    to[used] = 0;
    return used > 0;
}

static bool is_real(const char *s)
{
    s += *s == '+' || *s == '-';
    static const char *const words[] = { "inf", "infinity", "nan" };
    for (int i = 0; i < 3; i++)
        if (strcasecmp(s, words[i]) == 0) return true;
    const size_t whole = strspn(s, "0123456789");
    s += whole;
    const size_t part = *s == '.' ? strspn(s + 1, "0123456789") : 0;
    s += *s == '.' ? part + 1 : 0;
    if (!whole && !part) return false;
    if (*s != 'e' && *s != 'E') return !*s;
    s += s[1] == '+' || s[1] == '-' ? 2 : 1;
    return *s && strspn(s, "0123456789") == strlen(s);
}

/* As Python's float() of a value; false: it would raise. */
static bool real_of(const lnt_value *v, double *out)
{
    char text[400];
    if (lnt_value_is_number(v, out)) return true;
    if (v->kind != LNT_VALUE_STRING || !number_text(v->is.string, text, sizeof text) ||
        !is_real(text))
        return false;
    *out = lnt_number_read(text);
    return true;
}

static bool to_integer(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    char text[64];
    int64_t whole, base;
    double real;
    if (!lnt_call_integer(r, call, 1, 10, &base)) return false;
    if (base != 10) return lnt_render_fail(r, "int of base %lld; 10 is known", (long long)base);
    if (call->self->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "int of '%.*s', which is not defined", LNT_SHOWN(call->self->is.string));
    *out = call->arg[0].kind == LNT_VALUE_MISSING ? lnt_value_integer(0) : call->arg[0];
    if (lnt_value_is_integer(call->self, &whole)) {
        *out = lnt_value_integer(whole);
        return true;
    }
    if (call->self->kind == LNT_VALUE_STRING &&
        number_text(call->self->is.string, text, sizeof text) &&
        strspn(text + (*text == '-' || *text == '+'), "0123456789") ==
            strlen(text) - (*text == '-' || *text == '+') &&
        strlen(text) > (size_t)(*text == '-' || *text == '+')) {
        errno = 0;
        const long long i = strtoll(text, NULL, 10);
        if (errno) return lnt_render_fail(r, "an integer beyond 64 bits");
        *out = lnt_value_integer(i);
    } else if (real_of(call->self, &real) && isfinite(real)) {
        if (fabs(real) >= 9.2e18) return lnt_render_fail(r, "an integer beyond 64 bits");
        *out = lnt_value_integer((int64_t)real);
    }
    return true;
}

static bool to_real(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    double real;
    if (call->self->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "float of '%.*s', which is not defined", LNT_SHOWN(call->self->is.string));
    if (real_of(call->self, &real)) *out = lnt_value_real(real);
    else *out = call->arg[0].kind == LNT_VALUE_MISSING ? lnt_value_real(0) : call->arg[0];
    return true;
}

static bool absolute(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    int64_t whole;
    const lnt_value zero = lnt_value_integer(0);
    if (call->self->kind == LNT_VALUE_REAL) {
        *out = lnt_value_real(fabs(call->self->is.real));
        return true;
    }
    if (!lnt_value_is_integer(call->self, &whole))
        return lnt_render_fail(r, "abs of %s", lnt_value_name(call->self));
    return lnt_arithmetic(r, whole < 0 ? '-' : '+', &zero, call->self, out);
}

/* ---- lines --------------------------------------------------------------------------------- */

/* What stands before a line: a number of blanks, or the text given. */
static bool indentation(lnt_render *r, const lnt_call *call, lnt_span *out)
{
    int64_t width;
    if (call->arg[0].kind == LNT_VALUE_STRING) {
        *out = call->arg[0].is.string;
        return true;
    }
    if (!lnt_call_integer(r, call, 0, 4, &width)) return false;
    if (width > 1000) return lnt_render_fail(r, "an indent of %lld, at most 1000", (long long)width);
    const size_t bytes = width > 0 ? (size_t)width : 0;
    char *blanks = lnt_template_pool_take(&r->pool, bytes, 1);
    if (!blanks) return false;
    memset(blanks, ' ', bytes);
    *out = (lnt_span){ blanks, bytes };
    return true;
}

/* Every line but the first, and those that are empty, gets `width` blanks before it. */
static bool indent(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_span text = call->self->is.string;
    lnt_span blank = { NULL, 0 };
    lnt_buffer to = { 0 };
    if (call->self->kind != LNT_VALUE_STRING)
        return lnt_render_fail(r, "indent of %s", lnt_value_name(call->self));
    if (!indentation(r, call, &blank)) return false;
    const bool first = lnt_call_truth(call, 1, false), empty = lnt_call_truth(call, 2, false);
    for (size_t at = 0, line = 0, end = 1; end; line++) {
        const size_t bytes = lnt_characters_line((lnt_span){ text.text + at, text.bytes - at }, &end);
        if ((line && !lnt_render_put(r, &to, "\n", 1)) ||
            ((line ? bytes || empty : first) && !lnt_render_put(r, &to, blank.text, blank.bytes)) ||
            !lnt_render_put(r, &to, text.text + at, bytes))
            return false;
        at += bytes + end;
    }
    *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
    return true;
}

const lnt_builtin lnt_filters[] = {
    { "upper", "", 0, upper },
    { "lower", "", 0, lower },
    { "capitalize", "", 0, capitalize },
    { "title", "", 0, title },
    { "string", "", 0, string },
    { "safe", "", 0, string },
    { "trim", "chars", 0, trim },
    { "length", "", 0, length },
    { "count", "", 0, length },
    { "default", "default_value boolean", 0, or_default },
    { "d", "default_value boolean", 0, or_default },
    { "replace", "old new count", 2, replace },
    { "tojson", "ensure_ascii indent separators sort_keys", 0, to_json },
    { "int", "default base", 0, to_integer },
    { "float", "default", 0, to_real },
    { "abs", "", 0, absolute },
    { "indent", "width first blank", 0, indent },
    { 0 },
};
