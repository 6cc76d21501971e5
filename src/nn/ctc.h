/* nn/ctc.h - connectionist temporal classification: the loss of labels whose places in time are unknown. */
#ifndef LNT_NN_CTC_H
#define LNT_NN_CTC_H

#include "nn/layer.h"

#define lnt_ctc_loss LNT_REAL_NAME(lnt_ctc_loss)
#define lnt_ctc_decode LNT_REAL_NAME(lnt_ctc_decode)

/* Numbers (double) of scratch for one sequence of so many frames and labels. */
static inline size_t lnt_ctc_scratch(size_t frames, size_t classes, size_t labels)
{
    return frames * classes + 2 * frames * (2 * labels + 1);
}

/* One sequence: x [frames,classes], class 0 the blank; label [labels], each 1 .. classes-1.  Returns
 * -log p(labels), infinite where the frames are too few; dx (NULL: not wanted; may be x) is
 * overwritten with weight times its gradient, 0 where it is infinite. */
double lnt_ctc_loss(const real *x, const int32_t *label, real *dx, double weight, size_t frames,
                    size_t classes, size_t labels, double *scratch);

/* The likeliest class of each frame, repeats and blanks taken out: out [frames]; returns how many. */
size_t lnt_ctc_decode(const real *x, int32_t *out, size_t frames, size_t classes);

#endif
