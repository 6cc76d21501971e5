/* nn/optimiser.h - AdamW, RAdam and LAMB. */
#ifndef LNT_NN_OPTIMISER_H
#define LNT_NN_OPTIMISER_H

#include "nn/layer.h"

typedef enum lnt_optimiser {
    LNT_ADAMW = 0,
    LNT_RADAM = 1,
    LNT_LAMB = 2
} lnt_optimiser;

typedef struct lnt_update {
    lnt_optimiser kind;
    int64_t step; /* from 1 on */
    double rate, beta1, beta2, eps;
    double decay;   /* of the weights, times the rate a step */
    double factor;  /* of the gradient: clipping */
} lnt_update;

#define lnt_optimiser_update LNT_REAL_NAME(lnt_optimiser_update)
#define lnt_square_sum LNT_REAL_NAME(lnt_square_sum)

/* One tensor: w, its gradient g, and m, v, which are 0 before the first step; all [count]. */
void lnt_optimiser_update(const lnt_ctx *ctx, const lnt_update *u, real *w, const real *g, real *m,
                          real *v, size_t count);

/* The sum of the squares of x [count], the same for any number of threads. */
double lnt_square_sum(const lnt_ctx *ctx, const real *x, size_t count);

#endif
