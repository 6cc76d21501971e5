/* nn/conv.h - a convolution over three neighbouring tokens. */
#ifndef LNT_NN_CONV_H
#define LNT_NN_CONV_H

#include "nn/dense.h"

#define lnt_conv_forward LNT_REAL_NAME(lnt_conv_forward)
#define lnt_conv_backward LNT_REAL_NAME(lnt_conv_backward)

enum { LNT_CONV_TAPS = 3 };

/* x [batch,length,in], w [3,in,out], b [out], y [batch,length,out]; causal: the token and the two
 * before it, else one on either side.  Beyond the ends of a sequence x is 0. */
void lnt_conv_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                      bool causal, size_t batch, size_t length, size_t in, size_t out);
/* dx (NULL: not wanted) overwritten; dw, db added to. */
void lnt_conv_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                       real *dw, real *db, bool causal, size_t batch, size_t length, size_t in,
                       size_t out);

#endif
