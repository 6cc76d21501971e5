/* model/template/method.c - methods of strings, dicts, lists and loops.  None changes what it is
 * called on. */
#include <stdint.h>
#include <string.h>

#include "model/template/builtin.h"
#include "model/template/render.h"

static lnt_span self_text(const lnt_call *call) { return call->self->is.string; }

/* ---- strings ------------------------------------------------------------------------------- */

static bool stripped(lnt_render *r, const lnt_call *call, bool left, bool right, lnt_value *out)
{
    lnt_span set = { 0 };
    const lnt_span text = self_text(call);
    if (call->arg[0].kind != LNT_VALUE_NONE && !lnt_call_text(r, call, 0, set, &set)) return false;
    *out = lnt_value_text(lnt_characters_strip(text, set, left, right));
    return lnt_render_spend(r, (text.bytes - out->is.string.bytes) * (1 + set.bytes) / 8);
}

static bool strip(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return stripped(r, c, true, true, out);
}
static bool lstrip(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return stripped(r, c, true, false, out);
}
static bool rstrip(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return stripped(r, c, false, true, out);
}

static bool upper(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return lnt_text_case(r, LNT_CASE_UPPER, self_text(c), out);
}
static bool lower(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return lnt_text_case(r, LNT_CASE_LOWER, self_text(c), out);
}
static bool title(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return lnt_text_case(r, LNT_CASE_TITLE, self_text(c), out);
}
static bool capitalize(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return lnt_text_case(r, LNT_CASE_CAPITAL, self_text(c), out);
}

/* Parts of a text, as many as come. */
typedef struct parts {
    lnt_value *item;
    size_t count, room;
} parts;

static bool add_part(lnt_render *r, parts *to, const char *text, size_t bytes)
{
    if (to->count == to->room) {
        const size_t room = to->room * 2 + 8;
        lnt_value *item = lnt_template_pool_take(&r->pool, room, sizeof *item);
        if (!item) return false;
        if (to->count) memcpy(item, to->item, to->count * sizeof *item);
        to->item = item;
        to->room = room;
    }
    to->item[to->count++] = lnt_value_text((lnt_span){ text, bytes });
    return lnt_render_spend(r, 1 + bytes / 64);
}

static bool split_by(lnt_render *r, lnt_span text, lnt_span by, int64_t most, parts *to)
{
    size_t at = 0, found;
    if (!by.bytes) return lnt_render_fail(r, "split by an empty string");
    for (; most != 0 && (found = lnt_span_find(text, by, at)) != SIZE_MAX; most--) {
        if (!add_part(r, to, text.text + at, found - at)) return false;
        at = found + by.bytes;
    }
    return add_part(r, to, text.text + at, text.bytes - at);
}

/* By white space; what is left after `most` parts keeps its end. */
static bool split_words(lnt_render *r, lnt_span text, int64_t most, parts *to)
{
    for (;; most--) {
        text = lnt_characters_strip(text, (lnt_span){ 0 }, true, false);
        if (!text.bytes) return true;
        if (most == 0) return add_part(r, to, text.text, text.bytes);
        size_t bytes = 0;
        while (bytes < text.bytes &&
               !lnt_characters_is_space(lnt_characters_code(text.text + bytes, text.bytes - bytes)))
            bytes += lnt_characters_bytes(text.text + bytes, text.bytes - bytes);
        if (!add_part(r, to, text.text, bytes)) return false;
        text.text += bytes;
        text.bytes -= bytes;
    }
}

static bool split(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    parts to = { 0 };
    int64_t most;
    if (!lnt_call_integer(r, call, 1, -1, &most)) return false;
    const bool words = call->arg[0].kind == LNT_VALUE_MISSING || call->arg[0].kind == LNT_VALUE_NONE;
    lnt_span by = { 0 };
    if (!words && !lnt_call_text(r, call, 0, by, &by)) return false;
    if (!(words ? split_words(r, self_text(call), most, &to)
                : split_by(r, self_text(call), by, most, &to)))
        return false;
    return lnt_value_list(r, LNT_LIST, to.item, to.count, out);
}

/* The last place of `part` that ends at or before `end`; SIZE_MAX: none. */
static size_t find_last(lnt_span in, lnt_span part, size_t end)
{
    if (part.bytes > end) return SIZE_MAX;
    for (size_t at = end - part.bytes + 1; at-- > 0;)
        if (memcmp(in.text + at, part.text, part.bytes) == 0) return at;
    return SIZE_MAX;
}

static bool rsplit(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    parts to = { 0 };
    int64_t most;
    lnt_span by = { 0 };
    const lnt_span text = self_text(call);
    if (!lnt_call_integer(r, call, 1, -1, &most) || !lnt_call_text(r, call, 0, by, &by)) return false;
    if (most < 0) return split(r, call, out);
    if (!by.bytes) return lnt_render_fail(r, "rsplit by an empty string");
    if (!lnt_render_spend(r, text.bytes * (1 + by.bytes / 8) / 8)) return false;
    size_t end = text.bytes, found;
    for (; most && (found = find_last(text, by, end)) != SIZE_MAX; most--, end = found)
        if (!add_part(r, &to, text.text + found + by.bytes, end - found - by.bytes)) return false;
    if (!add_part(r, &to, text.text, end)) return false;
    for (size_t i = 0; i < to.count / 2; i++) {
        const lnt_value swapped = to.item[i];
        to.item[i] = to.item[to.count - 1 - i];
        to.item[to.count - 1 - i] = swapped;
    }
    return lnt_value_list(r, LNT_LIST, to.item, to.count, out);
}

static bool splitlines(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    parts to = { 0 };
    const lnt_span text = self_text(call);
    const bool keep = lnt_call_truth(call, 0, false);
    for (size_t at = 0, end; at < text.bytes; at += end) {
        const size_t line = lnt_characters_line((lnt_span){ text.text + at, text.bytes - at }, &end);
        if (!add_part(r, &to, text.text + at, keep ? line + end : line)) return false;
        end += line;
    }
    return lnt_value_list(r, LNT_LIST, to.item, to.count, out);
}

/* Whether the text begins or ends with a string, or with one of a tuple of them. */
static bool has_end(lnt_render *r, const lnt_call *call, bool at_end, lnt_value *out)
{
    const lnt_value *what = &call->arg[0];
    const bool tuple = lnt_value_is_list(what, LNT_TUPLE);
    const lnt_value *item = tuple ? what->is.list->item : what;
    const lnt_span text = self_text(call);
    *out = lnt_value_bool(false);
    for (size_t i = 0; i < (tuple ? what->is.list->count : 1); i++) {
        if (item[i].kind != LNT_VALUE_STRING)
            return lnt_render_fail(r, "%s where a string is needed", lnt_value_name(&item[i]));
        const lnt_span part = item[i].is.string;
        if (part.bytes <= text.bytes &&
            memcmp(text.text + (at_end ? text.bytes - part.bytes : 0), part.text, part.bytes) == 0)
            *out = lnt_value_bool(true);
    }
    return lnt_render_spend(r, 1);
}

static bool startswith(lnt_render *r, const lnt_call *c, lnt_value *out) { return has_end(r, c, false, out); }
static bool endswith(lnt_render *r, const lnt_call *c, lnt_value *out) { return has_end(r, c, true, out); }

static bool removed(lnt_render *r, const lnt_call *call, bool at_end, lnt_value *out)
{
    lnt_value found;
    lnt_span text = self_text(call), part;
    if (!lnt_call_text(r, call, 0, LNT_SPAN(""), &part) || !has_end(r, call, at_end, &found)) return false;
    if (found.is.truth) text.bytes -= part.bytes;
    if (found.is.truth && !at_end) text.text += part.bytes;
    *out = lnt_value_text(text);
    return true;
}

static bool removeprefix(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return removed(r, c, false, out);
}
static bool removesuffix(lnt_render *r, const lnt_call *c, lnt_value *out)
{
    return removed(r, c, true, out);
}

static bool replace(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span old, with;
    int64_t count;
    return lnt_call_text(r, call, 0, LNT_SPAN(""), &old) &&
           lnt_call_text(r, call, 1, LNT_SPAN(""), &with) &&
           lnt_call_integer(r, call, 2, -1, &count) &&
           lnt_text_replace(r, self_text(call), old, with, count, out);
}

/* The place in characters. */
static bool found_at(lnt_render *r, const lnt_call *call, bool last, lnt_value *out)
{
    lnt_span part;
    const lnt_span text = self_text(call);
    if (!lnt_call_text(r, call, 0, LNT_SPAN(""), &part) ||
        !lnt_render_spend(r, text.bytes * (last ? 1 + part.bytes / 8 : 1) / 8))
        return false;
    const size_t at = last ? find_last(text, part, text.bytes) : lnt_span_find(text, part, 0);
    *out = lnt_value_integer(at == SIZE_MAX ? -1
                                            : (int64_t)lnt_characters_count((lnt_span){ text.text, at }));
    return true;
}

static bool find(lnt_render *r, const lnt_call *c, lnt_value *out) { return found_at(r, c, false, out); }
static bool rfind(lnt_render *r, const lnt_call *c, lnt_value *out) { return found_at(r, c, true, out); }

static bool count_text(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span part;
    const lnt_span text = self_text(call);
    int64_t count = 0;
    if (!lnt_call_text(r, call, 0, LNT_SPAN(""), &part) || !lnt_render_spend(r, text.bytes / 8)) return false;
    if (!part.bytes) count = (int64_t)lnt_characters_count(text) + 1;
    else
        for (size_t at = 0; (at = lnt_span_find(text, part, at)) != SIZE_MAX; at += part.bytes) count++;
    *out = lnt_value_integer(count);
    return true;
}

static bool join(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_list items;
    return lnt_value_iterate(r, &call->arg[0], &items) &&
           lnt_text_join(r, self_text(call), &items, true, out);
}

static bool isdigit_(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_span text = self_text(call);
    bool all = text.bytes > 0;
    for (size_t i = 0; i < text.bytes; i++) all = all && text.text[i] >= '0' && text.text[i] <= '9';
    *out = lnt_value_bool(all);
    return lnt_render_spend(r, text.bytes / 64);
}

const lnt_builtin lnt_string_methods[] = {
    { "strip", "chars", 0, strip },
    { "lstrip", "chars", 0, lstrip },
    { "rstrip", "chars", 0, rstrip },
    { "split", "sep maxsplit", 0, split },
    { "rsplit", "sep maxsplit", 0, rsplit },
    { "splitlines", "keepends", 0, splitlines },
    { "startswith", "prefix", 1, startswith },
    { "endswith", "suffix", 1, endswith },
    { "removeprefix", "prefix", 1, removeprefix },
    { "removesuffix", "suffix", 1, removesuffix },
    { "upper", "", 0, upper },
    { "lower", "", 0, lower },
    { "title", "", 0, title },
    { "capitalize", "", 0, capitalize },
    { "replace", "old new count", 2, replace },
    { "find", "sub", 1, find },
    { "rfind", "sub", 1, rfind },
    { "count", "sub", 1, count_text },
    { "join", "iterable", 1, join },
    { "isdigit", "", 0, isdigit_ },
    { 0 },
};

/* ---- dicts --------------------------------------------------------------------------------- */

static bool view(lnt_render *r, const lnt_call *call, lnt_list_form form, lnt_value *out)
{
    const lnt_dict *dict = call->self->is.dict;
    lnt_value *item = lnt_template_pool_take(&r->pool, dict->count, sizeof *item);
    if (!item || !lnt_render_spend(r, dict->count)) return false;
    for (size_t i = 0; i < dict->count; i++) {
        item[i] = form == LNT_KEYS ? dict->pair[i].key : dict->pair[i].value;
        if (form == LNT_ITEMS &&
            !lnt_value_pair(r, dict->pair[i].key, dict->pair[i].value, &item[i]))
            return false;
    }
    return lnt_value_list(r, form, item, dict->count, out);
}

static bool keys(lnt_render *r, const lnt_call *c, lnt_value *out) { return view(r, c, LNT_KEYS, out); }
static bool values(lnt_render *r, const lnt_call *c, lnt_value *out) { return view(r, c, LNT_VALUES, out); }
static bool items(lnt_render *r, const lnt_call *c, lnt_value *out) { return view(r, c, LNT_ITEMS, out); }

static bool get(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_value *found;
    if (!lnt_value_find(r, call->self->is.dict, &call->arg[0], &found)) return false;
    *out = found ? *found : call->arg[1].kind == LNT_VALUE_MISSING ? lnt_value_none() : call->arg[1];
    return true;
}

const lnt_builtin lnt_dict_methods[] = {
    { "items", "", 0, items },
    { "keys", "", 0, keys },
    { "values", "", 0, values },
    { "get", "key default", 1, get },
    { 0 },
};

/* ---- lists and loops ----------------------------------------------------------------------- */

/* How many items are equal to one, and the first place of it, -1 if there is none. */
static bool look_for(lnt_render *r, const lnt_call *call, int64_t *count, int64_t *place)
{
    const lnt_list *list = call->self->is.list;
    *count = 0;
    *place = -1;
    for (size_t i = 0; i < list->count; i++) {
        bool equal;
        if (!lnt_value_equal(r, &list->item[i], &call->arg[0], &equal)) return false;
        if (equal && !(*count)++) *place = (int64_t)i;
    }
    return true;
}

static bool count_items(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    int64_t count, place;
    if (!look_for(r, call, &count, &place)) return false;
    *out = lnt_value_integer(count);
    return true;
}

static bool place_of_item(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    int64_t count, place;
    if (!look_for(r, call, &count, &place)) return false;
    if (!count) return lnt_render_fail(r, "the index of an item that is not in the list");
    *out = lnt_value_integer(place);
    return true;
}

const lnt_builtin lnt_list_methods[] = {
    { "count", "value", 1, count_items },
    { "index", "value", 1, place_of_item },
    { 0 },
};

static bool cycle(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    if (!call->all->count || call->all->named) return lnt_render_fail(r, "cycle needs values to go through");
    *out = call->all->value[(size_t)call->self->is.loop->index % call->all->count];
    return true;
}

const lnt_builtin lnt_loop_methods[] = {
    { "cycle", NULL, 0, cycle },
    { 0 },
};
