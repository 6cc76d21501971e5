/* nn/product.h - the matrix product that dense layers are made of. */
#ifndef LNT_NN_PRODUCT_H
#define LNT_NN_PRODUCT_H

#include "nn/layer.h"
#include "nn/weight.h"

#define lnt_matrix LNT_REAL_NAME(lnt_matrix)
#define lnt_product LNT_REAL_NAME(lnt_product)
#define lnt_product_biased LNT_REAL_NAME(lnt_product_biased)
#define lnt_product_summed LNT_REAL_NAME(lnt_product_summed)
#define lnt_columns_sum LNT_REAL_NAME(lnt_columns_sum)

/* Element [i,j] is at[i * row + j * col]; one of the strides is 1.  bf16 has the same numbers, place by
 * place, for products of few rows, which are bound by reading their right factor; NULL: not there.  A right
 * factor [k,n] may be of packed weights [n,k], which the float build alone takes; at is then NULL. */
typedef struct lnt_matrix {
    const real *at;
    size_t row, col;
    const uint16_t *bf16;
    const lnt_weight *packed;
} lnt_matrix;

/* Contiguous rows that stand `row` apart; and the transpose. */
static inline lnt_matrix nn_rows(const real *at, size_t row)
{
    return (lnt_matrix){ at, row, 1, NULL, NULL };
}

static inline lnt_matrix nn_transposed(lnt_matrix m)
{
    return (lnt_matrix){ m.at, m.col, m.row, m.bf16, NULL };
}

/* c[m,n], rows ldc apart, = a[m,k] b[k,n], added to c if `accumulate`.  Where the context says bf16 and the
 * CPU has tiles, both factors are rounded to bf16; sums are of f32. */
void lnt_product(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b, size_t m,
                 size_t n, size_t k, bool accumulate);
/* ... with bias [n] added to every row; NULL: none. */
void lnt_product_biased(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        const real *bias, size_t m, size_t n, size_t k);
/* ... added to c, and to sums [n] the rows of b, which are contiguous; NULL: not wanted. */
void lnt_product_summed(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        real *sums, size_t m, size_t n, size_t k);

/* sum [width] += the rows of x [n,width]. */
void lnt_columns_sum(const lnt_ctx *ctx, real *sum, const real *x, size_t n, size_t width);

#endif
