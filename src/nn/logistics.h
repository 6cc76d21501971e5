/* nn/logistics.h - a mixture of discretised logistics: the distribution of a pixel of 256 values. */
#ifndef LNT_NN_LOGISTICS_H
#define LNT_NN_LOGISTICS_H

#include "nn/layer.h"

#define lnt_logistics_loss LNT_REAL_NAME(lnt_logistics_loss)
#define lnt_logistics_probability LNT_REAL_NAME(lnt_logistics_probability)

/* A pixel has `mixtures` weights (before a softmax), then as many means, then as many logarithms of
 * scales; values 0 .. 255 stand for -1 .. 1. */
enum { LNT_LOGISTICS_MIXTURES = 10, LNT_LOGISTICS_WIDTH = 30, LNT_LOGISTICS_VALUES = 256 };

/* x [n,30], pixel [n] 0 .. 255, a negative one does not count.  loss [n] gets -log p(pixel); dx (NULL:
 * not wanted; may be x) is overwritten with the gradient of weight * sum of loss. */
void lnt_logistics_loss(const lnt_ctx *ctx, const real *x, const int32_t *pixel, double *loss,
                        real *dx, double weight, size_t n);

/* p [256], which sums to 1, of one pixel's x [30]. */
void lnt_logistics_probability(const real *x, double *p);

#endif
