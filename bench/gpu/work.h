/* bench/gpu/work.h - kinds of works: some rows verified, then timed.  once: one run, for a
 * profiler. */
#ifndef BENCH_GPU_WORK_H
#define BENCH_GPU_WORK_H

#include "linnet.h"

/* Forward; the target is in ns a token, or in ms. */
void work_forward(const char *name, const lnt_attn_desc &p, double target, bool in_ms, bool once);

/* Forward and backward of what it left; the target is in ms, or, where times_forward is not 0, in
 * forward times. */
void work_backward(const char *name, lnt_attn_desc p, double target, double times_forward,
                   bool once);

/* A decoding step; the target is in ms. */
void work_step(const char *name, lnt_attn_desc p, double target, bool once);

/* A step costs the same after 1000 tokens and after a million. */
void work_context(const char *name, const lnt_attn_desc &p);

/* CUR attention over 65,536 tokens. */
void work_cur(const char *name, lnt_dtype dtype, bool once);

/* The least that forward of softmax, linear or taylor over all tokens takes. */
double forward_flops(const lnt_attn_desc &p);

#endif
