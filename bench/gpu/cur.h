/* bench/gpu/cur.h - problems of CUR attention, held against whole matrices. */
#ifndef BENCH_GPU_CUR_H
#define BENCH_GPU_CUR_H

#include <string>

#include "gpu/problem.h"

lnt_attn_desc describe_cur(lnt_dtype dtype, int64_t heads, int64_t dim, int64_t n,
                           int64_t landmarks);

/* Relative error of head h of sequence b, which has nq queries and nk keys. */
double cur_error(const problem &x, int64_t b, int64_t h, int64_t nq, int64_t nk);

/* Every head. */
void verify_cur_problem(const std::string &name, const lnt_attn_desc &p, bool interleaved);

#endif
