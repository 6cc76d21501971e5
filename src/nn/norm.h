/* nn/norm.h - LayerNorm and RMSNorm. */
#ifndef LNT_NN_NORM_H
#define LNT_NN_NORM_H

#include "nn/layer.h"

typedef enum lnt_norm { LNT_NORM_LAYER = 0, LNT_NORM_RMS = 1 } lnt_norm;

#define lnt_norm_forward LNT_REAL_NAME(lnt_norm_forward)
#define lnt_norm_backward LNT_REAL_NAME(lnt_norm_backward)

/* x, y [n,width]; gain, bias [width], bias for LayerNorm only; stat [n,2] is kept for backward. */
void lnt_norm_forward(const lnt_ctx *ctx, lnt_norm kind, const real *x, const real *gain,
                      const real *bias, real *y, real *stat, size_t n, size_t width);
/* dx is added to if `add`, else overwritten, and may then be dy; dgain, dbias are added to. */
void lnt_norm_backward(const lnt_ctx *ctx, lnt_norm kind, const real *x, const real *gain,
                       const real *stat, const real *dy, real *dx, bool add, real *dgain,
                       real *dbias, size_t n, size_t width);

#endif
