/* cuda/tiles/tiles_sum.cu - what Taylor attention remembers of each segment of the keys:
 *
 *     sums[f, c] = sum over the segment's tokens of  phi_f(k) [v, 1]_c
 *
 * A warp has one task (tiles_basis.h): 4 prefixes times up to KB blocks of k, 2 KB tiles of 16 monomials
 * x (W + 8) columns in its accumulators, and walks the segment's tokens, 32 at a time.  A =
 * monomials x tokens is made in registers: rows are one block of k times a prefix, and tokens go in
 * pairs, so a register of A is one product of two bf16; nothing of size tokens x monomials exists.
 * B = tokens x columns is the packed values.  Segments, tasks and heads are independent: nothing is
 * serial in n. The four warps of a warpgroup have tasks of one shape, for they multiply together.
 * What limits it besides the tensor cores is filling registers from shared memory, so the prefixes
 * serve all blocks of the task.  See docs/gpu-kernels.md */
#include "cuda/tiles/tiles_sum.cuh"

namespace lnt
{

/* Blocks of k that the prefixes of a task are multiplied with. */
template <int X> struct sum_shape {
    static constexpr int KB = X == 16 ? 1 : 2, T = 2 * KB;
};

int tiles_sum_blocks(int width) { return width == 16 ? 1 : 2; }

/* Where in a 32-token block of keys the factors of a task stand. */
template <int KB> struct sum_place {
    uint32_t i[2], j[2], r[(KB + 1) / 2]; /* two in a word */
    int blocks, second, multiplies;
};

__device__ __forceinline__ uint32_t offset_of(int i, int t)
{
    return (uint32_t)(i * 64 + ((t ^ (i / 2 % 4)) * 16));
}

template <int KB> __device__ __forceinline__ sum_place<KB> place_of(const tile_task &task, int lane)
{
    sum_place<KB> p;
    const int t = lane % 4, g = lane / 4;
    for (int k = 0; k < 2; k++) {
        p.i[k] = offset_of(task.i[2 * k], t) | offset_of(task.i[2 * k + 1], t) << 16;
        p.j[k] = offset_of(task.j[2 * k], t) | offset_of(task.j[2 * k + 1], t) << 16;
    }
    for (int k = 0; k < (KB + 1) / 2; k++)
        p.r[k] = offset_of(8 * task.r[2 * k] + g, t) | offset_of(8 * task.r[2 * k + 1] + g, t)
                                                           << 16;
    p.blocks = task.blocks, p.second = task.second, p.multiplies = task.multiplies;
    return p;
}

__device__ __forceinline__ uint4 at_place(const char *keys, const uint32_t *place, int k)
{
    return *(const uint4 *)(keys + (place[k / 2] >> k % 2 * 16 & 0xffff));
}

/* The prefixes for 32 tokens. */
template <int KB>
__device__ __forceinline__ void make_prefixes(const char *keys, const sum_place<KB> &place,
                                              uint4 (&p)[4])
{
#pragma unroll
    for (int k = 0; k < 4; k++) p[k] = at_place(keys, place.i, k);
    if (place.multiplies == 1) {
        const uint4 j = at_place(keys, place.j, 0);
#pragma unroll
        for (int k = 0; k < 4; k++) p[k] = multiply4(p[k], j);
    } else if (place.multiplies == 2) {
#pragma unroll
        for (int k = 0; k < 4; k++) p[k] = multiply4(p[k], at_place(keys, place.j, k));
    }
}

/* A 32-token block: acc += monomials x values.  `blocks` blocks, one or two tiles of each, known
 * when compiled, so that the products of some tiles hide the making of the next. */
template <int X, int blocks, bool second>
__device__ __forceinline__ void sum_block(const char *keys, const char *values,
                                          const sum_place<sum_shape<X>::KB> &place,
                                          float (&acc)[sum_shape<X>::T][X + 1][4])
{
    constexpr int N8 = X + 1, KB = sum_shape<X>::KB;
    uint4 p[4], x[blocks];
    make_prefixes<KB>(keys, place, p);
#pragma unroll
    for (int k = 0; k < blocks; k++) x[k] = at_place(keys, place.r, k);
    operand b[2] = { operand_at(values, 128, 512),
                     operand_plus(operand_at(values, 128, 512), 256) };
    operand_pin(b[0]);
    operand_pin(b[1]);
    /* Tiles multiplied at once, and how many such products may be under way: wide ones hide the
     * making of the next; where they are short other warpgroups do, and registers are for those. */
    constexpr int each = X >= 8 || !second ? 1 : 2, in_flight = X >= 8;
#pragma unroll
    for (int t = 0; t < 2 * blocks * (1 + second); t += each) {
        const int s = t / (blocks * (1 + second)), k = t / (1 + second) % blocks,
                  w0 = t % (1 + second);
        uint32_t a[each][4];
#pragma unroll
        for (int w = 0; w < each; w++)
            make_tile(p[2 * (w0 + w)], p[2 * (w0 + w) + 1], x[k], s, a[w]);
        product_begin();
#pragma unroll
        for (int w = 0; w < each; w++) product<N8>(acc[2 * k + w0 + w], a[w], b[s]);
        product_commit();
        product_wait<in_flight>();
    }
}

template <int X, int blocks>
__device__ __forceinline__ void sum_choose(const char *keys, const char *values,
                                           const sum_place<sum_shape<X>::KB> &place,
                                           float (&acc)[sum_shape<X>::T][X + 1][4])
{
    if (place.blocks == blocks) {
        if (place.second)
            sum_block<X, blocks, true>(keys, values, place, acc);
        else
            sum_block<X, blocks, false>(keys, values, place, acc);
    }
    if constexpr (blocks > 1)
        if (place.blocks < blocks) sum_choose<X, blocks - 1>(keys, values, place, acc);
}

template <int X>
__global__ void __launch_bounds__(TILES_SUM_WARPS * 32, X <= 4 ? 2 : 1)
    tiles_sum_kernel(const __grid_constant__ tiles_sum_args a)
{
    constexpr int N8 = X + 1, T = sum_shape<X>::T;
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const tile_task task = a.tasks[blockIdx.x * TILES_SUM_WARPS + warp];
    const sum_place<sum_shape<X>::KB> place = place_of<sum_shape<X>::KB>(task, lane);
    float acc[T][N8][4] = {};

    sum_stream s(a, N8, shared, blockIdx.y, blockIdx.z);
    s.begin();
#pragma unroll 1
    for (int i = 0; i < s.stages; i++) {
        s.next(i);
#pragma unroll 1
        for (int b = 0; b < STAGE_BLOCKS; b++)
            sum_choose<X, sum_shape<X>::KB>(s.keys_at(i, b), s.values_at(i, b), place, acc);
    }
    product_wait<0>();
    if (task.first < 0) return; /* only there to complete a warpgroup */
    float4 *sums = s.sums();
#pragma unroll
    for (int t = 0; t < T; t++)
        if (t / 2 < place.blocks && (t % 2 == 0 || place.second))
            store_tile<N8>(sums, task.first + t / 2 * task.step_r + t % 2 * task.step_w, acc[t],
                           lane);
}

template <int X> static cudaError_t launch(const tiles_sum_args &a, cudaStream_t stream)
{
    const int shared = sum_stream::shared_bytes(a.dim8, X + 1);
    assert(shared <= tiles_sum_bytes(a.dim8, X + 1));
    const dim3 grid((unsigned)(a.task_count / TILES_SUM_WARPS), (unsigned)a.segments,
                    (unsigned)a.heads);
    return launch_kernel(tiles_sum_kernel<X>, grid, TILES_SUM_WARPS * 32, shared, stream, a);
}

cudaError_t tiles_sum_run(const tiles_sum_args &a, cudaStream_t stream)
{
    return by_width<2>(a.width, [&](auto x) { return launch<x.value>(a, stream); });
}

} // namespace lnt
