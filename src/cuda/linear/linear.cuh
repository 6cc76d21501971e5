/* cuda/linear/linear.cuh - the parts of linear_forward.cu: chunks in shared memory, the state in the
 * accumulators, 16 rows of a warp, and a chunk's answers. */
#ifndef LNT_CUDA_LINEAR_CUH
#define LNT_CUDA_LINEAR_CUH

#include "cuda/linear/linear.h"

namespace lnt
{

enum { CHUNK = 64, LINEAR_THREADS = 128, SUM_STAGES = 3, SCAN_PREFETCH = 8 };

template <int X> struct linear_shape {
    static constexpr int LD = 8 * X + 8, TILE = CHUNK * LD; /* a chunk in shared memory, elements */
    static constexpr int COLUMNS = 8 * X + 8, STATE = 8 * X * COLUMNS;
    static constexpr int ROWS = X == 1 ? 16 : 8 * X; /* of the rounded state: whole tiles of 16 */
    static constexpr int ROUNDED = ROWS * LD;
    /* Warps over rows and over columns of S, tiles of each a warp. */
    static constexpr int ROW_TILES = ROWS / 16, WR = ROW_TILES < 4 ? ROW_TILES : 4, WC = 4 / WR;
    static constexpr int TR = ROW_TILES / WR, TC = (X + 1 + WC - 1) / WC;
    static constexpr int SUM_BYTES = 2 * SUM_STAGES * TILE * 2,
                         ANSWER_BYTES = (6 * TILE + ROUNDED) * 2;
};

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <int map> __device__ __forceinline__ float linear_map(float x)
{
    const float log2e = 1.44269504f;
    switch (map) {
    case LNT_MAP_RELU:
        return fmaxf(x, 0.0f);
    case LNT_MAP_EXP:
        return power_of_two(x * log2e);
    case LNT_MAP_IDENTITY:
        return x;
    default:
        return fmaxf(x, 0.0f) + power_of_two(fminf(x * log2e, 0.0f)); /* one of them is 0 or 1 */
    }
}

template <int map> __device__ __forceinline__ uint32_t map_two(uint32_t two)
{
    if (map == LNT_MAP_ELU1) { /* max(x, 0) + min(e^x, 1): of the sum one is 0 or 1, so exact */
        const float log2e = 1.44269504f;
        const uint32_t e =
            pack(power_of_two(low_of(two) * log2e), power_of_two(high_of(two) * log2e));
        return add_pairs(more_of_pairs(two, 0), less_of_pairs(e, 0x3f803f80u));
    }
    return pack(linear_map<map>(low_of(two)), linear_map<map>(high_of(two)));
}

/* phi of n registers of pairs. */
template <int n> __device__ __forceinline__ void map_pairs(uint32_t *x, int map)
{
#pragma unroll
    for (int i = 0; i < n; i++)
        x[i] = map == LNT_MAP_ELU1   ? map_two<LNT_MAP_ELU1>(x[i])
               : map == LNT_MAP_RELU ? map_two<LNT_MAP_RELU>(x[i])
               : map == LNT_MAP_EXP  ? map_two<LNT_MAP_EXP>(x[i])
                                     : x[i];
}

/* phi of a chunk, in place; 0 past the end.  width is the width of x. */
template <int X, int map>
__device__ __forceinline__ void map_all(__nv_bfloat16 *x, int there, int width)
{
    constexpr int LD = linear_shape<X>::LD, STEP = LINEAR_THREADS / X;
    const int column = (int)threadIdx.x % X * 8;
#pragma unroll
    for (int i = 0; i < CHUNK; i += STEP) {
        const int row = (int)threadIdx.x / X + i;
        if (row >= CHUNK) continue;
        uint4 *at = (uint4 *)(x + row * LD + column);
        uint4 eight = *at;
        uint32_t *two = (uint32_t *)&eight;
#pragma unroll
        for (int k = 0; k < 4; k++) two[k] = map_two<map>(two[k]);
        if (row >= there) eight = make_uint4(0, 0, 0, 0);
        *at = eight;
        if (width < 8 * X && row < there)
            for (int e = max(width - column, 0); e < 8; e++)
                x[row * LD + column + e] = __float2bfloat16_rn(0.0f);
    }
}

template <int X>
__device__ __forceinline__ void map_chunk(__nv_bfloat16 *x, int there, int width, int map)
{
    if (map == LNT_MAP_ELU1)
        map_all<X, LNT_MAP_ELU1>(x, there, width);
    else if (map == LNT_MAP_RELU)
        map_all<X, LNT_MAP_RELU>(x, there, width);
    else if (map == LNT_MAP_EXP)
        map_all<X, LNT_MAP_EXP>(x, there, width);
    else
        map_all<X, LNT_MAP_IDENTITY>(x, there, width);
}

/* How many chunks tokens begin .. end - 1 are. */
__device__ __forceinline__ int chunks_of(int64_t begin, int64_t end)
{
    return end > begin ? (int)((end - begin + CHUNK - 1) / CHUNK) : 0;
}

struct linear_sequence {
    int64_t b, kv, queries, keys, past;
    float gamma;
    __device__ linear_sequence(const linear_args &a, int64_t head)
    {
        b = head / a.kv_heads, kv = head % a.kv_heads;
        queries = a.lengths_q ? a.lengths_q[b] : a.length_q;
        keys = a.lengths_k ? a.lengths_k[b] : a.length_k;
        past = keys - queries;
        gamma = a.decay ? a.decay[kv] : 1.0f;
    }
};

/* Rows [from, to) of y of all heads of a group are 0; by block `part` of `parts`. */
__device__ __forceinline__ void clear_rows(const linear_args &a, const linear_sequence &n,
                                           int64_t from, int64_t to, int part, int parts)
{
    const int64_t group = a.heads / a.kv_heads, count = max(to - from, (int64_t)0) * a.dim_value;
    for (int64_t i = (int64_t)part * blockDim.x + threadIdx.x; i < count * group;
         i += (int64_t)parts * blockDim.x) {
        const int64_t h = n.kv * group + i / count, row = from + i % count / a.dim_value;
        store(a.out, row_of(a.out, n.b, h, row) + i % a.dim_value * a.out.stride[3], 0.0f);
    }
}

/* Rows skip .. there - 1 of a chunk whose row 0 would be at row0; zeros elsewhere. */
template <int X, int threads = LINEAR_THREADS>
__device__ __noinline__ void fetch_slowly(const view &x, int64_t row0, int skip, int64_t there,
                                          int width, __nv_bfloat16 *to)
{
    constexpr int LD = linear_shape<X>::LD;
    for (int w = (int)threadIdx.x; w < CHUNK * 8 * X; w += threads) {
        const int row = w / (8 * X), i = w % (8 * X);
        const bool in = row >= skip && row < there && i < width;
        to[row * LD + i] =
            __float2bfloat16_rn(in ? load(x, row0 + row * x.stride[2] + i * x.stride[3]) : 0.0f);
    }
}

/* The same, 16 bytes at a time where the chunk is whole.  A thread stays in its column. */
template <int X, int threads = LINEAR_THREADS>
__device__ __forceinline__ void fetch(const view &x, int64_t row0, int skip, int64_t there,
                                      int width, bool wide, __nv_bfloat16 *to)
{
    constexpr int LD = linear_shape<X>::LD, STEP = threads / X;
    if (!wide || skip > 0 || there < CHUNK) {
        fetch_slowly<X, threads>(x, row0, skip, there, width, to);
        return;
    }
    const int column = (int)threadIdx.x % X * 8, row = (int)threadIdx.x / X;
    const __nv_bfloat16 *from = (const __nv_bfloat16 *)x.data + row0 + row * x.stride[2] + column;
    const uint32_t at = shared_address(to + row * LD + column);
#pragma unroll
    for (int i = 0; i < CHUNK; i += STEP)
        if (row + i < CHUNK) copy16(at + i * LD * 2, from + i * x.stride[2]);
}

/* A tensor that is fetched chunk by chunk, rows of `width` elements. */
template <int X, int threads = LINEAR_THREADS> struct chunk_source {
    const view &x;
    int width;
    bool wide;
    __device__ __forceinline__ chunk_source(const view &x_, int width_)
        : x(x_), width(width_), wide(is_wide(x_, width_) && width_ == 8 * X)
    {
    }
    /* The chunk whose row 0 is `row` of a head, of which rows skip .. there - 1 are there. */
    __device__ __forceinline__ void get(int64_t b, int64_t h, int64_t row, int skip, int64_t there,
                                        __nv_bfloat16 *to) const
    {
        fetch<X, threads>(x, row_of(x, b, h, row), skip, there, width, wide, to);
    }
};

/* Where the width is 8, products of 16 read on into the padding. */
template <int X, int threads = LINEAR_THREADS>
__device__ __forceinline__ void clear_padding(char *shared, int bytes)
{
    if constexpr (X == 1) {
        for (int i = (int)threadIdx.x * 4; i < bytes; i += threads * 4)
            *(uint32_t *)(shared + i) = 0;
        __syncthreads();
    }
}

/* The address lane gives for four 8 x 8 matrices of x [.][LD]: rows row .. row + 15, columns column
 * .. column + 15, ordered rows first. */
template <int LD>
__device__ __forceinline__ uint32_t matrices_at(const __nv_bfloat16 *x, int row, int column,
                                                int lane)
{
    return shared_address(x + (row + lane % 16) * LD + column + lane / 16 * 8);
}

/* S and z of a head, in the accumulators of the block: warp (wr, wc) has TR tiles of 16 features
 * and the column tiles wc, wc + WC, ... */
template <int X> struct linear_state {
    using shape = linear_shape<X>;
    float s[shape::TR][shape::TC][4];
    int lane, wr, wc;

    __device__ __forceinline__ void clear()
    {
        lane = (int)threadIdx.x % 32;
        wr = (int)threadIdx.x / 32 % shape::WR, wc = (int)threadIdx.x / 32 / shape::WR;
#pragma unroll
        for (int r = 0; r < shape::TR; r++)
#pragma unroll
            for (int c = 0; c < shape::TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[r][c][e] = 0;
    }
    __device__ __forceinline__ int feature(int r, int e) const
    {
        return (wr * shape::TR + r) * 16 + lane / 4 + e / 2 * 8;
    }
    __device__ __forceinline__ int column(int c, int e) const
    {
        return (wc + c * shape::WC) * 8 + lane % 4 * 2 + e % 2;
    }
    __device__ __forceinline__ void load(const float *from)
    {
        clear();
#pragma unroll
        for (int r = 0; r < shape::TR; r++)
#pragma unroll
            for (int c = 0; c < shape::TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (feature(r, e) < 8 * X && column(c, e) < shape::COLUMNS)
                        s[r][c][e] = from[feature(r, e) * shape::COLUMNS + column(c, e)];
    }
    __device__ __forceinline__ void store(float *to) const
    {
#pragma unroll
        for (int r = 0; r < shape::TR; r++)
#pragma unroll
            for (int c = 0; c < shape::TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (feature(r, e) < 8 * X && column(c, e) < shape::COLUMNS)
                        to[feature(r, e) * shape::COLUMNS + column(c, e)] = s[r][c][e];
    }
    /* As bf16 [feature][column]; z as the sum of columns W and W + 1. */
    __device__ __forceinline__ void round(__nv_bfloat16 *to) const
    {
#pragma unroll
        for (int r = 0; r < shape::TR; r++)
#pragma unroll
            for (int c = 0; c < shape::TC; c++)
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    const int at = column(c, 0);
                    float x0 = s[r][c][2 * u], x1 = s[r][c][2 * u + 1];
                    if (at == 8 * X) {
                        const float high = __bfloat162float(__float2bfloat16_rn(x0));
                        x1 = x0 - high, x0 = high;
                    }
                    if (at < shape::COLUMNS)
                        *(uint32_t *)(to + feature(r, 2 * u) * shape::LD + at) = pack(x0, x1);
                }
    }
    __device__ __forceinline__ void shrink(float gamma, int tokens)
    {
        const float factor = powf(gamma, (float)tokens);
#pragma unroll
        for (int r = 0; r < shape::TR; r++)
#pragma unroll
            for (int c = 0; c < shape::TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[r][c][e] *= factor;
    }
    /* += sum over the chunk's `there` tokens of gamma^(there - 1 - j) phi(k_j) [v_j, 1]. */
    template <bool decays>
    __device__ __forceinline__ void append(const __nv_bfloat16 *keys, const __nv_bfloat16 *values,
                                           float gamma, int there)
    {
        constexpr int LD = shape::LD;
#pragma unroll
        for (int k = 0; k < CHUNK; k += 16) {
            uint32_t b[shape::TC][2];
            read_values(values, k, b);
            uint32_t weight[2] = { 0x3f803f80u, 0x3f803f80u };
            if (decays) {
                const int j = there - 1 - k - lane % 4 * 2;
                weight[0] = pack(decayed(gamma, j), decayed(gamma, j - 1));
                weight[1] = pack(decayed(gamma, j - 8), decayed(gamma, j - 9));
            }
#pragma unroll
            for (int r = 0; r < shape::TR; r++) {
                uint32_t x[4];
                load_matrices_transposed(x,
                                         matrices_at<LD>(keys, k, (wr * shape::TR + r) * 16, lane));
                uint32_t a[4] = { x[0], x[2], x[1], x[3] };
                if (decays) {
                    a[0] = multiply(a[0], weight[0]), a[1] = multiply(a[1], weight[0]);
                    a[2] = multiply(a[2], weight[1]), a[3] = multiply(a[3], weight[1]);
                }
#pragma unroll
                for (int c = 0; c < shape::TC; c++) mma16(s[r][c], a, b[c][0], b[c][1]);
            }
        }
    }
    /* B fragments of 16 tokens; the last column tile is 1, 0, 0 ... */
    __device__ __forceinline__ void read_values(const __nv_bfloat16 *values, int k,
                                                uint32_t (&b)[shape::TC][2]) const
    {
#pragma unroll
        for (int c = 0; c < shape::TC; c++) {
            const int n = wc + c * shape::WC;
            if (shape::WC == 1 && c % 2) continue; /* came with the one before */
            uint32_t four[4];
            b[c][0] = b[c][1] = lane / 4 == 0 && n == X ? 0x3f803f80u : 0;
            if (n >= X) continue;
            load_matrices_transposed(four, matrices_at<shape::LD>(values, k, n / 2 * 16, lane));
            b[c][0] = n % 2 ? four[2] : four[0], b[c][1] = n % 2 ? four[3] : four[1];
            if (shape::WC == 1 && c + 1 < shape::TC) b[c + 1][0] = four[2], b[c + 1][1] = four[3];
        }
    }
    static __device__ __forceinline__ float decayed(float gamma, int j)
    {
        return j < 0 ? 0.0f : powf(gamma, (float)j);
    }
};

/* ---- fragments of a warp's 16 rows ----------------------------------------------------------- */

template <int X> struct rows16 {
    static constexpr int K16 = X == 1 ? 1 : X / 2, LD = linear_shape<X>::LD;
    uint32_t a[K16][4];

    __device__ __forceinline__ void load(const __nv_bfloat16 *tile, int lane, int row)
    {
#pragma unroll
        for (int k = 0; k < K16; k++) load_matrices(a[k], matrices_at<LD>(tile, row, 16 * k, lane));
    }
    /* The register of column tile c and row half u; it stands where a C fragment does. */
    __device__ __forceinline__ uint32_t &at(int c, int u) { return a[c / 2][c % 2 * 2 + u]; }
    __device__ __forceinline__ uint32_t at(int c, int u) const { return a[c / 2][c % 2 * 2 + u]; }
};

/* acc += a [16 x 16] x rows row ... row + 15 of b, its first 8 X columns. */
template <int X, int N>
__device__ __forceinline__ void times_rows(float (&acc)[N][4], const uint32_t (&a)[4],
                                           const __nv_bfloat16 *b, int row, int lane)
{
#pragma unroll
    for (int n = 0; n < X; n += 2) {
        uint32_t x[4];
        load_matrices_transposed(x, matrices_at<linear_shape<X>::LD>(b, row, 8 * n, lane));
        mma16(acc[n], a, x[0], x[1]);
        if (n + 1 < X) mma16(acc[n + 1], a, x[2], x[3]);
    }
}

/* s [c] = the warp's rows . rows row + 8 c ... of b. */
template <int X>
__device__ __forceinline__ void dots(float (&s)[2][4], const rows16<X> &a, const __nv_bfloat16 *b,
                                     int row, int lane)
{
#pragma unroll
    for (int e = 0; e < 4; e++) s[0][e] = s[1][e] = 0;
#pragma unroll
    for (int k = 0; k < rows16<X>::K16; k++) {
        uint32_t x[4];
        load_matrices(x, matrices_at<linear_shape<X>::LD>(b, row, 16 * k, lane));
        mma16(s[0], a.a[k], x[0], x[2]);
        mma16(s[1], a.a[k], x[1], x[3]);
    }
}

__device__ __forceinline__ void pack_block(uint32_t (&a)[4], const float (&s)[2][4])
{
    a[0] = pack(s[0][0], s[0][1]), a[1] = pack(s[0][2], s[0][3]);
    a[2] = pack(s[1][0], s[1][1]), a[3] = pack(s[1][2], s[1][3]);
}

/* o = rows x the rounded state, W + 8 columns. */
template <int X>
__device__ __forceinline__ void times_state(float (&o)[X + 1][4], const rows16<X> &a,
                                            const __nv_bfloat16 *state, int lane)
{
#pragma unroll
    for (int n = 0; n <= X; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;
#pragma unroll
    for (int k = 0; k < rows16<X>::K16; k++)
#pragma unroll
        for (int n = 0; n <= X; n += 2) { /* the second of a pair may lie past the last column */
            uint32_t b[4];
            const int from = n + 1 <= X ? n : n - 1;
            load_matrices_transposed(
                b, matrices_at<linear_shape<X>::LD>(state, 16 * k, 8 * from, lane));
            if (n + 1 <= X) {
                mma16(o[n], a.a[k], b[0], b[1]);
                mma16(o[n + 1], a.a[k], b[2], b[3]);
            } else {
                mma16(o[n], a.a[k], b[2], b[3]);
            }
        }
}

/* o [16 queries of the warp][W + 8] = state and chunk together. */
template <int X, bool decays>
__device__ __forceinline__ void read_chunk(const __nv_bfloat16 *queries, const __nv_bfloat16 *keys,
                                           const __nv_bfloat16 *values, const __nv_bfloat16 *state,
                                           float gamma, int causal, int map, float (&o)[X + 1][4],
                                           int lane, int warp)
{
    rows16<X> q;
    q.load(queries, lane, warp * 16);
    /* Past the width phi is not 0, but the state and the keys are. */
    if (map == LNT_MAP_ELU1)
        map_pairs<4 * rows16<X>::K16>(q.a[0], LNT_MAP_ELU1);
    else
        map_pairs<4 * rows16<X>::K16>(q.a[0], map);
    times_state<X>(o, q, state, lane);
    if (!causal) return;
    const int row = warp * 16 + lane / 4;
    if (decays) {
        const float f0 = powf(gamma, (float)(row + 1)), f1 = powf(gamma, (float)(row + 9));
#pragma unroll
        for (int n = 0; n <= X; n++) o[n][0] *= f0, o[n][1] *= f0, o[n][2] *= f1, o[n][3] *= f1;
    }
    for (int key = 0; key <= warp * 16; key += 16) {
        float w[2][4];
        dots<X>(w, q, keys, key, lane);
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int behind = row + e / 2 * 8 - (key + 8 * c + lane % 4 * 2 + e % 2);
                if (behind < 0)
                    w[c][e] = 0;
                else if (decays)
                    w[c][e] *= powf(gamma, (float)behind);
            }
        uint32_t p[4];
        pack_block(p, w);
        times_rows<X>(o, p, values, key, lane);
        const uint32_t one = lane / 4 == 0 ? 0x3f803f80u : 0;
        mma16(o[X], p, one, one);
    }
}

} // namespace lnt
#endif
