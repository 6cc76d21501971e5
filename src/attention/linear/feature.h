/* attention/linear/feature.h - the feature maps of linear attention. */
#ifndef LNT_ATTENTION_LINEAR_FEATURE_H
#define LNT_ATTENTION_LINEAR_FEATURE_H

#include "core/context.h"

/* fourier, positive: phi(x) is a function of w x. */
static inline bool lnt_feature_is_random(lnt_feature_map map)
{
    return map == LNT_MAP_FOURIER || map == LNT_MAP_POSITIVE;
}

/* Rows of w: features/2 for fourier (each gives a cosine and a sine), features for positive. */
int64_t lnt_feature_rows(const lnt_attn_desc *p);

/* w [rows, dim] in double, from p->seed alone: the same for the whole sequence, streaming or not.
 * fourier: independent normal entries.  positive: blocks of dim orthogonal rows, each row scaled to
 * the length of an independent normal vector (Performer). */
void lnt_feature_weights(const lnt_attn_desc *p, double *w);

#endif
