/* model/template/builtin.c - finds and calls what is built in; the functions; text in other forms. */
#include "model/template/builtin.h"

#include <stdint.h>
#include <string.h>

#include "model/template/render.h"

enum { RANGE_MOST = 100000 }; /* as Jinja's sandbox has it */

const lnt_builtin *lnt_builtin_find(const lnt_builtin *table, lnt_span name)
{
    for (const lnt_builtin *b = table; b->name; b++)
        if (lnt_span_is(name, b->name)) return b;
    return table == lnt_filters ? lnt_builtin_find(lnt_list_filters, name) : NULL;
}

/* The place of a name in "one two three"; -1: none. */
static int place_of(const char *parameters, lnt_span name)
{
    for (int i = 0; *parameters; i++) {
        const size_t bytes = strcspn(parameters, " ");
        if (lnt_span_equal(name, (lnt_span){ parameters, bytes })) return i;
        parameters += bytes + (parameters[bytes] == ' ');
    }
    return -1;
}

static size_t count_names(const char *parameters)
{
    size_t count = *parameters != 0;
    for (; *parameters; parameters++) count += *parameters == ' ';
    return count;
}

static bool bind(lnt_render *r, const lnt_builtin *builtin, const lnt_arguments *arguments, lnt_call *call)
{
    const size_t most = count_names(builtin->parameters);
    if (arguments->count > most)
        return lnt_render_fail(r, "'%s' takes %zu arguments at most, not %zu", builtin->name, most,
                               arguments->count);
    for (size_t i = 0; i < arguments->count; i++) call->arg[i] = arguments->value[i];
    for (size_t n = 0; n < arguments->named; n++) {
        const int place = place_of(builtin->parameters, arguments->name[n]);
        if (place < 0)
            return lnt_render_fail(r, "'%s' has no argument '%.*s'", builtin->name,
                                   LNT_SHOWN(arguments->name[n]));
        if (call->arg[place].kind != LNT_VALUE_MISSING)
            return lnt_render_fail(r, "'%s' has two values for '%.*s'", builtin->name,
                                   LNT_SHOWN(arguments->name[n]));
        call->arg[place] = arguments->value[arguments->count + n];
    }
    for (size_t i = 0; i < builtin->needed; i++)
        if (call->arg[i].kind == LNT_VALUE_MISSING)
            return lnt_render_fail(r, "'%s' needs %zu arguments (%s)", builtin->name,
                                   builtin->needed, builtin->parameters);
    return true;
}

bool lnt_builtin_call(lnt_render *r, const lnt_builtin *builtin, const lnt_value *self,
                      const lnt_arguments *arguments, lnt_value *out)
{
    lnt_call call = { .self = self, .all = arguments };
    return (!builtin->parameters || bind(r, builtin, arguments, &call)) && builtin->run(r, &call, out);
}

/* ---- arguments ----------------------------------------------------------------------------- */

bool lnt_call_text(lnt_render *r, const lnt_call *call, int i, lnt_span absent, lnt_span *out)
{
    const lnt_value *v = &call->arg[i];
    *out = absent;
    if (v->kind == LNT_VALUE_MISSING) return true;
    if (v->kind != LNT_VALUE_STRING)
        return lnt_render_fail(r, "%s where a string is needed", lnt_value_name(v));
    *out = v->is.string;
    return true;
}

bool lnt_call_integer(lnt_render *r, const lnt_call *call, int i, int64_t absent, int64_t *out)
{
    const lnt_value *v = &call->arg[i];
    *out = absent;
    if (v->kind == LNT_VALUE_MISSING || v->kind == LNT_VALUE_NONE) return true;
    return lnt_value_is_integer(v, out) ||
           lnt_render_fail(r, "%s where an integer is needed", lnt_value_name(v));
}

bool lnt_call_truth(const lnt_call *call, int i, bool absent)
{
    return call->arg[i].kind == LNT_VALUE_MISSING ? absent : lnt_value_truth(&call->arg[i]);
}

/* ---- text ---------------------------------------------------------------------------------- */

bool lnt_text_case(lnt_render *r, enum lnt_case to, lnt_span text, lnt_value *out)
{
    char *copy = lnt_template_pool_take(&r->pool, text.bytes * 2 + 4, 1);
    size_t used = 0;
    bool inside = false; /* of a word; the first letter outside begins one */
    if (!copy || !lnt_render_spend(r, text.bytes / 4)) return false;
    for (size_t i = 0; i < text.bytes; i += lnt_characters_bytes(text.text + i, text.bytes - i)) {
        const uint32_t code = lnt_characters_code(text.text + i, text.bytes - i);
        const bool upper = to == LNT_CASE_UPPER || (to != LNT_CASE_LOWER && !inside);
        used += lnt_characters_put(upper ? lnt_characters_upper(code) : lnt_characters_lower(code),
                                   copy + used);
        if (to == LNT_CASE_CAPITAL) inside = true;
        if (to == LNT_CASE_TITLE) inside = lnt_characters_is_cased(code);
        if (to == LNT_CASE_TITLE_FILTER)
            inside = !lnt_characters_is_space(code) && !(code < 0x80 && code && strchr("-({[<", (int)code));
    }
    *out = lnt_value_text((lnt_span){ copy, used });
    return true;
}

bool lnt_text_replace(lnt_render *r, lnt_span text, lnt_span old, lnt_span with, int64_t count,
                      lnt_value *out)
{
    lnt_buffer to = { 0 };
    size_t at = 0;
    if (!lnt_render_spend(r, text.bytes / 16)) return false;
    while (count != 0) {
        const size_t found = lnt_span_find(text, old, at);
        if (found == SIZE_MAX) break;
        /* Nothing is found before each character and at the end. */
        const size_t end = !old.bytes && found < text.bytes
                               ? found + lnt_characters_bytes(text.text + found, text.bytes - found)
                               : found + old.bytes;
        if (!lnt_render_put(r, &to, text.text + at, found - at) ||
            !lnt_render_put(r, &to, with.text, with.bytes) ||
            (!old.bytes && !lnt_render_put(r, &to, text.text + found, end - found)) ||
            !lnt_render_spend(r, 1))
            return false;
        const bool over = !old.bytes && found == text.bytes;
        at = end;
        count -= count > 0;
        if (over) break;
    }
    if (!lnt_render_put(r, &to, text.text + at, text.bytes - at)) return false;
    *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
    return true;
}

bool lnt_text_join(lnt_render *r, lnt_span between, const lnt_list *items, bool only_text, lnt_value *out)
{
    lnt_buffer to = { 0 };
    for (size_t i = 0; i < items->count; i++) {
        if (only_text && items->item[i].kind != LNT_VALUE_STRING)
            return lnt_render_fail(r, "%s among strings to be joined", lnt_value_name(&items->item[i]));
        if ((i && !lnt_render_put(r, &to, between.text, between.bytes)) ||
            !lnt_print(r, &to, &items->item[i]))
            return false;
    }
    *out = lnt_value_text((lnt_span){ to.text ? to.text : "", to.bytes });
    return true;
}

/* ---- functions ----------------------------------------------------------------------------- */

static bool range(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    int64_t bound[3];
    for (int i = 0; i < 3; i++) {
        bound[i] = i == 2;
        if (call->arg[i].kind != LNT_VALUE_MISSING && !lnt_value_is_integer(&call->arg[i], &bound[i]))
            return lnt_render_fail(r, "range of %s; its bounds are integers", lnt_value_name(&call->arg[i]));
    }
    const bool one = call->arg[1].kind == LNT_VALUE_MISSING;
    const int64_t from = one ? 0 : bound[0], to = one ? bound[0] : bound[1], step = bound[2];
    if (step == 0) return lnt_render_fail(r, "range with a step of 0");
    const uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const bool some = step > 0 ? from < to : from > to;
    const uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    const uint64_t count = some ? (span - 1) / size + 1 : 0;
    if (count > RANGE_MOST)
        return lnt_render_fail(r, "range of %llu numbers, at most %d", (unsigned long long)count, RANGE_MOST);
    lnt_value *item = lnt_template_pool_take(&r->pool, (size_t)count, sizeof *item);
    if (!item || !lnt_render_spend(r, (size_t)count) ||
        !lnt_value_list(r, LNT_RANGE, item, (size_t)count, out))
        return false;
    for (uint64_t i = 0; i < count; i++)
        item[i] = lnt_value_integer((int64_t)((uint64_t)from + i * (uint64_t)step));
    out->is.list->start = from;
    out->is.list->stop = to;
    out->is.list->step = step;
    return true;
}

/* dict({...}, name=value, ...) and the same for a namespace */
static bool make_dict(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_arguments *a = call->all;
    if (a->count > 1 || (a->count && a->value[0].kind != LNT_VALUE_DICT))
        return lnt_render_fail(r, "a dict is made of another one, and of NAME=VALUE");
    const lnt_dict *from = a->count ? a->value[0].is.dict : NULL;
    if (!lnt_value_dict(r, (from ? from->count : 0) + a->named, out)) return false;
    for (size_t i = 0; from && i < from->count; i++)
        if (!lnt_value_put(r, out->is.dict, from->pair[i].key, from->pair[i].value)) return false;
    for (size_t n = 0; n < a->named; n++)
        if (!lnt_value_put(r, out->is.dict, lnt_value_text(a->name[n]), a->value[a->count + n])) return false;
    return true;
}

static bool make_namespace(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    if (!make_dict(r, call, out)) return false;
    for (size_t i = 0; i < out->is.dict->count; i++) {
        const lnt_value *key = &out->is.dict->pair[i].key;
        if (key->kind == LNT_VALUE_STRING && key->is.string.bytes && key->is.string.text[0] == '_')
            return lnt_render_fail(r, "an attribute whose name begins with '_'");
    }
    out->kind = LNT_VALUE_NAMESPACE;
    return true;
}

static bool raise_exception(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span message;
    (void)out;
    return lnt_print_span(r, &call->arg[0], &message) &&
           lnt_render_fail(r, "the template refuses this: %.*s",
                           (int)(message.bytes < 200 ? message.bytes : 200), message.text);
}

static bool strftime_now(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    lnt_span format;
    return lnt_call_text(r, call, 0, LNT_SPAN(""), &format) &&
           lnt_date_write(r, format, r->options->now, out);
}

const lnt_builtin lnt_functions[] = {
    { "range", "start stop step", 1, range },
    { "dict", NULL, 0, make_dict },
    { "namespace", NULL, 0, make_namespace },
    { "raise_exception", "message", 1, raise_exception },
    { "strftime_now", "format", 1, strftime_now },
    { 0 },
};
