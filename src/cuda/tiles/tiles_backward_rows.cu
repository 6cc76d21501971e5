/* cuda/tiles/tiles_backward_rows.cu - what the backward pass needs besides tensor-core products: dout / den
 * as packed values, and matrices for the gradients of denominators. */
#include "cuda/tiles/tiles.h"

namespace lnt
{

enum { ROW_THREADS = 256 };

/* ---- dout / den, packed ---------------------------------------------------------------------- */

/* A thread has 8 tokens of one column: those of group q (tiles_pack.cu). */
__global__ void __launch_bounds__(ROW_THREADS)
    tiles_backward_scaled_kernel(const __grid_constant__ tiles_scaled_args a)
{
    const int columns = a.fold ? 2 * a.width : a.width;        /* of 8; h after them */
    const int64_t n8 = columns + 1, each = a.blocks * n8 * 32; /* 16 bytes each */
    const int64_t head = blockIdx.y, w = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (w >= each) return;
    const int i = (int)(w % 8), q = (int)(w / 8 % 4), i8 = (int)(w / 32 % n8);
    const int64_t block = head * a.blocks + w / 32 / n8;
    const float2 *rows = a.rows + block * 32;
    const uint4 from =
        ((const uint4 *)a.douts)[(block * (a.width + 1) + i8 % a.width) * 32 + w % 32];
    const uint32_t pair[4] = { from.x, from.y, from.z, from.w };
    uint32_t to[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float4 two = *(const float4 *)(rows + 8 * k + 2 * q);
        uint32_t left;
        to[k] = pack_both(low_of(pair[k]) * two.x, high_of(pair[k]) * two.z, left);
        if (i8 >= a.width) to[k] = left;
        if (i8 == columns) to[k] = i == 0 ? pack(two.y, two.w) : 0;
    }
    ((uint4 *)a.scaled)[head * each + w] = make_uint4(to[0], to[1], to[2], to[3]);
}

cudaError_t tiles_scaled_run(const tiles_scaled_args &a, cudaStream_t stream)
{
    const int64_t each = a.blocks * ((a.fold ? 2 : 1) * a.width + 1) * 32;
    const dim3 grid((unsigned)((each + ROW_THREADS - 1) / ROW_THREADS), (unsigned)a.heads);
    tiles_backward_scaled_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---- slopes ---------------------------------------------------------------------------------- */

int64_t tiles_slopes_bytes(int width, int tiles)
{
    return (int64_t)tiles * 2 * (width + 1) * 256 + 8 * width * (int64_t)sizeof(float);
}

__global__ void __launch_bounds__(ROW_THREADS)
    tiles_backward_slopes_kernel(const __grid_constant__ tiles_slopes_args a, int64_t bytes)
{
    const __nv_bfloat16 *z = (const __nv_bfloat16 *)a.state + blockIdx.x * a.numbers;
    const float *linear = a.linear ? a.linear + (int64_t)blockIdx.x * a.linear_numbers : nullptr;
    char *to = a.slopes + blockIdx.x * bytes;
    const int each = a.width * 128, slot = (a.width + 1) * 256, count = a.tiles * each;
    for (int i = (int)threadIdx.x; i < count + 8 * a.width; i += ROW_THREADS) {
        const uint32_t entry = a.entries[i], at = entry & (1u << SLOPE_TIMES) - 1;
        const float times = (float)(entry >> SLOPE_TIMES);
        const bool first = i >= count;
        float x = 0;
        if (times > 0)
            x = times * (first && linear
                             ? linear[at]
                             : __bfloat162float(z[at]) + __bfloat162float(z[at + a.left]));
        if (first) {
            ((float *)(to + bytes))[i - count - 8 * a.width] = x;
            continue;
        }
        const __nv_bfloat16 high = __float2bfloat16_rn(x);
        __nv_bfloat16 *tile = (__nv_bfloat16 *)(to + i / each * 2 * slot) + i % each;
        tile[0] = high;
        tile[slot / 2] = __float2bfloat16_rn(x - __bfloat162float(high));
    }
}

cudaError_t tiles_slopes_run(const tiles_slopes_args &a, cudaStream_t stream)
{
    if (a.states && a.numbers)
        tiles_backward_slopes_kernel<<<(unsigned)a.states, ROW_THREADS, 0, stream>>>(
            a, tiles_slopes_bytes(a.width, a.tiles));
    return cudaGetLastError();
}

} // namespace lnt
