/* model/template/test.c - what stands after `is`. */
#include "model/template/builtin.h"
#include "model/template/render.h"

static bool say(lnt_value *out, bool truth)
{
    *out = lnt_value_bool(truth);
    return true;
}

#define KIND_TEST(name, condition)                                                    \
    static bool name(lnt_render *r, const lnt_call *call, lnt_value *out)             \
    {                                                                                 \
        const lnt_value *v = call->self;                                              \
        (void)r;                                                                      \
        return say(out, condition);                                                   \
    }

KIND_TEST(defined, v->kind != LNT_VALUE_UNDEFINED)
KIND_TEST(undefined, v->kind == LNT_VALUE_UNDEFINED)
KIND_TEST(none, v->kind == LNT_VALUE_NONE)
KIND_TEST(string, v->kind == LNT_VALUE_STRING)
KIND_TEST(boolean, v->kind == LNT_VALUE_BOOL)
KIND_TEST(integer, v->kind == LNT_VALUE_INTEGER)
KIND_TEST(real, v->kind == LNT_VALUE_REAL)
KIND_TEST(number, v->kind == LNT_VALUE_INTEGER || v->kind == LNT_VALUE_REAL || v->kind == LNT_VALUE_BOOL)
KIND_TEST(mapping, v->kind == LNT_VALUE_DICT)
KIND_TEST(callable, v->kind == LNT_VALUE_FUNCTION || v->kind == LNT_VALUE_MACRO ||
                        v->kind == LNT_VALUE_UNDEFINED || v->kind == LNT_VALUE_LOOP)
KIND_TEST(is_true, v->kind == LNT_VALUE_BOOL && v->is.truth)
KIND_TEST(is_false, v->kind == LNT_VALUE_BOOL && !v->is.truth)
KIND_TEST(iterable, v->kind == LNT_VALUE_UNDEFINED || v->kind == LNT_VALUE_STRING ||
                        v->kind == LNT_VALUE_LIST || v->kind == LNT_VALUE_DICT ||
                        v->kind == LNT_VALUE_LOOP)
/* What has a length and items by key: a dict too, an iterator and the views of a dict not. */
KIND_TEST(sequence, v->kind == LNT_VALUE_UNDEFINED || v->kind == LNT_VALUE_STRING ||
                        v->kind == LNT_VALUE_DICT ||
                        (v->kind == LNT_VALUE_LIST && v->is.list->form <= LNT_RANGE))

static bool divisible(lnt_render *r, const lnt_value *v, const lnt_value *by, int64_t rest, lnt_value *out)
{
    lnt_value remainder;
    bool equal;
    const lnt_value wanted = lnt_value_integer(rest);
    return lnt_arithmetic(r, '%', v, by, &remainder) && lnt_value_equal(r, &remainder, &wanted, &equal) &&
           say(out, equal);
}

static bool odd(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_value two = lnt_value_integer(2);
    return divisible(r, call->self, &two, 1, out);
}

static bool even(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    const lnt_value two = lnt_value_integer(2);
    return divisible(r, call->self, &two, 0, out);
}

static bool divisible_by(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    return divisible(r, call->self, &call->arg[0], 0, out);
}

static bool in(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    bool truth;
    return lnt_value_contains(r, &call->arg[0], call->self, &truth) && say(out, truth);
}

static bool equal(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    bool truth;
    return lnt_value_equal(r, call->self, &call->arg[0], &truth) && say(out, truth);
}

static bool unequal(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    bool truth;
    return lnt_value_equal(r, call->self, &call->arg[0], &truth) && say(out, !truth);
}

static bool less(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    bool truth;
    return lnt_value_less(r, call->self, &call->arg[0], &truth) && say(out, truth);
}

static bool more(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    bool truth;
    return lnt_value_less(r, &call->arg[0], call->self, &truth) && say(out, truth);
}

/* Text whose letters are all of one case, and which has one. */
static bool in_case(lnt_render *r, const lnt_value *v, bool upper, lnt_value *out)
{
    bool some = false;
    lnt_span text;
    if (!lnt_print_span(r, v, &text) || !lnt_render_spend(r, text.bytes / 4)) return false;
    for (size_t i = 0; i < text.bytes; i += lnt_characters_bytes(text.text + i, text.bytes - i)) {
        const uint32_t code = lnt_characters_code(text.text + i, text.bytes - i);
        if ((upper ? lnt_characters_lower(code) : lnt_characters_upper(code)) != code) some = true;
        else if (lnt_characters_is_cased(code)) return say(out, false);
    }
    return say(out, some);
}

static bool is_upper(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    return in_case(r, call->self, true, out);
}
static bool is_lower(lnt_render *r, const lnt_call *call, lnt_value *out)
{
    return in_case(r, call->self, false, out);
}

const lnt_builtin lnt_tests[] = {
    { "defined", "", 0, defined },
    { "undefined", "", 0, undefined },
    { "none", "", 0, none },
    { "string", "", 0, string },
    { "boolean", "", 0, boolean },
    { "integer", "", 0, integer },
    { "float", "", 0, real },
    { "number", "", 0, number },
    { "mapping", "", 0, mapping },
    { "sequence", "", 0, sequence },
    { "iterable", "", 0, iterable },
    { "callable", "", 0, callable },
    { "true", "", 0, is_true },
    { "false", "", 0, is_false },
    { "odd", "", 0, odd },
    { "even", "", 0, even },
    { "divisibleby", "num", 1, divisible_by },
    { "in", "seq", 1, in },
    { "equalto", "other", 1, equal },
    { "eq", "other", 1, equal },
    { "ne", "other", 1, unequal },
    { "lt", "other", 1, less },
    { "lessthan", "other", 1, less },
    { "gt", "other", 1, more },
    { "greaterthan", "other", 1, more },
    { "upper", "", 0, is_upper },
    { "lower", "", 0, is_lower },
    { 0 },
};
