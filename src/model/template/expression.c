/* model/template/expression.c - expressions to values, by walking the tree. */
#include <string.h>

#include "model/template/builtin.h"
#include "model/template/render.h"

static size_t count_nodes(const lnt_node *first)
{
    size_t count = 0;
    for (; first; first = first->next) count++;
    return count;
}

/* The values of a list of nodes. */
static bool values(lnt_render *r, const lnt_node *first, size_t count, lnt_value **out)
{
    lnt_value *item = *out = lnt_template_pool_take(&r->pool, count, sizeof *item);
    if (!item) return false;
    for (; first; first = first->next, item++)
        if (!lnt_expression_value(r, first, item)) return false;
    return true;
}

bool lnt_expression_arguments(lnt_render *r, const lnt_node *first, lnt_arguments *out)
{
    const size_t count = count_nodes(first);
    lnt_value *value = lnt_template_pool_take(&r->pool, count, sizeof *value);
    lnt_span *name = lnt_template_pool_take(&r->pool, count, sizeof *name);
    if (!value || !name) return false;
    *out = (lnt_arguments){ .value = value, .name = name };
    for (; first; first = first->next, value++) {
        const bool named = first->kind == LNT_NODE_KEYWORD;
        if (!lnt_expression_value(r, named ? first->a : first, value)) return false;
        if (named) name[out->named++] = first->text;
        else out->count++;
    }
    return true;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool name_value(lnt_render *r, lnt_span name, lnt_value *out)
{
    for (const lnt_scope *scope = r->scope; scope; scope = scope->outer)
        for (const lnt_variable *v = scope->variable; v; v = v->next) {
            if (!lnt_render_spend(r, 1)) return false;
            if (!lnt_span_equal(v->name, name)) continue;
            *out = v->value;
            return true;
        }
    const lnt_builtin *function = lnt_builtin_find(lnt_functions, name);
    *out = lnt_value_undefined(name);
    if (function && !(lnt_span_is(name, "strftime_now") && !r->options->now))
        *out = (lnt_value){ LNT_VALUE_FUNCTION, { .function = { function, NULL } } };
    return true;
}

/* ---- operators ----------------------------------------------------------------------------- */

static bool dict(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    if (!lnt_value_dict(r, count_nodes(node->a), out)) return false;
    for (const lnt_node *pair = node->a; pair; pair = pair->next) {
        lnt_value key, value;
        if (!lnt_expression_value(r, pair->a, &key) || !lnt_expression_value(r, pair->b, &value))
            return false;
        r->at = pair->at;
        if (!lnt_value_put(r, out->is.dict, key, value)) return false;
    }
    return true;
}

static bool list(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value *item;
    const size_t count = count_nodes(node->a);
    return values(r, node->a, count, &item) &&
           lnt_value_list(r, node->kind == LNT_NODE_TUPLE ? LNT_TUPLE : LNT_LIST, item, count, out);
}

static bool slice(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    const lnt_node *const bounds[3] = { node->b, node->c, node->d };
    lnt_value of, bound[3] = { 0 };
    if (!lnt_expression_value(r, node->a, &of)) return false;
    for (int i = 0; i < 3; i++)
        if (bounds[i]->kind != LNT_NODE_ABSENT && !lnt_expression_value(r, bounds[i], &bound[i]))
            return false;
    r->at = node->at;
    return lnt_slice(r, &of, bound, out);
}

static bool item(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value of, key;
    if (!lnt_expression_value(r, node->a, &of) || !lnt_expression_value(r, node->b, &key)) return false;
    r->at = node->at;
    return lnt_value_item(r, &of, &key, out);
}

static bool attribute(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value of;
    if (!lnt_expression_value(r, node->a, &of)) return false;
    r->at = node->at;
    return lnt_value_attribute(r, &of, node->text, out);
}

static bool signed_value(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value v, zero = lnt_value_integer(0);
    if (!lnt_expression_value(r, node->a, &v)) return false;
    r->at = node->at;
    if (v.kind == LNT_VALUE_REAL)
        *out = lnt_value_real(node->kind == LNT_NODE_NEGATIVE ? -v.is.real : v.is.real);
    else return lnt_arithmetic(r, node->kind == LNT_NODE_NEGATIVE ? '-' : '+', &zero, &v, out);
    return true;
}

static bool binary(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value a, b;
    if (!lnt_expression_value(r, node->a, &a) || !lnt_expression_value(r, node->b, &b)) return false;
    r->at = node->at;
    return lnt_arithmetic(r, node->sign, &a, &b, out);
}

static bool logical(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    if (!lnt_expression_value(r, node->a, out)) return false;
    const bool decided = lnt_value_truth(out) == (node->kind == LNT_NODE_OR);
    return decided || lnt_expression_value(r, node->b, out);
}

static bool concat(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value *part;
    lnt_buffer text = { 0 };
    const size_t count = count_nodes(node->a);
    if (!values(r, node->a, count, &part)) return false;
    r->at = node->at;
    for (size_t i = 0; i < count; i++)
        if (!lnt_print(r, &text, &part[i])) return false;
    *out = lnt_value_text((lnt_span){ text.text ? text.text : "", text.bytes });
    return true;
}

static bool holds(lnt_render *r, int sign, const lnt_value *a, const lnt_value *b, bool *out)
{
    bool other, done = false;
    double x, y;
    switch (sign) {
    case LNT_SIGN_EQUAL: return lnt_value_equal(r, a, b, out);
    case LNT_SIGN_UNEQUAL:
        done = lnt_value_equal(r, a, b, out);
        *out = !*out;
        return done;
    case LNT_SIGN_IN: return lnt_value_contains(r, b, a, out);
    case LNT_SIGN_NOT_IN:
        done = lnt_value_contains(r, b, a, out);
        *out = !*out;
        return done;
    case '<': return lnt_value_less(r, a, b, out);
    case '>': return lnt_value_less(r, b, a, out);
    default: /* <= and >=; for what is not a number they are the opposite of > and < */
        if (!lnt_value_less(r, sign == LNT_SIGN_LESS_EQUAL ? b : a,
                            sign == LNT_SIGN_LESS_EQUAL ? a : b, &other))
            return false;
        *out = !other;
        if (lnt_value_is_number(a, &x) && lnt_value_is_number(b, &y)) *out = *out && x == x && y == y;
        return true;
    }
}

/* a < b < c is a < b and b < c, where b is computed once. */
static bool compare(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value left, right;
    bool result = true;
    if (!lnt_expression_value(r, node->a, &left)) return false;
    for (const lnt_node *operand = node->b; operand && result; operand = operand->next) {
        if (!lnt_expression_value(r, operand->a, &right)) return false;
        r->at = operand->at;
        if (!holds(r, operand->sign, &left, &right, &result)) return false;
        left = right;
    }
    *out = lnt_value_bool(result);
    return true;
}

static bool choice(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value test;
    if (!lnt_expression_value(r, node->a, &test)) return false;
    if (lnt_value_truth(&test)) return lnt_expression_value(r, node->b, out);
    *out = lnt_value_undefined(LNT_SPAN("the value of an 'if' without 'else'"));
    return !node->c || lnt_expression_value(r, node->c, out);
}

/* ---- calls --------------------------------------------------------------------------------- */

bool lnt_expression_call(lnt_render *r, const lnt_value *callee, const lnt_arguments *arguments,
                         lnt_value *out)
{
    if (callee->kind == LNT_VALUE_MACRO) return lnt_statement_macro(r, callee->is.macro, arguments, out);
    if (callee->kind == LNT_VALUE_FUNCTION)
        return lnt_builtin_call(r, callee->is.function.builtin, callee->is.function.self, arguments, out);
    if (callee->kind == LNT_VALUE_UNDEFINED)
        return lnt_render_fail(r, "'%.*s' is not known here, and cannot be called",
                               LNT_SHOWN(callee->is.string));
    return lnt_render_fail(r, "%s cannot be called", lnt_value_name(callee));
}

static bool call(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_value callee;
    lnt_arguments arguments;
    if (!lnt_expression_value(r, node->a, &callee) ||
        !lnt_expression_arguments(r, node->b, &arguments))
        return false;
    r->at = node->at;
    return lnt_expression_call(r, &callee, &arguments, out);
}

/* A filter or test; `of` NULL: what stands before it is its first child. */
static bool apply(lnt_render *r, const lnt_node *node, const lnt_value *of, lnt_value *out)
{
    lnt_value self;
    lnt_arguments arguments;
    if (of) self = *of;
    else if (!lnt_expression_value(r, node->a, &self)) return false;
    if (!lnt_expression_arguments(r, node->b, &arguments)) return false;
    r->at = node->at;
    return lnt_builtin_call(r, node->is.builtin, &self, &arguments, out);
}

bool lnt_expression_filters(lnt_render *r, const lnt_node *filter, lnt_value of, lnt_value *out)
{
    *out = of;
    if (!filter) return true;
    lnt_value before;
    if (!lnt_render_enter(r)) return false;
    const bool done = lnt_expression_filters(r, filter->a, of, &before) && apply(r, filter, &before, out);
    r->depth--;
    return done;
}

static bool value(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    switch (node->kind) {
    case LNT_NODE_STRING: *out = lnt_value_text(node->text); return true;
    case LNT_NODE_INTEGER: *out = lnt_value_integer(node->is.integer); return true;
    case LNT_NODE_REAL: *out = lnt_value_real(node->is.real); return true;
    case LNT_NODE_TRUE:
    case LNT_NODE_FALSE: *out = lnt_value_bool(node->kind == LNT_NODE_TRUE); return true;
    case LNT_NODE_NONE: *out = lnt_value_none(); return true;
    case LNT_NODE_NAME: return name_value(r, node->text, out);
    case LNT_NODE_LIST:
    case LNT_NODE_TUPLE: return list(r, node, out);
    case LNT_NODE_DICT: return dict(r, node, out);
    case LNT_NODE_ATTRIBUTE: return attribute(r, node, out);
    case LNT_NODE_ITEM: return item(r, node, out);
    case LNT_NODE_SLICE: return slice(r, node, out);
    case LNT_NODE_CALL: return call(r, node, out);
    case LNT_NODE_FILTER:
    case LNT_NODE_TEST: return apply(r, node, NULL, out);
    case LNT_NODE_NOT:
        if (!lnt_expression_value(r, node->a, out)) return false;
        *out = lnt_value_bool(!lnt_value_truth(out));
        return true;
    case LNT_NODE_NEGATIVE:
    case LNT_NODE_POSITIVE: return signed_value(r, node, out);
    case LNT_NODE_BINARY: return binary(r, node, out);
    case LNT_NODE_AND:
    case LNT_NODE_OR: return logical(r, node, out);
    case LNT_NODE_CONCAT: return concat(r, node, out);
    case LNT_NODE_COMPARE: return compare(r, node, out);
    default: return choice(r, node, out); /* no other kind is an expression */
    }
}

bool lnt_expression_value(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    r->at = node->at;
    if (!lnt_render_spend(r, 1) || !lnt_render_enter(r)) return false;
    const bool done = value(r, node, out);
    r->depth--;
    return done;
}
