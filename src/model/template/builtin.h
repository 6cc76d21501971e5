/* model/template/builtin.h - filters, tests, functions and methods: tables of names, parameters and
 * functions. */
#ifndef LNT_MODEL_TEMPLATE_BUILTIN_H
#define LNT_MODEL_TEMPLATE_BUILTIN_H

#include "model/template/value.h"

enum { LNT_BUILTIN_PARAMETERS = 5 };

typedef struct lnt_arguments {
    size_t count, named;    /* positional, and after them named ones */
    const lnt_value *value; /* [count + named] */
    const lnt_span *name;   /* [named] */
} lnt_arguments;

typedef struct lnt_call {
    const lnt_value *self;
    lnt_value arg[LNT_BUILTIN_PARAMETERS]; /* in the order of the parameters; missing: not given */
    const lnt_arguments *all;
} lnt_call;

typedef struct lnt_builtin {
    const char *name;
    const char *parameters; /* names with a blank between; NULL: the function looks at call->all */
    size_t needed;          /* how many of them must be given */
    bool (*run)(struct lnt_render *r, const lnt_call *call, lnt_value *out);
} lnt_builtin;

/* Each ends with a name NULL. */
extern const lnt_builtin lnt_filters[], lnt_tests[], lnt_functions[];
extern const lnt_builtin lnt_string_methods[], lnt_dict_methods[], lnt_list_methods[], lnt_loop_methods[];
/* Filters over lists, which lnt_builtin_find looks into after lnt_filters. */
extern const lnt_builtin lnt_list_filters[];

const lnt_builtin *lnt_builtin_find(const lnt_builtin *table, lnt_span name); /* NULL: none */
bool lnt_builtin_call(struct lnt_render *r, const lnt_builtin *builtin, const lnt_value *self,
                      const lnt_arguments *arguments, lnt_value *out);

/* Argument i as what it must be; `absent` where it was not given (or is none, for integers). */
bool lnt_call_text(struct lnt_render *r, const lnt_call *call, int i, lnt_span absent, lnt_span *out);
bool lnt_call_integer(struct lnt_render *r, const lnt_call *call, int i, int64_t absent, int64_t *out);
bool lnt_call_truth(const lnt_call *call, int i, bool absent);

/* Text in other cases, shared by filters and methods. */
enum lnt_case { LNT_CASE_UPPER, LNT_CASE_LOWER, LNT_CASE_CAPITAL, LNT_CASE_TITLE, LNT_CASE_TITLE_FILTER };
bool lnt_text_case(struct lnt_render *r, enum lnt_case to, lnt_span text, lnt_value *out);
/* count < 0: all of them. */
bool lnt_text_replace(struct lnt_render *r, lnt_span text, lnt_span old, lnt_span with, int64_t count,
                      lnt_value *out);
bool lnt_text_join(struct lnt_render *r, lnt_span between, const lnt_list *items, bool only_text,
                   lnt_value *out);

#endif
