/* nn/real/dense.c - y = x w + b.
 *
 *     dx = dy w^T,   dw += x^T dy,   db += sum over tokens of dy
 *
 * 2 n in out operations forward, twice that backward. */
#include "nn/dense.h"

void lnt_dense_forward(const lnt_ctx *ctx, const lnt_dense *l, const real *x, real *y, size_t n)
{
    const lnt_matrix w = { l->w, l->out, 1, l->bf16, l->packed };
    lnt_product_biased(ctx, y, l->out, nn_rows(x, l->in), w, l->b, n, l->out, l->in);
}

void lnt_dense_backward(const lnt_ctx *ctx, const lnt_dense *l, const real *x, const real *dy,
                        real *dx, size_t n)
{
    const lnt_matrix grad = nn_rows(dy, l->out);
    if (dx) lnt_product(ctx, dx, l->in, grad, nn_transposed(nn_rows(l->w, l->out)), n, l->in, l->out, false);
    lnt_product_summed(ctx, l->dw, l->out, nn_transposed(nn_rows(x, l->in)), grad, l->db, l->in, l->out, n);
}
