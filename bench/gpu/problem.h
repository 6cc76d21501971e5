/* bench/gpu/problem.h - one attention problem on the device: a plan, its tensors, and whether what
 * came out is right. */
#ifndef BENCH_GPU_PROBLEM_H
#define BENCH_GPU_PROBLEM_H

#include "device/plugin.h"
#include "gpu/tensor.h"

/* A causal problem of one sequence with the defaults of linnet.h: taylor has 4 terms. */
lnt_attn_desc describe(lnt_mechanism m, int64_t heads, int64_t dim, int64_t n,
                       lnt_dtype dtype = LNT_BF16);

struct problem {
    lnt_attn_desc p;
    tensor q, k, v, out;
    lnt_cuda_plan *plan = nullptr;
    lnt_cuda_plan_info info = {};
    lnt_cuda_io io = {};

    /* q, k and v are random; every seed has its own. */
    problem(const lnt_attn_desc &desc, bool interleaved, uint64_t seed);
    ~problem();
    problem(const problem &) = delete;

    void forward();

    /* Runs into poisoned memory, twice: everything written, the same bits. */
    bool run_twice();

    /* Tokens first ... first + n - 1 through one step; the rest as io has it. */
    lnt_status step(lnt_cuda_io given, const lnt_cuda_states &states, int64_t first, int64_t n);

    /* Of head h of the first sequence: its root mean square over rows of |y - ref| / |ref|, by
     * lnt_reference_row. */
    double error(const std::vector<int64_t> &rows, int64_t h) const;
};

/* The same, where q and y [nq,..] come after all but the last nq of nk keys. */
double rows_error(const lnt_attn_desc &p, int64_t h, const std::vector<int64_t> &rows, std::vector<float> &q,
                  std::vector<float> &k, std::vector<float> &v, const std::vector<float> &y);

/* A problem of one head of p, of f32, on the host. */
lnt_attn_desc head_of(const lnt_attn_desc &p, int64_t h, int64_t nq, int64_t nk);

/* How far off a dtype may be. */
double allowed_for(lnt_dtype dtype);

/* Of q, k, v and out the tokens first ... first + n - 1. */
void take_tokens(lnt_cuda_io &io, const lnt_cuda_io &all, int64_t first, int64_t n);

#endif
