/* model/template/print.c - values as text: str() and repr() of Python, and JSON as json.dumps writes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/number.h"
#include "model/template/render.h"

static bool put(lnt_render *r, lnt_buffer *to, const char *text)
{
    return lnt_render_put(r, to, text, strlen(text));
}

/* Digits that read back as the same number, as few as there can be, and the exponent of the first one. */
static int shortest_digits(double value, char digits[LNT_NUMBER_TEXT], int *exponent)
{
    char text[LNT_NUMBER_TEXT];
    int n = 0, count = 1, before_point = 0;
    bool point = false;
    do lnt_number_write(value, count, text);
    while (count++ < 17 && lnt_number_read(text) != value);
    const char *s = text;
    for (; *s && *s != 'e'; s++) {
        if (*s == '.') point = true;
        else if (*s != '0' || n) digits[n++] = *s, before_point += !point;
        else before_point -= point; /* a zero after the point, before any digit */
    }
    *exponent = before_point - 1 + (*s == 'e' ? atoi(s + 1) : 0);
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    return n;
}

/* As Python writes it: with an exponent below 1e-4 and from 1e16.  value > 0 */
static void write_real(double value, char *to, size_t room)
{
    char digits[LNT_NUMBER_TEXT];
    int exponent;
    const int n = shortest_digits(value, digits, &exponent), whole = exponent + 1;
    if (exponent < -4 || exponent >= 16)
        snprintf(to, room, "%c%s%se%+03d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        snprintf(to, room, "0.%.*s%s", -whole, "0000", digits);
    else if (n <= whole)
        snprintf(to, room, "%s%.*s.0", digits, whole - n, "0000000000000000");
    else
        snprintf(to, room, "%.*s.%s", whole, digits, digits + whole);
}

static bool print_number(lnt_render *r, lnt_buffer *to, const lnt_value *v, bool json)
{
    char text[64];
    if (v->kind == LNT_VALUE_INTEGER) snprintf(text, sizeof text, "%lld", (long long)v->is.integer);
    else if (isnan(v->is.real)) strcpy(text, json ? "NaN" : "nan");
    else if (isinf(v->is.real)) strcpy(text, json ? "Infinity" : "inf");
    else if (v->is.real == 0) strcpy(text, "0.0");
    else write_real(fabs(v->is.real), text, sizeof text);
    const bool negative = v->kind == LNT_VALUE_REAL && signbit(v->is.real) && !isnan(v->is.real);
    return (!negative || put(r, to, "-")) && put(r, to, text);
}

/* ---- repr ---------------------------------------------------------------------------------- */

static bool quote(lnt_render *r, lnt_buffer *to, lnt_span text)
{
    const bool other = memchr(text.text, '\'', text.bytes) && !memchr(text.text, '"', text.bytes);
    const char mark = other ? '"' : '\'';
    if (!lnt_render_put(r, to, &mark, 1)) return false;
    for (size_t i = 0, n; i < text.bytes; i += n) {
        static const char from[] = "\\\n\r\t", into[] = "\\nrt";
        n = lnt_characters_bytes(text.text + i, text.bytes - i);
        const char c = text.text[i], *known = c ? strchr(from, c) : NULL;
        const uint32_t code = lnt_characters_code(text.text + i, text.bytes - i);
        char escape[12] = { '\\', known ? into[known - from] : c, 0 };
        if (!known && c != mark && lnt_characters_is_printable(code)) {
            if (!lnt_render_put(r, to, text.text + i, n)) return false;
            continue;
        }
        if (!known && c != mark)
            snprintf(escape, sizeof escape,
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
        if (!put(r, to, escape)) return false;
    }
    return lnt_render_put(r, to, &mark, 1);
}

static bool repr(lnt_render *r, lnt_buffer *to, const lnt_value *v, int depth);

static bool repr_items(lnt_render *r, lnt_buffer *to, const lnt_list *list, int depth)
{
    static const char *const open[] = { "[", "(", NULL, "dict_keys([", "dict_values([", "dict_items([" };
    static const char *const close[] = { "]", ")", NULL, "])", "])", "])" };
    if (!put(r, to, open[list->form])) return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i && !put(r, to, ", ")) || !repr(r, to, &list->item[i], depth + 1)) return false;
    return put(r, to, list->form == LNT_TUPLE && list->count == 1 ? ",)" : close[list->form]);
}

static bool repr_list(lnt_render *r, lnt_buffer *to, const lnt_list *list, int depth)
{
    char text[96];
    if (list->form == LNT_ITERATOR)
        return lnt_render_fail(r, "an iterator has no text; `list` makes a list of it");
    if (list->form != LNT_RANGE) return repr_items(r, to, list, depth);
    const int used = snprintf(text, sizeof text, "range(%lld, %lld", (long long)list->start,
                              (long long)list->stop);
    if (list->step != 1) snprintf(text + used, sizeof text - (size_t)used, ", %lld", (long long)list->step);
    return put(r, to, text) && put(r, to, ")");
}

static bool repr_dict(lnt_render *r, lnt_buffer *to, const lnt_dict *dict, int depth)
{
    if (!put(r, to, "{")) return false;
    for (size_t i = 0; i < dict->count; i++)
        if ((i && !put(r, to, ", ")) || !repr(r, to, &dict->pair[i].key, depth + 1) || !put(r, to, ": ") ||
            !repr(r, to, &dict->pair[i].value, depth + 1))
            return false;
    return put(r, to, "}");
}

static bool repr(lnt_render *r, lnt_buffer *to, const lnt_value *v, int depth)
{
    if (depth > LNT_VALUE_MAX_DEPTH)
        return lnt_render_fail(r, "values nested deeper than %d", LNT_VALUE_MAX_DEPTH);
    switch (v->kind) {
    case LNT_VALUE_UNDEFINED: return put(r, to, "Undefined");
    case LNT_VALUE_NONE: return put(r, to, "None");
    case LNT_VALUE_BOOL: return put(r, to, v->is.truth ? "True" : "False");
    case LNT_VALUE_INTEGER:
    case LNT_VALUE_REAL: return print_number(r, to, v, false);
    case LNT_VALUE_STRING: return quote(r, to, v->is.string);
    case LNT_VALUE_LIST: return repr_list(r, to, v->is.list, depth);
    case LNT_VALUE_DICT: return repr_dict(r, to, v->is.dict, depth);
    default: return lnt_render_fail(r, "%s has no text", lnt_value_name(v));
    }
}

bool lnt_print(lnt_render *r, lnt_buffer *to, const lnt_value *v)
{
    if (v->kind == LNT_VALUE_UNDEFINED) return true;
    if (v->kind == LNT_VALUE_STRING) return lnt_render_put(r, to, v->is.string.text, v->is.string.bytes);
    return repr(r, to, v, 0);
}

bool lnt_print_span(lnt_render *r, const lnt_value *v, lnt_span *out)
{
    lnt_buffer text = { 0 };
    if (v->kind == LNT_VALUE_STRING) {
        *out = v->is.string;
        return true;
    }
    if (!lnt_print(r, &text, v)) return false;
    *out = (lnt_span){ text.text ? text.text : "", text.bytes };
    return true;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static bool json_unicode(lnt_render *r, lnt_buffer *to, uint32_t code)
{
    char escape[16];
    if (code < 0x10000) snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
    else
        snprintf(escape, sizeof escape, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    return put(r, to, escape);
}

static bool json_string(lnt_render *r, lnt_buffer *to, lnt_span text, bool ascii)
{
    if (!put(r, to, "\"")) return false;
    for (size_t i = 0, n; i < text.bytes; i += n) {
        static const char from[] = "\"\\\n\r\t\f\b", into[] = "\"\\nrtfb";
        n = lnt_characters_bytes(text.text + i, text.bytes - i);
        const char c = text.text[i], *known = c ? strchr(from, c) : NULL;
        const uint32_t code = lnt_characters_code(text.text + i, text.bytes - i);
        bool done;
        if (known) done = lnt_render_put(r, to, (const char[]){ '\\', into[known - from] }, 2);
        else if (code < 0x20 || (ascii && code >= 0x7f && code != 0x7f)) done = json_unicode(r, to, code);
        else done = lnt_render_put(r, to, text.text + i, n);
        if (!done) return false;
    }
    return put(r, to, "\"");
}

static bool json(lnt_render *r, lnt_buffer *to, const lnt_value *v, const lnt_json_style *style, int depth);

static bool new_line(lnt_render *r, lnt_buffer *to, const lnt_json_style *style, int depth)
{
    if (!style->indent.text) return true;
    if (!put(r, to, "\n")) return false;
    for (int i = 0; i < depth; i++)
        if (!lnt_render_put(r, to, style->indent.text, style->indent.bytes)) return false;
    return true;
}

static bool json_list(lnt_render *r, lnt_buffer *to, const lnt_list *list,
                      const lnt_json_style *style, int depth)
{
    if (list->form > LNT_TUPLE)
        return lnt_render_fail(r, "only a list or a tuple is JSON; `list` makes a list");
    if (!list->count) return put(r, to, "[]");
    if (!put(r, to, "[")) return false;
    for (size_t i = 0; i < list->count; i++)
        if ((i && !lnt_render_put(r, to, style->between.text, style->between.bytes)) ||
            !new_line(r, to, style, depth + 1) || !json(r, to, &list->item[i], style, depth + 1))
            return false;
    return new_line(r, to, style, depth) && put(r, to, "]");
}

static bool json_key(lnt_render *r, lnt_buffer *to, const lnt_value *key, const lnt_json_style *style)
{
    if (key->kind == LNT_VALUE_STRING) return json_string(r, to, key->is.string, style->ascii);
    if (key->kind < LNT_VALUE_NONE || key->kind > LNT_VALUE_REAL)
        return lnt_render_fail(r, "%s is no key of JSON", lnt_value_name(key));
    return put(r, to, "\"") && json(r, to, key, style, 0) && put(r, to, "\"");
}

/* The pairs in the order of their keys, which must be comparable. */
static bool sorted_pairs(lnt_render *r, const lnt_dict *dict, lnt_pair **out)
{
    lnt_pair *pair = lnt_template_pool_take(&r->pool, dict->count, sizeof *pair);
    if (!pair) return false;
    for (size_t i = 0; i < dict->count; i++) {
        size_t at = i;
        for (bool less = true; at; at--) {
            if (!lnt_value_less(r, &dict->pair[i].key, &pair[at - 1].key, &less)) return false;
            if (!less) break;
            pair[at] = pair[at - 1];
        }
        pair[at] = dict->pair[i];
    }
    *out = pair;
    return true;
}

static bool json_dict(lnt_render *r, lnt_buffer *to, const lnt_dict *dict,
                      const lnt_json_style *style, int depth)
{
    lnt_pair *pair = dict->pair;
    if (!dict->count) return put(r, to, "{}");
    if ((style->sorted && !sorted_pairs(r, dict, &pair)) || !put(r, to, "{")) return false;
    for (size_t i = 0; i < dict->count; i++)
        if ((i && !lnt_render_put(r, to, style->between.text, style->between.bytes)) ||
            !new_line(r, to, style, depth + 1) || !json_key(r, to, &pair[i].key, style) ||
            !lnt_render_put(r, to, style->after_key.text, style->after_key.bytes) ||
            !json(r, to, &pair[i].value, style, depth + 1))
            return false;
    return new_line(r, to, style, depth) && put(r, to, "}");
}

static bool json(lnt_render *r, lnt_buffer *to, const lnt_value *v, const lnt_json_style *style, int depth)
{
    if (depth > LNT_VALUE_MAX_DEPTH)
        return lnt_render_fail(r, "values nested deeper than %d", LNT_VALUE_MAX_DEPTH);
    switch (v->kind) {
    case LNT_VALUE_NONE: return put(r, to, "null");
    case LNT_VALUE_BOOL: return put(r, to, v->is.truth ? "true" : "false");
    case LNT_VALUE_INTEGER:
    case LNT_VALUE_REAL: return print_number(r, to, v, true);
    case LNT_VALUE_STRING: return json_string(r, to, v->is.string, style->ascii);
    case LNT_VALUE_LIST: return json_list(r, to, v->is.list, style, depth);
    case LNT_VALUE_DICT: return json_dict(r, to, v->is.dict, style, depth);
    default: return lnt_render_fail(r, "%s is no JSON", lnt_value_name(v));
    }
}

bool lnt_print_json(lnt_render *r, lnt_buffer *to, const lnt_value *v, const lnt_json_style *style)
{
    return json(r, to, v, style, 0);
}
