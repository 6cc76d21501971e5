/* bench/gpu/stream_work.h - runs that can be given to a stream and their results compared, bit by
 * bit. */
#ifndef BENCH_GPU_STREAM_WORK_H
#define BENCH_GPU_STREAM_WORK_H

#include <cuda_runtime.h>

#include <functional>
#include <string>

#include "gpu/gradients.h"
#include "gpu/state_memory.h"

struct stream_work {
    std::string name;
    std::function<lnt_status(cudaStream_t)> run;
    std::function<void()> prepare;          /* poisons what is written, and forgets the state */
    std::function<std::vector<char>()> out; /* what was written */
};

/* On the default stream, until it is done. */
std::vector<char> run_now(const stream_work &work);

/* A problem and what can be run of it: forward, backward and, where there are states, three
 * steps. */
struct stream_problem {
    std::string name;
    problem x;
    gradients g;
    state_memory memory;

    stream_problem(const std::string &name_, const lnt_attn_desc &p, uint64_t seed);

    stream_work forward();
    stream_work backward();
    stream_work steps();
};

/* A stream that does not wait for the default one. */
struct own_stream {
    cudaStream_t s;
    own_stream();
    ~own_stream();
    own_stream(const own_stream &) = delete;
};

#endif
