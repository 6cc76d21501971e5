/* model/template/parser.h - tokens to a tree.
 *
 * Recursive descent with one token of look-ahead and no going back: linear in the template, whose nesting is
 * bounded by LNT_TREE_MAX_DEPTH. */
#ifndef LNT_MODEL_TEMPLATE_PARSER_H
#define LNT_MODEL_TEMPLATE_PARSER_H

#include "model/template/tree.h"

typedef struct lnt_parser {
    lnt_lexer lexer;
    lnt_token now, ahead;
    bool has_ahead;
    int depth; /* of the descent */
    int loops; /* that `break` would leave */
} lnt_parser;

/* The statements of a whole template; NULL is also an empty one.  False with the sentence. */
bool lnt_parse_template(lnt_parser *p, lnt_node **out);

/* What follows gives NULL with the sentence. */
lnt_node *lnt_parse_expression(lnt_parser *p);
/* Expressions with commas between them are a tuple. */
lnt_node *lnt_parse_tuple(lnt_parser *p, bool with_choice);
lnt_node *lnt_parse_filters(lnt_parser *p, lnt_node *first); /* |name(...)|...; `first` may be NULL */
lnt_node *lnt_parse_filter(lnt_parser *p, lnt_node *of);     /* name(...), after the bar */

lnt_node *lnt_parse_node(lnt_parser *p, lnt_node_kind kind, size_t at);
/* Takes account of a child, or of a list of them, in the depth of `node`; false: too deep. */
bool lnt_parse_own(lnt_parser *p, lnt_node *node, const lnt_node *children);
bool lnt_parse_step(lnt_parser *p); /* to the next token */
bool lnt_parse_peek(lnt_parser *p); /* fills p->ahead */
bool lnt_parse_enter(lnt_parser *p); /* one level deeper; p->depth-- leaves it */
bool lnt_parse_expect_sign(lnt_parser *p, int sign);
bool lnt_parse_expect_name(lnt_parser *p, const char *name);
bool lnt_parse_is_sign(const lnt_parser *p, int sign);
bool lnt_parse_is_name(const lnt_parser *p, const char *name);
/* "expected WHAT, found ..." */
bool lnt_parse_unexpected(lnt_parser *p, const char *what);

#endif
