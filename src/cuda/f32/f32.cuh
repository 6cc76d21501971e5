/* cuda/f32/f32.cuh - products in the precision of f32, 16 rows a warp; and what a sequence is.
 *
 * Fragments of mma.m16n8k8, lane = 4 g + t:  A  rows g, g + 8, columns t, t + 4
 *                                            B  rows t, t + 4, column g
 *                                            C  rows g, g + 8, columns 2t, 2t+1 */
#ifndef LNT_CUDA_F32_CUH
#define LNT_CUDA_F32_CUH

#include <type_traits>

#include <assert.h>

#include "cuda/f32/f32.h"

namespace lnt
{

/* F32_KEY_LD: rows of 32 keys apart in shared memory. */
enum { F32_WARPS = 8, F32_THREADS = 256, F32_KEY_LD = F32_TOKENS + 8 };

/* N columns in N8 tiles; rows LD apart in shared memory, so that a B fragment has 32 banks. */
template <int N8> struct f32_shape {
    static constexpr int N = 8 * N8, LD = N8 % 2 ? N : N + 8;
    static_assert(LD % 16 == 8, "four rows of eight in different banks");
    /* Blocks of threads a multiprocessor, as many as their registers leave; and of 32 tokens or
     * features how many are multiplied at once, in steps of 8. */
    static constexpr int BLOCKS = N8 > 9 ? 1 : 2, K = 4;
};

/* run(n8) with the number of column tiles as a constant. */
template <class F> cudaError_t f32_by_columns(int dim_value, const F &run)
{
    switch (f32_columns(dim_value) / 8) {
    case 2:
        return run(std::integral_constant<int, 2>());
    case 3:
        return run(std::integral_constant<int, 3>());
    case 5:
        return run(std::integral_constant<int, 5>());
    case 9:
        return run(std::integral_constant<int, 9>());
    default:
        return run(std::integral_constant<int, 17>());
    }
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

__device__ __forceinline__ void mma_tf32(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Of a number's bits those that tf32 has.  In memory, so that the compiler does not know them: it
 * would give the tensor cores the number itself, which they cut off, and move it to where they want
 * it. */
static __constant__ uint32_t tf32_bits = 0xffffe000u;

/* The first 11 bits of x, and the next: what the low part has beyond that the tensor cores leave
 * out.
 */
__device__ __forceinline__ void split(float x, uint32_t &high, uint32_t &low)
{
    high = __float_as_uint(x) & tf32_bits;
    low = __float_as_uint(x - __uint_as_float(high));
}

/* 16 rows times 8 K columns of A. */
template <int K> struct f32_rows {
    uint32_t high[K][4], low[K][4];

    /* a[column * ld + row]. */
    __device__ __forceinline__ void take_columns(const float *a, int ld, int lane)
    {
        a += lane % 4 * ld + lane / 4;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                split(a[(8 * k + i / 2 * 4) * ld + i % 2 * 8], high[k][i], low[k][i]);
    }

    /* a[row * ld + column], columns in the order of f32_pack.cu: t and t + 4 side by side. */
    __device__ __forceinline__ void take_rows(const float *a, int ld, int lane)
    {
        a += lane / 4 * ld + lane % 4 * 2;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float2 two = *(const float2 *)(a + i * 8 * ld + 8 * k);
                split(two.x, high[k][i], low[k][i]);
                split(two.y, high[k][i + 2], low[k][i + 2]);
            }
    }
};

/* acc += A B, B [8 K][8 N8] with rows ld apart.  The tensor cores cut sums off instead of rounding
 * them; so they sum 8 K products only, the small ones first, and what is kept for longer is added
 * here. */
template <int N8, int K>
__device__ __forceinline__ void multiply_add(float (&acc)[N8][4], const f32_rows<K> &a,
                                             const float *b, int ld, int lane)
{
    b += lane % 4 * ld + lane / 4;
#pragma unroll
    for (int n = 0; n < N8; n++) {
        float sum[4] = {};
        uint32_t high[K][2], low[K][2];
#pragma unroll
        for (int k = 0; k < K; k++) {
            split(b[8 * k * ld + 8 * n], high[k][0], low[k][0]);
            split(b[(8 * k + 4) * ld + 8 * n], high[k][1], low[k][1]);
            mma_tf32(sum, a.low[k], high[k][0], high[k][1]);
            mma_tf32(sum, a.high[k], low[k][0], low[k][1]);
        }
#pragma unroll
        for (int k = 0; k < K; k++) mma_tf32(sum, a.high[k], high[k][0], high[k][1]);
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i] += sum[i];
    }
}

/* Of 16 rows and 32 tokens of the other side, which stand as f32_pack.cu packs them; a lane's
 * [n][i] is of row g + 8 (i / 2), token 8 n + t + 4 (i % 2). */
typedef float f32_scores[F32_TOKENS / 8][4];

/* s += the rows' products with 32 keys [dim][F32_KEY_LD]; x[element * ld + row], dim a multiple
 * of 8. */
__device__ __forceinline__ void multiply_keys(f32_scores &s, const float *x, int ld,
                                              const float *keys, int dim, int lane)
{
    auto some = [&](auto tiles, int e) {
        f32_rows<decltype(tiles)::value> rows;
        rows.take_columns(x + e * ld, ld, lane);
        multiply_add(s, rows, keys + e * F32_KEY_LD, F32_KEY_LD, lane);
    };
    int e = 0;
    for (; e + 16 <= dim; e += 16) some(std::integral_constant<int, 2>(), e);
    if (e < dim) some(std::integral_constant<int, 1>(), e);
}

/* ---- sequences ------------------------------------------------------------------------------- */

struct f32_sequence {
    int64_t b, kv, queries, keys, past; /* query i stands at position i + past of the keys */
    float log_decay;
    __device__ f32_sequence(const f32_args &a, int64_t batch, int64_t kv_head)
        : b(batch), kv(kv_head)
    {
        queries = a.lengths_q ? a.lengths_q[b] : a.length_q;
        keys = a.lengths_k ? a.lengths_k[b] : a.length_k;
        past = keys - queries;
        log_decay = a.log_decay ? a.log_decay[kv / a.group] : 0.0f;
    }
    /* The decay to the power of `tokens`. */
    __device__ __forceinline__ float left(int64_t tokens) const
    {
        return exp2f((float)tokens * log_decay);
    }
};

/* The token at a place of 32 keys: f32_pack.cu. */
__device__ __forceinline__ int token_at(int place)
{
    return (place & ~7) + place % 8 / 2 + place % 2 * 4;
}

/* Element e of a row: as load(), with fewer instructions where it is plain f32. */
__device__ __forceinline__ float take(const view &x, int64_t row, int e)
{
    if (x.dtype == LNT_F32 && x.stride[3] == 1) return ((const float *)x.data)[row + e];
    return load(x, row + e * x.stride[3]);
}

/* An element of q or k as the features see it, before its row is normalised. */
__device__ __forceinline__ float f32_map(const f32_args &a, float x)
{
    if (a.mode != F32_LINEAR) return x;
    switch (a.map) {
    case LNT_MAP_RELU:
        return fmaxf(x, 0.0f);
    case LNT_MAP_EXP:
        return expf(x);
    case LNT_MAP_IDENTITY:
        return x;
    default:
        return x > 0 ? x + 1.0f : expf(x);
    }
}

/* How much the mapped element changes with x. */
__device__ __forceinline__ float f32_slope(const f32_args &a, float x)
{
    if (a.mode != F32_LINEAR) return 1.0f;
    switch (a.map) {
    case LNT_MAP_RELU:
        return x > 0 ? 1.0f : 0.0f;
    case LNT_MAP_EXP:
        return expf(x);
    case LNT_MAP_IDENTITY:
        return 1.0f;
    default:
        return x > 0 ? 1.0f : expf(x);
    }
}

/* 1 / |x| of a row that `lanes` lanes side by side hold, each with its part of the sum of squares.
 */
__device__ __forceinline__ float f32_norm(float square, int lanes)
{
    for (int i = lanes / 2; i; i /= 2) square += __shfl_xor_sync(~0u, square, i);
    return 1.0f / fmaxf(sqrtf(square), 1e-12f);
}

/* ---- features -------------------------------------------------------------------------------- */

__device__ __forceinline__ float4 multiply(const float4 &a, const float4 &b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

/* Four features, one after the other in the table, of four tokens side by side: element e of them
 * is at x[e * step], and after the last stands a 1.  put(i, y) takes them. */
template <class P>
__device__ __forceinline__ void make_features(const uint64_t (&feature)[4], int factors,
                                              const float *x, int step, const P &put)
{
    auto four = [&](uint32_t word,
                    uint32_t byte) { /* the elements that a byte of it names */
                                     return *(const float4 *)(x +
                                                              __byte_perm(word, 0, 0x4440 + byte) *
                                                                  step);
    };
    float4 head, prefix;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t low = (uint32_t)feature[i], high = (uint32_t)(feature[i] >> 32);
        if (factors > 2 && (i == 0 || !(high >> 25))) {
            head = four(low, 0);
            if (factors > 3) head = multiply(head, four(low, 1));
            if (factors > 4) head = multiply(head, four(low, 2));
            if (factors > 5) head = multiply(head, four(low, 3));
            if (factors > 6) head = multiply(head, four(high, 0));
        }
        if (factors > 1 && (i == 0 || !(high >> 24 & 1))) {
            prefix = four(high, 1);
            if (factors > 2) prefix = multiply(prefix, head);
        }
        const float4 last = four(high, 2);
        put(i, factors > 1 ? multiply(prefix, last) : last);
    }
}

/* Rows of W floats to rows LD apart in shared memory, by all threads of the block. */
template <int W, int LD>
__device__ __forceinline__ void copy_rows(float *to, const float *from, int rows,
                                          int threads = F32_THREADS)
{
    const uint32_t at = shared_address(to);
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < rows * (W / 4); i += threads)
        copy16(at + (uint32_t)(i / (W / 4) * LD + i % (W / 4) * 4) * 4u, from + i * 4);
}

} // namespace lnt
#endif
