/* nn/product.h - the matrix product that dense layers are made of. */
#ifndef LNT_NN_PRODUCT_H
#define LNT_NN_PRODUCT_H

#include "nn/layer.h"

#define lnt_matrix LNT_REAL_NAME(lnt_matrix)
#define lnt_product LNT_REAL_NAME(lnt_product)
#define lnt_product_biased LNT_REAL_NAME(lnt_product_biased)
#define lnt_product_summed LNT_REAL_NAME(lnt_product_summed)
#define lnt_columns_sum LNT_REAL_NAME(lnt_columns_sum)

/* Element [i,j] is at[i * row + j * col]; one of the strides is 1. */
typedef struct lnt_matrix {
    const real *at;
    size_t row, col;
} lnt_matrix;

/* c[m,n], rows ldc apart, = a[m,k] b[k,n], added to c if `accumulate`. */
void lnt_product(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b, size_t m,
                 size_t n, size_t k, bool accumulate);
/* ... with bias [n] added to every row; NULL: none.  bf16 has the numbers of b, place by place, for few
 * rows, which are bound by reading them; NULL: not there. */
void lnt_product_biased(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        const uint16_t *bf16, const real *bias, size_t m, size_t n, size_t k);
/* ... added to c, and to sums [n] the rows of b, which are contiguous; NULL: not wanted. */
void lnt_product_summed(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        real *sums, size_t m, size_t n, size_t k);

/* sum [width] += the rows of x [n,width]. */
void lnt_columns_sum(const lnt_ctx *ctx, real *sum, const real *x, size_t n, size_t width);

#endif
