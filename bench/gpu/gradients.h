/* bench/gpu/gradients.h - the backward pass of a problem: what goes in, what comes out. */
#ifndef BENCH_GPU_GRADIENTS_H
#define BENCH_GPU_GRADIENTS_H

#include <functional>

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
    bool run_twice(const std::function<void()> &run);

    std::vector<char> bits() const; /* of dq, dk and dv */
};

#endif
