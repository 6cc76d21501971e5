/* nn/ema.h - the damped moving average of MEGA, several in every channel, both ways. */
#ifndef LNT_NN_EMA_H
#define LNT_NN_EMA_H

#include "nn/layer.h"

#define lnt_ema_weights LNT_REAL_NAME(lnt_ema_weights)
#define lnt_ema_grads LNT_REAL_NAME(lnt_ema_grads)
#define lnt_ema_forward LNT_REAL_NAME(lnt_ema_forward)
#define lnt_ema_backward LNT_REAL_NAME(lnt_ema_backward)

typedef struct lnt_ema_weights {
    const real *delta, *alpha, *beta, *gamma; /* [2,width,hidden]: of the past, of the future */
    const real *omega;                        /* [width] */
} lnt_ema_weights;

typedef struct lnt_ema_grads {
    real *delta, *alpha, *beta, *gamma, *omega; /* shaped as the weights, added to */
} lnt_ema_grads;

enum { LNT_EMA_HIDDEN = 64 }; /* at most */

/* x, y [batch,length,width]; lengths [batch], NULL: full.  No average sees padding, whose y is 0. */
void lnt_ema_forward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x,
                     const int64_t *lengths, real *y, size_t batch, size_t length, size_t width,
                     size_t hidden);
/* dx overwritten; scratch [threads of ctx, length, hidden]. */
void lnt_ema_backward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x,
                      const int64_t *lengths, const real *dy, real *dx, const lnt_ema_grads *g,
                      real *scratch, size_t batch, size_t length, size_t width, size_t hidden);

#endif
