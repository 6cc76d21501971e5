/* cuda/tiles/tiles_answer.cuh - the parts of tiles_answer.cu that do not depend on the monomials:
 * queries in, the stream of state tiles, keys one by one, rows out. */
#ifndef LNT_CUDA_TILES_ANSWER_CUH
#define LNT_CUDA_TILES_ANSWER_CUH

#include "cuda/common/product.cuh"
#include "cuda/tiles/tiles.h"

namespace lnt
{

enum { ANSWER_STAGES = 3, KEY_BLOCKS = 2, STATE_STAGES = 4 };

template <int X> struct answer_shape {
    static constexpr int R = X == 16 ? 1 : 2; /* 16 R queries a warp */
    static constexpr int WARPS = X <= 2 ? 4 : 8, BLOCKS = X <= 2 ? 4 : X == 4 ? 2 : 1;
};

/* ---- queries --------------------------------------------------------------------------------- */

/* q of `rows` rows as [half-block][row][4], each element twice in a word; then the constant 1.
 * Rows past the end are 0.  By `threads` threads that wait for each other with sync(). */
template <class Sync>
__device__ static void load_queries(const tiles_answer_args &a, uint32_t *twice_q, int rows,
                                    int64_t b, int64_t h, int64_t first, int64_t nq, int thread,
                                    int threads, Sync sync)
{
    const bool wide = is_wide(a.q, 8);
    for (int w = thread; w < rows * a.dim8; w += threads) {
        const int row = w / a.dim8, i8 = w % a.dim8;
        const int64_t at = row_of(a.q, b, h, first + row) + 8 * i8 * a.q.stride[3];
        const bool there = first + row < nq;
        uint32_t x[8];
        if (there && wide && 8 * i8 + 8 <= a.dim) {
            const uint4 two = *(const uint4 *)((const __nv_bfloat16 *)a.q.data + at);
            x[0] = __byte_perm(two.x, 0, 0x1010), x[1] = __byte_perm(two.x, 0, 0x3232);
            x[2] = __byte_perm(two.y, 0, 0x1010), x[3] = __byte_perm(two.y, 0, 0x3232);
            x[4] = __byte_perm(two.z, 0, 0x1010), x[5] = __byte_perm(two.z, 0, 0x3232);
            x[6] = __byte_perm(two.w, 0, 0x1010), x[7] = __byte_perm(two.w, 0, 0x3232);
        } else {
            for (int i = 0; i < 8; i++)
                x[i] =
                    twice(there && 8 * i8 + i < a.dim ? load(a.q, at + i * a.q.stride[3]) : 0.0f);
        }
        uint4 *to = (uint4 *)twice_q + 2 * i8 * rows + row;
        to[0] = make_uint4(x[0], x[1], x[2], x[3]), to[rows] = make_uint4(x[4], x[5], x[6], x[7]);
    }
    for (int row = thread; row < rows; row += threads)
        ((uint4 *)twice_q)[2 * a.dim8 * rows + row] = make_uint4(twice(1.0f), 0, 0, 0);
    if (!a.normalize) return;
    sync();
    for (int row = thread; row < rows; row += threads) {
        float sum = 0;
        for (int i = 0; i < a.dim; i++) {
            const float x = low_of(twice_q[(i / 4 * rows + row) * 4 + i % 4]);
            sum = fmaf(x, x, sum);
        }
        const float factor = (a.temperature ? a.temperature[h] : 1.0f) / fmaxf(sqrtf(sum), 1e-12f);
        for (int i = 0; i < a.dim; i++) {
            uint32_t *x = &twice_q[(i / 4 * rows + row) * 4 + i % 4];
            *x = twice(low_of(*x) * factor);
        }
    }
}

/* What a warp of W holds: its queries as A fragments, and the sums. */
template <int X, int R, int W = answer_shape<X>::WARPS> struct reader {
    static constexpr int ROWS = W * 16 * R, N8 = X + 1;
    const uint4 *twice; /* [half-block][ROWS] */
    int row;            /* this lane's first */
    uint32_t x[R][2][X];
    float acc[R][N8][4];

    __device__ __forceinline__ void take(int dim8, int lane)
    {
        const int t = lane % 4;
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int u = 0; u < 2; u++)
#pragma unroll
                for (int r = 0; r < X; r++) {
                    x[p][u][r] = 0;
                    if (r < dim8) {
                        const uint4 *from = twice + (2 * r + t / 2) * ROWS + row + 16 * p + 8 * u;
                        const uint2 two = ((const uint2 *)from)[t % 2];
                        x[p][u][r] = __byte_perm(two.x, two.y, 0x5410);
                    }
                }
    }
    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int n = 0; n < N8; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) acc[p][n][c] = 0;
    }
};

/* ---- the state, tile by tile through a ring in shared memory --------------------------------- */

/* Tiles come in stages; what is read between two calls of need() lies in at most two of them, so
 * the stage two before the newest is free. */
template <int X> struct state_stream {
    static constexpr int TILE_BYTES = (X + 1) * 256;
    static constexpr int RUN = X == 16 ? 4 : X == 8 ? 8 : 2 * X; /* most tiles asked for at once */
    static constexpr int TILES = X == 16 ? 4 : 8, STAGE_BYTES = TILES * TILE_BYTES;
    static constexpr int RING_BYTES = STATE_STAGES * STAGE_BYTES;
    char *ring;
    operand base;
    const char *from;
    int tiles;
    unsigned at, ready; /* the tile that is next; stages that have come */

    __device__ __forceinline__ void fetch(int i)
    {
        const int first = i * TILES;
        if (first < tiles)
            copy_block(shared_address(ring) + i % STATE_STAGES * STAGE_BYTES,
                       from + (int64_t)first * TILE_BYTES, min(TILES, tiles - first) * TILE_BYTES);
        copy_commit();
    }
    __device__ __forceinline__ void begin(char *to, const char *state, int count)
    {
        ring = to, from = state, tiles = count, at = ready = 0;
        base = operand_at(ring, 128, 256);
        for (int i = 0; i < STATE_STAGES - 2; i++) fetch(i);
    }
    /* The next n tiles, n <= RUN, are there. */
    __device__ __forceinline__ void need(unsigned n)
    {
        while (ready * TILES < at + n) {
            copy_wait<STATE_STAGES - 3>();
            product_publish();
            product_wait<0>(); /* no product reads the stage that comes next */
            __syncthreads();
            fetch((int)ready + STATE_STAGES - 2);
            ready++;
        }
    }
    /* Where from `base` on the next tile stands. */
    __device__ __forceinline__ uint32_t take()
    {
        return at++ % (unsigned)(STATE_STAGES * TILES) * TILE_BYTES;
    }
};

/* ---- keys one by one ------------------------------------------------------------------------- */

/* Scores of 32 keys: s [query tile][group of keys][C fragment]. */
template <int X, int R, int W>
__device__ __forceinline__ void scores(const reader<X, R, W> &w, const char *keys, int dim8,
                                       float (&s)[R][4][4])
{
    const operand b = operand_at(keys, 128, (dim8 + 1) / 2 * 256);
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int c = 0; c < 4; c++) s[p][c][0] = s[p][c][1] = s[p][c][2] = s[p][c][3] = 0;
    product_begin();
#pragma unroll
    for (int r = 0; r < X; r += 2)
        if (r < dim8)
#pragma unroll
            for (int p = 0; p < R; p++) {
                const uint32_t a[4] = { w.x[p][0][r], w.x[p][1][r],
                                        X > 1 ? w.x[p][0][(r + 1) % X] : 0,
                                        X > 1 ? w.x[p][1][(r + 1) % X] : 0 };
                product<4>(s[p], a, operand_plus(b, r * 128));
            }
    product_commit();
    product_wait<0>();
}

/* acc += weights of 32 keys x values. */
template <int X, int R, int W>
__device__ __forceinline__ void weigh(reader<X, R, W> &w, const char *values,
                                      const float (&s)[R][4][4])
{
    uint32_t a[R][2][4];
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            a[p][k][0] = pack(s[p][2 * k][0], s[p][2 * k][1]);
            a[p][k][1] = pack(s[p][2 * k][2], s[p][2 * k][3]);
            a[p][k][2] = pack(s[p][2 * k + 1][0], s[p][2 * k + 1][1]);
            a[p][k][3] = pack(s[p][2 * k + 1][2], s[p][2 * k + 1][3]);
        }
    const operand b = operand_at(values, 128, 512);
    product_begin();
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int k = 0; k < 2; k++) product<X + 1>(w.acc[p], a[p][k], operand_plus(b, k * 256));
    product_commit();
    product_wait<0>();
}

/* Which keys of a block a row may see: those below last + 8 u + 16 p and below there.  Column 2 t +
 * e of group c is key 8 t + 2 c + e of the block (tiles_pack.cu). */
struct visible {
    int last, there;
    __device__ __forceinline__ bool sees(int p, int u, int key) const
    {
        return key < min(last + 16 * p + 8 * u, there);
    }
};

/* Of up to four terms. */
__device__ __forceinline__ float weight(const tiles_answer_args &a, float x)
{
    return fmaf(fmaf(fmaf(a.coefficient[3], x, a.coefficient[2]), x, a.coefficient[1]), x,
                a.coefficient[0]);
}

/* Of any number of terms, in place of 16 scores: a coefficient is loaded once for them. */
__device__ __forceinline__ void polynomials(const tiles_answer_args &a, float (&s)[4][4])
{
    float *x = s[0], y[16];
#pragma unroll
    for (int j = 0; j < 16; j++) y[j] = a.coefficient[a.terms - 1];
    for (int p = a.terms - 2; p >= 0; p--) {
        const float next = a.coefficient[p];
#pragma unroll
        for (int j = 0; j < 16; j++) y[j] = fmaf(y[j], x[j], next);
    }
#pragma unroll
    for (int j = 0; j < 16; j++) x[j] = y[j];
}

template <int R, int mode, bool all>
__device__ __forceinline__ void weights(const tiles_answer_args &a, const visible &see, int t,
                                        float (&s)[R][4][4])
{
#pragma unroll
    for (int p = 0; p < R; p++) {
        if (mode == TILES_TAYLOR_ANY) polynomials(a, s[p]);
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float y = mode == TILES_TAYLOR ? weight(a, s[p][c][e]) : s[p][c][e];
                s[p][c][e] = all || see.sees(p, e / 2, 8 * t + 2 * c + e % 2) ? y : 0.0f;
            }
    }
}

/* e^(scale (x - max)), the running maximum of each row moving up, and what is summed with it. */
template <int X, int R, bool all, int W>
__device__ __forceinline__ void exponentials(const tiles_answer_args &a, const visible &see, int t,
                                             float (&s)[R][4][4], float (&top)[R][2],
                                             reader<X, R, W> &w)
{
    const float scale = a.coefficient[0] * 1.44269504f;
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            float most = top[p][u];
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &x = s[p][c][2 * u + e];
                    x = all || see.sees(p, u, 8 * t + 2 * c + e) ? x * scale : -INFINITY;
                    most = fmaxf(most, x);
                }
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            const float shift = most == -INFINITY ? 0.0f : most;
            if (__any_sync(~0u, most != top[p][u])) {
                const float shrink = exp2f(top[p][u] - shift);
#pragma unroll
                for (int n = 0; n <= X; n++)
                    w.acc[p][n][2 * u] *= shrink, w.acc[p][n][2 * u + 1] *= shrink;
                top[p][u] = most;
            }
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 0; e < 2; e++) s[p][c][2 * u + e] = exp2f(s[p][c][2 * u + e] - shift);
        }
}

/* 32 keys.  all: every row of the warp sees every one. */
template <int X, int R, int mode, bool all, int W>
__device__ __forceinline__ void read_block(const tiles_answer_args &a, reader<X, R, W> &w,
                                           const char *keys, const char *values, const visible &see,
                                           int lane, float (&top)[R][2])
{
    float s[R][4][4];
    scores<X, R>(w, keys, a.dim8, s);
    if constexpr (mode == TILES_SOFTMAX)
        exponentials<X, R, all>(a, see, lane % 4, s, top, w);
    else
        weights<R, mode, all>(a, see, lane % 4, s);
    weigh<X, R>(w, values, s);
}

/* Keys from .. to - 1 of a head through a ring; from is a multiple of the keys in a stage. */
template <int X> struct key_stream {
    static constexpr int KEYS = 32 * KEY_BLOCKS, VALUE_BYTES = (X + 1) * 512;
    char *ring;
    const char *keys, *values;
    int key_bytes, stages;

    __device__ __forceinline__ void fetch(int i)
    {
        if (i < stages) {
            const uint32_t stage =
                shared_address(ring) + i % ANSWER_STAGES * KEY_BLOCKS * (key_bytes + VALUE_BYTES);
            copy_block(stage, keys + (int64_t)i * KEY_BLOCKS * key_bytes, KEY_BLOCKS * key_bytes);
            copy_block(stage + KEY_BLOCKS * key_bytes,
                       values + (int64_t)i * KEY_BLOCKS * VALUE_BYTES, KEY_BLOCKS * VALUE_BYTES);
        }
        copy_commit();
    }
    __device__ __forceinline__ void begin(const tiles_answer_args &a, char *to, int64_t head,
                                          int64_t from, int64_t end)
    {
        ring = to, key_bytes = (a.dim8 + 1) / 2 * 1024;
        stages = end > from ? (int)((end - from + KEYS - 1) / KEYS) : 0;
        keys = a.keys + (head * a.blocks + from / 32) * key_bytes;
        values = a.values + (head * a.blocks + from / 32) * VALUE_BYTES;
        for (int i = 0; i < ANSWER_STAGES - 1; i++) fetch(i);
    }
    __device__ __forceinline__ const char *next(int i)
    {
        copy_wait<ANSWER_STAGES - 2>();
        product_publish();
        product_wait<0>();
        __syncthreads();
        fetch(i + ANSWER_STAGES - 1);
        return ring + i % ANSWER_STAGES * KEY_BLOCKS * (key_bytes + VALUE_BYTES);
    }
};

/* low: the last key the warp's first row sees; there: how many there are; both from the first of s.
 * What a warpgroup does it does together, so it asks about the rows of all its warps. */
template <int X, int R, int mode, int W>
__device__ __forceinline__ void read_keys(const tiles_answer_args &a, reader<X, R, W> &w,
                                          key_stream<X> &s, int low, int there, int lane)
{
    const int group_low = low - (int)threadIdx.x / 32 % 4 * 16 * R;
    float top[R][2];
#pragma unroll
    for (int p = 0; p < R; p++) top[p][0] = top[p][1] = -INFINITY;
#pragma unroll 1
    for (int i = 0; i < s.stages; i++) {
        const char *stage = s.next(i);
#pragma unroll 1
        for (int block = 0; block < KEY_BLOCKS; block++) {
            const int key = i * s.KEYS + 32 * block;
            if (key >= there || (a.causal && key > group_low + 64 * R - 1)) continue;
            const char *k = stage + block * s.key_bytes;
            const char *v = stage + KEY_BLOCKS * s.key_bytes + block * s.VALUE_BYTES;
            const visible see = { a.causal ? low + lane / 4 + 1 - key : 32, there - key };
            if ((!a.causal || key + 31 <= group_low) && key + 32 <= there)
                read_block<X, R, mode, true>(a, w, k, v, see, lane, top);
            else
                read_block<X, R, mode, false>(a, w, k, v, see, lane, top);
        }
    }
}

/* ---- rows out -------------------------------------------------------------------------------- */

/* As tiles_backward.cuh has it, but for the width, which stays among the arguments: were it given,
 * ptxas would want more registers and have products wait for each other where W is 32 (C7512). */
__device__ __forceinline__ void write_two(const tiles_answer_args &a, int64_t row, int column,
                                          float y0, float y1)
{
    const int64_t at = row + column * a.out.stride[3];
    const bool wide = a.out.dtype == LNT_BF16 && a.out.stride[3] == 1 && column + 1 < a.dim_value &&
                      ((uintptr_t)((__nv_bfloat16 *)a.out.data + at) & 3) == 0;
    if (wide) {
        *(uint32_t *)((__nv_bfloat16 *)a.out.data + at) = pack(y0, y1);
    } else {
        if (column < a.dim_value) store(a.out, at, y0);
        if (column + 1 < a.dim_value) store(a.out, at + a.out.stride[3], y1);
    }
}

template <int X, int R, int mode, int W>
__device__ __forceinline__ void write_rows(const tiles_answer_args &a, reader<X, R, W> &w,
                                           const float *mean, int64_t b, int64_t h, int64_t first,
                                           int64_t nq, int64_t nk, int64_t past, int lane,
                                           const float *center = nullptr)
{
    const int t = lane % 4;
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t i = first + w.row + 16 * p + 8 * u;
            float den = w.acc[p][X][2 * u] + w.acc[p][X][2 * u + 1]; /* lane 0 of the quad has it */
            den = __shfl_sync(~0u, den, lane & ~3) + (mean ? mean[8 * X] : 0.0f) + a.eps;
            if (i >= a.length_q) continue;
            const int64_t seen = max((int64_t)0, a.causal ? min(nk, i + past + 1) : nk);
            const bool in = i < nq && (seen > 0 || a.remembers);
            float factor = den != 0 && in ? 1.0f / den : 0.0f;
            if (a.inverse && t == 0) a.inverse[(b * a.heads + h) * a.length_q + i] = factor;
            const float norm = a.output_norm ? sqrtf((float)seen / (float)a.dim) : 1.0f;
            const float back = factor != 0 ? norm : 0.0f;
            factor *= norm;
            if (t == 0 && in && !divides(den)) atomicAdd(a.nonpositive, 1ull);
            const int64_t row = row_of(a.out, b, h, i);
#pragma unroll
            for (int n = 0; n < X; n++) {
                const int column = 8 * n + 2 * t;
                const float m0 = mean ? mean[column] : 0.0f, m1 = mean ? mean[column + 1] : 0.0f;
                float y0 = (w.acc[p][n][2 * u] + m0) * factor,
                      y1 = (w.acc[p][n][2 * u + 1] + m1) * factor;
                if (center) y0 += center[column] * back, y1 += center[column + 1] * back;
                write_two(a, row, column, y0, y1);
            }
        }
}

} // namespace lnt
#endif
