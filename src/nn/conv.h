/* nn/conv.h - a convolution over three neighbouring tokens. */
#ifndef LNT_NN_CONV_H
#define LNT_NN_CONV_H

#include "nn/dense.h"

#define lnt_conv_forward LNT_REAL_NAME(lnt_conv_forward)
#define lnt_conv_backward LNT_REAL_NAME(lnt_conv_backward)

enum { LNT_CONV_TAPS = 3 };

/* x [batch,length,in], w [3,in,out], b [out], y [batch,length,out]: a token and one on either side.
 * Beyond the ends of a sequence, of lengths[b] tokens (NULL: of all), x is 0. */
void lnt_conv_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                      const int64_t *lengths, size_t batch, size_t length, size_t in,
                      size_t out);
/* dx (NULL: not wanted) overwritten; dw, db added to.  dy must be 0 beyond the ends. */
void lnt_conv_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                       real *dw, real *db, const int64_t *lengths, size_t batch, size_t length,
                       size_t in, size_t out);

#endif
