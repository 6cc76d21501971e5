/* nn/real/layer.c - what layers share. */
#include "nn/layer.h"

real *nn_take(lnt_arena *arena, size_t n, size_t width)
{
    return lnt_arena_take_matrix(arena, n, width, sizeof(real));
}

void nn_add(const lnt_ctx *ctx, real *y, const real *x, size_t count)
{
    const int threads = lnt_threads_for(ctx, (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) y[i] += x[i];
}
