/* model/template/parse_expression.c - expressions, from the loosest binding to the tightest:
 * choice, or, and, not, comparison, + -, ~, * / // %, **, sign, what follows a value, filters and tests. */
#include "model/template/builtin.h"
#include "model/template/parser.h"

/* `parts` of one level: `kind`(left, right) for each operator in `signs`, which ends in 0. */
typedef lnt_node *part(lnt_parser *p);

static lnt_node *binary(lnt_parser *p, part *operand, const int *signs)
{
    lnt_node *left = operand(p);
    while (left) {
        const int *sign = signs;
        while (*sign && !lnt_parse_is_sign(p, *sign)) sign++;
        if (!*sign) break;
        lnt_node *node = lnt_parse_node(p, LNT_NODE_BINARY, p->now.at);
        if (!node || !lnt_parse_step(p)) return NULL;
        node->sign = *sign;
        node->a = left;
        node->b = operand(p);
        if (!node->b || !lnt_parse_own(p, node, node->a) || !lnt_parse_own(p, node, node->b)) return NULL;
        left = node;
    }
    return left;
}

/* The same for a word, `and` or `or`. */
static lnt_node *logical(lnt_parser *p, part *operand, const char *word, lnt_node_kind kind)
{
    lnt_node *left = operand(p);
    while (left && lnt_parse_is_name(p, word)) {
        lnt_node *node = lnt_parse_node(p, kind, p->now.at);
        if (!node || !lnt_parse_step(p)) return NULL;
        node->a = left;
        node->b = operand(p);
        if (!node->b || !lnt_parse_own(p, node, node->a) || !lnt_parse_own(p, node, node->b)) return NULL;
        left = node;
    }
    return left;
}

/* ---- values -------------------------------------------------------------------------------- */

/* Items up to the bracket `end`, which is stepped over. */
static bool items(lnt_parser *p, lnt_node *node, int end)
{
    lnt_node **last = &node->a;
    if (!lnt_parse_step(p)) return false;
    while (!lnt_parse_is_sign(p, end)) {
        if (node->a && !lnt_parse_expect_sign(p, ',')) return false;
        if (node->a && lnt_parse_is_sign(p, end)) break;
        lnt_node *item = lnt_parse_expression(p);
        if (item && node->kind == LNT_NODE_DICT) {
            lnt_node *pair = lnt_parse_node(p, LNT_NODE_PAIR, item->at);
            if (!pair || !lnt_parse_expect_sign(p, ':')) return false;
            pair->a = item;
            pair->b = lnt_parse_expression(p);
            if (!pair->b || !lnt_parse_own(p, pair, pair->a) || !lnt_parse_own(p, pair, pair->b))
                return false;
            item = pair;
        }
        if (!item || !lnt_parse_own(p, node, item)) return false;
        *last = item;
        last = &item->next;
    }
    return lnt_parse_step(p);
}

static lnt_node *in_brackets(lnt_parser *p)
{
    const size_t at = p->now.at;
    if (!lnt_parse_is_sign(p, '(')) {
        const bool list = lnt_parse_is_sign(p, '[');
        lnt_node *node = lnt_parse_node(p, list ? LNT_NODE_LIST : LNT_NODE_DICT, at);
        return node && items(p, node, list ? ']' : '}') ? node : NULL;
    }
    if (!lnt_parse_step(p)) return NULL;
    if (lnt_parse_is_sign(p, ')')) {
        lnt_node *empty = lnt_parse_node(p, LNT_NODE_TUPLE, at);
        return empty && lnt_parse_step(p) ? empty : NULL;
    }
    lnt_node *node = lnt_parse_tuple(p, true);
    return node && lnt_parse_expect_sign(p, ')') ? node : NULL;
}

/* 'a' 'b' is 'ab'. */
static lnt_node *string(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_STRING, p->now.at);
    if (!node) return NULL;
    node->text = p->now.text;
    if (!lnt_parse_step(p)) return NULL;
    while (p->now.kind == LNT_TOKEN_STRING) {
        const lnt_span left = node->text, right = p->now.text;
        char *both = lnt_template_pool_take(p->lexer.pool, left.bytes + right.bytes, 1);
        if (!both) return NULL;
        for (size_t i = 0; i < left.bytes; i++) both[i] = left.text[i];
        for (size_t i = 0; i < right.bytes; i++) both[left.bytes + i] = right.text[i];
        node->text = (lnt_span){ both, left.bytes + right.bytes };
        if (!lnt_parse_step(p)) return NULL;
    }
    return node;
}

static lnt_node *name(lnt_parser *p)
{
    static const struct {
        const char *name;
        lnt_node_kind kind;
    } constants[] = { { "true", LNT_NODE_TRUE },   { "True", LNT_NODE_TRUE }, { "false", LNT_NODE_FALSE },
                      { "False", LNT_NODE_FALSE }, { "none", LNT_NODE_NONE }, { "None", LNT_NODE_NONE } };
    lnt_node *node = lnt_parse_node(p, LNT_NODE_NAME, p->now.at);
    if (!node) return NULL;
    node->text = p->now.text;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (lnt_parse_is_name(p, constants[i].name)) node->kind = constants[i].kind;
    return lnt_parse_step(p) ? node : NULL;
}

static lnt_node *primary(lnt_parser *p)
{
    lnt_node *node;
    switch (p->now.kind) {
    case LNT_TOKEN_NAME: return name(p);
    case LNT_TOKEN_STRING: return string(p);
    case LNT_TOKEN_INTEGER:
    case LNT_TOKEN_REAL:
        node = lnt_parse_node(p, p->now.kind == LNT_TOKEN_REAL ? LNT_NODE_REAL : LNT_NODE_INTEGER, p->now.at);
        if (!node) return NULL;
        if (p->now.kind == LNT_TOKEN_REAL) node->is.real = p->now.real;
        else node->is.integer = p->now.integer;
        return lnt_parse_step(p) ? node : NULL;
    default:
        if (lnt_parse_is_sign(p, '(') || lnt_parse_is_sign(p, '[') || lnt_parse_is_sign(p, '{'))
            return in_brackets(p);
        lnt_parse_unexpected(p, "an expression");
        return NULL;
    }
}

/* ---- what follows a value ------------------------------------------------------------------ */

/* The arguments of a call, from its '(' to its ')': positional, then named ones. */
static bool arguments(lnt_parser *p, lnt_node *call)
{
    lnt_node **last = &call->b;
    bool named = false;
    if (!lnt_parse_expect_sign(p, '(')) return false;
    while (!lnt_parse_is_sign(p, ')')) {
        if (call->b && !lnt_parse_expect_sign(p, ',')) return false;
        if (call->b && lnt_parse_is_sign(p, ')')) break;
        if (!lnt_parse_peek(p)) return false;
        lnt_node *argument;
        if (p->now.kind == LNT_TOKEN_NAME && p->ahead.kind == LNT_TOKEN_SIGN && p->ahead.sign == '=') {
            argument = lnt_parse_node(p, LNT_NODE_KEYWORD, p->now.at);
            if (!argument) return false;
            argument->text = p->now.text;
            if (!lnt_parse_step(p) || !lnt_parse_step(p)) return false;
            argument->a = lnt_parse_expression(p);
            if (!argument->a || !lnt_parse_own(p, argument, argument->a)) return false;
            named = true;
        } else if (named) {
            return lnt_parse_unexpected(p, "NAME=VALUE after another named argument");
        } else {
            argument = lnt_parse_expression(p);
        }
        if (!argument || !lnt_parse_own(p, call, argument)) return false;
        *last = argument;
        last = &argument->next;
    }
    return lnt_parse_step(p);
}

/* One bound of a slice, or none. */
static lnt_node *bound(lnt_parser *p)
{
    if (lnt_parse_is_sign(p, ':') || lnt_parse_is_sign(p, ']'))
        return lnt_parse_node(p, LNT_NODE_ABSENT, p->now.at);
    return lnt_parse_expression(p);
}

static lnt_node *subscript(lnt_parser *p, lnt_node *of)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_ITEM, p->now.at);
    if (!node || !lnt_parse_step(p)) return NULL;
    node->a = of;
    if (lnt_parse_is_sign(p, ']')) return lnt_parse_unexpected(p, "an index"), NULL;
    if (!(node->b = bound(p))) return NULL;
    if (lnt_parse_is_sign(p, ':')) {
        node->kind = LNT_NODE_SLICE;
        if (!lnt_parse_step(p) || !(node->c = bound(p))) return NULL;
        if (lnt_parse_is_sign(p, ':') && !lnt_parse_step(p)) return NULL;
        if (!(node->d = bound(p))) return NULL;
    }
    if (!lnt_parse_own(p, node, of) || !lnt_parse_own(p, node, node->b) || !lnt_parse_own(p, node, node->c) ||
        !lnt_parse_own(p, node, node->d) || !lnt_parse_expect_sign(p, ']'))
        return NULL;
    return node;
}

static lnt_node *attribute(lnt_parser *p, lnt_node *of)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_ATTRIBUTE, p->now.at);
    if (!node || !lnt_parse_step(p)) return NULL;
    node->a = of;
    node->text = p->now.text;
    if (p->now.kind == LNT_TOKEN_INTEGER) { /* x.0 is x[0] */
        node->kind = LNT_NODE_ITEM;
        node->b = lnt_parse_node(p, LNT_NODE_INTEGER, p->now.at);
        if (!node->b) return NULL;
        node->b->is.integer = p->now.integer;
    } else if (p->now.kind != LNT_TOKEN_NAME) {
        return lnt_parse_unexpected(p, "a name after '.'"), NULL;
    }
    return lnt_parse_step(p) && lnt_parse_own(p, node, of) ? node : NULL;
}

static lnt_node *call(lnt_parser *p, lnt_node *of)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_CALL, p->now.at);
    if (!node) return NULL;
    node->a = of;
    return lnt_parse_own(p, node, of) && arguments(p, node) ? node : NULL;
}

static lnt_node *postfix(lnt_parser *p, lnt_node *node)
{
    while (node) {
        if (lnt_parse_is_sign(p, '.')) node = attribute(p, node);
        else if (lnt_parse_is_sign(p, '[')) node = subscript(p, node);
        else if (lnt_parse_is_sign(p, '(')) node = call(p, node);
        else break;
    }
    return node;
}

lnt_node *lnt_parse_filter(lnt_parser *p, lnt_node *of)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_FILTER, p->now.at);
    if (!node) return NULL;
    node->a = of;
    node->text = p->now.text;
    if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "the name of a filter"), NULL;
    if (!(node->is.builtin = lnt_builtin_find(lnt_filters, p->now.text)))
        return lnt_template_fail(p->lexer.pool, p->lexer.source, p->now.at, "the filter '%.*s' is not known",
                                 LNT_SHOWN(p->now.text)), NULL;
    if (!lnt_parse_step(p) || !lnt_parse_own(p, node, of)) return NULL;
    return !lnt_parse_is_sign(p, '(') || arguments(p, node) ? node : NULL;
}

lnt_node *lnt_parse_filters(lnt_parser *p, lnt_node *node)
{
    do {
        if (!lnt_parse_expect_sign(p, '|')) return NULL;
        node = lnt_parse_filter(p, node);
    } while (node && lnt_parse_is_sign(p, '|'));
    return node;
}

/* Whether a value begins here that is the argument of a test written without brackets. */
static bool begins_argument(const lnt_parser *p)
{
    if (p->now.kind == LNT_TOKEN_NAME)
        return !lnt_parse_is_name(p, "else") && !lnt_parse_is_name(p, "or") && !lnt_parse_is_name(p, "and");
    return p->now.kind == LNT_TOKEN_STRING || p->now.kind == LNT_TOKEN_INTEGER ||
           p->now.kind == LNT_TOKEN_REAL || lnt_parse_is_sign(p, '[') || lnt_parse_is_sign(p, '{');
}

static lnt_node *test(lnt_parser *p, lnt_node *of)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_TEST, p->now.at), *not = NULL;
    if (!node || !lnt_parse_step(p)) return NULL;
    if (lnt_parse_is_name(p, "not") &&
        (!(not = lnt_parse_node(p, LNT_NODE_NOT, p->now.at)) || !lnt_parse_step(p)))
        return NULL;
    node->a = of;
    node->text = p->now.text;
    if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "the name of a test"), NULL;
    if (!(node->is.builtin = lnt_builtin_find(lnt_tests, p->now.text)))
        return lnt_template_fail(p->lexer.pool, p->lexer.source, p->now.at, "the test '%.*s' is not known",
                                 LNT_SHOWN(p->now.text)), NULL;
    if (!lnt_parse_step(p) || !lnt_parse_own(p, node, of)) return NULL;
    if (lnt_parse_is_name(p, "is")) return lnt_parse_unexpected(p, "no second test"), NULL;
    if (lnt_parse_is_sign(p, '(')) {
        if (!arguments(p, node)) return NULL;
    } else if (begins_argument(p)) {
        node->b = postfix(p, primary(p));
        if (!node->b || !lnt_parse_own(p, node, node->b)) return NULL;
    }
    if (!not) return node;
    not->a = node;
    return lnt_parse_own(p, not, node) ? not : NULL;
}

/* Filters, tests and calls of what came of them. */
static lnt_node *filtered(lnt_parser *p, lnt_node *node)
{
    while (node) {
        if (lnt_parse_is_sign(p, '|')) node = lnt_parse_filters(p, node);
        else if (lnt_parse_is_name(p, "is")) node = test(p, node);
        else if (lnt_parse_is_sign(p, '(')) node = call(p, node);
        else break;
    }
    return node;
}

/* ---- operators ----------------------------------------------------------------------------- */

static lnt_node *unary(lnt_parser *p, bool with_filter)
{
    lnt_node *node = NULL;
    if (!lnt_parse_enter(p)) return NULL;
    if (lnt_parse_is_sign(p, '-') || lnt_parse_is_sign(p, '+')) {
        node = lnt_parse_node(p, lnt_parse_is_sign(p, '-') ? LNT_NODE_NEGATIVE : LNT_NODE_POSITIVE,
                              p->now.at);
        if (!node || !lnt_parse_step(p)) return NULL;
        node->a = unary(p, false);
        if (!node->a || !lnt_parse_own(p, node, node->a)) return NULL;
    } else {
        node = primary(p);
    }
    node = postfix(p, node);
    p->depth--;
    return with_filter ? filtered(p, node) : node;
}

static lnt_node *with_filters(lnt_parser *p) { return unary(p, true); }
static lnt_node *power(lnt_parser *p) { return binary(p, with_filters, (const int[]){ LNT_SIGN_POWER, 0 }); }
static lnt_node *product(lnt_parser *p)
{
    return binary(p, power, (const int[]){ '*', '/', LNT_SIGN_FLOOR, '%', 0 });
}

static lnt_node *concat(lnt_parser *p)
{
    lnt_node *first = product(p);
    if (!first || !lnt_parse_is_sign(p, '~')) return first;
    lnt_node *node = lnt_parse_node(p, LNT_NODE_CONCAT, first->at), **last = &first->next;
    if (!node) return NULL;
    node->a = first;
    while (lnt_parse_is_sign(p, '~')) {
        if (!lnt_parse_step(p) || !(*last = product(p))) return NULL;
        last = &(*last)->next;
    }
    return lnt_parse_own(p, node, first) ? node : NULL;
}

static lnt_node *sum(lnt_parser *p) { return binary(p, concat, (const int[]){ '+', '-', 0 }); }

/* The operator at hand, stepped over; 0: none. -1: failed. */
static int comparison(lnt_parser *p)
{
    static const int signs[] = { LNT_SIGN_EQUAL,      LNT_SIGN_UNEQUAL,   '<', '>',
                                 LNT_SIGN_LESS_EQUAL, LNT_SIGN_MORE_EQUAL };
    int sign = 0;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (lnt_parse_is_sign(p, signs[i])) sign = signs[i];
    if (lnt_parse_is_name(p, "in")) sign = LNT_SIGN_IN;
    if (lnt_parse_is_name(p, "not")) {
        if (!lnt_parse_peek(p)) return -1;
        if (p->ahead.kind != LNT_TOKEN_NAME || !lnt_span_is(p->ahead.text, "in")) return 0;
        if (!lnt_parse_step(p)) return -1;
        sign = LNT_SIGN_NOT_IN;
    }
    return sign && !lnt_parse_step(p) ? -1 : sign;
}

static lnt_node *compare(lnt_parser *p)
{
    lnt_node *first = sum(p), *node = NULL, **last = NULL;
    for (int sign; first;) {
        const size_t at = p->now.at;
        if (!(sign = comparison(p))) break;
        if (sign < 0) return NULL;
        if (!node) {
            if (!(node = lnt_parse_node(p, LNT_NODE_COMPARE, at))) return NULL;
            node->a = first;
            last = &node->b;
        }
        lnt_node *operand = lnt_parse_node(p, LNT_NODE_OPERAND, at);
        if (!operand) return NULL;
        operand->sign = sign;
        if (!(operand->a = sum(p)) || !lnt_parse_own(p, operand, operand->a)) return NULL;
        *last = operand;
        last = &operand->next;
    }
    if (!node) return first;
    return lnt_parse_own(p, node, node->a) && lnt_parse_own(p, node, node->b) ? node : NULL;
}

static lnt_node *negation(lnt_parser *p)
{
    if (!lnt_parse_is_name(p, "not")) return compare(p);
    lnt_node *node = lnt_parse_node(p, LNT_NODE_NOT, p->now.at);
    if (!node || !lnt_parse_step(p) || !lnt_parse_enter(p)) return NULL;
    node->a = negation(p);
    p->depth--;
    return node->a && lnt_parse_own(p, node, node->a) ? node : NULL;
}

static lnt_node *conjunction(lnt_parser *p) { return logical(p, negation, "and", LNT_NODE_AND); }
static lnt_node *disjunction(lnt_parser *p) { return logical(p, conjunction, "or", LNT_NODE_OR); }

/* a if b else c if d else e: the rest after an `else` is a choice again. */
lnt_node *lnt_parse_expression(lnt_parser *p)
{
    if (!lnt_parse_enter(p)) return NULL;
    lnt_node *value = disjunction(p);
    while (value && lnt_parse_is_name(p, "if")) {
        lnt_node *node = lnt_parse_node(p, LNT_NODE_CHOICE, p->now.at);
        if (!node || !lnt_parse_step(p)) return NULL;
        node->b = value;
        if (!(node->a = disjunction(p))) return NULL;
        if (lnt_parse_is_name(p, "else") &&
            (!lnt_parse_step(p) || !(node->c = lnt_parse_expression(p))))
            return NULL;
        if (!lnt_parse_own(p, node, node->a) || !lnt_parse_own(p, node, node->b) ||
            !lnt_parse_own(p, node, node->c))
            return NULL;
        value = node;
    }
    p->depth--;
    return value;
}

/* Whether nothing more of a tuple can follow here. */
static bool ends_tuple(const lnt_parser *p)
{
    return p->now.kind == LNT_TOKEN_PRINT_END || p->now.kind == LNT_TOKEN_BLOCK_END ||
           lnt_parse_is_sign(p, ')') || lnt_parse_is_name(p, "in") ||
           lnt_parse_is_name(p, "recursive");
}

lnt_node *lnt_parse_tuple(lnt_parser *p, bool with_choice)
{
    if (ends_tuple(p)) return lnt_parse_unexpected(p, "an expression"), NULL;
    lnt_node *first = with_choice ? lnt_parse_expression(p) : disjunction(p);
    if (!first || !lnt_parse_is_sign(p, ',')) return first;
    lnt_node *node = lnt_parse_node(p, LNT_NODE_TUPLE, first->at), **last = &first->next;
    if (!node) return NULL;
    node->a = first;
    while (lnt_parse_is_sign(p, ',')) {
        if (!lnt_parse_step(p)) return NULL;
        if (ends_tuple(p)) break;
        if (!(*last = with_choice ? lnt_parse_expression(p) : disjunction(p))) return NULL;
        last = &(*last)->next;
    }
    return lnt_parse_own(p, node, first) ? node : NULL;
}
