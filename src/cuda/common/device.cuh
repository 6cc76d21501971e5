/* cuda/common/device.cuh - what every kernel uses: elements of any dtype, pairs of bf16, sums over lanes,
 * tensor-core products, copies to shared memory.
 *
 * Fragments of mma.m16n8k16, lane = 4 g + t:  A  rows g, g + 8, columns 2t, 2t+1, 2t+8, 2t+9
 *                                             B  rows 2t, 2t+1, 2t+8, 2t+9, column g
 *                                             C  rows g, g + 8, columns 2t, 2t+1
 * Everything here exists from compute capability 8.0 on. */
#ifndef LNT_CUDA_DEVICE_CUH
#define LNT_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "linnet.h"

namespace lnt
{

/* A view over device memory [batch, heads, length, dim]; strides in elements. */
struct view {
    void *data;
    int dtype;
    int64_t stride[4];
};

__device__ __forceinline__ float load(const view &x, int64_t at)
{
    switch (x.dtype) {
    case LNT_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)x.data)[at]);
    case LNT_F16:
        return __half2float(((const __half *)x.data)[at]);
    default:
        return ((const float *)x.data)[at];
    }
}

__device__ __forceinline__ void store(const view &x, int64_t at, float value)
{
    switch (x.dtype) {
    case LNT_BF16:
        ((__nv_bfloat16 *)x.data)[at] = __float2bfloat16_rn(value);
        break;
    case LNT_F16:
        ((__half *)x.data)[at] = __float2half_rn(value);
        break;
    default:
        ((float *)x.data)[at] = value;
    }
}

__device__ __forceinline__ int64_t row_of(const view &x, int64_t b, int64_t h, int64_t n)
{
    return b * x.stride[0] + h * x.stride[1] + n * x.stride[2];
}

/* Whether a denominator gives an answer: rows of others are counted. */
__device__ __forceinline__ bool divides(float denominator)
{
    return denominator > 0 && denominator < INFINITY;
}

/* Whether rows of `width` can be read 16 bytes at a time, without converting. */
__host__ __device__ __forceinline__ bool is_wide(const view &x, int width)
{
    return x.dtype == LNT_BF16 && x.stride[3] == 1 && width % 8 == 0 && x.stride[0] % 8 == 0 &&
           x.stride[1] % 8 == 0 && x.stride[2] % 8 == 0 && ((uintptr_t)x.data & 15) == 0;
}

/* ---- bf16 pairs in a register ---------------------------------------------------------------- */

__device__ __forceinline__ uint32_t pack(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&pair;
}

__device__ __forceinline__ uint32_t twice(float x) { return pack(x, x); }

__device__ __forceinline__ float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

/* 8 elements of a row, from element i on; zeros past the width. */
__device__ __forceinline__ uint4 take8(const view &x, int64_t row, int i, int width, bool wide)
{
    if (wide && i + 8 <= width) return *(const uint4 *)((const __nv_bfloat16 *)x.data + row + i);
    float e[8];
    for (int k = 0; k < 8; k++) e[k] = i + k < width ? load(x, row + (i + k) * x.stride[3]) : 0.0f;
    return make_uint4(pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
}

/* Two numbers as bf16; left: what rounding took from them, bf16 too. */
__device__ __forceinline__ uint32_t pack_both(float low, float high, uint32_t &left)
{
    const uint32_t pair = pack(low, high);
    left = pack(low - low_of(pair), high - high_of(pair));
    return pair;
}

__device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b)
{
    const __nv_bfloat162 c = __hmul2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&c;
}

/* a b - c, rounded once: with c the product rounded, what rounding took from it. */
__device__ __forceinline__ uint32_t multiply_subtract(uint32_t a, uint32_t b, uint32_t c)
{
    const __nv_bfloat162 d = __hfma2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b,
                                     __hneg2(*(const __nv_bfloat162 *)&c));
    return *(const uint32_t *)&d;
}

__device__ __forceinline__ uint32_t add_pairs(uint32_t a, uint32_t b)
{
    const __nv_bfloat162 c = __hadd2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&c;
}

__device__ __forceinline__ uint32_t less_of_pairs(uint32_t a, uint32_t b)
{
    const __nv_bfloat162 c = __hmin2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&c;
}

__device__ __forceinline__ uint32_t more_of_pairs(uint32_t a, uint32_t b)
{
    const __nv_bfloat162 c = __hmax2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&c;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* The sum over `lanes` lanes side by side, a power of two; all of them get it. */
template <int lanes, class T> __device__ __forceinline__ T lanes_sum(T x)
{
#pragma unroll
    for (int d = 1; d < lanes; d *= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

__device__ __forceinline__ void mma16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same with 8 in place of the inner 16: A rows g, g + 8, columns 2t, 2t+1; B rows 2t, 2t+1. */
__device__ __forceinline__ void mma8(float c[4], uint32_t a0, uint32_t a1, uint32_t b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ void load_matrices(uint32_t r[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t r[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* Two of them; lane i % 16 gives the address. */
__device__ __forceinline__ void load_two(uint32_t &r0, uint32_t &r1, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_two_transposed(uint32_t &r0, uint32_t &r1, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
}

/* An 8 x 8 matrix of bf16, one row a quad, turned over. */
__device__ __forceinline__ uint32_t transpose8(uint32_t x)
{
    uint32_t y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* ---- copies to shared memory ----------------------------------------------------------------- */

__device__ __forceinline__ void copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most `left` groups are under way. */
template <int left> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* bytes, a multiple of 16, by all threads of the block. */
__device__ __forceinline__ void copy_block(uint32_t to, const char *from, int bytes)
{
    for (int i = (int)threadIdx.x * 16; i < bytes; i += (int)blockDim.x * 16)
        copy16(to + i, from + i);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* With so many bytes of shared memory, which a kernel has to be allowed first; of no blocks: nothing. */
template <class... P, class... A>
cudaError_t launch_kernel(void (*kernel)(P...), dim3 grid, int threads, int bytes,
                          cudaStream_t stream, const A &...args)
{
    const cudaError_t e = cudaFuncSetAttribute((const void *)kernel,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess || !grid.x || !grid.y || !grid.z) return e;
    kernel<<<grid, threads, (size_t)bytes, stream>>>(args...);
    return cudaGetLastError();
}

} // namespace lnt
#endif
