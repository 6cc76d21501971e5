/* attention/softmax/softmax.h - what the softmax algorithms share: one backward pass, by tiles, and what is
 * done to the scores before they become weights. */
#ifndef LNT_ATTENTION_SOFTMAX_SOFTMAX_H
#define LNT_ATTENTION_SOFTMAX_SOFTMAX_H

#include "attention/direct/direct.h"

#define lnt_softmax_backward LNT_REAL_NAME(lnt_softmax_backward)
#define lnt_softmax_adjust LNT_REAL_NAME(lnt_softmax_adjust)
#define lnt_softmax_adjust_back LNT_REAL_NAME(lnt_softmax_adjust_back)
#define lnt_softmax_adjust_row LNT_REAL_NAME(lnt_softmax_adjust_row)

void lnt_softmax_backward(lnt_run *run);

/* Whether the scores of the run are more than products: capped, sloping or masked. */
static inline bool lnt_softmax_adjusts(const lnt_run *run)
{
    return run->p->softmax.cap > 0 || run->p->softmax.slopes || run->io->mask.data;
}

/* As lnt_direct has it, of a strip. */
void lnt_softmax_adjust(const lnt_run *run, const kernels *ker, const struct scratch *s,
                        const struct tile *t);
void lnt_softmax_adjust_back(const lnt_run *run, const kernels *ker, const struct scratch *s,
                             const struct tile *t);
/* Of one query i of a sequence and n keys from j on: x [n, rounded up to lanes]; bias: room for as many. */
void lnt_softmax_adjust_row(const lnt_run *run, const kernels *ker, const lnt_sequence *seq, int64_t h,
                            int64_t i, int64_t j, size_t n, real *x, real *bias);

#endif
