/* nn/dense.c - y = x w + b.
 *
 *     dx = dy w^T,   dw += x^T dy,   db += sum over tokens of dy
 *
 * 2 n in out operations forward, twice that backward. */
#include "nn/dense.h"

#include <string.h>

void lnt_dense_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                       size_t n, size_t in, size_t out)
{
    for (size_t i = 0; b && i < n; i++) memcpy(y + i * out, b, out * sizeof *y);
    lnt_product(ctx, y, out, (lnt_matrix){ x, in, 1 }, (lnt_matrix){ w, out, 1 }, n, out, in,
                b != NULL);
}

void lnt_columns_sum(const lnt_ctx *ctx, real *sum, const real *x, size_t n, size_t width)
{
    const int64_t pieces = nn_pieces(width, LNT_NN_COLUMNS);
    const int threads = lnt_threads_for(ctx, (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < pieces; piece++) {
        const size_t c0 = (size_t)piece * LNT_NN_COLUMNS, count = nn_least(width - c0, LNT_NN_COLUMNS);
        for (size_t i = 0; i < n; i++)
            for (size_t c = c0; c < c0 + count; c++) sum[c] += x[i * width + c];
    }
}

void lnt_dense_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                        real *dw, real *db, size_t n, size_t in, size_t out)
{
    const lnt_matrix grad = { dy, out, 1 };
    if (dx) lnt_product(ctx, dx, in, grad, (lnt_matrix){ w, 1, out }, n, in, out, false);
    lnt_product(ctx, dw, out, (lnt_matrix){ x, 1, in }, grad, in, out, n, true);
    if (db) lnt_columns_sum(ctx, db, dy, n, out);
}
