/* bench/gpu/cur_reference.h - CUR attention in double precision. */
#ifndef BENCH_GPU_CUR_REFERENCE_H
#define BENCH_GPU_CUR_REFERENCE_H

#include <vector>

#include "linnet.h"

/* One head, [nq,m]; q [nq,d], k [nk,d], v [nk,m]. */
std::vector<double> cur_reference(const lnt_attn_desc &p, const float *q, const float *k,
                                  const float *v, int64_t nq, int64_t nk);

#endif
