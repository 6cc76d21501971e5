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

/* Bytes of what the algorithms of p read of w (lnt_run.weights), 0 if the map is not random; and that:
 * w [rows, dim], then its transpose, in the numbers that a run computes with. */
size_t lnt_feature_bytes(const lnt_attn_desc *p);
lnt_status lnt_feature_draw(lnt_ctx *ctx, const lnt_attn_desc *p, void *weights);

#endif
