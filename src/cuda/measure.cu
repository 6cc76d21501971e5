/* cuda/measure.cu - what this device reaches: tensor-core products and multiply-adds on registers,
 * and a copy of memory.  The median of several runs. */
#include "cuda/plan.h"

#include <algorithm>
#include <functional>

namespace lnt
{

enum { MEASURE_RUNS = 9, MEASURE_LOOPS = 4096 };

__global__ void __launch_bounds__(256) products_kernel(float *out)
{
    float c[8][4] = {};
    const uint32_t x = 0x3f803f80u + threadIdx.x;
    const uint32_t a[4] = { x, x + 1, x + 2, x + 3 };
    for (int i = 0; i < MEASURE_LOOPS; i++)
#pragma unroll
        for (int n = 0; n < 8; n++) mma16(c[n], a, x + 4, x + 5);
    float sum = 0;
    for (int n = 0; n < 8; n++) sum += c[n][0] + c[n][1] + c[n][2] + c[n][3];
    if (sum == 1.5f) *out = sum; /* never, and the compiler does not know */
}

__global__ void __launch_bounds__(256) multiply_kernel(float *out)
{
    float c[16];
    for (int n = 0; n < 16; n++) c[n] = (float)(threadIdx.x + n);
    for (int i = 0; i < MEASURE_LOOPS; i++)
#pragma unroll
        for (int n = 0; n < 16; n++) c[n] = fmaf(c[n], 0.999f, 0.25f);
    float sum = 0;
    for (int n = 0; n < 16; n++) sum += c[n];
    if (sum == 1.5f) *out = sum;
}

__global__ void __launch_bounds__(256) copy_kernel(uint4 *to, const uint4 *from, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[i];
}

/* Milliseconds of launch(), median. */
static cudaError_t time_launch(const std::function<void()> &launch, double *milliseconds)
{
    cudaEvent_t a, b;
    cudaError_t e = cudaEventCreate(&a);
    if (e == cudaSuccess) e = cudaEventCreate(&b);
    if (e != cudaSuccess) return e;
    float times[MEASURE_RUNS];
    launch();
    for (float &t : times) {
        cudaEventRecord(a);
        launch();
        cudaEventRecord(b);
        e = cudaEventSynchronize(b);
        if (e == cudaSuccess) e = cudaEventElapsedTime(&t, a, b);
        if (e != cudaSuccess) break;
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    std::sort(times, times + MEASURE_RUNS);
    *milliseconds = times[MEASURE_RUNS / 2];
    return e == cudaSuccess ? cudaGetLastError() : e;
}

lnt_status measure_flops(lnt_cuda_device *device, lnt_dtype dtype, double *gflops)
{
    const int blocks = device->properties.multiProcessorCount * 4;
    const bool products = dtype == LNT_BF16 || dtype == LNT_F16;
    float *out;
    lnt_status s = check(device, cudaMalloc((void **)&out, sizeof *out), "allocating");
    if (s) return s;
    double ms = 1;
    s = check(device,
              time_launch(
                  [&] {
                      if (products)
                          products_kernel<<<blocks, 256>>>(out);
                      else
                          multiply_kernel<<<blocks, 256>>>(out);
                  },
                  &ms),
              "measuring operations");
    cudaFree(out);
    const double each = products ? 8.0 * 8 * 4096 : 256.0 * 16 * 2; /* a block and turn */
    *gflops = each * MEASURE_LOOPS * blocks / ms / 1e6;
    return s;
}

lnt_status measure_bandwidth(lnt_cuda_device *device, size_t bytes, double *gbytes_per_second)
{
    uint4 *memory;
    const size_t count = bytes / 32;
    lnt_status s = check(device, cudaMalloc((void **)&memory, count * 32), "allocating");
    if (s) return s;
    double ms = 1;
    s = check(device, cudaMemset(memory, 1, count * 32), "clearing");
    if (!s)
        s = check(device,
                  time_launch(
                      [&] {
                          copy_kernel<<<device->properties.multiProcessorCount * 16, 256>>>(
                              memory, memory + count, count);
                      },
                      &ms),
                  "measuring a copy");
    cudaFree(memory);
    *gbytes_per_second = (double)count * 32 / ms / 1e6;
    return s;
}

} // namespace lnt
