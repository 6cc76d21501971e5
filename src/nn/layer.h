/* nn/layer.h - what all layers share.
 *
 * A layer is a pair of functions, forward and backward, on packed row-major matrices [n, width] of n tokens
 * in all.  It owns nothing and allocates nothing.  A layer with parameters is a struct of its widths, its
 * parameters and their gradients, which forward does not use.  Backward takes what forward took, adds to
 * the gradients of parameters (so batches accumulate) and overwrites those of inputs.  Work is cut into
 * pieces that do not depend on the number of threads, and every sum has one order, so the bits are the same
 * for any number of threads.
 *
 * The library compiles them in float.  The tests also compile them in double (LNT_DOUBLE) and compare every
 * gradient with finite differences. */
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
