/* model/sampler.h - draws one token from logits. */
#ifndef LNT_MODEL_SAMPLER_H
#define LNT_MODEL_SAMPLER_H

#include "core/context.h"
#include "linnet/model.h"
#include "model/recent.h"

/* A token and how likely it is. */
typedef struct lnt_candidate {
    double weight;
    int32_t token;
} lnt_candidate;

/* A caller's sampling, whole; or LNT_ERR_ARGUMENT and a sentence where a number is not what it may be. */
lnt_status lnt_sampling_take(lnt_ctx *ctx, const lnt_sampling *given, lnt_sampling *sampling);

/* The logits [count] of tokens that are among the recent ones: divided where above 0, else multiplied. */
void lnt_sampler_penalise(double penalty, const int32_t *recent, size_t recent_count, double *logits,
                          size_t count);

/* logits [count], with the penalty; scratch [count]; u uniform in [0,1). */
int32_t lnt_sampler_draw(const lnt_sampling *sampling, const double *logits, size_t count, double u,
                         lnt_candidate *scratch);

#endif
