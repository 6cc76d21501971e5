/* nn/position.h - positions: a vector added to each token, or a rotation of queries and keys. */
#ifndef LNT_NN_POSITION_H
#define LNT_NN_POSITION_H

#include "nn/pass.h"
#include "nn/rotary.h"

#define lnt_position_add LNT_REAL_NAME(lnt_position_add)
#define lnt_position_backward LNT_REAL_NAME(lnt_position_backward)
#define lnt_sinusoidal_table LNT_REAL_NAME(lnt_sinusoidal_table)
#define lnt_rotary_table LNT_REAL_NAME(lnt_rotary_table)
#define lnt_rotary_rotate LNT_REAL_NAME(lnt_rotary_rotate)

/* x [batch,length,width] += table [length,width]. */
void lnt_position_add(const lnt_ctx *ctx, real *x, const real *table, size_t batch, size_t length,
                      size_t width);
/* dtable += the sum over the batch of dx, which is the gradient of what came in as well. */
void lnt_position_backward(const lnt_ctx *ctx, const real *dx, real *dtable, size_t batch,
                           size_t length, size_t width);

/* table [count,width]: position first + t as sin and cos of t / 10000^(2i/width), in pairs. */
void lnt_sinusoidal_table(real *table, int64_t first, size_t count, size_t width);

/* table [count,dim]: cos and sin of the angles by which position first + t turns the pairs, as
 * lnt_rotary_rotate takes them; frequency as lnt_rotary_frequencies gives it. */
void lnt_rotary_table(real *table, int64_t first, size_t count, const lnt_rotary *rotary,
                      const double *frequency, size_t dim);
/* Turns the pairs (i, half + i), i < half, or, where half is 0, (2i, 2i + 1), of each of `heads` heads
 * [dim], which stand side by side at the start of every row of x, rows ld apart, by pass->rotary.  sign -1
 * turns back, which is also the way of gradients. */
void lnt_rotary_rotate(const lnt_pass *pass, real *x, size_t ld, int sign, size_t heads, size_t dim,
                       size_t half);

#endif
