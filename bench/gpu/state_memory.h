/* bench/gpu/state_memory.h - states in the memory of the device, as device/plugin.h has them. */
#ifndef BENCH_GPU_STATE_MEMORY_H
#define BENCH_GPU_STATE_MEMORY_H

#include "gpu/problem.h"

/* Slots for states of x, which have seen nothing. */
struct state_memory {
    lnt_cuda_states states = {};

    state_memory(const problem &x, int64_t slots);
    ~state_memory();
    state_memory(const state_memory &) = delete;

    int64_t tokens() const; /* that slot 0 has seen */
};

#endif
