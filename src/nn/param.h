/* nn/param.h - the description of a parameter: name, shape, initial values. */
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

/* A gain or a bias. */
static inline lnt_param lnt_param_vector(const char *name, size_t width, double constant)
{
    return (lnt_param){ .name = name, .rank = 1, .shape = { width }, .constant = constant };
}

static inline lnt_param lnt_param_matrix(const char *name, size_t rows, size_t columns, double deviation)
{
    return (lnt_param){ .name = name, .rank = 2, .shape = { rows, columns }, .decays = true,
                        .deviation = deviation };
}

#endif
