/* model/template/render.h - a template being rendered: its memory, what it may still spend, its
 * names, its text. */
#ifndef LNT_MODEL_TEMPLATE_RENDER_H
#define LNT_MODEL_TEMPLATE_RENDER_H

#include "model/template/template.h"
#include "model/template/tree.h"
#include "model/template/value.h"

enum {
    LNT_RENDER_MAX_DEPTH = 600, /* of expressions and statements within each other, through macros too */
    LNT_VALUE_MAX_DEPTH = 100   /* of lists within lists, where they are compared or printed */
};

typedef struct lnt_variable {
    lnt_span name;
    lnt_value value;
    struct lnt_variable *next;
} lnt_variable;

typedef struct lnt_scope {
    struct lnt_scope *outer;
    lnt_variable *variable;
} lnt_scope;

typedef struct lnt_macro {
    const lnt_node *node;
    lnt_scope *scope; /* where it was defined */
} lnt_macro;

typedef struct lnt_loop {
    lnt_list items;         /* of what it runs over */
    size_t next;            /* the first that has not been looked at */
    const lnt_node *filter; /* NULL: none, or all that remain passed it */
    const lnt_node *target;
    lnt_scope *scope;       /* around the loop */
    int64_t index;          /* of the current item, from 0 */
    bool has_current, has_before, has_after;
    lnt_value current, before, after; /* after: looked at early */
    bool counted;
    int64_t length;
} lnt_loop;

typedef struct lnt_buffer {
    char *text;
    size_t bytes, room;
} lnt_buffer;

typedef enum lnt_flow { LNT_FLOW_ON, LNT_FLOW_BREAK, LNT_FLOW_CONTINUE } lnt_flow;

typedef struct lnt_render {
    lnt_template_pool pool;
    lnt_span source;
    size_t at; /* in the source, for sentences */
    size_t steps, most_steps;
    int depth;
    lnt_scope *scope;
    lnt_buffer out;
    lnt_flow flow;
    const lnt_template_options *options;
} lnt_render;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool lnt_render_fail(lnt_render *r, const char *format, ...); /* returns false */
/* Work of so many bytes or items; false: the template works for too long. */
bool lnt_render_spend(lnt_render *r, size_t work);
bool lnt_render_enter(lnt_render *r); /* one level deeper; r->depth-- leaves it */
bool lnt_render_put(lnt_render *r, lnt_buffer *to, const char *text, size_t bytes);

bool lnt_scope_set(lnt_render *r, lnt_scope *scope, lnt_span name, lnt_value value);
lnt_scope *lnt_scope_new(lnt_render *r, lnt_scope *outer);

/* expression.c */
bool lnt_expression_value(lnt_render *r, const lnt_node *node, lnt_value *out);
/* The filters of a block, over its text. */
bool lnt_expression_filters(lnt_render *r, const lnt_node *filter, lnt_value of, lnt_value *out);
/* A macro, function or method; `caller`: what {% call %} gives, or NULL. */
struct lnt_arguments;
bool lnt_expression_call(lnt_render *r, const lnt_value *callee,
                         const struct lnt_arguments *arguments, lnt_value *out);
bool lnt_expression_arguments(lnt_render *r, const lnt_node *first, struct lnt_arguments *out);

/* statement.c */
bool lnt_statement_run(lnt_render *r, const lnt_node *first);
/* The text of statements that run in `scope`. */
bool lnt_statement_capture(lnt_render *r, const lnt_node *first, lnt_scope *scope, lnt_value *out);
bool lnt_statement_macro(lnt_render *r, const lnt_macro *macro,
                         const struct lnt_arguments *arguments, lnt_value *out);
bool lnt_statement_loop_attribute(lnt_render *r, lnt_loop *loop, lnt_span name, lnt_value *out);

/* arithmetic.c: a sign b, and of[from:to:step]; bounds that are missing or none are not given. */
bool lnt_arithmetic(lnt_render *r, int sign, const lnt_value *a, const lnt_value *b, lnt_value *out);
bool lnt_slice(lnt_render *r, const lnt_value *of, const lnt_value bound[3], lnt_value *out);

/* print.c */
bool lnt_print(lnt_render *r, lnt_buffer *to, const lnt_value *v);     /* str(v) */
bool lnt_print_span(lnt_render *r, const lnt_value *v, lnt_span *out); /* the same, as a string */


typedef struct lnt_json_style {
    lnt_span indent;  /* text NULL: all in one line */
    lnt_span between, after_key;
    bool ascii, sorted;
} lnt_json_style;
bool lnt_print_json(lnt_render *r, lnt_buffer *to, const lnt_value *v, const lnt_json_style *style);

/* date.c: strftime, in English. */
bool lnt_date_write(lnt_render *r, lnt_span format, const struct tm *when, lnt_value *out);

#endif
