/* bench/gpu/forward.h - ways in which forward and steps of a small problem are verified. */
#ifndef BENCH_GPU_FORWARD_H
#define BENCH_GPU_FORWARD_H

#include <string>

#include "gpu/problem.h"

/* Every row, or where there are many tokens some of them, of every head. */
void verify_forward(const std::string &name, const lnt_attn_desc &p, bool interleaved);

/* The same with another error allowed, of each `step`th head. */
void verify_forward_within(double allowed, const std::string &name, const lnt_attn_desc &p,
                           bool interleaved, int64_t step = 1);

/* Three sequences of different lengths; more: queries of the one that has 5 keys. */
void verify_lengths(const std::string &name, lnt_attn_desc p, int64_t more = 0);

/* `part` tokens at a time through forward, which each time begins with the state it left. */
void verify_continued(const std::string &name, const lnt_attn_desc &p, int64_t part);

/* The first `before` tokens through forward, the rest through steps of `at_once` tokens. */
void verify_steps(const std::string &name, const lnt_attn_desc &p, int64_t before, int64_t at_once);

/* Every width that kernels are compiled for, causal and full: verify(name, problem,
 * interleaved). */
void each_width(lnt_mechanism m, int64_t tokens, lnt_dtype dtype, const std::string &name,
                void (*verify)(const std::string &, const lnt_attn_desc &, bool));

#endif
