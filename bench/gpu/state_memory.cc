/* bench/gpu/state_memory.cc - allocates states and clears them. */
#include "gpu/state_memory.h"

#include "gpu/device.h"

/* `bytes` of zeros on the device. */
static void *zeros(size_t bytes)
{
    void *data;
    must(cudaMalloc(&data, bytes), "allocating");
    must(cudaMemset(data, 0, bytes), "clearing");
    return data;
}

state_memory::state_memory(const problem &x, int64_t slots)
{
    const size_t rows = (size_t)(slots * x.p.kv_heads * x.info.features);
    states.slots = slots;
    states.s = (float *)zeros(rows * (size_t)x.p.dim_value * sizeof(float));
    states.z = (float *)zeros(rows * sizeof(float));
    states.tokens = (int64_t *)zeros((size_t)slots * sizeof(int64_t));
}

state_memory::~state_memory()
{
    cudaFree(states.s);
    cudaFree(states.z);
    cudaFree(states.tokens);
}

int64_t state_memory::tokens() const
{
    int64_t seen = -1;
    must(cudaMemcpy(&seen, states.tokens, sizeof seen, cudaMemcpyDeviceToHost), "copying");
    return seen;
}
