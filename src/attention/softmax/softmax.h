/* attention/softmax/softmax.h - what the softmax algorithms share: one backward pass, by tiles. */
#ifndef LNT_ATTENTION_SOFTMAX_SOFTMAX_H
#define LNT_ATTENTION_SOFTMAX_SOFTMAX_H

#include "attention/direct/direct.h"

#define lnt_softmax_backward LNT_REAL_NAME(lnt_softmax_backward)

void lnt_softmax_backward(lnt_run *run);

#endif
