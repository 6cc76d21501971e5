/* bench/gpu/buffer.cu - the kernels that make numbers and look at them, for bf16, f16 and f32. */
#include "gpu/buffer.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/device.h"

/* ---- kernels --------------------------------------------------------------------------------- */

__device__ static uint32_t mix(uint64_t x)
{
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)((x ^ x >> 33) >> 32);
}

template <class T> __global__ static void normal_kernel(T *x, size_t n, uint64_t seed)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const float u = ((float)mix(2 * i + seed * 0x9e3779b97f4a7c15ull) + 0.5f) * 0x1p-32f;
        const float w = (float)mix(2 * i + 1 + seed * 0x9e3779b97f4a7c15ull) * 0x1p-32f;
        x[i] = (T)(sqrtf(-2 * logf(u)) * cospif(2 * w));
    }
}

template <class T> __global__ static void nan_kernel(const T *x, size_t n, unsigned *found)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        if (!isfinite((float)x[i])) *found = 1;
}

template <class T>
__global__ static void gather_kernel(T *to, const T *from, size_t n, size_t stride, size_t d)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * d; i += step)
        to[i] = from[i / d * stride + i % d];
}

enum { BLOCKS = 1024, THREADS = 256 }; /* of every launch */

/* f(data), as a pointer to numbers of this dtype. */
template <class F> static void with_type(lnt_dtype dtype, void *data, const F &f)
{
    if (dtype == LNT_BF16)
        f((__nv_bfloat16 *)data);
    else if (dtype == LNT_F16)
        f((__half *)data);
    else
        f((float *)data);
}

/* ---- buffers --------------------------------------------------------------------------------- */

buffer::buffer(lnt_dtype dtype_, size_t count_) : dtype(dtype_), count(count_)
{
    must(cudaMalloc(&data, (count ? count : 1) * lnt_dtype_size(dtype)), "allocating");
}

buffer::~buffer() { cudaFree(data); }

size_t buffer::bytes() const { return count * lnt_dtype_size(dtype); }

void buffer::fill(uint64_t seed)
{
    with_type(dtype, data, [&](auto *x) { normal_kernel<<<BLOCKS, THREADS>>>(x, count, seed); });
}

void buffer::poison() { must(cudaMemset(data, 0xff, bytes()), "poisoning"); }

bool buffer::is_finite() const
{
    unsigned *found, bad = 0;
    must(cudaMalloc((void **)&found, sizeof *found), "allocating");
    must(cudaMemset(found, 0, sizeof *found), "clearing");
    with_type(dtype, data, [&](auto *x) { nan_kernel<<<BLOCKS, THREADS>>>(x, count, found); });
    must(cudaMemcpy(&bad, found, sizeof bad, cudaMemcpyDeviceToHost), "copying");
    cudaFree(found);
    return !bad;
}

std::vector<char> buffer::bits(size_t n) const
{
    std::vector<char> host(n * lnt_dtype_size(dtype));
    must(cudaMemcpy(host.data(), data, host.size(), cudaMemcpyDeviceToHost), "copying");
    return host;
}

std::vector<float> buffer::numbers(size_t first, size_t n) const
{
    std::vector<char> raw(n * lnt_dtype_size(dtype));
    const char *from = (const char *)data + first * lnt_dtype_size(dtype);
    must(cudaMemcpy(raw.data(), from, raw.size(), cudaMemcpyDeviceToHost), "copying");
    std::vector<float> host(n);
    with_type(dtype, raw.data(), [&](const auto *x) {
        for (size_t i = 0; i < n; i++) host[i] = (float)x[i];
    });
    return host;
}

std::vector<float> buffer::gathered(size_t first, size_t n, size_t stride, size_t d) const
{
    const buffer rows(dtype, n * d);
    with_type(dtype, rows.data, [&](auto *to) {
        gather_kernel<<<BLOCKS, THREADS>>>(to, (decltype(to))data + first, n, stride, d);
    });
    return rows.numbers(0, n * d);
}
