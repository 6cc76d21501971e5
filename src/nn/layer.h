/* nn/layer.h - what every layer is compiled with.
 *
 * Layers are pairs of functions, forward and backward side by side, on packed row-major matrices
 * [n, width], n tokens in all.  They own nothing and allocate nothing.  A layer with parameters is a
 * struct of its widths, its parameters and their gradients, which forward does not look at.  A
 * backward function is given what forward was given, adds to the gradients of parameters (so that
 * batches accumulate) and overwrites those of inputs.  Work is cut into pieces that do not depend on
 * the number of threads, and every sum has one order: the same bits for any number.
 *
 * The library has them in float; the tests compile them in double too (LNT_DOUBLE) and hold every
 * gradient against differences. */
#ifndef LNT_NN_LAYER_H
#define LNT_NN_LAYER_H

#include "core/arena.h"
#include "core/context.h"
#include "core/threads.h"
#include "cpu/kernels.h"

typedef LNT_REAL_NAME(lnt_kernels) kernels;

enum {
    LNT_NN_COLUMNS = 64, /* columns a piece, where a sum runs over the tokens */
    LNT_NN_BLOCK = 256 /* numbers a piece, where each is on its own */
};

static inline const kernels *nn_kernels(const lnt_ctx *ctx)
{
    return LNT_REAL_NAME(lnt_kernels_get)(ctx->isa);
}

static inline int64_t nn_pieces(size_t count, size_t size)
{
    return (int64_t)((count + size - 1) / size);
}

static inline size_t nn_least(size_t a, size_t b) { return a < b ? a : b; }

#define nn_take LNT_REAL_NAME(lnt_nn_take)
#define nn_add LNT_REAL_NAME(lnt_nn_add)

/* A matrix [n,width] of an arena. */
real *nn_take(lnt_arena *arena, size_t n, size_t width);

/* y [count] += x [count] */
void nn_add(const lnt_ctx *ctx, real *y, const real *x, size_t count);

#endif
