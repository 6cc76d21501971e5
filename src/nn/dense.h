/* nn/dense.h - the dense layer. */
#ifndef LNT_NN_DENSE_H
#define LNT_NN_DENSE_H

#include "nn/product.h"

#define lnt_dense LNT_REAL_NAME(lnt_dense)
#define lnt_dense_of LNT_REAL_NAME(lnt_dense_of)
#define lnt_dense_forward LNT_REAL_NAME(lnt_dense_forward)
#define lnt_dense_backward LNT_REAL_NAME(lnt_dense_backward)

typedef struct lnt_dense {
    size_t in, out;
    const real *w, *b;    /* [in,out]; [out], NULL: none */
    real *dw, *db;        /* shaped as they are */
    const uint16_t *bf16; /* w again, for few tokens; NULL: not there */
    const lnt_weight *packed; /* in the place of w, which is NULL; forward alone.  NULL: not */
} lnt_dense;

/* The layer of parameter i of a list and, as its bias, of the next; g NULL: forward alone. */
static inline lnt_dense lnt_dense_of(real *const *w, real *const *g, int i, size_t in, size_t out)
{
    return (lnt_dense){ .in = in, .out = out, .w = w[i], .b = w[i + 1], .dw = g ? g[i] : NULL,
                        .db = g ? g[i + 1] : NULL };
}

/* x [n,in], y [n,out]. */
void lnt_dense_forward(const lnt_ctx *ctx, const lnt_dense *layer, const real *x, real *y, size_t n);
/* dx [n,in] NULL: not wanted. */
void lnt_dense_backward(const lnt_ctx *ctx, const lnt_dense *layer, const real *x, const real *dy,
                        real *dx, size_t n);

#endif
