/* nn/param.h - a parameter as its layer describes it: name, shape, and how it begins. */
#ifndef LNT_NN_PARAM_H
#define LNT_NN_PARAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lnt_param {
    const char *name; /* NULL: this layer has no such parameter */
    int rank;
    size_t shape[3];
    double constant, deviation; /* at first: constant + deviation times a normal number */
    bool decays;                /* weight decay applies: matrices, not gains and biases */
} lnt_param;

static inline size_t lnt_param_count(const lnt_param *p)
{
    size_t count = p->name ? 1 : 0;
    for (int i = 0; i < p->rank; i++) count *= p->shape[i];
    return count;
}

#endif
