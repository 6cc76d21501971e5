/* cuda/linear/linear_backward.cuh - the parts of linear_backward.cu: phi and its slope, chunks in shared
 * memory, states in accumulators, gradients out.
 *
 * phi is split into psi + 1 where it has a large mean (elu1, exp): that part is the same for every
 * feature, so its products are one row of numbers, kept in f32, and what is rounded to bf16 is psi,
 * which is small where phi is near 1.  Without that dq, in which the means cancel, would lose twice
 * as much to rounding. */
#ifndef LNT_CUDA_LINEAR_BACKWARD_CUH
#define LNT_CUDA_LINEAR_BACKWARD_CUH

#include "cuda/linear/linear.cuh"

namespace lnt
{

enum { BACKWARD_THREADS = 256 };

/* The passes over the queries and over the keys, in files of their own. */
cudaError_t linear_backward_queries_run(const linear_backward_args &a, cudaStream_t stream);
cudaError_t linear_backward_keys_run(const linear_backward_args &a, cudaStream_t stream);

/* ---- phi ------------------------------------------------------------------------------------- */

/* phi - psi. */
__device__ __forceinline__ float map_offset(int map)
{
    return map == LNT_MAP_ELU1 || map == LNT_MAP_EXP ? 1.0f : 0.0f;
}

__device__ __forceinline__ float map_psi(int map, float x)
{
    const float log2e = 1.44269504f;
    if (map == LNT_MAP_ELU1) return x > 0 ? x : power_of_two(x * log2e) - 1.0f;
    if (map == LNT_MAP_RELU) return fmaxf(x, 0.0f);
    return map == LNT_MAP_EXP ? power_of_two(x * log2e) - 1.0f : x;
}

/* Derivative of phi at x, from psi. */
__device__ __forceinline__ float map_slope(int map, float x, float psi)
{
    if (map == LNT_MAP_ELU1) return x > 0 ? 1.0f : psi + 1.0f;
    if (map == LNT_MAP_RELU) return x > 0 ? 1.0f : 0.0f;
    return map == LNT_MAP_EXP ? psi + 1.0f : 1.0f;
}

/* gamma^n; rate is log2 gamma. */
__device__ __forceinline__ float power_of(float rate, int n)
{
    return power_of_two(rate * (float)n);
}

/* ---- a block of threads ---------------------------------------------------------------------- */

template <int X> struct backward_shape {
    using shape = linear_shape<X>;
    static constexpr int STATE_FLOATS = 8 * X + shape::COLUMNS; /* z and the last row */
    static constexpr int STATES =
        X == 16 ? 1 : 2; /* one to read and the next; where there is room */
    static constexpr int SUM_BYTES = 2 * SUM_STAGES * shape::TILE * 2 + 64 * 4;
    static constexpr int QUERY_BYTES =
        (10 * shape::TILE + STATES * shape::ROUNDED) * 2 + (STATES * STATE_FLOATS + 4 * 64) * 4;
    static constexpr int KEY_BYTES =
        (10 * shape::TILE + STATES * shape::ROUNDED) * 2 + (STATES * STATE_FLOATS + 3 * 64) * 4;
};

/* States in shared memory, of which number i is the one to read or the next: as bf16, and in f32 z
 * and the last row (backward_state::publish). */
template <int X> struct backward_states {
    static constexpr int STATES = backward_shape<X>::STATES;
    __nv_bfloat16 *rounded;
    float *floats;
    __device__ __forceinline__ backward_states(__nv_bfloat16 *at)
        : rounded(at), floats((float *)(at + STATES * linear_shape<X>::ROUNDED))
    {
    }
    __device__ __forceinline__ __nv_bfloat16 *rounded_of(int i) const
    {
        return rounded + i % STATES * linear_shape<X>::ROUNDED;
    }
    __device__ __forceinline__ float *floats_of(int i) const
    {
        return floats + i % STATES * backward_shape<X>::STATE_FLOATS;
    }
    __device__ __forceinline__ float *end() const
    {
        return floats + STATES * backward_shape<X>::STATE_FLOATS;
    }
};

/* What both passes know of their block: positions are those of the keys, and the query of position
 * p is row p - past; not causal, each counts for itself. */
struct backward_place {
    linear_sequence n;
    int64_t segment, head, past;
    int group;
    float rate; /* log2 of what a token keeps of those before it */
    bool decays;
    __device__ __forceinline__ backward_place(const linear_backward_args &a)
        : n(a, blockIdx.y), segment(blockIdx.x), head(blockIdx.y)
    {
        past = a.causal ? n.past : 0, group = a.heads / a.kv_heads;
        rate = a.decay ? log2f(n.gamma) : 0.0f, decays = rate != 0;
    }
    __device__ __forceinline__ int skip(int64_t row) const
    {
        return (int)min(max(-row, (int64_t)0), (int64_t)CHUNK);
    }
};

/* gamma^(there - 1 - j): what token j of a chunk is worth at its end. */
__device__ __forceinline__ void lay_weights(float *weights, float rate, int there)
{
    if (threadIdx.x < CHUNK) {
        const int left = there - 1 - (int)threadIdx.x;
        weights[threadIdx.x] = left < 0 ? 0.0f : power_of(rate, left);
    }
}

/* ---- chunks in shared memory ----------------------------------------------------------------- */

/* psi of a chunk in place, 0 past the end and the width; and, where they are wanted, phi, and psi
 * times factor [row]. */
template <int X, int map, bool more>
__device__ __forceinline__ void map_all(__nv_bfloat16 *x, __nv_bfloat16 *phi,
                                        __nv_bfloat16 *weighted, const float *factor, int there,
                                        int dim)
{
    constexpr int LD = linear_shape<X>::LD, STEP = BACKWARD_THREADS / X;
    const int column = (int)threadIdx.x % X * 8;
#pragma unroll
    for (int i = 0; i < CHUNK; i += STEP) {
        const int row = (int)threadIdx.x / X + i;
        if (row >= CHUNK) continue;
        uint4 eight = *(const uint4 *)(x + row * LD + column), f, w;
        uint32_t *e = (uint32_t *)&eight, *ef = (uint32_t *)&f, *ew = (uint32_t *)&w;
        const float by = more ? factor[row] : 0.0f, plus = map_offset(map);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const bool in0 = row < there && column + 2 * k < dim,
                       in1 = row < there && column + 2 * k + 1 < dim;
            const float p0 = in0 ? map_psi(map, low_of(e[k])) : 0.0f,
                        p1 = in1 ? map_psi(map, high_of(e[k])) : 0.0f;
            e[k] = pack(p0, p1);
            if (more) {
                ef[k] = pack(in0 ? p0 + plus : 0.0f, in1 ? p1 + plus : 0.0f);
                ew[k] = pack(p0 * by, p1 * by);
            }
        }
        *(uint4 *)(x + row * LD + column) = eight;
        if (more) {
            *(uint4 *)(phi + row * LD + column) = f;
            *(uint4 *)(weighted + row * LD + column) = w;
        }
    }
}

template <int X, bool more>
__device__ __forceinline__ void map_tile(__nv_bfloat16 *x, __nv_bfloat16 *phi,
                                         __nv_bfloat16 *weighted, const float *factor, int there,
                                         int dim, int map)
{
    if (map == LNT_MAP_ELU1)
        map_all<X, LNT_MAP_ELU1, more>(x, phi, weighted, factor, there, dim);
    else if (map == LNT_MAP_RELU)
        map_all<X, LNT_MAP_RELU, more>(x, phi, weighted, factor, there, dim);
    else if (map == LNT_MAP_EXP)
        map_all<X, LNT_MAP_EXP, more>(x, phi, weighted, factor, there, dim);
    else
        map_all<X, LNT_MAP_IDENTITY, more>(x, phi, weighted, factor, there, dim);
}

/* ---- fragments of a warp's 16 rows ----------------------------------------------------------- */

/* acc += rows x B^T, B [8 X rows][LD] a tile whose rows are the columns of the result. */
template <int X>
__device__ __forceinline__ void times_transposed(float (&acc)[X][4], const rows16<X> &a,
                                                 const __nv_bfloat16 *b, int lane)
{
#pragma unroll
    for (int k = 0; k < rows16<X>::K16; k++)
#pragma unroll
        for (int n = 0; n < X; n += 2) {
            uint32_t x[4];
            load_matrices(x, matrices_at<linear_shape<X>::LD>(b, 8 * n, 16 * k, lane));
            mma16(acc[n], a.a[k], x[0], x[2]);
            if (n + 1 < X) mma16(acc[n + 1], a.a[k], x[1], x[3]);
        }
}

/* ---- states ---------------------------------------------------------------------------------- */

/* S = sum of psi(k) [v, 1], or R = sum of psi(q) inv [dout, h / inv], and the same with 1 in place
 * of psi, its last row.  In the accumulators of WARPS warps: warp (wr, wc) has TR tiles of 16
 * features and the column tiles wc, wc + WC ...; of the last row the column tiles warp, warp +
 * WARPS ... */
template <int X, int WARPS> struct backward_state {
    static constexpr int LD = linear_shape<X>::LD, COLUMNS = linear_shape<X>::COLUMNS;
    static constexpr int ROW_TILES = linear_shape<X>::ROWS / 16;
    static constexpr int WR = ROW_TILES < WARPS ? ROW_TILES : WARPS, WC = WARPS / WR;
    static constexpr int TR = ROW_TILES / WR, TC = (X + 1 + WC - 1) / WC;
    static constexpr int TO = (X + 1 + WARPS - 1) / WARPS;
    static constexpr int COUNT = (8 * X + 1) * COLUMNS; /* in memory */
    float s[TR][TC][4], one[TO][4];
    int lane, warp, wr, wc;

    __device__ __forceinline__ int feature(int r, int e) const
    {
        return (wr * TR + r) * 16 + lane / 4 + e / 2 * 8;
    }
    __device__ __forceinline__ int column(int c, int e) const
    {
        return (wc + c * WC) * 8 + lane % 4 * 2 + e % 2;
    }
    __device__ __forceinline__ int one_column(int o, int e) const
    {
        return (warp + o * WARPS) * 8 + lane % 4 * 2 + e % 2;
    }
    __device__ __forceinline__ void clear(int number)
    {
        lane = (int)threadIdx.x % 32, warp = number, wr = warp % WR, wc = warp / WR;
#pragma unroll
        for (int r = 0; r < TR; r++)
#pragma unroll
            for (int c = 0; c < TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[r][c][e] = 0;
#pragma unroll
        for (int o = 0; o < TO; o++)
#pragma unroll
            for (int e = 0; e < 4; e++) one[o][e] = 0;
    }
    __device__ __forceinline__ void load(const float *from, int number)
    {
        clear(number);
#pragma unroll
        for (int r = 0; r < TR; r++)
#pragma unroll
            for (int c = 0; c < TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (feature(r, e) < 8 * X && column(c, e) < COLUMNS)
                        s[r][c][e] = from[feature(r, e) * COLUMNS + column(c, e)];
#pragma unroll
        for (int o = 0; o < TO; o++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (lane / 4 == 0 && one_column(o, e) < COLUMNS)
                    one[o][e] = from[8 * X * COLUMNS + one_column(o, e)];
    }
    __device__ __forceinline__ void store(float *to) const
    {
#pragma unroll
        for (int r = 0; r < TR; r++)
#pragma unroll
            for (int c = 0; c < TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (feature(r, e) < 8 * X && column(c, e) < COLUMNS)
                        to[feature(r, e) * COLUMNS + column(c, e)] = s[r][c][e];
        put_ones(to + 8 * X * COLUMNS);
    }
    /* The last row: weights come as the sum of two bf16, in rows 0 and 1 of its tiles. */
    __device__ __forceinline__ void put_ones(float *to) const
    {
#pragma unroll
        for (int o = 0; o < TO; o++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float sum = one[o][e] + __shfl_down_sync(~0u, one[o][e], 4);
                if (lane / 4 == 0 && one_column(o, e) < COLUMNS) to[one_column(o, e)] = sum;
            }
    }
    /* As bf16 [feature][column]; z [feature], the sum of columns W and W + 1, and then the last row
     * as they are. */
    __device__ __forceinline__ void publish(__nv_bfloat16 *to, float *z) const
    {
#pragma unroll
        for (int r = 0; r < TR; r++)
#pragma unroll
            for (int c = 0; c < TC; c++)
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    const int at = column(c, 0), f = feature(r, 2 * u);
                    const float x0 = s[r][c][2 * u], x1 = s[r][c][2 * u + 1];
                    if (at < 8 * X) *(uint32_t *)(to + f * LD + at) = pack(x0, x1);
                    if (at == 8 * X && f < 8 * X) z[f] = x0 + x1;
                }
        put_ones(z + 8 * X);
    }
    __device__ __forceinline__ void shrink(float factor)
    {
#pragma unroll
        for (int r = 0; r < TR; r++)
#pragma unroll
            for (int c = 0; c < TC; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[r][c][e] *= factor;
#pragma unroll
        for (int o = 0; o < TO; o++)
#pragma unroll
            for (int e = 0; e < 4; e++) one[o][e] *= factor;
    }
    /* B fragments of column tile n, 16 rows from k on. */
    template <bool keys>
    __device__ __forceinline__ void columns_of(const __nv_bfloat16 *b, int n, int k,
                                               uint32_t (&x)[2]) const
    {
        if (keys && n >= X) { /* beside the values stands a column of ones */
            x[0] = x[1] = n == X && lane / 4 == 0 ? 0x3f803f80u : 0;
            return;
        }
        uint32_t four[4];
        load_matrices_transposed(four, shared_address(b + (k + lane % 16) * LD + 8 * min(n, X)));
        x[0] = four[0], x[1] = four[1];
    }
    /* += A^T B over the 64 rows of two tiles.  keys: columns W ... of B are 1, 0, 0 ..., and
     * weights (NULL: 1) are by row, for both A and the last row; else they stand in B's padding, A
     * has its weights and `weights` are those of the last row. */
    template <bool keys>
    __device__ __forceinline__ void append(const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                                           const float *weights)
    {
#pragma unroll
        for (int k = 0; k < CHUNK; k += 16) {
            uint32_t one_a[4] = { lane < 4 ? 0x3f803f80u : 0, 0, lane < 4 ? 0x3f803f80u : 0, 0 };
            uint32_t by[2] = { 0, 0 };
            if (weights) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float2 w = *(const float2 *)(weights + k + 8 * i + lane % 4 * 2);
                    by[i] = pack(w.x, w.y);
                    const uint32_t rest = pack(w.x - low_of(by[i]), w.y - high_of(by[i]));
                    one_a[2 * i] = lane / 4 == 0 ? by[i] : lane / 4 == 1 ? rest : 0;
                }
            }
            uint32_t columns[TC][2];
#pragma unroll
            for (int c = 0; c < TC; c++) columns_of<keys>(b, wc + c * WC, k, columns[c]);
#pragma unroll
            for (int r = 0; r < TR; r++) {
                uint32_t x[4];
                load_matrices_transposed(x, matrices_at<LD>(a, k, (wr * TR + r) * 16, lane));
                uint32_t rows[4] = { x[0], x[2], x[1], x[3] };
                if (keys && weights)
#pragma unroll
                    for (int e = 0; e < 4; e++) rows[e] = multiply(rows[e], by[e / 2]);
#pragma unroll
                for (int c = 0; c < TC; c++) mma16(s[r][c], rows, columns[c][0], columns[c][1]);
            }
#pragma unroll
            for (int o = 0; o < TO; o++) {
                uint32_t x[2];
                columns_of<keys>(b, warp + o * WARPS, k, x);
                mma16(one[o], one_a, x[0], x[1]);
            }
        }
    }
};

/* ---- gradients out --------------------------------------------------------------------------- */

/* Two columns of a row of x. */
__device__ __forceinline__ void write_pair(const view &x, int64_t row, int column, int width,
                                           bool words, float y0, float y1)
{
    const int64_t at = row + column * x.stride[3];
    if (words && column + 1 < width) {
        *(uint32_t *)((__nv_bfloat16 *)x.data + at) = pack(y0, y1);
    } else {
        if (column < width) store(x, at, y0);
        if (column + 1 < width) store(x, at + x.stride[3], y1);
    }
}

/* Whether pairs of columns are words. */
__device__ __forceinline__ bool has_words(const view &x)
{
    return x.dtype == LNT_BF16 && x.stride[3] == 1 && x.stride[0] % 2 == 0 &&
           x.stride[1] % 2 == 0 && x.stride[2] % 2 == 0 && ((uintptr_t)x.data & 3) == 0;
}

} // namespace lnt
#endif
