/* attention/cur/eigen.h - eigenvalues and eigenvectors of a small symmetric matrix. */
#ifndef LNT_ATTENTION_CUR_EIGEN_H
#define LNT_ATTENTION_CUR_EIGEN_H

#include "cpu/kernels.h"

enum { LNT_EIGEN_ROWS = 6 };

/* The symmetric a [n, ld], ld padded, which is overwritten, is the sum of values[i] x_i x_i^T with
 * orthonormal x_i, the rows of vectors [n, ld]; in no order.  If there is what is no number in a, no value is
 * one.  Numbers below 1e-146 count as 0.  scratch is [LNT_EIGEN_ROWS, ld]. */
void lnt_eigen(const lnt_kernels_f64 *ker, size_t n, size_t ld, double *a, double *values,
               double *vectors, double *scratch);

#endif
