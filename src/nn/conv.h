/* nn/conv.h - a convolution over three neighbouring tokens. */
#ifndef LNT_NN_CONV_H
#define LNT_NN_CONV_H

#include "nn/pass.h"

#define lnt_conv LNT_REAL_NAME(lnt_conv)
#define lnt_conv_forward LNT_REAL_NAME(lnt_conv_forward)
#define lnt_conv_backward LNT_REAL_NAME(lnt_conv_backward)

enum { LNT_CONV_TAPS = 3 };

typedef struct lnt_conv {
    size_t in, out;
    const real *w, *b; /* [3,in,out], [out] */
    real *dw, *db;     /* shaped as they are */
} lnt_conv;

/* x [batch,length,in], y [batch,length,out]: a token and one on either side.  Beyond the ends of a
 * sequence x is 0. */
void lnt_conv_forward(const lnt_pass *pass, const lnt_conv *layer, const real *x, real *y);
/* dx NULL: not wanted.  dy must be 0 beyond the ends. */
void lnt_conv_backward(const lnt_pass *pass, const lnt_conv *layer, const real *x, const real *dy,
                       real *dx);

#endif
