/* nn/dropout.h - dropout and drop path. */
#ifndef LNT_NN_DROPOUT_H
#define LNT_NN_DROPOUT_H

#include "core/rng.h"
#include "nn/layer.h"

#define lnt_dropout LNT_REAL_NAME(lnt_dropout)
#define lnt_drop_path LNT_REAL_NAME(lnt_drop_path)

/* Both work in place, and on gradients as they do on values: the same rng makes the same choices.
 * rate is below 1; 0 changes nothing. */

/* Each of count numbers becomes 0 with probability rate, else is divided by 1 - rate. */
void lnt_dropout(const lnt_ctx *ctx, lnt_rng rng, double rate, real *x, size_t count);
/* The same for whole sequences: x [batch,size]. */
void lnt_drop_path(const lnt_ctx *ctx, lnt_rng rng, double rate, real *x, size_t batch, size_t size);

#endif
