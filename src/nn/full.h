/* nn/full.h - attention that stores its scores, so that they can take a bias by distance. */
#ifndef LNT_NN_FULL_H
#define LNT_NN_FULL_H

#include "nn/pass.h"

typedef struct lnt_full_shape {
    bool used;                  /* else a mechanism of the library attends */
    bool laplace;               /* weights are laplace(scores), not their softmax */
    size_t reach;               /* the bias is for distances under this; 0: there is none */
    double scale;               /* of the products of queries and keys */
    size_t heads, dim, values;  /* values: width of one head's */
} lnt_full_shape;

/* Distances have both signs. */
static inline size_t lnt_full_distances(const lnt_full_shape *s)
{
    return s->reach ? 2 * s->reach - 1 : 0;
}

/* Numbers in a row of scores. */
static inline size_t lnt_full_row(size_t length) { return lnt_round_up(length, LNT_PAD); }

#define lnt_full LNT_REAL_NAME(lnt_full)
#define lnt_full_forward LNT_REAL_NAME(lnt_full_forward)
#define lnt_full_backward LNT_REAL_NAME(lnt_full_backward)

typedef struct lnt_full {
    const lnt_full_shape *shape;
    const real *bias; /* [heads,distances], of key j for query i at j - i + reach - 1 */
    real *dbias;      /* shaped as it is */
} lnt_full;

/* qk [batch,length,2,heads dim], v and out [batch,length,heads values]; scores [length,row]. */
void lnt_full_forward(const lnt_pass *pass, const lnt_full *layer, const real *qk, const real *v,
                      real *out, real *scores);
/* scores [2,length,row]. */
void lnt_full_backward(const lnt_pass *pass, const lnt_full *layer, const real *qk, const real *v,
                       const real *dout, real *dqk, real *dv, real *scores);

#endif
