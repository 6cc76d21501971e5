/* nn/dense.c - y = x w + b.
 *
 *     dx = dy w^T,   dw += x^T dy,   db += sum over tokens of dy
 *
 * 2 n in out operations forward, twice that backward. */
#include "nn/dense.h"

void lnt_dense_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                       size_t n, size_t in, size_t out)
{
    lnt_product_biased(ctx, y, out, (lnt_matrix){ x, in, 1 }, (lnt_matrix){ w, out, 1 }, b, n, out,
                       in);
}

void lnt_dense_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                        real *dw, real *db, size_t n, size_t in, size_t out)
{
    const lnt_matrix grad = { dy, out, 1 };
    if (dx) lnt_product(ctx, dx, in, grad, (lnt_matrix){ w, 1, out }, n, in, out, false);
    lnt_product_summed(ctx, dw, out, (lnt_matrix){ x, 1, in }, grad, db, in, out, n);
}
