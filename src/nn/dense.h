/* nn/dense.h - the dense layer. */
#ifndef LNT_NN_DENSE_H
#define LNT_NN_DENSE_H

#include "nn/product.h"

#define lnt_dense_forward LNT_REAL_NAME(lnt_dense_forward)
#define lnt_dense_backward LNT_REAL_NAME(lnt_dense_backward)

/* x [n,in], w [in,out], b [out] or NULL, y [n,out]. */
void lnt_dense_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                       size_t n, size_t in, size_t out);
/* dx [n,in] overwritten, NULL: not wanted; dw, db added to; db NULL: no b. */
void lnt_dense_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                        real *dw, real *db, size_t n, size_t in, size_t out);

#endif
