/* cuda/tiles/tiles_scan.cu - from the sums of segments to the states before them:
 *
 *     state_c[f] = factor_f ( S_in[f] + sum of sums_s[f] over the segments s < c )
 *
 * summed in f32 in the order of the segments, so the result is the same in every run; then bf16 in
 * the order of product.cuh.  A warp owns one tile x 8 columns.  The denominator's
 * column and degree 1 are kept as the sums of two bf16, and degree 0 in f32 (`mean`): those weigh
 * most. For degree 1 that costs nothing, as half of its tiles is there to fill them.  The
 * denominator's two are there twice, for what a gradient has as two bf16 beside them
 * (tiles_backward.cuh).  Moves 4 bytes a number in and 2 out.  The states of the library are read and
 * written here too. */
#include "cuda/tiles/tiles.h"

namespace lnt
{

/* The place of this lane's numbers in a state of the library; rows f0, f1, columns c, c + 1. */
struct scan_place {
    int64_t row[2];
    int column, columns; /* columns: how many of the two are there */
    bool is_sum;         /* column W: z */
};

__device__ static scan_place place_of(const tiles_scan_args &a, int tile, int n, int lane)
{
    scan_place p;
    for (int w = 0; w < 2; w++) p.row[w] = a.place[tile * 16 + 8 * w + lane / 4];
    p.is_sum = n == a.width;
    p.column = p.is_sum ? 0 : 8 * n + 2 * (lane % 4);
    const int left = a.dim_value - p.column;
    p.columns = p.is_sum ? lane % 4 == 0 : left < 0 ? 0 : left > 2 ? 2 : left;
    return p;
}

__device__ static float4 state_in(const tiles_scan_args &a, const scan_place &p, int64_t head)
{
    float x[4] = {};
    for (int w = 0; w < 2 && a.s_in; w++)
        for (int c = 0; c < p.columns && p.row[w] >= 0; c++)
            x[2 * w + c] = p.is_sum
                               ? a.z_in[head * a.count + p.row[w]]
                               : a.s_in[(head * a.count + p.row[w]) * a.dim_value + p.column + c];
    return make_float4(x[0], x[1], x[2], x[3]);
}

__device__ static void state_out(const tiles_scan_args &a, const scan_place &p, int64_t head,
                                 float4 sum)
{
    const float x[4] = { sum.x, sum.y, sum.z, sum.w };
    for (int w = 0; w < 2; w++)
        for (int c = 0; c < p.columns && p.row[w] >= 0; c++) {
            if (p.is_sum)
                a.z_out[head * a.count + p.row[w]] = x[2 * w + c];
            else
                a.s_out[(head * a.count + p.row[w]) * a.dim_value + p.column + c] = x[2 * w + c];
        }
}

__device__ static void keep(const tiles_scan_args &a, int64_t head, int prefix, int tile, int n,
                            int lane, float4 sum, float f0, float f1)
{
    const int n8 = a.width + 1, t = lane % 4;
    float x[4] = { sum.x * f0, sum.y * f0, sum.z * f1, sum.w * f1 };
    const int64_t at = head * a.prefixes + prefix;
    if (tile == 0) { /* degree 0: its one monomial is row 0 */
        if (lane / 4 == 0)
            for (int c = 0; c < 2; c++) a.mean[at * 8 * n8 + 8 * n + 2 * t + c] = x[c];
        return;
    }
    if (n == a.width) { /* z = column 0 + column 1 = column 2 + column 3 */
        const float z0 = __shfl_sync(~0u, x[0], lane & ~3), z1 = __shfl_sync(~0u, x[2], lane & ~3);
        const float high0 = __bfloat162float(__float2bfloat16_rn(z0));
        const float high1 = __bfloat162float(__float2bfloat16_rn(z1));
        if (t < 2) x[0] = high0, x[1] = z0 - high0, x[2] = high1, x[3] = z1 - high1;
    }
    if (tile <= a.dim8) { /* degree 1: rows 8 ... 15 have no monomial of their own */
        const uint32_t rounded = pack(x[0], x[1]);
        x[2] = x[0] - low_of(rounded), x[3] = x[1] - high_of(rounded);
    }
    char *to = a.state + ((at * (a.tile_count - 1) + tile - 1) * n8 + n) * 256 + lane * 4;
    *(uint32_t *)to = transpose8(pack(x[0], x[1]));
    *(uint32_t *)(to + 128) = transpose8(pack(x[2], x[3]));
}

__device__ __forceinline__ float4 add(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

enum { SCAN_WARPS = 8, SCAN_PREFETCH = 4 };

__global__ void __launch_bounds__(SCAN_WARPS * 32)
    tiles_scan_kernel(const __grid_constant__ tiles_scan_args a)
{
    const int n8 = a.width + 1, lane = (int)threadIdx.x % 32;
    const int item = (int)blockIdx.x * SCAN_WARPS + (int)threadIdx.x / 32;
    if (item >= a.tile_count * n8) return;
    const int tile = item / n8, n = item % n8;
    const int wide = a.fold ? 2 * a.width + 1 : n8; /* columns of the sums */
    const int from_column = a.fold && n == a.width ? wide - 1 : n;
    const int64_t head = blockIdx.y, stride = (int64_t)a.tile_count * wide * 32;
    const int group = a.group > 1 ? a.group : 1, last = a.segments - 1;
    const float4 *sums = (const float4 *)a.sums + head * group * a.segments * stride +
                         (tile * wide + from_column) * 32 + lane;
    const int64_t second = a.fold && n < a.width ? a.width * 32 : 0;
    const float f0 = a.factor[tile * 16 + lane / 4], f1 = a.factor[tile * 16 + 8 + lane / 4];
    const scan_place place = place_of(a, tile, n, lane);

    float4 sum = state_in(a, place, head);
    for (int s = 0; s < a.segments; s += SCAN_PREFETCH) {
        float4 next[SCAN_PREFETCH];
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++)
            if (s + i < a.segments) {
                const float4 *from = sums + (a.reverse ? last - s - i : s + i) * stride;
                next[i] = *from;
                for (int g = 1; g < group; g++)
                    next[i] = add(next[i], from[g * a.segments * stride]);
                for (int g = 0; g < group && second; g++)
                    next[i] = add(next[i], from[g * a.segments * stride + second]);
            }
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++)
            if (s + i < a.segments) {
                const int prefix = a.reverse ? last - s - i : s + i;
                if (!a.total && prefix < a.prefixes)
                    keep(a, head, prefix, tile, n, lane, sum, f0, f1);
                sum = add(sum, next[i]);
            }
    }
    if (a.total)
        keep(a, head, 0, tile, n, lane, sum, f0, f1);
    else if (a.segments < a.prefixes)
        keep(a, head, a.segments, tile, n, lane, sum, f0, f1);
    if (a.s_out) state_out(a, place, head, sum);
}

cudaError_t tiles_scan_run(const tiles_scan_args &a, cudaStream_t stream)
{
    const int items = a.tile_count * (a.width + 1);
    const dim3 grid((unsigned)((items + SCAN_WARPS - 1) / SCAN_WARPS), (unsigned)a.heads);
    tiles_scan_kernel<<<grid, SCAN_WARPS * 32, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
