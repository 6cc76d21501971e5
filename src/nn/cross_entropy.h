/* nn/cross_entropy.h - the cross-entropy loss. */
#ifndef LNT_NN_CROSS_ENTROPY_H
#define LNT_NN_CROSS_ENTROPY_H

#include "nn/layer.h"

#define lnt_cross_entropy LNT_REAL_NAME(lnt_cross_entropy)

/* logits [n,classes], target [n], a negative one does not count.  loss [n] gets -log p(target), hit
 * [n] (NULL: not wanted) 1 where the target is the likeliest.  dlogits (NULL: not wanted; may be
 * logits) is overwritten with the gradient of weight * sum of loss. */
void lnt_cross_entropy(const lnt_ctx *ctx, const real *logits, const int32_t *target, double *loss,
                       unsigned char *hit, real *dlogits, double weight, size_t n, size_t classes);

#endif
