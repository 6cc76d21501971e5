/* model/template/statement.c - statements: they write text, set names and steer loops. */
#include <string.h>

#include "model/template/builtin.h"
#include "model/template/render.h"

/* ---- names --------------------------------------------------------------------------------- */

lnt_scope *lnt_scope_new(lnt_render *r, lnt_scope *outer)
{
    lnt_scope *scope = lnt_template_pool_take(&r->pool, 1, sizeof *scope);
    if (scope) *scope = (lnt_scope){ .outer = outer };
    return scope;
}

bool lnt_scope_set(lnt_render *r, lnt_scope *scope, lnt_span name, lnt_value value)
{
    lnt_variable *v = scope->variable;
    while (v && !lnt_span_equal(v->name, name)) {
        if (!lnt_render_spend(r, 1)) return false;
        v = v->next;
    }
    if (!v) {
        if (!(v = lnt_template_pool_take(&r->pool, 1, sizeof *v))) return false;
        *v = (lnt_variable){ .name = name, .next = scope->variable };
        scope->variable = v;
    }
    v->value = value;
    return true;
}

static bool set_attribute(lnt_render *r, const lnt_node *target, lnt_value value)
{
    lnt_value of;
    if (!lnt_expression_value(r, target->a, &of)) return false;
    r->at = target->at;
    if (of.kind != LNT_VALUE_NAMESPACE)
        return lnt_render_fail(r, "'%.*s' is %s; only a namespace has attributes that can be set",
                               LNT_SHOWN(target->a->text), lnt_value_name(&of));
    if (target->text.text[0] == '_') return lnt_render_fail(r, "an attribute whose name begins with '_'");
    return lnt_value_put(r, of.is.dict, lnt_value_text(target->text), value);
}

/* Targets are a name, an attribute, or a tuple of these. */
static bool assign(lnt_render *r, lnt_scope *scope, const lnt_node *target, lnt_value value)
{
    lnt_list items;
    if (target->kind == LNT_NODE_NAME) return lnt_scope_set(r, scope, target->text, value);
    if (target->kind == LNT_NODE_ATTRIBUTE) return set_attribute(r, target, value);
    size_t names = 0;
    for (const lnt_node *one = target->a; one; one = one->next) names++;
    r->at = target->at;
    if (!lnt_value_iterate(r, &value, &items)) return false;
    if (items.count != names)
        return lnt_render_fail(r, "%zu values for %zu names", items.count, names);
    for (const lnt_node *one = target->a; one; one = one->next)
        if (!assign(r, scope, one, *items.item++)) return false;
    return true;
}

/* ---- loops --------------------------------------------------------------------------------- */

/* Whether the filter of the loop takes an item. */
static bool passes(lnt_render *r, const lnt_loop *loop, lnt_value item, bool *out)
{
    lnt_value test = lnt_value_bool(true);
    if (loop->filter) {
        lnt_scope *inner = lnt_scope_new(r, loop->scope), *before = r->scope;
        if (!inner || !assign(r, inner, loop->target, item)) return false;
        r->scope = inner;
        const bool done = lnt_expression_value(r, loop->filter, &test);
        r->scope = before;
        if (!done) return false;
    }
    *out = lnt_value_truth(&test);
    return true;
}

/* The next item that passes; false in *found: there is none. */
static bool find_next(lnt_render *r, lnt_loop *loop, lnt_value *item, bool *found)
{
    *found = false;
    while (!*found && loop->next < loop->items.count) {
        *item = loop->items.item[loop->next++];
        if (!lnt_render_spend(r, 1) || !passes(r, loop, *item, found)) return false;
    }
    return true;
}

static bool peek(lnt_render *r, lnt_loop *loop)
{
    return loop->has_after || find_next(r, loop, &loop->after, &loop->has_after);
}

/* Steps to the next item; false in *found: the loop is over. */
static bool advance(lnt_render *r, lnt_loop *loop, bool *found)
{
    lnt_value item;
    if (!peek(r, loop)) return false;
    *found = loop->has_after;
    item = loop->after;
    loop->has_after = false;
    if (!*found) return true;
    loop->before = loop->current;
    loop->has_before = loop->has_current;
    loop->current = item;
    loop->has_current = true;
    loop->index++;
    return true;
}

/* With a filter the rest must be looked at, and is kept. */
static bool count_items(lnt_render *r, lnt_loop *loop)
{
    if (loop->counted) return true;
    if (!loop->filter) {
        loop->length = loop->index + 1 + loop->has_after + (int64_t)(loop->items.count - loop->next);
    } else {
        lnt_value *rest = lnt_template_pool_take(&r->pool, loop->items.count - loop->next, sizeof *rest);
        size_t count = 0;
        bool found = rest != NULL;
        while (found) {
            if (!find_next(r, loop, &rest[count], &found)) return false;
            count += found;
        }
        if (!rest) return false;
        loop->items = (lnt_list){ .item = rest, .count = count };
        loop->next = 0;
        loop->filter = NULL;
        loop->length = loop->index + 1 + loop->has_after + (int64_t)count;
    }
    loop->counted = true;
    return true;
}

bool lnt_statement_loop_attribute(lnt_render *r, lnt_loop *loop, lnt_span name, lnt_value *out)
{
    static const char *const sized[] = { "length", "revindex", "revindex0" };
    for (int i = 0; i < 3; i++) {
        if (!lnt_span_is(name, sized[i])) continue;
        if (!count_items(r, loop)) return false;
        *out = lnt_value_integer(i == 0 ? loop->length : loop->length - loop->index - (i == 2));
        return true;
    }
    *out = lnt_value_undefined(name);
    if (lnt_span_is(name, "index")) *out = lnt_value_integer(loop->index + 1);
    else if (lnt_span_is(name, "index0")) *out = lnt_value_integer(loop->index);
    else if (lnt_span_is(name, "first")) *out = lnt_value_bool(loop->index == 0);
    else if (lnt_span_is(name, "depth")) *out = lnt_value_integer(1);
    else if (lnt_span_is(name, "depth0")) *out = lnt_value_integer(0);
    else if (lnt_span_is(name, "previtem")) *out = loop->has_before ? loop->before : *out;
    else if (lnt_span_is(name, "last") || lnt_span_is(name, "nextitem")) {
        if (!peek(r, loop)) return false;
        if (lnt_span_is(name, "last")) *out = lnt_value_bool(!loop->has_after);
        else if (loop->has_after) *out = loop->after;
    }
    return true;
}

/* What a loop that is run sees; for an item a scope of its own. */
static bool run_loop(lnt_render *r, const lnt_node *node, lnt_loop *loop)
{
    lnt_scope *const outer = r->scope;
    bool found = true, done = true;
    while (done && r->flow != LNT_FLOW_BREAK) {
        done = advance(r, loop, &found);
        if (!done || !found) break;
        lnt_scope *inner = lnt_scope_new(r, outer);
        done = inner &&
               lnt_scope_set(r, inner, LNT_SPAN("loop"),
                             (lnt_value){ LNT_VALUE_LOOP, { .loop = loop } }) &&
               assign(r, inner, node->a, loop->current);
        if (!done) break;
        r->scope = inner;
        r->flow = LNT_FLOW_ON;
        done = lnt_statement_run(r, node->c);
    }
    r->scope = outer;
    r->flow = LNT_FLOW_ON;
    return done;
}

static bool for_loop(lnt_render *r, const lnt_node *node)
{
    lnt_value of;
    if (!lnt_expression_value(r, node->b, &of)) return false;
    lnt_loop *loop = lnt_template_pool_take(&r->pool, 1, sizeof *loop);
    if (!loop) return false;
    *loop = (lnt_loop){ .filter = node->e, .target = node->a, .scope = r->scope, .index = -1 };
    r->at = node->b->at;
    if (!lnt_value_iterate(r, &of, &loop->items) || !run_loop(r, node, loop)) return false;
    if (loop->has_current || !node->d) return true;
    lnt_scope *const outer = r->scope;
    if (!(r->scope = lnt_scope_new(r, outer))) return false;
    const bool done = lnt_statement_run(r, node->d);
    r->scope = outer;
    return done;
}

/* ---- text that is a value ------------------------------------------------------------------ */

bool lnt_statement_capture(lnt_render *r, const lnt_node *first, lnt_scope *scope, lnt_value *out)
{
    const lnt_buffer before = r->out;
    lnt_scope *const outer = r->scope;
    r->out = (lnt_buffer){ 0 };
    r->scope = scope;
    const bool done = scope && lnt_statement_run(r, first);
    *out = lnt_value_text((lnt_span){ r->out.text ? r->out.text : "", r->out.bytes });
    r->out = before;
    r->scope = outer;
    return done;
}

/* The argument that the caller gave for parameter i, or NULL. */
static const lnt_value *given(const lnt_arguments *arguments, size_t i, lnt_span name)
{
    if (i < arguments->count) return &arguments->value[i];
    for (size_t n = 0; n < arguments->named; n++)
        if (lnt_span_equal(arguments->name[n], name)) return &arguments->value[arguments->count + n];
    return NULL;
}

static bool check_arguments(lnt_render *r, const lnt_macro *macro, const lnt_arguments *arguments)
{
    size_t parameters = 0;
    for (const lnt_node *p = macro->node->a; p; p = p->next, parameters++)
        for (size_t n = 0; n < arguments->named && parameters < arguments->count; n++)
            if (lnt_span_equal(arguments->name[n], p->text))
                return lnt_render_fail(r, "two values for '%.*s'", LNT_SHOWN(p->text));
    if (arguments->count > parameters)
        return lnt_render_fail(r, "the macro '%.*s' takes %zu arguments, not %zu",
                               LNT_SHOWN(macro->node->text), parameters, arguments->count);
    for (size_t n = 0; n < arguments->named; n++) {
        const lnt_node *p = macro->node->a;
        while (p && !lnt_span_equal(arguments->name[n], p->text)) p = p->next;
        if (!p && !lnt_span_is(arguments->name[n], "caller"))
            return lnt_render_fail(r, "the macro '%.*s' has no argument '%.*s'", LNT_SHOWN(macro->node->text),
                                   LNT_SHOWN(arguments->name[n]));
    }
    return true;
}

bool lnt_statement_macro(lnt_render *r, const lnt_macro *macro, const lnt_arguments *arguments,
                         lnt_value *out)
{
    lnt_scope *const outer = r->scope;
    lnt_scope *inner = lnt_scope_new(r, macro->scope);
    const lnt_value *caller = given(arguments, arguments->count, LNT_SPAN("caller"));
    size_t i = 0;
    bool done = inner && check_arguments(r, macro, arguments) && lnt_render_enter(r);
    if (!done) return false;
    if (caller) done = lnt_scope_set(r, inner, LNT_SPAN("caller"), *caller);
    for (const lnt_node *p = macro->node->a; done && p; p = p->next, i++) {
        const lnt_value *argument = given(arguments, i, p->text);
        lnt_value value = argument ? *argument : lnt_value_undefined(p->text);
        r->scope = inner;
        done = (argument || !p->a || lnt_expression_value(r, p->a, &value)) &&
               lnt_scope_set(r, inner, p->text, value);
        r->scope = outer;
    }
    done = done && lnt_statement_capture(r, macro->node->c, inner, out);
    r->depth--;
    return done;
}

static bool macro_value(lnt_render *r, const lnt_node *node, lnt_value *out)
{
    lnt_macro *macro = lnt_template_pool_take(&r->pool, 1, sizeof *macro);
    if (!macro) return false;
    *macro = (lnt_macro){ node, r->scope };
    *out = (lnt_value){ LNT_VALUE_MACRO, { .macro = macro } };
    return true;
}

static bool print(lnt_render *r, const lnt_value *v) { return lnt_print(r, &r->out, v); }

/* The call of a macro, with `caller` beside its arguments. */
static bool call_block(lnt_render *r, const lnt_node *node)
{
    lnt_value callee, caller, text;
    lnt_arguments arguments;
    if (!lnt_expression_value(r, node->a->a, &callee) ||
        !lnt_expression_arguments(r, node->a->b, &arguments) || !macro_value(r, node->b, &caller))
        return false;
    const size_t count = arguments.count + arguments.named;
    lnt_value *value = lnt_template_pool_take(&r->pool, count + 1, sizeof *value);
    lnt_span *name = lnt_template_pool_take(&r->pool, arguments.named + 1, sizeof *name);
    if (!value || !name) return false;
    memcpy(value, arguments.value, count * sizeof *value);
    memcpy(name, arguments.name, arguments.named * sizeof *name);
    value[count] = caller;
    name[arguments.named] = LNT_SPAN("caller");
    arguments = (lnt_arguments){ arguments.count, arguments.named + 1, value, name };
    r->at = node->at;
    return lnt_expression_call(r, &callee, &arguments, &text) && print(r, &text);
}

static bool scope_block(lnt_render *r, const lnt_node *node)
{
    lnt_scope *const outer = r->scope;
    lnt_scope *inner = lnt_scope_new(r, outer);
    bool done = inner != NULL;
    for (const lnt_node *set = node->a; done && set; set = set->next) {
        lnt_value value;
        done = lnt_expression_value(r, set->b, &value) && assign(r, inner, set->a, value);
    }
    if (done) {
        r->scope = inner;
        done = lnt_statement_run(r, node->c);
    }
    r->scope = outer;
    return done;
}

/* ---- statements ---------------------------------------------------------------------------- */

static bool statement(lnt_render *r, const lnt_node *node)
{
    lnt_value v;
    switch (node->kind) {
    case LNT_NODE_TEXT: return lnt_render_put(r, &r->out, node->text.text, node->text.bytes);
    case LNT_NODE_PRINT:
        if (!lnt_expression_value(r, node->a, &v)) return false;
        r->at = node->at;
        return print(r, &v);
    case LNT_NODE_IF:
        return lnt_expression_value(r, node->a, &v) &&
               lnt_statement_run(r, lnt_value_truth(&v) ? node->b : node->c);
    case LNT_NODE_FOR: return for_loop(r, node);
    case LNT_NODE_SET: return lnt_expression_value(r, node->b, &v) && assign(r, r->scope, node->a, v);
    case LNT_NODE_SET_BLOCK:
    case LNT_NODE_FILTER_BLOCK:
        if (!lnt_statement_capture(r, node->c, lnt_scope_new(r, r->scope), &v) ||
            !lnt_expression_filters(r, node->b, v, &v))
            return false;
        return node->kind == LNT_NODE_SET_BLOCK ? assign(r, r->scope, node->a, v) : print(r, &v);
    case LNT_NODE_MACRO: return macro_value(r, node, &v) && lnt_scope_set(r, r->scope, node->text, v);
    case LNT_NODE_CALL_BLOCK: return call_block(r, node);
    case LNT_NODE_SCOPE: return scope_block(r, node);
    default:
        r->flow = node->kind == LNT_NODE_BREAK ? LNT_FLOW_BREAK : LNT_FLOW_CONTINUE;
        return true;
    }
}

bool lnt_statement_run(lnt_render *r, const lnt_node *first)
{
    if (!lnt_render_enter(r)) return false;
    for (; first && r->flow == LNT_FLOW_ON; first = first->next) {
        r->at = first->at;
        if (!lnt_render_spend(r, 1) || !statement(r, first)) return false;
    }
    r->depth--;
    return true;
}
