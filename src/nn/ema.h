/* nn/ema.h - the damped moving average of MEGA, several per channel, in both directions. */
#ifndef LNT_NN_EMA_H
#define LNT_NN_EMA_H

#include "nn/pass.h"

#define lnt_ema LNT_REAL_NAME(lnt_ema)
#define lnt_ema_forward LNT_REAL_NAME(lnt_ema_forward)
#define lnt_ema_backward LNT_REAL_NAME(lnt_ema_backward)

typedef struct lnt_ema {
    size_t width, hidden;
    const real *delta, *alpha, *beta, *gamma; /* [2,width,hidden]: of the past, of the future */
    const real *omega;                        /* [width] */
    real *ddelta, *dalpha, *dbeta, *dgamma, *domega; /* shaped as they are */
} lnt_ema;

enum { LNT_EMA_HIDDEN = 64 }; /* at most */

/* x, y [batch,length,width].  No average sees padding, whose y is 0. */
void lnt_ema_forward(const lnt_pass *pass, const lnt_ema *layer, const real *x, real *y);
/* scratch [threads of pass->ctx, length, hidden]. */
void lnt_ema_backward(const lnt_pass *pass, const lnt_ema *layer, const real *x, const real *dy,
                      real *dx, real *scratch);

#endif
