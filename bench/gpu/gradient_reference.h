/* bench/gpu/gradient_reference.h - gradients of attention in double precision on the host, for one
 * kv head and the heads that share it.
 *
 * Of bf16, normalised rows are rounded here too, since that is what is attended with: then all that
 * differs is what the backward pass itself does.  Not so where it runs in the precision of f32. */
#ifndef BENCH_GPU_GRADIENT_REFERENCE_H
#define BENCH_GPU_GRADIENT_REFERENCE_H

#include <vector>

#include "linnet.h"

struct gradient_reference {
    lnt_attn_desc p;
    int64_t nq, nk;
    std::vector<double> dk, dv;          /* [nk,d], [nk,m] */
    std::vector<std::vector<double>> dq; /* of each head of the group [nq,d] */
    std::vector<double> dtemperature;    /* of each head: a sum over its rows */
    std::vector<double> along;           /* and the sum of the squares of what it is a sum of */
    /* Linear: a state before the first key and the gradient of that after the last, [d] rows of
     * m + 1, where z stands last; empty: none.  And the gradient of the first. */
    std::vector<double> state, dstate_out, dstate_in;

    gradient_reference(const lnt_attn_desc &desc, int64_t queries, int64_t keys);

    /* Adds head h; q, dout [nq,..], k, v [nk,..].  rows: only those queries, so that dk and dv are
     * whole only for keys that no other query sees. */
    void add(const float *q, const float *k, const float *v, const float *dout, int64_t h,
             const std::vector<int64_t> &rows);
};

#endif
