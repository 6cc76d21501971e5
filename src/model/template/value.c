/* model/template/value.c - see value.h. */
#include "model/template/value.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "model/template/builtin.h"
#include "model/template/render.h"

bool lnt_value_is_integer(const lnt_value *v, int64_t *out)
{
    if (v->kind == LNT_VALUE_BOOL) *out = v->is.truth;
    else if (v->kind == LNT_VALUE_INTEGER) *out = v->is.integer;
    else return false;
    return true;
}

bool lnt_value_is_number(const lnt_value *v, double *out)
{
    int64_t integer;
    if (lnt_value_is_integer(v, &integer)) *out = (double)integer;
    else if (v->kind == LNT_VALUE_REAL) *out = v->is.real;
    else return false;
    return true;
}

bool lnt_value_is_list(const lnt_value *v, lnt_list_form form)
{
    return v->kind == LNT_VALUE_LIST && v->is.list->form == form;
}

bool lnt_value_truth(const lnt_value *v)
{
    switch (v->kind) {
    case LNT_VALUE_MISSING:
    case LNT_VALUE_UNDEFINED:
    case LNT_VALUE_NONE: return false;
    case LNT_VALUE_BOOL: return v->is.truth;
    case LNT_VALUE_INTEGER: return v->is.integer != 0;
    case LNT_VALUE_REAL: return v->is.real != 0;
    case LNT_VALUE_STRING: return v->is.string.bytes > 0;
    case LNT_VALUE_LIST: return v->is.list->form == LNT_ITERATOR || v->is.list->count > 0;
    case LNT_VALUE_DICT: return v->is.dict->count > 0;
    default: return true;
    }
}

const char *lnt_value_name(const lnt_value *v)
{
    static const char *const names[] = { "nothing", "undefined", "none", "a bool", "an integer", "a float",
                                         "a string", "a list", "a dict", "a namespace", "a loop", "a macro",
                                         "a function" };
    static const char *const forms[] = { "a list", "a tuple", "a range",    "keys",
                                         "values", "items",   "an iterator" };
    return v->kind == LNT_VALUE_LIST ? forms[v->is.list->form] : names[v->kind];
}

/* ---- lists and dicts ----------------------------------------------------------------------- */

bool lnt_value_list(lnt_render *r, lnt_list_form form, const lnt_value *item, size_t count, lnt_value *out)
{
    lnt_list *list = lnt_template_pool_take(&r->pool, 1, sizeof *list);
    if (!list || !lnt_render_spend(r, 1)) return false;
    *list = (lnt_list){ .form = form, .item = item, .count = count };
    *out = (lnt_value){ LNT_VALUE_LIST, { .list = list } };
    return true;
}

bool lnt_value_pair(lnt_render *r, lnt_value a, lnt_value b, lnt_value *out)
{
    lnt_value *item = lnt_template_pool_take(&r->pool, 2, sizeof *item);
    if (!item) return false;
    item[0] = a;
    item[1] = b;
    return lnt_value_list(r, LNT_TUPLE, item, 2, out);
}

bool lnt_value_dict(lnt_render *r, size_t room, lnt_value *out)
{
    lnt_dict *dict = lnt_template_pool_take(&r->pool, 1, sizeof *dict);
    if (!dict) return false;
    *dict = (lnt_dict){ .room = room };
    dict->pair = lnt_template_pool_take(&r->pool, room, sizeof *dict->pair);
    *out = (lnt_value){ LNT_VALUE_DICT, { .dict = dict } };
    return dict->pair != NULL;
}

static bool is_hashable(lnt_render *r, const lnt_value *key, int depth)
{
    const bool list = key->kind == LNT_VALUE_LIST;
    if (key->kind == LNT_VALUE_DICT || (list && key->is.list->form == LNT_LIST) ||
        depth > LNT_VALUE_MAX_DEPTH)
        return lnt_render_fail(r, "%s cannot be a key", lnt_value_name(key));
    if (list && key->is.list->form == LNT_TUPLE)
        for (size_t i = 0; i < key->is.list->count; i++)
            if (!is_hashable(r, &key->is.list->item[i], depth + 1)) return false;
    return true;
}

static bool find_pair(lnt_render *r, const lnt_dict *dict, const lnt_value *key, lnt_pair **out)
{
    *out = NULL;
    if (!is_hashable(r, key, 0) || !lnt_render_spend(r, dict->count)) return false;
    for (size_t i = 0; i < dict->count && !*out; i++) {
        bool equal;
        if (!lnt_value_equal(r, &dict->pair[i].key, key, &equal)) return false;
        if (equal) *out = &dict->pair[i];
    }
    return true;
}

bool lnt_value_find(lnt_render *r, const lnt_dict *dict, const lnt_value *key, const lnt_value **out)
{
    lnt_pair *pair;
    if (!find_pair(r, dict, key, &pair)) return false;
    *out = pair ? &pair->value : NULL;
    return true;
}

bool lnt_value_put(lnt_render *r, lnt_dict *dict, lnt_value key, lnt_value value)
{
    lnt_pair *pair;
    if (!find_pair(r, dict, &key, &pair)) return false;
    if (pair) {
        pair->value = value;
        return true;
    }
    if (dict->count == dict->room) {
        const size_t room = dict->room * 2 + 4;
        pair = lnt_template_pool_take(&r->pool, room, sizeof *pair);
        if (!pair) return false;
        if (dict->count) memcpy(pair, dict->pair, dict->count * sizeof *pair);
        dict->pair = pair;
        dict->room = room;
    }
    dict->pair[dict->count++] = (lnt_pair){ key, value };
    return true;
}

/* ---- comparison ---------------------------------------------------------------------------- */

static bool equal(lnt_render *r, const lnt_value *a, const lnt_value *b, int depth, bool *out);

static bool equal_lists(lnt_render *r, const lnt_list *a, const lnt_list *b, int depth, bool *out)
{
    *out = a == b || (a->form == b->form && a->form != LNT_ITERATOR && a->form != LNT_VALUES &&
                      a->count == b->count);
    for (size_t i = 0; a != b && *out && i < a->count; i++)
        if (!equal(r, &a->item[i], &b->item[i], depth + 1, out)) return false;
    return true;
}

static bool equal_dicts(lnt_render *r, const lnt_dict *a, const lnt_dict *b, int depth, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; a != b && *out && i < a->count; i++) {
        const lnt_value *other;
        if (!lnt_value_find(r, b, &a->pair[i].key, &other)) return false;
        *out = other != NULL;
        if (other && !equal(r, &a->pair[i].value, other, depth + 1, out)) return false;
    }
    return true;
}

static bool equal(lnt_render *r, const lnt_value *a, const lnt_value *b, int depth, bool *out)
{
    double x, y;
    int64_t i, j;
    *out = false;
    if (!lnt_render_spend(r, 1)) return false;
    if (depth > LNT_VALUE_MAX_DEPTH)
        return lnt_render_fail(r, "values nested deeper than %d", LNT_VALUE_MAX_DEPTH);
    if (lnt_value_is_integer(a, &i) && lnt_value_is_integer(b, &j)) *out = i == j;
    else if (lnt_value_is_number(a, &x) && lnt_value_is_number(b, &y)) *out = x == y;
    if (a->kind != b->kind) return true;
    switch (a->kind) {
    case LNT_VALUE_UNDEFINED:
    case LNT_VALUE_NONE: *out = true; return true;
    case LNT_VALUE_STRING:
        *out = lnt_span_equal(a->is.string, b->is.string);
        return !*out || lnt_render_spend(r, a->is.string.bytes / 64);
    case LNT_VALUE_LIST: return equal_lists(r, a->is.list, b->is.list, depth, out);
    case LNT_VALUE_DICT: return equal_dicts(r, a->is.dict, b->is.dict, depth, out);
    case LNT_VALUE_NAMESPACE: *out = a->is.dict == b->is.dict; return true;
    case LNT_VALUE_LOOP: *out = a->is.loop == b->is.loop; return true;
    case LNT_VALUE_MACRO: *out = a->is.macro == b->is.macro; return true;
    case LNT_VALUE_FUNCTION:
        *out = a->is.function.builtin == b->is.function.builtin && a->is.function.self == b->is.function.self;
        return true;
    default: return true; /* numbers */
    }
}

bool lnt_value_equal(lnt_render *r, const lnt_value *a, const lnt_value *b, bool *out)
{
    return equal(r, a, b, 0, out);
}

static bool less(lnt_render *r, const lnt_value *a, const lnt_value *b, int depth, bool *out)
{
    double x, y;
    int64_t i, j;
    if (depth > LNT_VALUE_MAX_DEPTH)
        return lnt_render_fail(r, "values nested deeper than %d", LNT_VALUE_MAX_DEPTH);
    if (lnt_value_is_integer(a, &i) && lnt_value_is_integer(b, &j)) *out = i < j;
    else if (lnt_value_is_number(a, &x) && lnt_value_is_number(b, &y)) *out = x < y;
    else if (a->kind == LNT_VALUE_STRING && b->kind == LNT_VALUE_STRING)
        *out = lnt_span_compare(a->is.string, b->is.string) < 0;
    else if ((lnt_value_is_list(a, LNT_LIST) && lnt_value_is_list(b, LNT_LIST)) ||
             (lnt_value_is_list(a, LNT_TUPLE) && lnt_value_is_list(b, LNT_TUPLE))) {
        const lnt_list *s = a->is.list, *t = b->is.list;
        for (size_t n = 0; n < s->count && n < t->count; n++) {
            bool same;
            if (!equal(r, &s->item[n], &t->item[n], depth + 1, &same)) return false;
            if (!same) return less(r, &s->item[n], &t->item[n], depth + 1, out);
        }
        *out = s->count < t->count;
    } else {
        return lnt_render_fail(r, "%s and %s have no order", lnt_value_name(a), lnt_value_name(b));
    }
    return lnt_render_spend(r, 1);
}

bool lnt_value_less(lnt_render *r, const lnt_value *a, const lnt_value *b, bool *out)
{
    return less(r, a, b, 0, out);
}

bool lnt_value_contains(lnt_render *r, const lnt_value *in, const lnt_value *what, bool *out)
{
    const lnt_value *found;
    lnt_list items;
    *out = false;
    if (in->kind == LNT_VALUE_STRING) {
        if (what->kind != LNT_VALUE_STRING)
            return lnt_render_fail(r, "%s cannot be in a string", lnt_value_name(what));
        *out = lnt_span_find(in->is.string, what->is.string, 0) != SIZE_MAX;
        return lnt_render_spend(r, in->is.string.bytes / 16);
    }
    if (in->kind == LNT_VALUE_DICT) {
        if (!lnt_value_find(r, in->is.dict, what, &found)) return false;
        *out = found != NULL;
        return true;
    }
    if (!lnt_value_iterate(r, in, &items)) return false;
    for (size_t i = 0; i < items.count && !*out; i++)
        if (!lnt_value_equal(r, &items.item[i], what, out)) return false;
    return true;
}

/* ---- parts --------------------------------------------------------------------------------- */

static bool iterate_string(lnt_render *r, lnt_span text, lnt_list *out)
{
    const size_t count = lnt_characters_count(text);
    lnt_value *item = lnt_template_pool_take(&r->pool, count, sizeof *item);
    if (!item || !lnt_render_spend(r, count)) return false;
    for (size_t i = 0, at = 0, n; i < count; i++, at += n) {
        n = lnt_characters_bytes(text.text + at, text.bytes - at);
        item[i] = lnt_value_text((lnt_span){ text.text + at, n });
    }
    *out = (lnt_list){ .item = item, .count = count };
    return true;
}

bool lnt_value_iterate(lnt_render *r, const lnt_value *v, lnt_list *out)
{
    *out = (lnt_list){ .item = NULL };
    if (v->kind == LNT_VALUE_UNDEFINED) return true;
    if (v->kind == LNT_VALUE_STRING) return iterate_string(r, v->is.string, out);
    if (v->kind == LNT_VALUE_DICT) {
        const lnt_dict *dict = v->is.dict;
        lnt_value *item = lnt_template_pool_take(&r->pool, dict->count, sizeof *item);
        if (!item || !lnt_render_spend(r, dict->count)) return false;
        for (size_t i = 0; i < dict->count; i++) item[i] = dict->pair[i].key;
        *out = (lnt_list){ .item = item, .count = dict->count };
        return true;
    }
    if (v->kind != LNT_VALUE_LIST)
        return lnt_render_fail(r, "%s has no items to go through", lnt_value_name(v));
    lnt_list *list = v->is.list;
    *out = *list;
    if (list->form == LNT_ITERATOR) {
        out->item += list->taken;
        out->count -= list->taken;
        list->taken = list->count;
    }
    return true;
}

bool lnt_value_length(lnt_render *r, const lnt_value *v, int64_t *out)
{
    lnt_value length;
    switch (v->kind) {
    case LNT_VALUE_UNDEFINED: *out = 0; return true;
    case LNT_VALUE_STRING:
        *out = (int64_t)lnt_characters_count(v->is.string);
        return lnt_render_spend(r, v->is.string.bytes / 8);
    case LNT_VALUE_DICT: *out = (int64_t)v->is.dict->count; return true;
    case LNT_VALUE_LOOP:
        if (!lnt_statement_loop_attribute(r, v->is.loop, LNT_SPAN("length"), &length)) return false;
        *out = length.is.integer;
        return true;
    case LNT_VALUE_LIST:
        if (v->is.list->form == LNT_ITERATOR) break;
        *out = (int64_t)v->is.list->count;
        return true;
    default: break;
    }
    return lnt_render_fail(r, "%s has no length", lnt_value_name(v));
}

/* The item at an index from the begin, or from the end if it is negative. */
static bool item_at(lnt_render *r, const lnt_value *of, int64_t index, lnt_value *out)
{
    int64_t count;
    *out = lnt_value_undefined(LNT_SPAN("the item with that index"));
    if (!lnt_value_length(r, of, &count)) return false;
    if (index < 0) index += count;
    if (index < 0 || index >= count) return true;
    if (of->kind == LNT_VALUE_LIST) {
        *out = of->is.list->item[index];
        return true;
    }
    const lnt_span text = of->is.string;
    const size_t at = lnt_characters_skip(text, (size_t)index);
    *out = lnt_value_text(
        (lnt_span){ text.text + at, lnt_characters_bytes(text.text + at, text.bytes - at) });
    return true;
}

static bool has_indices(const lnt_value *v)
{
    return v->kind == LNT_VALUE_STRING || (v->kind == LNT_VALUE_LIST && v->is.list->form <= LNT_RANGE);
}

/* A method of `of`, or a part that its attributes have before its keys. */
static bool own_attribute(lnt_render *r, const lnt_value *of, lnt_span name, lnt_value *out)
{
    const lnt_builtin *table = of->kind == LNT_VALUE_STRING ? lnt_string_methods
                               : of->kind == LNT_VALUE_DICT ? lnt_dict_methods
                               : of->kind == LNT_VALUE_LOOP ? lnt_loop_methods
                               : has_indices(of)            ? lnt_list_methods : NULL;
    const lnt_builtin *method = table ? lnt_builtin_find(table, name) : NULL;
    *out = lnt_value_undefined(name);
    if (!method) return true;
    lnt_value *self = lnt_template_pool_take(&r->pool, 1, sizeof *self);
    if (!self) return false;
    *self = *of;
    *out = (lnt_value){ LNT_VALUE_FUNCTION, { .function = { method, self } } };
    return true;
}

bool lnt_value_item(lnt_render *r, const lnt_value *of, const lnt_value *key, lnt_value *out)
{
    int64_t index;
    const lnt_value *found;
    if (of->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "'%.*s' is not defined, and has no items", LNT_SHOWN(of->is.string));
    if (of->kind == LNT_VALUE_DICT || of->kind == LNT_VALUE_NAMESPACE) {
        const bool hashable = key->kind != LNT_VALUE_DICT && !lnt_value_is_list(key, LNT_LIST);
        if (hashable && !lnt_value_find(r, of->is.dict, key, &found)) return false;
        if (hashable && found) {
            *out = *found;
            return true;
        }
    } else if (has_indices(of) && lnt_value_is_integer(key, &index)) {
        return item_at(r, of, index, out);
    }
    if (key->kind == LNT_VALUE_STRING) return lnt_value_attribute(r, of, key->is.string, out);
    *out = lnt_value_undefined(LNT_SPAN("the item with that key"));
    return true;
}

bool lnt_value_attribute(lnt_render *r, const lnt_value *of, lnt_span name, lnt_value *out)
{
    const lnt_value key = lnt_value_text(name), *found;
    if (of->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "'%.*s' is not defined, and has no '%.*s'", LNT_SHOWN(of->is.string),
                               LNT_SHOWN(name));
    if (of->kind == LNT_VALUE_LOOP && !lnt_builtin_find(lnt_loop_methods, name))
        return lnt_statement_loop_attribute(r, of->is.loop, name, out);
    if (!own_attribute(r, of, name, out)) return false;
    if (out->kind != LNT_VALUE_UNDEFINED || (of->kind != LNT_VALUE_DICT && of->kind != LNT_VALUE_NAMESPACE))
        return true;
    if (!lnt_value_find(r, of->is.dict, &key, &found)) return false;
    if (found) *out = *found;
    return true;
}
