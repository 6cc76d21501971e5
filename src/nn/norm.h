/* nn/norm.h - LayerNorm and RMSNorm. */
#ifndef LNT_NN_NORM_H
#define LNT_NN_NORM_H

#include "nn/layer.h"

typedef enum lnt_norm_kind { LNT_NORM_LAYER = 0, LNT_NORM_RMS = 1 } lnt_norm_kind;

#define lnt_norm LNT_REAL_NAME(lnt_norm)
#define lnt_norm_forward LNT_REAL_NAME(lnt_norm_forward)
#define lnt_norm_backward LNT_REAL_NAME(lnt_norm_backward)

typedef struct lnt_norm {
    lnt_norm_kind kind;
    size_t width;
    double epsilon;          /* added to the variance, or to the mean square */
    const real *gain, *bias; /* [width]; bias for LayerNorm only, NULL: none */
    real *dgain, *dbias;     /* shaped as they are */
} lnt_norm;

/* x, y [n,width]; stat [n,2] is kept for backward. */
void lnt_norm_forward(const lnt_ctx *ctx, const lnt_norm *layer, const real *x, real *y, real *stat,
                      size_t n);
/* dx is added to if `add`, else overwritten, and may then be dy. */
void lnt_norm_backward(const lnt_ctx *ctx, const lnt_norm *layer, const real *x, const real *stat,
                       const real *dy, real *dx, bool add, size_t n);

#endif
