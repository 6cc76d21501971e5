/* model/template/parser.c - statements, and the steps through the tokens that all of the parser takes. */
#include "model/template/parser.h"

#include <stdio.h>
#include <string.h>

/* ---- tokens and nodes ---------------------------------------------------------------------- */

bool lnt_parse_step(lnt_parser *p)
{
    if (p->has_ahead) {
        p->now = p->ahead;
        p->has_ahead = false;
        return true;
    }
    return lnt_lexer_next(&p->lexer, &p->now);
}

bool lnt_parse_peek(lnt_parser *p)
{
    if (!p->has_ahead && !lnt_lexer_next(&p->lexer, &p->ahead)) return false;
    return p->has_ahead = true;
}

bool lnt_parse_is_sign(const lnt_parser *p, int sign)
{
    return p->now.kind == LNT_TOKEN_SIGN && p->now.sign == sign;
}

bool lnt_parse_is_name(const lnt_parser *p, const char *name)
{
    return p->now.kind == LNT_TOKEN_NAME && lnt_span_is(p->now.text, name);
}

bool lnt_parse_unexpected(lnt_parser *p, const char *what)
{
    static const char *const others[] = { [LNT_TOKEN_END] = "the end of the template",
                                          [LNT_TOKEN_TEXT] = "text",
                                          [LNT_TOKEN_PRINT] = "'{{'",
                                          [LNT_TOKEN_PRINT_END] = "'}}'",
                                          [LNT_TOKEN_BLOCK] = "'{%'",
                                          [LNT_TOKEN_BLOCK_END] = "'%}'",
                                          [LNT_TOKEN_STRING] = "a string" };
    const lnt_token *t = &p->now;
    const char *other =
        t->kind <= LNT_TOKEN_BLOCK_END || t->kind == LNT_TOKEN_STRING ? others[t->kind] : NULL;
    const int bytes = t->text.bytes < 60 ? (int)t->text.bytes : 60;
    return other ? lnt_template_fail(p->lexer.pool, p->lexer.source, t->at, "expected %s, found %s",
                                     what, other)
                 : lnt_template_fail(p->lexer.pool, p->lexer.source, t->at,
                                     "expected %s, found '%.*s'", what, bytes, t->text.text);
}

bool lnt_parse_expect_sign(lnt_parser *p, int sign)
{
    const char what[] = { '\'', (char)sign, '\'', 0 }; /* only asked for signs of one character */
    return lnt_parse_is_sign(p, sign) ? lnt_parse_step(p) : lnt_parse_unexpected(p, what);
}

bool lnt_parse_expect_name(lnt_parser *p, const char *name)
{
    char what[32];
    snprintf(what, sizeof what, "'%s'", name);
    return lnt_parse_is_name(p, name) ? lnt_parse_step(p) : lnt_parse_unexpected(p, what);
}

lnt_node *lnt_parse_node(lnt_parser *p, lnt_node_kind kind, size_t at)
{
    lnt_node *node = lnt_template_pool_take(p->lexer.pool, 1, sizeof *node);
    if (node) *node = (lnt_node){ .kind = kind, .at = at, .depth = 1 };
    return node;
}

bool lnt_parse_own(lnt_parser *p, lnt_node *node, const lnt_node *children)
{
    for (const lnt_node *child = children; child; child = child->next)
        if (child->depth + 1 > node->depth) node->depth = child->depth + 1;
    return node->depth <= LNT_TREE_MAX_DEPTH ||
           lnt_template_fail(p->lexer.pool, p->lexer.source, node->at, "nested deeper than %d levels",
                             LNT_TREE_MAX_DEPTH);
}

bool lnt_parse_enter(lnt_parser *p)
{
    return ++p->depth <= LNT_TREE_MAX_DEPTH ||
           lnt_template_fail(p->lexer.pool, p->lexer.source, p->now.at, "nested deeper than %d levels",
                             LNT_TREE_MAX_DEPTH);
}

/* ---- statements ---------------------------------------------------------------------------- */

typedef const char *const *ends; /* names that end a body, then NULL */

static bool is_one_of(const lnt_parser *p, ends names)
{
    for (; names && *names; names++)
        if (lnt_parse_is_name(p, *names)) return true;
    return false;
}

static lnt_node *statement(lnt_parser *p);

/* Statements up to one of `until`, whose name is then p->now; NULL: up to the end of the template. */
static bool statements(lnt_parser *p, ends until, lnt_node **out)
{
    lnt_node **last = out;
    *out = NULL;
    if (!lnt_parse_enter(p)) return false;
    for (;;) {
        lnt_node *node;
        if (p->now.kind == LNT_TOKEN_END) {
            if (!until) break;
            while (until[1]) until++; /* the last one ends the whole statement */
            return lnt_parse_unexpected(p, *until);
        }
        const lnt_token_kind kind = p->now.kind;
        if (kind == LNT_TOKEN_TEXT) {
            if (!(node = lnt_parse_node(p, LNT_NODE_TEXT, p->now.at))) return false;
            node->text = p->now.text;
        } else if (kind == LNT_TOKEN_PRINT) {
            node = lnt_parse_node(p, LNT_NODE_PRINT, p->now.at);
            if (!node || !lnt_parse_step(p) || !(node->a = lnt_parse_tuple(p, true)) ||
                !lnt_parse_own(p, node, node->a))
                return false;
            if (p->now.kind != LNT_TOKEN_PRINT_END) return lnt_parse_unexpected(p, "'}}'");
        } else {
            if (!lnt_parse_step(p)) return false;
            if (is_one_of(p, until)) break;
            if (!(node = statement(p))) return false;
            if (p->now.kind != LNT_TOKEN_BLOCK_END) return lnt_parse_unexpected(p, "'%}'");
        }
        if (!lnt_parse_step(p)) return false;
        *last = node;
        last = &node->next;
    }
    p->depth--;
    return true;
}

/* The body of a block whose tag ends here, up to one of `until`. */
static bool body(lnt_parser *p, ends until, lnt_node **out)
{
    if (p->now.kind != LNT_TOKEN_BLOCK_END) return lnt_parse_unexpected(p, "'%}'");
    return lnt_parse_step(p) && statements(p, until, out);
}

/* The body up to `end`, whose name is stepped over, as c of node. */
static lnt_node *with_body(lnt_parser *p, lnt_node *node, const char *end)
{
    const char *const until[] = { end, NULL };
    return body(p, until, &node->c) && lnt_parse_step(p) && lnt_parse_own(p, node, node->c) ? node : NULL;
}

static lnt_node *conditional(lnt_parser *p)
{
    static const char *const until[] = { "elif", "else", "endif", NULL }, *const end[] = { "endif", NULL };
    lnt_node *first = NULL, *node, **link = &first;
    int deeper = 0; /* a chain of elif is a tree as deep as it is long */
    do {
        if (!(node = lnt_parse_node(p, LNT_NODE_IF, p->now.at)) || !lnt_parse_step(p)) return NULL;
        *link = node;
        link = &node->c;
        if (!(node->a = lnt_parse_tuple(p, false)) || !body(p, until, &node->b)) return NULL;
        if (!lnt_parse_own(p, node, node->a) || !lnt_parse_own(p, node, node->b)) return NULL;
        if (node->depth + deeper > first->depth) first->depth = node->depth + deeper;
        deeper++;
    } while (lnt_parse_is_name(p, "elif"));
    if (lnt_parse_is_name(p, "else") && (!lnt_parse_step(p) || !body(p, end, &node->c))) return NULL;
    if (!lnt_parse_own(p, node, node->c)) return NULL;
    if (node->depth + deeper - 1 > first->depth) first->depth = node->depth + deeper - 1;
    return lnt_parse_own(p, first, NULL) && lnt_parse_step(p) ? first : NULL;
}

/* A name, NAME.ATTRIBUTE where `dotted`, or several with commas. */
static lnt_node *target(lnt_parser *p, bool dotted)
{
    lnt_node *first = NULL, **last = &first, *tuple = NULL;
    const bool bracket = lnt_parse_is_sign(p, '(');
    const size_t at = p->now.at;
    if (bracket && !lnt_parse_step(p)) return NULL;
    for (;;) {
        lnt_node *node = lnt_parse_node(p, LNT_NODE_NAME, p->now.at);
        if (!node) return NULL;
        if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "a name"), NULL;
        node->text = p->now.text;
        if (is_one_of(p, (const char *const[]){ "true", "false", "none", "True", "False", "None", NULL }))
            return lnt_parse_unexpected(p, "a name that may be set"), NULL;
        if (!lnt_parse_step(p)) return NULL;
        if (dotted && lnt_parse_is_sign(p, '.')) {
            lnt_node *of = node;
            if (!(node = lnt_parse_node(p, LNT_NODE_ATTRIBUTE, of->at)) || !lnt_parse_step(p)) return NULL;
            if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "a name after '.'"), NULL;
            node->a = of;
            node->text = p->now.text;
            if (!lnt_parse_step(p)) return NULL;
        }
        *last = node;
        last = &node->next;
        if (!lnt_parse_is_sign(p, ',')) break;
        if (!tuple && !(tuple = lnt_parse_node(p, LNT_NODE_TUPLE, at))) return NULL;
        if (!lnt_parse_step(p)) return NULL;
        if (p->now.kind != LNT_TOKEN_NAME || lnt_parse_is_name(p, "in")) break;
    }
    if (bracket && !lnt_parse_expect_sign(p, ')')) return NULL;
    if (!tuple) return first;
    tuple->a = first;
    return lnt_parse_own(p, tuple, first) ? tuple : NULL;
}

static lnt_node *loop(lnt_parser *p)
{
    static const char *const until[] = { "else", "endfor", NULL }, *const end[] = { "endfor", NULL };
    lnt_node *node = lnt_parse_node(p, LNT_NODE_FOR, p->now.at);
    if (!node || !lnt_parse_step(p) || !(node->a = target(p, false)) || !lnt_parse_expect_name(p, "in") ||
        !(node->b = lnt_parse_tuple(p, false)))
        return NULL;
    if (lnt_parse_is_name(p, "if") && (!lnt_parse_step(p) || !(node->e = lnt_parse_expression(p))))
        return NULL;
    if (lnt_parse_is_name(p, "recursive")) return lnt_parse_unexpected(p, "no loop that calls itself"), NULL;
    p->loops++;
    if (!body(p, until, &node->c)) return NULL;
    p->loops--;
    if (lnt_parse_is_name(p, "else") && (!lnt_parse_step(p) || !body(p, end, &node->d))) return NULL;
    if (!lnt_parse_own(p, node, node->a) || !lnt_parse_own(p, node, node->b) ||
        !lnt_parse_own(p, node, node->c) || !lnt_parse_own(p, node, node->d) ||
        !lnt_parse_own(p, node, node->e) || !lnt_parse_step(p))
        return NULL;
    return node;
}

static lnt_node *assignment(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_SET, p->now.at);
    if (!node || !lnt_parse_step(p) || !(node->a = target(p, true))) return NULL;
    if (lnt_parse_is_sign(p, '=')) {
        if (!lnt_parse_step(p) || !(node->b = lnt_parse_tuple(p, true)) || !lnt_parse_own(p, node, node->b))
            return NULL;
        return node;
    }
    node->kind = LNT_NODE_SET_BLOCK;
    if (lnt_parse_is_sign(p, '|') && !(node->b = lnt_parse_filters(p, NULL))) return NULL;
    return lnt_parse_own(p, node, node->b) ? with_body(p, node, "endset") : NULL;
}

/* NAME=DEFAULT, ... in brackets, as a of the macro. */
static bool parameters(lnt_parser *p, lnt_node *macro)
{
    lnt_node **last = &macro->a;
    bool defaults = false;
    if (!lnt_parse_expect_sign(p, '(')) return false;
    while (!lnt_parse_is_sign(p, ')')) {
        if (macro->a && !lnt_parse_expect_sign(p, ',')) return false;
        lnt_node *node = lnt_parse_node(p, LNT_NODE_NAME, p->now.at);
        if (!node) return false;
        if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "the name of a parameter");
        node->text = p->now.text;
        if (!lnt_parse_step(p)) return false;
        if (lnt_parse_is_sign(p, '=')) {
            if (!lnt_parse_step(p) || !(node->a = lnt_parse_expression(p)) ||
                !lnt_parse_own(p, node, node->a))
                return false;
            defaults = true;
        } else if (defaults) {
            return lnt_parse_unexpected(p, "'=' and a default, as the parameter before has");
        }
        *last = node;
        last = &node->next;
    }
    return lnt_parse_own(p, macro, macro->a) && lnt_parse_step(p);
}

/* The body of a macro is outside of the loops around it. */
static lnt_node *macro_body(lnt_parser *p, lnt_node *node, const char *end)
{
    const int loops = p->loops;
    p->loops = 0;
    node = with_body(p, node, end);
    p->loops = loops;
    return node;
}

static lnt_node *macro(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_MACRO, p->now.at);
    if (!node || !lnt_parse_step(p)) return NULL;
    if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "the name of a macro"), NULL;
    node->text = p->now.text;
    return lnt_parse_step(p) && parameters(p, node) ? macro_body(p, node, "endmacro") : NULL;
}

static lnt_node *call_block(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_CALL_BLOCK, p->now.at);
    if (!node || !lnt_parse_step(p) || !(node->b = lnt_parse_node(p, LNT_NODE_MACRO, node->at))) return NULL;
    node->b->text = LNT_SPAN("caller");
    if (lnt_parse_is_sign(p, '(') && !parameters(p, node->b)) return NULL;
    node->a = lnt_parse_expression(p);
    if (!node->a) return NULL;
    if (node->a->kind != LNT_NODE_CALL) return lnt_parse_unexpected(p, "the call of a macro"), NULL;
    if (!macro_body(p, node->b, "endcall")) return NULL;
    return lnt_parse_own(p, node, node->a) && lnt_parse_own(p, node, node->b) ? node : NULL;
}

static lnt_node *filter_block(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_FILTER_BLOCK, p->now.at);
    if (!node || !lnt_parse_step(p) || !(node->b = lnt_parse_filter(p, NULL))) return NULL;
    if (lnt_parse_is_sign(p, '|') && !(node->b = lnt_parse_filters(p, node->b))) return NULL;
    return lnt_parse_own(p, node, node->b) ? with_body(p, node, "endfilter") : NULL;
}

/* {% generation %} marks what the model writes, and changes nothing. */
static lnt_node *generation(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_SCOPE, p->now.at);
    return node && lnt_parse_step(p) ? with_body(p, node, "endgeneration") : NULL;
}

static lnt_node *with(lnt_parser *p)
{
    lnt_node *node = lnt_parse_node(p, LNT_NODE_SCOPE, p->now.at), **last = &node->a;
    if (!node || !lnt_parse_step(p)) return NULL;
    while (p->now.kind != LNT_TOKEN_BLOCK_END) {
        if (node->a && !lnt_parse_expect_sign(p, ',')) return NULL;
        lnt_node *set = lnt_parse_node(p, LNT_NODE_SET, p->now.at);
        if (!set || !(set->a = lnt_parse_node(p, LNT_NODE_NAME, p->now.at))) return NULL;
        if (p->now.kind != LNT_TOKEN_NAME) return lnt_parse_unexpected(p, "a name"), NULL;
        set->a->text = p->now.text;
        if (!lnt_parse_step(p) || !lnt_parse_expect_sign(p, '=') || !(set->b = lnt_parse_expression(p)) ||
            !lnt_parse_own(p, set, set->b))
            return NULL;
        *last = set;
        last = &set->next;
    }
    return lnt_parse_own(p, node, node->a) ? with_body(p, node, "endwith") : NULL;
}

/* break or continue */
static lnt_node *leave(lnt_parser *p)
{
    if (!p->loops) return lnt_parse_unexpected(p, "a statement that may stand outside of a loop"), NULL;
    lnt_node *node =
        lnt_parse_node(p, lnt_parse_is_name(p, "break") ? LNT_NODE_BREAK : LNT_NODE_CONTINUE, p->now.at);
    return node && lnt_parse_step(p) ? node : NULL;
}

static lnt_node *statement(lnt_parser *p)
{
    static const struct {
        const char *name;
        lnt_node *(*parse)(lnt_parser *p);
    } all[] = { { "if", conditional }, { "for", loop },           { "set", assignment },
                { "macro", macro },    { "call", call_block },    { "filter", filter_block },
                { "with", with },      { "break", leave },        { "continue", leave },
                { "generation", generation } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (lnt_parse_is_name(p, all[i].name)) return all[i].parse(p);
    lnt_parse_unexpected(p, "if, for, set, macro, call, filter, with, generation, break or continue");
    return NULL;
}

bool lnt_parse_template(lnt_parser *p, lnt_node **out)
{
    return lnt_parse_step(p) && statements(p, NULL, out);
}
