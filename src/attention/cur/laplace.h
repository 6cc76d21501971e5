/* attention/cur/laplace.h - the Laplace activation of attention scores (Ma et al. 2023), which stands in
 * for softmax and has no sum:
 *
 *     laplace(x) = (1 + erf((x - sqrt(1/2)) / (s sqrt 2))) / 2,   s = sqrt(1 / (4 pi))
 */
#ifndef LNT_ATTENTION_CUR_LAPLACE_H
#define LNT_ATTENTION_CUR_LAPLACE_H

#include <math.h>

static inline double laplace_inner(double x) { return (x - sqrt(0.5)) * sqrt(2 * M_PI); }

/* 1 + erf(z) without cancelling. */
static inline double laplace(double x) { return erfc(-laplace_inner(x)) / 2; }

static inline double laplace_slope(double x)
{
    const double z = laplace_inner(x);
    return sqrt(2) * exp(-z * z);
}

#endif
