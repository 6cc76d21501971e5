/* bench/gpu/steady.cu - gradients by pairs, again and again, compared with the first to the bit. */
#include "gpu/steady.h"

#include <cstdio>

#include "gpu/device.h"
#include "gpu/gradients.h"
#include "gpu/verdict.h"

__global__ static void differ_kernel(const uint32_t *a, const uint32_t *b, size_t n,
                                     unsigned long long *count)
{
    unsigned long long own = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        own += a[i] != b[i];
    if (own) atomicAdd(count, own);
}

void verify_steady(int64_t tokens)
{
    constexpr int runs = 100;
    lnt_attn_desc p = describe(LNT_TAYLOR, 32, 32, tokens);
    p.backward = 1;
    problem x(p, false, 5);
    gradients g(x, 6);
    const buffer *const all[3] = { &g.dq, &g.dk, &g.dv };
    const buffer first[3] = { buffer(p.dtype, g.dq.count), buffer(p.dtype, g.dk.count),
                              buffer(p.dtype, g.dv.count) };
    unsigned long long *count;
    must(cudaMallocManaged((void **)&count, sizeof *count), "allocating");
    int others = 0;
    for (int run = 0; run <= runs; run++) {
        g.poison(), *count = 0;
        g.backward();
        for (int i = 0; i < 3; i++) {
            const size_t bytes = all[i]->bytes();
            if (run == 0)
                must(cudaMemcpy(first[i].data, all[i]->data, bytes, cudaMemcpyDeviceToDevice),
                     "copying");
            else
                differ_kernel<<<1024, 256>>>((const uint32_t *)first[i].data,
                                             (const uint32_t *)all[i]->data, bytes / 4, count);
        }
        must(cudaDeviceSynchronize(), "running backward");
        others += *count > 0;
    }
    cudaFree(count);
    judge(!others);
    printf("%lld tokens: %d of %d runs gave other bits than the first\n", (long long)tokens, others,
           runs);
}
