/* bench/gpu/gradients.h - the backward pass of a problem: what goes in, what comes out. */
#ifndef BENCH_GPU_GRADIENTS_H
#define BENCH_GPU_GRADIENTS_H

#include "gpu/problem.h"

struct gradients {
    problem &x;
    tensor dout, dq, dk, dv; /* dout is random */
    buffer dtemperature;     /* [H] */
    lnt_cuda_grads grads = {};

    gradients(problem &of, uint64_t seed);

    void poison();
    void backward();

    /* Into poisoned memory, twice: everything written, the same bits. */
    bool run_twice();

    /* Of head h, each row relative to itself, for the first are the longest by far: the largest root mean
     * square of dq, dk and dv, against the CPU. */
    double error(int64_t h) const;
};

#endif
