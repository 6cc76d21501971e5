/* model/template/value.h - what the expressions of a template give: Python's values, as far as
 * templates use them.
 *
 * Integers have 64 bits.  Values live in the pool of the rendering; none but a namespace changes
 * once made. */
#ifndef LNT_MODEL_TEMPLATE_VALUE_H
#define LNT_MODEL_TEMPLATE_VALUE_H

#include "model/template/characters.h"

typedef enum lnt_value_kind {
    LNT_VALUE_MISSING = 0, /* an argument that was not given; no expression gives it */
    LNT_VALUE_UNDEFINED,   /* string: what is not defined */
    LNT_VALUE_NONE, LNT_VALUE_BOOL, LNT_VALUE_INTEGER, LNT_VALUE_REAL, LNT_VALUE_STRING, LNT_VALUE_LIST,
    LNT_VALUE_DICT, LNT_VALUE_NAMESPACE, LNT_VALUE_LOOP, LNT_VALUE_MACRO, LNT_VALUE_FUNCTION
} lnt_value_kind;

typedef enum lnt_list_form {
    LNT_LIST, LNT_TUPLE, LNT_RANGE, LNT_KEYS, LNT_VALUES, LNT_ITEMS,
    LNT_ITERATOR /* gives its items once */
} lnt_list_form;

typedef struct lnt_value {
    lnt_value_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        lnt_span string;
        struct lnt_list *list;
        struct lnt_dict *dict; /* of a namespace too */
        struct lnt_loop *loop;
        const struct lnt_macro *macro;
        struct {
            const struct lnt_builtin *builtin;
            const struct lnt_value *self; /* NULL: of nothing */
        } function;
    } is;
} lnt_value;

typedef struct lnt_list {
    lnt_list_form form;
    const lnt_value *item; /* [count] */
    size_t count, taken;   /* taken: of an iterator */
    int64_t start, stop, step; /* of a range */
} lnt_list;

typedef struct lnt_pair {
    lnt_value key, value;
} lnt_pair;

typedef struct lnt_dict {
    lnt_pair *pair; /* in the order they came */
    size_t count, room;
} lnt_dict;

struct lnt_render;

static inline lnt_value lnt_value_bool(bool truth)
{
    return (lnt_value){ LNT_VALUE_BOOL, { .truth = truth } };
}
static inline lnt_value lnt_value_integer(int64_t i)
{
    return (lnt_value){ LNT_VALUE_INTEGER, { .integer = i } };
}
static inline lnt_value lnt_value_real(double real)
{
    return (lnt_value){ LNT_VALUE_REAL, { .real = real } };
}
static inline lnt_value lnt_value_text(lnt_span text)
{
    return (lnt_value){ LNT_VALUE_STRING, { .string = text } };
}
static inline lnt_value lnt_value_none(void) { return (lnt_value){ LNT_VALUE_NONE, { .integer = 0 } }; }
static inline lnt_value lnt_value_undefined(lnt_span what)
{
    return (lnt_value){ LNT_VALUE_UNDEFINED, { .string = what } };
}

bool lnt_value_is_integer(const lnt_value *v, int64_t *out); /* a bool is one */
bool lnt_value_is_number(const lnt_value *v, double *out);
bool lnt_value_is_list(const lnt_value *v, lnt_list_form form);
bool lnt_value_truth(const lnt_value *v);
const char *lnt_value_name(const lnt_value *v); /* of its type, for sentences */

/* What follows is false with the sentence where Python would raise. */
bool lnt_value_list(struct lnt_render *r, lnt_list_form form, const lnt_value *item, size_t count,
                    lnt_value *out);
bool lnt_value_pair(struct lnt_render *r, lnt_value a, lnt_value b, lnt_value *out); /* a tuple */
bool lnt_value_dict(struct lnt_render *r, size_t room, lnt_value *out);              /* empty */
bool lnt_value_put(struct lnt_render *r, lnt_dict *dict, lnt_value key, lnt_value value);
/* NULL in *out: there is none. */
bool lnt_value_find(struct lnt_render *r, const lnt_dict *dict, const lnt_value *key, const lnt_value **out);

bool lnt_value_equal(struct lnt_render *r, const lnt_value *a, const lnt_value *b, bool *out);
bool lnt_value_less(struct lnt_render *r, const lnt_value *a, const lnt_value *b, bool *out);
bool lnt_value_contains(struct lnt_render *r, const lnt_value *in, const lnt_value *what, bool *out);
/* What a loop over v would see; an iterator has none left afterwards. */
bool lnt_value_iterate(struct lnt_render *r, const lnt_value *v, lnt_list *out);
bool lnt_value_length(struct lnt_render *r, const lnt_value *v, int64_t *out);
bool lnt_value_item(struct lnt_render *r, const lnt_value *of, const lnt_value *key,
                    lnt_value *out); /* of[key] */
bool lnt_value_attribute(struct lnt_render *r, const lnt_value *of, lnt_span name,
                         lnt_value *out); /* of.name */

#endif
