/* nn/tiles.h - a matrix product of many rows by the kernels of tiles (cpu/tiles/tiles.h). */
#ifndef LNT_NN_TILES_H
#define LNT_NN_TILES_H

#include "cpu/tiles/tiles.h"
#include "nn/product.h"

/* Rows of activations from which tiles are the faster way for these weights. */
size_t lnt_tiles_least(const lnt_weight *w);

/* c[m,n], rows ldc apart, = a[m,k] b[k,n], added to c if `accumulate`.  exact: both factors in two planes of
 * bf16, but for weights that are bf16; else rounded to one.  The bits do not depend on the threads. */
void lnt_tiles_multiply(const lnt_ctx *ctx, const lnt_tile_kernels *ker, float *c, size_t ldc,
                        lnt_matrix_f32 a, lnt_matrix_f32 b, size_t m, size_t n, size_t k, bool accumulate,
                        bool exact);

#endif
