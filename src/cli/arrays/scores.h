/* cli/arrays/scores.h - the range, mean and deviation of the scores x = s q.k of a problem. */
#ifndef LNT_CLI_ARRAYS_SCORES_H
#define LNT_CLI_ARRAYS_SCORES_H

#include "linnet.h"

/* Over all pairs of a query and a key that it sees; NaN where there is none. */
typedef struct score_spread {
    double least, most, mean, sigma; /* sigma: the deviation about the mean */
} score_spread;

/* *out becomes softmax in double on the shapes of desc, with the scale given there or 1/sqrt(dim).
 * EXIT_OK, or one sentence and EXIT_FAILED. */
int scores_softmax(const lnt_attn_desc *desc, lnt_attn_desc *out);

/* The largest |x|. */
double scores_farthest(const score_spread *scores);

/* Of taylor the scores that it uses itself, normalised if it normalises; of the others those of
 * softmax.  q and k are f64.  EXIT_OK, or one sentence and EXIT_FAILED. */
int scores_measure(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_tensor *q,
                   const lnt_tensor *k, score_spread *out);

#endif
