/* cuda/linear/linear_boxes.cuh - the parts of linear_boxes.cu: a block of threads and its shared
 * memory, states that come and go, and products upon boxes. */
#ifndef LNT_CUDA_LINEAR_BOXES_CUH
#define LNT_CUDA_LINEAR_BOXES_CUH

#include "cuda/common/bulk.cuh"
#include "cuda/linear/linear_backward.cuh"

namespace lnt
{

enum {
    BOXES_CHUNKS = 4,
    BOXES_TOKENS = BOXES_CHUNKS * BOX_ROWS,
    BOXES_THREADS = 128, /* a warpgroup */
    /* Of a state: S in the order of the accumulators, 64 numbers a feature, 64 a column, and one.
     */
    OF_FEATURE = 64 * 64,
    OF_COLUMN = OF_FEATURE + 64,
    OF_ALL = OF_COLUMN + 64,
    BOXES_STATE = OF_ALL + 64,
    BOXES_PREFETCH = 16, /* of a thread of the scan, which has 8 for each number */
    BOXES_PARTS = 8,
};

struct boxes_args {
    CUtensorMap q, k, v, dout, dq, dk, dv;
    int64_t length;
    int heads, all_heads, dim, map, segments; /* H, B H */
    float eps;
    float *sums, *gradient_sums; /* [B H][segments][BOXES_STATE], then the states */
    float2 *rows;                /* [B H][length]: inv, h */
};

/* The passes over the queries and over the keys, in files of their own. */
cudaError_t linear_boxes_queries_run(const boxes_args &a, cudaStream_t stream);
cudaError_t linear_boxes_keys_run(const boxes_args &a, cudaStream_t stream);

/* Shared memory, in bytes: the segment's two tensors, two buffers of two boxes, the state, operands
 * of 8 columns, numbers. */
enum {
    BY_BUFFERS = BOXES_CHUNKS * 2 * BOX_BYTES,
    BY_STATE = BY_BUFFERS + 4 * BOX_BYTES,
    BY_ONES = BY_STATE + BOX_BYTES, /* 16 k, of which a column is 1 */
    BY_COLUMNS = BY_ONES + 256,     /* 64 k: of the state, of inv, of h / inv */
    BY_INVERSE = BY_COLUMNS + 1024,
    BY_SHARE = BY_INVERSE + 1024,
    BY_FLOATS = BY_SHARE + 1024, /* inv and h of the segment; of features, of columns, one */
    BY_BARRIERS = BY_FLOATS + 4 * (2 * BOXES_TOKENS + 192),
    LOADED = 0, /* a chunk of the segment */
    FILLED = LOADED + BOXES_CHUNKS,
    BOXES_BARRIERS = FILLED + 2, /* FILLED: a buffer */
    BOXES_BYTES = BY_BARRIERS + 8 * BOXES_BARRIERS + 1024,
    BOXES_SUM_BYTES = BY_BUFFERS + 256 + 8 * BOXES_CHUNKS + 1024,
};

#if LNT_WARPGROUPS

__device__ __forceinline__ void store_half(uint32_t at, float x)
{
    const __nv_bfloat16 half = __float2bfloat16_rn(x);
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(*(const unsigned short *)&half)
                 : "memory");
}

/* Number k of an operand of 8 columns: x as the sum of the first two. */
__device__ __forceinline__ void store_column(uint32_t columns, int k, float x)
{
    const float high = __bfloat162float(__float2bfloat16_rn(x));
    const uint32_t at = columns + (uint32_t)(k / 8 * 128 + k % 8 * 2);
    store_half(at, high);
    store_half(at + 16, x - high);
}

/* psi of a box in place; what is not there is 0, and psi(0) is. */
template <int map> __device__ __forceinline__ void psi_box(uint32_t box, int thread)
{
    const uint32_t at = box + box_at(thread / 8, thread % 8);
    uint32_t x[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) load_piece(x[i], at + i * 2048);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[i][e] = pack(map_psi(map, low_of(x[i][e])), map_psi(map, high_of(x[i][e])));
        store_piece(at + i * 2048, x[i]);
    }
}

__device__ __forceinline__ void psi_box(uint32_t box, int map, int thread)
{
    if (map == LNT_MAP_ELU1)
        psi_box<LNT_MAP_ELU1>(box, thread);
    else if (map == LNT_MAP_RELU)
        psi_box<LNT_MAP_RELU>(box, thread);
    else if (map == LNT_MAP_EXP)
        psi_box<LNT_MAP_EXP>(box, thread);
    product_publish();
}

__device__ __forceinline__ void lay_ones(uint32_t at)
{
    if (threadIdx.x < 64) store_word(at + threadIdx.x * 4, threadIdx.x % 32 < 4 ? 0x3f803f80u : 0u);
}

/* What all kernels know of their block. */
struct boxes_block {
    const boxes_args &a;
    uint32_t shared;
    int head, b, h, segment, begin; /* there are fewer than 2^31 tokens */
    int chunks;                     /* of the segment that are there */
    __device__ __forceinline__ boxes_block(const boxes_args &args, const char *bytes)
        : a(args), shared((shared_address(bytes) + 1023) & ~1023u), head(blockIdx.y),
          b(head / a.heads), h(head % a.heads), segment(blockIdx.x), begin(segment * BOXES_TOKENS)
    {
        chunks = min(((int)a.length - begin + BOX_ROWS - 1) / BOX_ROWS, (int)BOXES_CHUNKS);
    }
    __device__ __forceinline__ uint32_t first(int chunk) const
    {
        return shared + (uint32_t)chunk * 2 * BOX_BYTES;
    }
    __device__ __forceinline__ uint32_t second(int chunk) const { return first(chunk) + BOX_BYTES; }
    __device__ __forceinline__ uint32_t buffer(int which) const
    {
        return shared + BY_BUFFERS + (uint32_t)which * 2 * BOX_BYTES;
    }
    __device__ __forceinline__ uint32_t barrier(int which) const
    {
        return shared + BY_BARRIERS + 8 * (uint32_t)which;
    }
    __device__ __forceinline__ float *state(float *sums) const
    {
        return sums + ((int64_t)head * a.segments + segment) * BOXES_STATE;
    }
    __device__ __forceinline__ void set_up() const
    {
        for (int i = (int)threadIdx.x; i < (BY_FLOATS - BY_ONES) / 4; i += BOXES_THREADS)
            store_word(shared + BY_ONES + (uint32_t)i * 4, 0);
        __syncthreads();
        lay_ones(shared + BY_ONES);
        product_publish();
        if (threadIdx.x == 0) {
            for (int i = 0; i < BOXES_CHUNKS; i++) barrier_init(barrier(LOADED + i), 1);
            for (int i = 0; i < 2; i++) barrier_init(barrier(FILLED + i), 1);
            barrier_publish();
        }
        __syncthreads();
    }
    __device__ __forceinline__ float *floats() const
    {
        extern __shared__ __align__(1024) char bytes[];
        return (float *)(bytes + (shared - shared_address(bytes)) + BY_FLOATS);
    }
    /* Boxes of two tensors, side by side; by one thread. */
    __device__ __forceinline__ void load(const CUtensorMap *x, const CUtensorMap *y, uint32_t to,
                                         int chunk, int full) const
    {
        const uint64_t policy = read_once();
        const int row = begin + chunk * BOX_ROWS;
        barrier_expect(barrier(full), 2 * BOX_BYTES);
        box_load(to, x, b, h, row, barrier(full), policy);
        box_load(to + BOX_BYTES, y, b, h, row, barrier(full), policy);
    }
    /* The state to shared memory: S as bf16, columns as an operand, the others as they are. */
    __device__ __forceinline__ void take_state(float *sums, float *to, int thread) const
    {
        const float *from = state(sums);
        const int row = thread / 32 * 16 + thread % 32 / 4;
        float4 x[8];
#pragma unroll
        for (int n = 0; n < 8; n++) x[n] = ((const float4 *)from)[n * 128 + thread];
        const float column = from[OF_COLUMN + thread % 64], number = from[OF_FEATURE + thread],
                    all = from[OF_ALL];
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const uint32_t at = shared + BY_STATE + thread % 4 * 4;
            store_word(at + box_at(row, n), pack(x[n].x, x[n].y));
            store_word(at + box_at(row + 8, n), pack(x[n].z, x[n].w));
        }
        if (thread < 64) store_column(shared + BY_COLUMNS, thread, column);
        to[thread] = number;
        if (thread == 0) to[128] = all;
        product_publish();
    }
    __device__ __forceinline__ void put_sum(float *sums, const float (&s)[8][4],
                                            const float (&feature)[1][4],
                                            const float (&column)[1][4], float all,
                                            int thread) const
    {
        float *to = state(sums);
        const int row = thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int n = 0; n < 8; n++)
            ((float4 *)to)[n * 128 + thread] = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
        if (thread % 4 == 0)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                to[OF_FEATURE + row + 8 * u] = feature[0][2 * u] + feature[0][2 * u + 1];
                to[OF_COLUMN + row + 8 * u] = column[0][2 * u] + column[0][2 * u + 1];
            }
        if (thread < 64) to[OF_ALL + thread] = thread ? 0.0f : all;
    }
};

/* What x loses as a bf16. */
__device__ __forceinline__ float rest_of(float x)
{
    return x - __bfloat162float(__float2bfloat16_rn(x));
}

/* Pairs of a chunk's own 64 x 64: by rows less columns, those above 0 (below), at 0, or not. */
template <bool below> __device__ __forceinline__ uint32_t own_mask(int lane, int warp, int n, int u)
{
    const int by = warp * 16 + lane / 4 - lane % 4 * 2 + 8 * u - 8 * n;
    if (below) return by > 0 ? ~0u : by == 0 ? 0xffffu : 0u;
    return by <= 0 ? ~0u : by == 1 ? 0xffff0000u : 0u;
}

template <bool below>
__device__ __forceinline__ void keep_own(uint32_t (&w)[4][4], int lane, int warp)
{
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int u = 0; u < 2; u++) w[n / 2][n % 2 * 2 + u] &= own_mask<below>(lane, warp, n, u);
}

__device__ __forceinline__ void load_rows(uint32_t (&x)[4][4], uint32_t box, int lane, int warp)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        load_matrices(x[i], box + box_at(warp * 16 + lane % 16, 2 * i + lane / 16));
}

__device__ __forceinline__ void store_rows(uint32_t box, const uint32_t (&x)[4][4], int lane,
                                           int warp)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        store_matrices(box + box_at(warp * 16 + lane % 16, 2 * i + lane / 16), x[i]);
}

/* The numbers of rows g and g + 8 in an accumulator of 8 columns, of which two count. */
__device__ __forceinline__ float of_row(const float (&x)[1][4], int u, int lane)
{
    return __shfl_sync(~0u, x[0][2 * u] + x[0][2 * u + 1], lane & ~3);
}

/* d = A B^T, under way. */
__device__ __forceinline__ void scores(float (&d)[8][4], const uint32_t (&a)[4][4], uint32_t box)
{
    const uint64_t b = box_operand(box);
    product_begin();
#pragma unroll
    for (int i = 0; i < 4; i++) product_box<false>(d, a[i], operand_on(b, i * BOX_ACROSS), i > 0);
    product_commit();
}

/* d += A B. */
__device__ __forceinline__ void add_box(float (&d)[8][4], const uint32_t (&a)[4][4], uint32_t box,
                                        bool on)
{
    const uint64_t b = box_operand(box);
#pragma unroll
    for (int i = 0; i < 4; i++)
        product_box<true>(d, a[i], operand_on(b, i * BOX_DOWN), i > 0 || on);
}

/* d += A times operands of 8 columns; `step` bytes from 16 k to the next. */
__device__ __forceinline__ void add_columns(float (&d)[1][4], const uint32_t (&a)[4][4],
                                            uint32_t columns, int step, bool on)
{
    const uint64_t b = column_operand(columns);
#pragma unroll
    for (int i = 0; i < 4; i++) product_columns(d, a[i], operand_on(b, i * step), i > 0 || on);
}

#endif

} // namespace lnt
#endif
