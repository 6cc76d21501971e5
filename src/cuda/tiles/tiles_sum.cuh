/* cuda/tiles/tiles_sum.cuh - parts of tiles_sum.cu: tiles of monomials, and the packed keys and values of
 * a segment through a ring in shared memory. */
#ifndef LNT_CUDA_TILES_SUM_CUH
#define LNT_CUDA_TILES_SUM_CUH

#include <assert.h>

#include "cuda/common/product.cuh"
#include "cuda/tiles/tiles.h"

namespace lnt
{

enum { TILES_SUM_WARPS = 8, TILES_SUM_STAGES = 3, STAGE_BLOCKS = 4 };

__device__ __forceinline__ uint4 multiply4(uint4 a, uint4 b)
{
    return make_uint4(multiply(a.x, b.x), multiply(a.y, b.y), multiply(a.z, b.z),
                      multiply(a.w, b.w));
}

/* A of 16 tokens: the prefixes p0, p1 times block x, the tokens 4 s ... 4 s + 3 of each lane's 8.
 */
__device__ __forceinline__ void make_tile(const uint4 &p0, const uint4 &p1, const uint4 &x, int s,
                                          uint32_t (&a)[4])
{
    a[0] = s ? multiply(p0.z, x.z) : multiply(p0.x, x.x);
    a[1] = s ? multiply(p1.z, x.z) : multiply(p1.x, x.x);
    a[2] = s ? multiply(p0.w, x.w) : multiply(p0.y, x.y);
    a[3] = s ? multiply(p1.w, x.w) : multiply(p1.y, x.y);
}

template <int N8>
__device__ __forceinline__ void store_tile(float4 *sums, int64_t tile, const float (&acc)[N8][4],
                                           int lane)
{
#pragma unroll
    for (int n = 0; n < N8; n++)
        sums[(tile * N8 + n) * 32 + lane] = make_float4(acc[n][0], acc[n][1], acc[n][2], acc[n][3]);
}

/* A stage is STAGE_BLOCKS blocks of 32 tokens: the keys of each followed by the constants' block,
 * whose row 0 is 1 and the others 0; then their values. */
struct sum_stream {
    const tiles_sum_args &a;
    char *shared;
    int key_bytes, block_bytes, value_bytes, stage_bytes, stages, n8;
    const char *keys, *values;
    int64_t segment, head;

    __device__ __forceinline__ sum_stream(const tiles_sum_args &args, int columns8, char *memory,
                                          int64_t segment_number, int64_t head_number)
        : a(args), shared(memory), n8(columns8), segment(segment_number), head(head_number)
    {
        key_bytes = a.dim8 * 512, block_bytes = key_bytes + 512, value_bytes = n8 * 512;
        stage_bytes = STAGE_BLOCKS * (block_bytes + value_bytes);
        const int64_t begin = segment * a.segment_blocks;
        stages = (int)((min(begin + a.segment_blocks, a.blocks) - begin) / STAGE_BLOCKS);
        keys = a.rows + (head * a.blocks + begin) * key_bytes;
        values = a.values + (head * a.blocks + begin) * value_bytes;
    }
    static int shared_bytes(int dim8, int columns8)
    {
        return TILES_SUM_STAGES * STAGE_BLOCKS * ((dim8 + 1) * 512 + columns8 * 512);
    }
    __device__ __forceinline__ void fetch(int i)
    {
        if (i < stages) {
            const uint32_t to = shared_address(shared) + i % TILES_SUM_STAGES * stage_bytes;
            for (int b = 0; b < STAGE_BLOCKS; b++)
                copy_block(to + b * block_bytes, keys + (int64_t)(i * STAGE_BLOCKS + b) * key_bytes,
                           key_bytes);
            copy_block(to + STAGE_BLOCKS * block_bytes,
                       values + (int64_t)i * STAGE_BLOCKS * value_bytes,
                       STAGE_BLOCKS * value_bytes);
        }
        copy_commit();
    }
    __device__ __forceinline__ void begin()
    {
        for (int w = (int)threadIdx.x; w < TILES_SUM_STAGES * STAGE_BLOCKS * 32;
             w += (int)blockDim.x) {
            const int stage = w / 32 / STAGE_BLOCKS, block = w / 32 % STAGE_BLOCKS;
            const uint32_t x = w % 32 < 4 ? 0x3f803f80u : 0;
            *(uint4 *)(shared + stage * stage_bytes + block * block_bytes + key_bytes +
                       w % 32 * 16) = make_uint4(x, x, x, x);
        }
        for (int i = 0; i < TILES_SUM_STAGES - 1; i++) fetch(i);
    }
    /* Stage i is there, and another is on its way. */
    __device__ __forceinline__ void next(int i)
    {
        copy_wait<TILES_SUM_STAGES - 2>();
        product_publish();
        product_wait<0>(); /* no product reads the stage that comes next */
        __syncthreads();
        fetch(i + TILES_SUM_STAGES - 1);
    }
    __device__ __forceinline__ const char *keys_at(int i, int b) const
    {
        return shared + i % TILES_SUM_STAGES * stage_bytes + b * block_bytes;
    }
    __device__ __forceinline__ const char *values_at(int i, int b) const
    {
        return shared + i % TILES_SUM_STAGES * stage_bytes + STAGE_BLOCKS * block_bytes +
               b * value_bytes;
    }
    __device__ __forceinline__ float4 *sums() const
    {
        return (float4 *)a.sums + (head * a.segments + segment) * a.tile_count * n8 * 32;
    }
};

} // namespace lnt
#endif
