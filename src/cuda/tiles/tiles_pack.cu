/* cuda/tiles/tiles_pack.cu - keys and values as the other kernels want them: bf16, in blocks of 32 tokens,
 * widths rounded up, keys normalised if asked, a row of ones after the values.  Of the tokens of a
 * block token 8 t + 2 q + e is column 2 t + e of group q: so the 8 tokens a lane of tiles_sum.cu
 * reads at once are those its fragments hold.  Matrices of 8 x 8 are contiguous (product.cuh).
 *
 *     rows    [head][block][i][c ^ (i / 2 % 4)][8]    keys: row i, tokens 8 c ... 8 c + 7, or
 *                                                     (grouped) those of group c
 *     keys    [head][block][q][i / 8][token of q][8]  a token's elements side by side
 *     values  [head][block][i / 8][q][i % 8][8]       a row's tokens side by side; row W: 1
 *
 * Strides, dtypes, padding and lengths end here.  Reads each number once, writes keys twice. */
#include "cuda/tiles/tiles.h"

namespace lnt
{

enum { PACK_TOKENS = 128, PACK_LD = PACK_TOKENS + 2, PACK_THREADS = 256 };

/* Eight numbers less their columns' centres. */
__device__ __forceinline__ uint4 less8(const uint4 &x, const float *center)
{
    const float4 c = *(const float4 *)center, e = *(const float4 *)(center + 4);
    return make_uint4(
        pack(low_of(x.x) - c.x, high_of(x.x) - c.y), pack(low_of(x.y) - c.z, high_of(x.y) - c.w),
        pack(low_of(x.z) - e.x, high_of(x.z) - e.y), pack(low_of(x.w) - e.z, high_of(x.w) - e.w));
}

/* PACK_TOKENS tokens into columns of tile [rows][PACK_LD], two tokens a thread; less center, if
 * not NULL. */
__device__ static void take(const view &x, int64_t b, int64_t h, int64_t first, int64_t length,
                            int width, int rows8, const float *center, __nv_bfloat16 *tile)
{
    const bool wide = is_wide(x, 8);
    const int token = (int)threadIdx.x % (PACK_TOKENS / 2) * 2;
    const int64_t row = row_of(x, b, h, first + token);
    for (int i8 = (int)threadIdx.x / (PACK_TOKENS / 2); i8 < rows8;
         i8 += PACK_THREADS / (PACK_TOKENS / 2)) {
        uint4 p = make_uint4(0, 0, 0, 0), q = p;
        if (first + token >= 0 && first + token < length) {
            p = take8(x, row, 8 * i8, width, wide);
            if (center) p = less8(p, center + 8 * i8);
        }
        if (first + token + 1 >= 0 && first + token + 1 < length) {
            q = take8(x, row + x.stride[2], 8 * i8, width, wide);
            if (center) q = less8(q, center + 8 * i8);
        }
        uint32_t *to = (uint32_t *)(tile + 8 * i8 * PACK_LD + token);
        const uint32_t one[4] = { p.x, p.y, p.z, p.w }, two[4] = { q.x, q.y, q.z, q.w };
#pragma unroll
        for (int k = 0; k < 4; k++) {
            to[2 * k * PACK_LD / 2] = __byte_perm(one[k], two[k], 0x5410);
            to[(2 * k + 1) * PACK_LD / 2] = __byte_perm(one[k], two[k], 0x7632);
        }
    }
}

/* Columns divided by their lengths, at least 1e-12, times `by`; from the numbers themselves, not
 * rounded twice. */
__device__ static void normalize(__nv_bfloat16 *tile, int rows, float by)
{
    for (int token = (int)threadIdx.x; token < PACK_TOKENS; token += (int)blockDim.x) {
        float sum = 0;
        for (int i = 0; i < rows; i++) {
            const float x = __bfloat162float(tile[i * PACK_LD + token]);
            sum = fmaf(x, x, sum);
        }
        const float inverse = by / fmaxf(sqrtf(sum), 1e-12f);
        for (int i = 0; i < rows; i++)
            tile[i * PACK_LD + token] =
                __float2bfloat16_rn(__bfloat162float(tile[i * PACK_LD + token]) * inverse);
    }
}

__device__ __forceinline__ const uint32_t *block_row(const __nv_bfloat16 *tile, int i, int block)
{
    return (const uint32_t *)(tile + i * PACK_LD + 32 * block);
}

/* One block of keys, whole rows. */
__device__ static void put_rows(const __nv_bfloat16 *tile, int block, int rows, int grouped,
                                char *to)
{
    const int on = grouped ? 4 : 1, first = grouped ? 1 : 4;
    for (int w = (int)threadIdx.x; w < rows * 4; w += PACK_THREADS) {
        const int c = w % 4, i = w / 4;
        const uint32_t *from = block_row(tile, i, block) + first * c;
        *(uint4 *)(to + i * 64 + (c ^ (i / 2 % 4)) * 16) =
            make_uint4(from[0], from[on], from[2 * on], from[3 * on]);
    }
}

/* One block of values. */
__device__ static void put_values(const __nv_bfloat16 *tile, int block, int rows, char *to)
{
    for (int w = (int)threadIdx.x; w < rows * 4; w += PACK_THREADS) {
        const int i = w / 32 * 8 + w % 8, q = w / 8 % 4;
        const uint32_t *from = block_row(tile, i, block) + q;
        *(uint4 *)(to + w * 16) = make_uint4(from[0], from[4], from[8], from[12]);
    }
}

/* One block of keys, token by token; rows8 is even, rows there are zero past the keys'. */
__device__ static void put_keys(const __nv_bfloat16 *tile, int block, int rows8, int there8,
                                char *to)
{
    for (int w = (int)threadIdx.x; w < 32 * rows8; w += PACK_THREADS) {
        const int n = w % 8, i8 = w / 8 % rows8, q = w / 8 / rows8;
        const __nv_bfloat16 *from =
            tile + 8 * i8 * PACK_LD + 32 * block + n / 2 * 8 + 2 * q + n % 2;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (i8 < there8) {
            __nv_bfloat16 e[8];
#pragma unroll
            for (int k = 0; k < 8; k++) e[k] = from[k * PACK_LD];
            x = *(const uint4 *)e;
        }
        *(uint4 *)(to + w * 16) = x;
    }
}

__global__ void __launch_bounds__(PACK_THREADS)
    tiles_pack_kernel(const __grid_constant__ tiles_pack_args a)
{
    extern __shared__ __nv_bfloat16 tile[];
    const int64_t first_block = (int64_t)blockIdx.x * (PACK_TOKENS / 32), first = first_block * 32;
    const int64_t head = blockIdx.y, b = head / a.heads, h = head % a.heads;
    const int64_t length = a.lengths ? a.lengths[b] : a.length;
    const int key_rows = 8 * a.dim8, value_rows = 8 * a.value8 + 8;
    __nv_bfloat16 *values = tile + key_rows * PACK_LD;
    int64_t past = 0;
    if (a.aligned) past = (a.lengths_keys ? a.lengths_keys[b] : a.length_keys) - length;
    take(a.k, b, h, first - past, length, a.dim, a.dim8, nullptr, tile);
    take(a.v, b, h, first - past, length, a.dim_value, a.value8,
         a.center ? a.center + head * 8 * a.value8 : nullptr, values);
    for (int w = (int)threadIdx.x; w < 8 * PACK_TOKENS; w += (int)blockDim.x) {
        const bool one = w < PACK_TOKENS && first + w < length;
        values[(8 * a.value8 + w / PACK_TOKENS) * PACK_LD + w % PACK_TOKENS] =
            __float2bfloat16_rn(one ? 1.0f : 0.0f);
    }
    __syncthreads();
    if (a.normalize) {
        normalize(tile, a.dim, a.temperature ? a.temperature[h] : 1.0f);
        __syncthreads();
    }
    const int even8 = (a.dim8 + 1) / 2 * 2;
    for (int block = 0; block < PACK_TOKENS / 32 && first_block + block < a.blocks; block++) {
        const int64_t at = head * a.blocks + first_block + block;
        if (a.rows) put_rows(tile, block, key_rows, a.grouped, a.rows + at * key_rows * 64);
        if (a.keys) put_keys(tile, block, even8, a.dim8, a.keys + at * even8 * 512);
        put_values(values, block, value_rows, a.values + at * value_rows * 64);
    }
}

cudaError_t tiles_pack_run(const tiles_pack_args &a, cudaStream_t stream)
{
    const int rows = 8 * (a.dim8 + a.value8 + 1);
    const dim3 grid((unsigned)((a.blocks + 3) / 4), (unsigned)(a.batch * a.heads));
    return launch_kernel(tiles_pack_kernel, grid, PACK_THREADS,
                         rows * PACK_LD * (int)sizeof(__nv_bfloat16), stream, a);
}

} // namespace lnt
