/* model/template/list_filter.c - filters over the items of a list, a dict or a string.
 *
 * What gives an iterator in Jinja gives one here: it has no length, and its items come once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/builtin.h"
#include "model/template/render.h"

/* of.a.b.0, each part of the path by key. */
static bool part_of(lnt_render *r, lnt_value of, lnt_span path, lnt_value *out)
{
    *out = of;
    for (size_t at = 0; at <= path.bytes;) {
        size_t end = lnt_span_find(path, LNT_SPAN("."), at), digits = 0;
        if (end == SIZE_MAX) end = path.bytes;
        const lnt_span name = { path.text + at, end - at };
        int64_t index = 0;
        while (digits < name.bytes && digits < 18 && name.text[digits] >= '0' && name.text[digits] <= '9')
            index = index * 10 + (name.text[digits++] - '0');
        const lnt_value key =
            name.bytes && digits == name.bytes ? lnt_value_integer(index) : lnt_value_text(name);
        of = *out;
        if (!lnt_value_item(r, &of, &key, out)) return false;
        at = end + 1;
    }
    return true;
}

/* The same where the path is an argument: a name, a number, or missing. */
static bool part_by(lnt_render *r, lnt_value of, const lnt_value *path, lnt_value *out)
{
    *out = of;
    if (path->kind == LNT_VALUE_MISSING || path->kind == LNT_VALUE_NONE) return true;
    if (path->kind == LNT_VALUE_INTEGER) return lnt_value_item(r, &of, path, out);
    if (path->kind != LNT_VALUE_STRING)
        return lnt_render_fail(r, "an attribute that is %s", lnt_value_name(path));
    return part_of(r, of, path->is.string, out);
}

static bool list(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    return lnt_value_iterate(r, call->self, &items) &&
           lnt_value_list(r, LNT_LIST, items.item, items.count, out);
}

static bool join(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    lnt_span between = LNT_SPAN("");
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    if (call->arg[0].kind != LNT_VALUE_MISSING && !lnt_print_span(r, &call->arg[0], &between)) return false;
    if (call->arg[1].kind != LNT_VALUE_MISSING) {
        lnt_value *part = lnt_template_pool_take(&r->pool, items.count, sizeof *part);
        if (!part) return false;
        for (size_t i = 0; i < items.count; i++)
            if (!part_by(r, items.item[i], &call->arg[1], &part[i])) return false;
        items.item = part;
    }
    return lnt_text_join(r, between, &items, false, out);
}

static bool first(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    const bool iterator = lnt_value_is_list(call->self, LNT_ITERATOR);
    const size_t taken = iterator ? call->self->is.list->taken : 0;
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    *out = items.count ? items.item[0] : lnt_value_undefined(LNT_SPAN("the first item of nothing"));
    if (iterator && items.count) call->self->is.list->taken = taken + 1;
    return true;
}

static bool last(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    if (lnt_value_is_list(call->self, LNT_ITERATOR))
        return lnt_render_fail(r, "an iterator has no last item; `list` makes a list of it");
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    *out = items.count ? items.item[items.count - 1]
                       : lnt_value_undefined(LNT_SPAN("the last item of nothing"));
    return true;
}

static bool reverse(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    lnt_buffer to = { 0 };
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    if (call->self->kind == LNT_VALUE_STRING) {
        for (size_t i = items.count; i-- > 0;)
            if (!lnt_print(r, &to, &items.item[i])) return false;
        *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
        return true;
    }
    lnt_value *item = lnt_template_pool_take(&r->pool, items.count, sizeof *item);
    if (!item || !lnt_render_spend(r, items.count)) return false;
    for (size_t i = 0; i < items.count; i++) item[i] = items.item[items.count - 1 - i];
    return lnt_value_list(r, LNT_ITERATOR, item, items.count, out);
}

static bool items(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    if (call->self->kind == LNT_VALUE_UNDEFINED) return lnt_value_list(r, LNT_ITERATOR, NULL, 0, out);
    if (call->self->kind != LNT_VALUE_DICT)
        return lnt_render_fail(r, "items of %s", lnt_value_name(call->self));
    const lnt_dict *dict = call->self->is.dict;
    lnt_value *item = lnt_template_pool_take(&r->pool, dict->count, sizeof *item);
    if (!item) return false;
    for (size_t i = 0; i < dict->count; i++)
        if (!lnt_value_pair(r, dict->pair[i].key, dict->pair[i].value, &item[i])) return false;
    return lnt_value_list(r, LNT_ITERATOR, item, dict->count, out);
}

/* ---- sorted -------------------------------------------------------------------------------- */

typedef struct entry {
    lnt_value key, value;
} entry;

/* What an item is compared by: a part of it, in small letters unless case counts. */
static bool compared_by(lnt_render *r, lnt_value item, const lnt_value *path, bool with_case, lnt_value *out)
{
    if (!part_by(r, item, path, out)) return false;
    const lnt_value key = *out;
    return with_case || key.kind != LNT_VALUE_STRING || lnt_text_case(r, LNT_CASE_LOWER, key.is.string, out);
}

/* Whether a comes before b; what is equal needs no order. */
static bool comes_before(lnt_render *r, const lnt_value *a, const lnt_value *b, bool *out)
{
    bool equal;
    *out = false;
    return lnt_value_equal(r, a, b, &equal) && (equal || lnt_value_less(r, a, b, out));
}

/* Stable; n log n comparisons.  from and to [count] change places. */
static bool merge_sort(lnt_render *r, entry *from, entry *to, size_t count, bool down)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            const size_t middle = start + width < count ? start + width : count;
            const size_t end = middle + width < count ? middle + width : count;
            for (size_t i = start, j = middle, at = start; at < end; at++) {
                bool second = i == middle;
                if (i < middle && j < end &&
                    !comes_before(r, down ? &from[i].key : &from[j].key,
                                  down ? &from[j].key : &from[i].key, &second))
                    return false;
                to[at] = second ? from[j++] : from[i++];
            }
        }
        memcpy(from, to, count * sizeof *from);
        if (!lnt_render_spend(r, count)) return false;
    }
    return true;
}

static bool sorted(lnt_render *r, const lnt_list *items, const lnt_value *path, bool with_case,
                   bool down, lnt_value *out)
{
    entry *e = lnt_template_pool_take(&r->pool, items->count, sizeof *e),
          *other = lnt_template_pool_take(&r->pool, items->count, sizeof *e);
    lnt_value *item = lnt_template_pool_take(&r->pool, items->count, sizeof *item);
    if (!e || !other || !item) return false;
    for (size_t i = 0; i < items->count; i++) {
        e[i].value = items->item[i];
        if (!compared_by(r, e[i].value, path, with_case, &e[i].key)) return false;
    }
    if (!merge_sort(r, e, other, items->count, down)) return false;
    for (size_t i = 0; i < items->count; i++) item[i] = e[i].value;
    return lnt_value_list(r, LNT_LIST, item, items->count, out);
}

static bool sort(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    return lnt_value_iterate(r, call->self, &items) &&
           sorted(r, &items, &call->arg[2], lnt_call_truth(call, 1, false),
                  lnt_call_truth(call, 0, false), out);
}

static bool dict_sort(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span by;
    lnt_value pairs;
    if (call->self->kind != LNT_VALUE_DICT)
        return lnt_render_fail(r, "dictsort of %s", lnt_value_name(call->self));
    if (!lnt_call_text(r, call, 1, LNT_SPAN("key"), &by) || !items(r, call, &pairs)) return false;
    if (!lnt_span_is(by, "key") && !lnt_span_is(by, "value"))
        return lnt_render_fail(r, "dictsort by '%.*s'; 'key' and 'value' are known", LNT_SHOWN(by));
    const lnt_value place = lnt_value_integer(lnt_span_is(by, "value"));
    return sorted(r, pairs.is.list, &place, lnt_call_truth(call, 0, false),
                  lnt_call_truth(call, 2, false), out);
}

static bool unique(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    lnt_value seen;
    size_t kept = 0;
    if (!lnt_value_iterate(r, call->self, &items) || !lnt_value_dict(r, items.count, &seen)) return false;
    lnt_value *item = lnt_template_pool_take(&r->pool, items.count, sizeof *item);
    if (!item) return false;
    for (size_t i = 0; i < items.count; i++) {
        lnt_value key;
        const size_t before = seen.is.dict->count;
        if (!compared_by(r, items.item[i], &call->arg[1], lnt_call_truth(call, 0, false), &key) ||
            !lnt_value_put(r, seen.is.dict, key, lnt_value_none()))
            return false;
        if (seen.is.dict->count > before) item[kept++] = items.item[i];
    }
    return lnt_value_list(r, LNT_ITERATOR, item, kept, out);
}

/* The least or the greatest item; of equal ones the first. */
static bool extreme(lnt_render *r, const lnt_call *call, bool most, lnt_value *out)
{
    lnt_list items;
    lnt_value best, key;
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    *out = lnt_value_undefined(LNT_SPAN("an item of nothing"));
    for (size_t i = 0; i < items.count; i++) {
        bool better = i == 0;
        if (!compared_by(r, items.item[i], &call->arg[1], lnt_call_truth(call, 0, false), &key)) return false;
        if (i && !lnt_value_less(r, most ? &best : &key, most ? &key : &best, &better)) return false;
        if (!better) continue;
        best = key;
        *out = items.item[i];
    }
    return true;
}

static bool least(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    return extreme(r, call, false, out);
}
static bool most(lnt_render *r, const lnt_call *call, lnt_value *out) { return extreme(r, call, true, out); }

static bool sum(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    if (!lnt_value_iterate(r, call->self, &items)) return false;
    *out = call->arg[1].kind == LNT_VALUE_MISSING ? lnt_value_integer(0) : call->arg[1];
    for (size_t i = 0; i < items.count; i++) {
        lnt_value part;
        const lnt_value before = *out;
        if (!part_by(r, items.item[i], &call->arg[0], &part) ||
            !lnt_arithmetic(r, '+', &before, &part, out))
            return false;
    }
    return true;
}

/* ---- chosen and mapped --------------------------------------------------------------------- */

/* The arguments after the first `skipped`. */
static lnt_arguments after(const lnt_arguments *a, size_t skipped)
{
    return (lnt_arguments){ a->count - skipped, a->named, a->value + skipped, a->name };
}

/* The name that argument i is, as an entry of `table`. */
static bool named_builtin(lnt_render *r, const lnt_arguments *a, size_t i, const lnt_builtin *table,
                          const char *what, const lnt_builtin **out)
{
    if (a->value[i].kind != LNT_VALUE_STRING)
        return lnt_render_fail(r, "the name of a %s that is %s", what, lnt_value_name(&a->value[i]));
    *out = lnt_builtin_find(table, a->value[i].is.string);
    return *out || lnt_render_fail(r, "the %s '%.*s' is not known", what, LNT_SHOWN(a->value[i].is.string));
}

/* The items of what is true; nothing has none, whatever it is. */
static bool gone_through(lnt_render *r, const lnt_value *v, lnt_list *out)
{
    *out = (lnt_list){ .item = NULL };
    return !lnt_value_truth(v) || lnt_value_iterate(r, v, out);
}

/* Items of which a test says `wanted`; of an attribute of theirs, if the first argument names one. */
static bool choose(lnt_render *r, const lnt_call *call, bool attribute, bool wanted, lnt_value *out)
{
    const lnt_arguments *a = call->all;
    const lnt_builtin *test = NULL;
    lnt_list items;
    size_t kept = 0;
    if (attribute && !a->count) return lnt_render_fail(r, "the attribute to be tested is missing");
    if (a->count > attribute && !named_builtin(r, a, attribute, lnt_tests, "test", &test)) return false;
    if (!test && a->named) return lnt_render_fail(r, "an argument of no test");
    if (!gone_through(r, call->self, &items)) return false;
    const lnt_arguments rest = after(a, test ? (size_t)attribute + 1 : a->count);
    lnt_value *item = lnt_template_pool_take(&r->pool, items.count, sizeof *item);
    if (!item) return false;
    for (size_t i = 0; i < items.count; i++) {
        lnt_value part = items.item[i], result;
        if (!lnt_render_spend(r, 1) ||
            (attribute && !part_by(r, items.item[i], &a->value[0], &part)))
            return false;
        result = part;
        if (test && !lnt_builtin_call(r, test, &part, &rest, &result)) return false;
        if (lnt_value_truth(&result) == wanted) item[kept++] = items.item[i];
    }
    return lnt_value_list(r, LNT_ITERATOR, item, kept, out);
}

static bool select_items(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return choose(r, c, false, true, out);
}
static bool reject_items(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return choose(r, c, false, false, out);
}
static bool select_by(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return choose(r, c, true, true, out);
}
static bool reject_by(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return choose(r, c, true, false, out);
}

/* The named argument, or NULL. */
static const lnt_value *named(const lnt_arguments *a, const char *name)
{
    for (size_t n = 0; n < a->named; n++)
        if (lnt_span_is(a->name[n], name)) return &a->value[a->count + n];
    return NULL;
}

static bool map_attribute(lnt_render *r, const lnt_call *call, const lnt_list *items, lnt_value *item)
{
    const lnt_arguments *a = call->all;
    const lnt_value *path = named(a, "attribute"), *otherwise = named(a, "default");
    if (a->count || a->named > 1u + (otherwise != NULL))
        return lnt_render_fail(r, "map of an attribute takes `attribute` and `default` alone");
    for (size_t i = 0; i < items->count; i++) {
        if (!part_by(r, items->item[i], path, &item[i])) return false;
        if (item[i].kind == LNT_VALUE_UNDEFINED && otherwise) item[i] = *otherwise;
    }
    return true;
}

static bool map(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_arguments *a = call->all;
    const lnt_builtin *filter = NULL;
    lnt_list items;
    if (!gone_through(r, call->self, &items)) return false;
    lnt_value *item = lnt_template_pool_take(&r->pool, items.count, sizeof *item);
    if (!item || !lnt_render_spend(r, items.count)) return false;
    if (named(a, "attribute")) {
        if (!map_attribute(r, call, &items, item)) return false;
    } else {
        if (!a->count) return lnt_render_fail(r, "map needs the name of a filter, or `attribute`");
        if (!named_builtin(r, a, 0, lnt_filters, "filter", &filter)) return false;
        const lnt_arguments rest = after(a, 1);
        if (!lnt_render_enter(r)) return false;
        for (size_t i = 0; i < items.count; i++)
            if (!lnt_builtin_call(r, filter, &items.item[i], &rest, &item[i])) return false;
        r->depth--;
    }
    return lnt_value_list(r, LNT_ITERATOR, item, items.count, out);
}

const lnt_builtin lnt_list_filters[] = {
    { "list", "", 0, list },
    { "join", "d attribute", 0, join },
    { "first", "", 0, first },
    { "last", "", 0, last },
    { "reverse", "", 0, reverse },
    { "items", "", 0, items },
    { "sort", "reverse case_sensitive attribute", 0, sort },
    { "dictsort", "case_sensitive by reverse", 0, dict_sort },
    { "unique", "case_sensitive attribute", 0, unique },
    { "min", "case_sensitive attribute", 0, least },
    { "max", "case_sensitive attribute", 0, most },
    { "sum", "attribute start", 0, sum },
    { "select", NULL, 0, select_items },
    { "reject", NULL, 0, reject_items },
    { "selectattr", NULL, 0, select_by },
    { "rejectattr", NULL, 0, reject_by },
    { "map", NULL, 0, map },
    { 0 },
};
