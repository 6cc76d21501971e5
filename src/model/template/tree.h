/* model/template/tree.h - a template as a tree, in the pool it was parsed into. */
#ifndef LNT_MODEL_TEMPLATE_TREE_H
#define LNT_MODEL_TEMPLATE_TREE_H

#include "model/template/lexer.h"

enum { LNT_TREE_MAX_DEPTH = 200 };

typedef enum lnt_node_kind {
    /* expressions */
    LNT_NODE_STRING, LNT_NODE_INTEGER, LNT_NODE_REAL, LNT_NODE_TRUE, LNT_NODE_FALSE, LNT_NODE_NONE,
    LNT_NODE_NAME,
    LNT_NODE_LIST,     /* a: its items */
    LNT_NODE_TUPLE,    /* a: its items */
    LNT_NODE_DICT,     /* a: its pairs */
    LNT_NODE_PAIR,     /* a: key, b: value */
    LNT_NODE_ATTRIBUTE, /* a.text */
    LNT_NODE_ITEM,     /* a[b] */
    LNT_NODE_SLICE,    /* a[b:c:d] */
    LNT_NODE_ABSENT,   /* a bound that a slice does not name */
    LNT_NODE_CALL,     /* a(b, ...) */
    LNT_NODE_KEYWORD,  /* text=a, in a call */
    LNT_NODE_FILTER,   /* a|text(b, ...); a NULL in front of the body of a block */
    LNT_NODE_TEST,     /* a is text(b, ...) */
    LNT_NODE_NOT, LNT_NODE_NEGATIVE, LNT_NODE_POSITIVE, /* a */
    LNT_NODE_BINARY,   /* a sign b */
    LNT_NODE_AND, LNT_NODE_OR, /* a, b */
    LNT_NODE_CONCAT,   /* a ~ ... */
    LNT_NODE_COMPARE,  /* a, and b: a chain of operands */
    LNT_NODE_OPERAND,  /* sign a */
    LNT_NODE_CHOICE,   /* b if a else c; c may be NULL */
    /* statements */
    LNT_NODE_TEXT, LNT_NODE_PRINT, /* a */
    LNT_NODE_IF,       /* a: test, b: body, c: else */
    LNT_NODE_FOR,      /* a: target, b: of what, c: body, d: else, e: filter */
    LNT_NODE_SET,      /* a: target, b: value */
    LNT_NODE_SET_BLOCK, /* a: target, b: filters or NULL, c: body */
    LNT_NODE_FILTER_BLOCK, /* b: filters, c: body */
    LNT_NODE_MACRO,    /* text: name, a: parameters (names whose a is their default), c: body */
    LNT_NODE_CALL_BLOCK, /* b: a macro that `caller` is, a: the call */
    LNT_NODE_SCOPE,    /* a: statements of set, c: body */
    LNT_NODE_BREAK, LNT_NODE_CONTINUE
} lnt_node_kind;

/* Of LNT_NODE_OPERAND, beside the signs of comparisons. */
enum { LNT_SIGN_IN = 512, LNT_SIGN_NOT_IN };

typedef struct lnt_node {
    lnt_node_kind kind;
    int sign;
    int depth;   /* levels below and with this one */
    size_t at;   /* in the source */
    lnt_span text;
    union {
        int64_t integer;
        double real;
        const struct lnt_builtin *builtin; /* of a filter or test */
    } is;
    struct lnt_node *a, *b, *c, *d, *e, *next;
} lnt_node;

#endif
