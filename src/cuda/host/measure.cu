/* cuda/host/measure.cu - what this device reaches: tensor-core products and multiply-adds on registers,
 * and a copy of memory.  The median of several runs. */
#include "cuda/common/product.cuh"
#include "cuda/host/plan.h"

#include <algorithm>
#include <functional>

namespace lnt
{

enum { MEASURE_RUNS = 9, MEASURE_LOOPS = 4096 };

/* Products of warpgroups where there are any, four on a multiprocessor, each 64 x 16 by 16 x 136;
 * else of warps.  Operands are random numbers and change with every product, as in work they do:
 * the same again and again draw less power, and run faster than any work. */
enum { PRODUCT_THREADS = 128, PRODUCT_N8 = 17, PRODUCT_TURN = 8, PRODUCT_LOOPS = 4096 };

__device__ __forceinline__ uint32_t random_pair(uint32_t seed)
{
    seed = (seed ^ 61u ^ seed >> 16) * 9u, seed = (seed ^ seed >> 4) * 0x27d4eb2du;
    return ((seed ^ seed >> 15) & 0x80ff80ffu) | 0x3f003f00u; /* 0.5 to 2, either sign */
}

__global__ void __launch_bounds__(PRODUCT_THREADS, 4) measure_products_kernel(float *out)
{
    constexpr int TILE = PRODUCT_N8 * 64; /* 16 rows of B, two numbers each */
    __shared__ __align__(128) uint32_t memory[PRODUCT_TURN * TILE];
    for (int i = (int)threadIdx.x; i < PRODUCT_TURN * TILE; i += PRODUCT_THREADS)
        memory[i] = random_pair((uint32_t)i);
    product_publish();
    __syncthreads();
    const operand b = operand_at((const char *)memory, 128, 256);
    float c[PRODUCT_N8][4] = {};
    uint32_t a[2][4];
    for (int i = 0; i < 8; i++) a[i / 4][i % 4] = random_pair(8 * threadIdx.x + (uint32_t)i + 9999u);
    for (int i = 0; i < PRODUCT_LOOPS; i++) {
        product_begin();
#pragma unroll
        for (int n = 0; n < PRODUCT_TURN; n++)
            product<PRODUCT_N8>(c, a[n % 2], operand_plus(b, (uint32_t)(n * TILE * 4)));
        product_commit();
        product_wait<0>();
    }
    float sum = 0;
    for (int n = 0; n < PRODUCT_N8; n++) sum += c[n][0] + c[n][1] + c[n][2] + c[n][3];
    if (sum == 1.5f) *out = sum; /* never, and the compiler does not know */
}

__global__ void __launch_bounds__(256) measure_multiplies_kernel(float *out)
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

__global__ void __launch_bounds__(256) measure_copies_kernel(uint4 *to, const uint4 *from, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
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
    const int blocks = device->limits.processors * 4;
    const bool products = dtype == LNT_BF16 || dtype == LNT_F16;
    float *out;
    lnt_status s = check(device, cudaMalloc((void **)&out, sizeof *out), "allocating");
    if (s) return s;
    double ms = 1;
    s = check(device,
              time_launch(
                  [&] {
                      if (products)
                          measure_products_kernel<<<blocks, PRODUCT_THREADS>>>(out);
                      else
                          measure_multiplies_kernel<<<blocks, 256>>>(out);
                  },
                  &ms),
              "measuring operations");
    cudaFree(out);
    const double product = 2.0 * 64 * 16 * 8 * PRODUCT_N8;
    const double each = products ? product * PRODUCT_TURN * PRODUCT_LOOPS /* of a block */
                                 : 256.0 * 16 * 2 * MEASURE_LOOPS;
    *gflops = each * blocks / ms / 1e6;
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
                          measure_copies_kernel<<<device->limits.processors * 16, 256>>>(
                              memory, memory + count, count);
                      },
                      &ms),
                  "measuring a copy");
    cudaFree(memory);
    *gbytes_per_second = (double)count * 32 / ms / 1e6;
    return s;
}

} // namespace lnt
