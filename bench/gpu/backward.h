/* bench/gpu/backward.h - ways in which the backward pass of a small problem is verified. */
#ifndef BENCH_GPU_BACKWARD_H
#define BENCH_GPU_BACKWARD_H

#include <string>

#include "linnet.h"

/* Every gradient of every head. */
void verify_gradients(const std::string &name, const lnt_attn_desc &p, bool interleaved);

/* The same of other numbers.  positive: q and k above 0, so that scores are of one sign and sums of
 * what is of both cancel.  mean: of the values, in their spreads. */
void verify_gradients_of(const std::string &name, lnt_attn_desc p, bool interleaved, bool positive,
                         float mean = 0);

/* Three sequences of different lengths. */
void verify_gradient_lengths(const std::string &name, lnt_attn_desc p);

/* What forward leaves for backward: forward is right, the gradients have the bits that they have
 * without it, and keys elsewhere than where forward read them are not taken for the same. */
void verify_after_forward(const std::string &name, lnt_attn_desc p, float mean);

/* In two parts: the second begins with the state that the first left, and goes back first; the
 * gradient of that state is where the first part's begins. */
void verify_gradients_in_parts(const std::string &name, lnt_attn_desc p, int64_t half);

/* With a state before the keys, that of forward over them, and a gradient of the one after. */
void verify_state_gradients(const std::string &name, lnt_attn_desc p);

#endif
