/* bench/gpu/lengths.h - sequences of different lengths in one batch. */
#ifndef BENCH_GPU_LENGTHS_H
#define BENCH_GPU_LENGTHS_H

#include "gpu/problem.h"

/* How many queries and keys each sequence has; here and on the device. */
struct lengths {
    std::vector<int64_t> q, k;
    device_integers device_q, device_k;

    lengths(const std::vector<int64_t> &queries, const std::vector<int64_t> &keys);
    /* Of three sequences: full, shorter, and one of 5 keys without queries, or with more. */
    static lengths three(const lnt_attn_desc &p, int64_t more = 0);

    void give(lnt_cuda_io &io) const;
};

/* Whether rows past the length of sequence b, of head h of out, are 0. */
bool rest_is_zero(const problem &x, int64_t b, int64_t h, int64_t length);

#endif
