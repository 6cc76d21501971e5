/* nn/layer.c - what layers share. */
#include "nn/layer.h"

real *nn_take(lnt_arena *arena, size_t n, size_t width)
{
    size_t count;
    if (!lnt_size_product(n, width, 1, &count)) count = SIZE_MAX;
    return lnt_arena_take(arena, count, sizeof(real));
}

void nn_add(const lnt_ctx *ctx, real *y, const real *x, size_t count)
{
    const int threads = lnt_threads_for(ctx, (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) y[i] += x[i];
}
