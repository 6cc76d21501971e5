/* cuda/tiles/tiles_backward_tokens.cuh - parts of tiles_backward.cuh: tokens of the other side,
 * one by one. */
#ifndef LNT_CUDA_TILES_BACKWARD_TOKENS_CUH
#define LNT_CUDA_TILES_BACKWARD_TOKENS_CUH

#include "cuda/tiles/tiles_backward_state.cuh"

namespace lnt
{

enum { BACKWARD_STAGES = 3, BACKWARD_BLOCKS = 2 /* of 32 tokens in a stage */ };

/* The weight of a score and its slope; softmax: from the log2 of the sum. */
template <int mode>
__device__ __forceinline__ void weigh(const tiles_backward_args &a, float x, float log_sum,
                                      float &w, float &slope)
{
    if (mode == TILES_SOFTMAX) {
        w = exp2f(fmaf(x, a.coefficient[0] * 1.44269504f, -log_sum));
        slope = w * a.coefficient[0];
    } else if (mode == TILES_TAYLOR) {
        const float *c = a.coefficient;
        w = fmaf(fmaf(fmaf(c[3], x, c[2]), x, c[1]), x, c[0]);
        slope = fmaf(fmaf(3 * c[3], x, 2 * c[2]), x, c[1]);
    } else {
        w = a.coefficient[a.terms - 1], slope = 0;
        for (int p = a.terms - 2; p >= 0; p--) {
            slope = fmaf(slope, x, w);
            w = fmaf(w, x, a.coefficient[p]);
        }
    }
}

/* Tokens of the other side: keys, values and rows of blocks of 32. */
template <int X> struct token_ring {
    static constexpr int VALUE_BYTES = (X + 1) * 512, ROW_BYTES = 256;
    char *ring;
    const char *keys, *values, *rows;
    int key_bytes, stages, blocks;

    static __host__ __device__ int stage_bytes(int dim8)
    {
        return BACKWARD_BLOCKS * ((dim8 + 1) / 2 * 1024 + VALUE_BYTES + ROW_BYTES);
    }
    __device__ __forceinline__ void fetch(int i)
    {
        if (i < stages) {
            const int n = min((int)BACKWARD_BLOCKS, blocks - i * BACKWARD_BLOCKS);
            const int64_t from = (int64_t)i * BACKWARD_BLOCKS;
            uint32_t to = shared_address(at(i));
            copy_block(to, keys + from * key_bytes, n * key_bytes);
            to += BACKWARD_BLOCKS * key_bytes;
            copy_block(to, values + from * VALUE_BYTES, n * VALUE_BYTES);
            to += BACKWARD_BLOCKS * VALUE_BYTES;
            if (rows) copy_block(to, rows + from * ROW_BYTES, n * ROW_BYTES);
        }
        copy_commit();
    }
    __device__ __forceinline__ char *at(int i) const
    {
        return ring + i % BACKWARD_STAGES * BACKWARD_BLOCKS * (key_bytes + VALUE_BYTES + ROW_BYTES);
    }
    /* Blocks first ... first + count - 1 of a head. */
    __device__ __forceinline__ void begin(const tiles_backward_args &a, char *to, int64_t head,
                                          int64_t first, int count, bool with_rows)
    {
        ring = to, key_bytes = (a.dim8 + 1) / 2 * 1024;
        blocks = count, stages = (count + BACKWARD_BLOCKS - 1) / BACKWARD_BLOCKS;
        const int64_t place = head * a.other_blocks + first;
        keys = a.other_keys + place * key_bytes;
        values = a.other_values + place * VALUE_BYTES;
        rows = with_rows ? (const char *)(a.rows + place * 32) : nullptr;
        for (int i = 0; i < BACKWARD_STAGES - 1; i++) fetch(i);
    }
    __device__ __forceinline__ const char *next(int i)
    {
        copy_wait<BACKWARD_STAGES - 2>();
        __syncthreads();
        fetch(i + BACKWARD_STAGES - 1);
        return at(i);
    }
};

/* x [group] = own . 32 keys, g = d . their values. */
template <int X, int side>
__device__ __forceinline__ void
products(const backward_warp<X, side> &w, const char *keys, const char *values, int dim8,
         float (&x)[backward_warp<X, side>::R][4][4], float (&g)[backward_warp<X, side>::R][4][4])
{
    const int even8 = (dim8 + 1) / 2 * 2;
    const uint32_t k = shared_address(keys) + four_matrices(w.lane, 128, even8 * 128),
                   v = shared_address(values) + four_matrices(w.lane, 512, 128);
#pragma unroll
    for (int p = 0; p < w.R; p++)
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) x[p][c][e] = g[p][c][e] = 0;
#pragma unroll
    for (int r = 0; r < X; r += 2)
        if (r < dim8) {
#pragma unroll
            for (int c = 0; c < 4; c += 2) { /* groups c and c + 1, blocks r and r + 1 */
                uint32_t b[4];
                load_matrices(b, k + (c * even8 + r) * 128);
#pragma unroll
                for (int p = 0; p < w.R; p++) {
                    const uint32_t a[4] = { w.x[p][0][r], w.x[p][1][r], w.x[p][0][r + 1],
                                            w.x[p][1][r + 1] };
                    mma16(x[p][c], a, b[0], b[1]);
                    mma16(x[p][c + 1], a, b[2], b[3]);
                }
            }
        }
#pragma unroll
    for (int n = 0; n < X; n += 2) /* 16 columns of two groups */
#pragma unroll
        for (int c = 0; c < 4; c += 2) {
            uint32_t b[4];
            load_matrices_transposed(b, v + n * 512 + c * 128);
#pragma unroll
            for (int p = 0; p < w.R; p++) {
                const uint32_t a[4] = { w.d[p][0][n], w.d[p][1][n], w.d[p][0][n + 1],
                                        w.d[p][1][n + 1] };
                mma16(g[p][c], a, b[0], b[1]);
                mma16(g[p][c + 1], a, b[2], b[3]);
            }
        }
}

/* Which tokens of a block a row sees.  place: where the rows stand, counted from its first token;
 * there: how many there are. */
template <int R> struct backward_view {
    int place[R][2], there;
};

/* What 32 keys add to the rows' sums. */
template <int R> struct backward_sums {
    float weights[R][2], dot[R][2]; /* of weights, and of weights times dout.v */
    float top[R][2];                /* softmax: the largest score; both relative to e^it */
};

/* From scores x and g = dout.v to the sums. */
template <int mode, int R>
__device__ __forceinline__ void add_weights(const tiles_backward_args &a,
                                            const backward_view<R> &see, int t, float (&x)[R][4][4],
                                            const float (&g)[R][4][4], backward_sums<R> &sums)
{
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            float most = sums.top[p][u];
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int token = 8 * t + 2 * c + e;
                    const bool sees = token < see.there && token <= see.place[p][u];
                    float &s = x[p][c][2 * u + e], slope;
                    if (mode == TILES_SOFTMAX)
                        s = sees ? s * a.coefficient[0] * 1.44269504f : -INFINITY;
                    else
                        weigh<mode>(a, s, 0, s, slope), s = sees ? s : 0.0f;
                    most = fmaxf(most, s);
                }
            if (mode == TILES_SOFTMAX) {
                const float shift = most == -INFINITY ? 0.0f : most,
                            shrink = exp2f(sums.top[p][u] - shift);
                sums.weights[p][u] *= shrink, sums.dot[p][u] *= shrink, sums.top[p][u] = most;
#pragma unroll
                for (int c = 0; c < 4; c++)
#pragma unroll
                    for (int e = 2 * u; e < 2 * u + 2; e++) x[p][c][e] = exp2f(x[p][c][e] - shift);
            }
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 2 * u; e < 2 * u + 2; e++) {
                    sums.weights[p][u] += x[p][c][e];
                    sums.dot[p][u] = fmaf(x[p][c][e], g[p][c][e], sums.dot[p][u]);
                }
        }
}

template <int X>
__device__ __forceinline__ void
sum_block(const tiles_backward_args &a, const backward_warp<X, BACKWARD_ROWS> &w, const char *keys,
          const char *values, const backward_view<backward_warp<X, BACKWARD_ROWS>::R> &see,
          backward_sums<backward_warp<X, BACKWARD_ROWS>::R> &sums)
{
    constexpr int R = backward_warp<X, BACKWARD_ROWS>::R;
    float x[R][4][4], g[R][4][4];
    products<X, BACKWARD_ROWS>(w, keys, values, a.dim8, x, g);
    if (a.mode == TILES_SOFTMAX)
        add_weights<TILES_SOFTMAX, R>(a, see, w.lane % 4, x, g, sums);
    else if (a.mode == TILES_TAYLOR)
        add_weights<TILES_TAYLOR, R>(a, see, w.lane % 4, x, g, sums);
    else
        add_weights<TILES_TAYLOR_ANY, R>(a, see, w.lane % 4, x, g, sums);
}

/* What 32 keys add to queries whose den and h are not known yet: to the sums, and for dx the sum of
 * dout.v w' k, for dz that of w' k.  From scores x and g = dout.v to what those are sums with, in
 * their places.  all: every row sees every key. */
template <bool all, int R>
__device__ __forceinline__ void
meet_weights(const tiles_backward_args &a, const backward_view<R> &see, int t, float (&x)[R][4][4],
             float (&g)[R][4][4], backward_sums<R> &sums)
{
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int c = i / 4, e = i % 4, u = e / 2;
            float y, slope;
            weigh<TILES_TAYLOR>(a, x[p][c][e], 0, y, slope);
            if (!all && 8 * t + 2 * c + e % 2 > see.place[p][u]) y = slope = 0;
            sums.weights[p][u] += y;
            sums.dot[p][u] = fmaf(y, g[p][c][e], sums.dot[p][u]);
            x[p][c][e] = slope, g[p][c][e] *= slope;
        }
}

/* The sums with the keys, both as two bf16. */
template <int X>
__device__ __forceinline__ void
meet_keys(const tiles_backward_args &a, backward_warp<X, BACKWARD_QUERIES> &w, const char *keys,
          const float (&x)[backward_warp<X, BACKWARD_QUERIES>::R][4][4],
          const float (&g)[backward_warp<X, BACKWARD_QUERIES>::R][4][4],
          float (&dz)[backward_warp<X, BACKWARD_QUERIES>::R][X][4])
{
    constexpr int R = backward_warp<X, BACKWARD_QUERIES>::R;
    const int even8 = (a.dim8 + 1) / 2 * 2;
    const uint32_t k = shared_address(keys) + four_matrices(w.lane, even8 * 128, 128);
#pragma unroll
    for (int c = 0; c < 4; c += 2) { /* 16 tokens: groups c and c + 1 */
        uint32_t f[R][4], z[R][4], f_left[R][4], z_left[R][4];
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int from = c + e / 2, at = e % 2 * 2;
                f[p][e] = pack_both(g[p][from][at], g[p][from][at + 1], f_left[p][e]);
                z[p][e] = pack_both(x[p][from][at], x[p][from][at + 1], z_left[p][e]);
            }
#pragma unroll
        for (int r = 0; r < X; r += 2)
            if (r < a.dim8) {
                uint32_t b[4]; /* groups c and c + 1 of block r, then of r + 1 */
                load_matrices_transposed(b, k + (c * even8 + r) * 128);
#pragma unroll
                for (int p = 0; p < 2 * R; p++) {
                    const int at = r + p % 2, i = p / 2, n = p % 2 * 2;
                    mma16(w.dx[i][at], f[i], b[n], b[n + 1]);
                    mma16(dz[i][at], z[i], b[n], b[n + 1]);
                    mma16(w.dx[i][at], f_left[i], b[n], b[n + 1]);
                    mma16(dz[i][at], z_left[i], b[n], b[n + 1]);
                }
            }
    }
}

template <int X, bool all>
__device__ __forceinline__ void
meet_block(const tiles_backward_args &a, backward_warp<X, BACKWARD_QUERIES> &w, const char *keys,
           const char *values, const backward_view<backward_warp<X, BACKWARD_QUERIES>::R> &see,
           float (&dz)[backward_warp<X, BACKWARD_QUERIES>::R][X][4],
           backward_sums<backward_warp<X, BACKWARD_QUERIES>::R> &sums)
{
    constexpr int R = backward_warp<X, BACKWARD_QUERIES>::R;
    float x[R][4][4], g[R][4][4];
    products<X, BACKWARD_QUERIES>(w, keys, values, a.dim8, x, g);
    meet_weights<all, R>(a, see, w.lane % 4, x, g, sums);
    meet_keys<X>(a, w, keys, x, g, dz);
}

/* From scores and dout.v to weights / den and what is summed to the gradient of a row. */
template <int mode, int side, bool all, int R>
__device__ __forceinline__ void weigh_block(const tiles_backward_args &a, const char *rows,
                                            const backward_view<R> &see, const float2 (&own)[R][2],
                                            int t, float (&x)[R][4][4], float (&g)[R][4][4])
{
#pragma unroll
    for (int c = 0; c < 4; c++) {
        float4 two = make_float4(0, 0, 0, 0); /* of the tokens of this lane's columns */
        if (side == BACKWARD_KEYS) two = *(const float4 *)(rows + (8 * t + 2 * c) * 8);
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int token = 8 * t + 2 * c + e % 2;
                const float first =
                    side == BACKWARD_KEYS ? (e % 2 ? two.z : two.x) : own[p][e / 2].x;
                const float h = side == BACKWARD_KEYS ? (e % 2 ? two.w : two.y) : own[p][e / 2].y;
                const float inverse = mode == TILES_SOFTMAX ? 1.0f : first;
                const int place = see.place[p][e / 2];
                float y, slope;
                weigh<mode>(a, x[p][c][e], first, y, slope);
                /* Keys are seen by what stands there or after, queries see what stands there or
                 * before. */
                const bool sees = all || (side == BACKWARD_KEYS ? token >= place : token <= place);
                x[p][c][e] = sees ? y * inverse : 0.0f;
                g[p][c][e] = sees ? fmaf(g[p][c][e], inverse, h) * slope : 0.0f;
            }
    }
}

/* Whatever the mechanism; all: every row sees every token. */
template <int side, int R>
__device__ __forceinline__ void weigh_any(const tiles_backward_args &a, const char *rows,
                                          const backward_view<R> &see, const float2 (&own)[R][2],
                                          bool all, int t, float (&x)[R][4][4], float (&g)[R][4][4])
{
    if (a.mode == TILES_TAYLOR && all)
        weigh_block<TILES_TAYLOR, side, true, R>(a, rows, see, own, t, x, g);
    else if (a.mode != TILES_SOFTMAX)
        weigh_block<TILES_TAYLOR_ANY, side, false, R>(a, rows, see, own, t, x, g);
    else if (all)
        weigh_block<TILES_SOFTMAX, side, true, R>(a, rows, see, own, t, x, g);
    else
        weigh_block<TILES_SOFTMAX, side, false, R>(a, rows, see, own, t, x, g);
}

/* What 32 tokens add to the gradients, from weights x and G w' g.  G w' is two bf16: one alone is
 * off by 1.7e-3 where the sum is of both signs, and by twice that where the tokens' elements are of
 * one sign and G w' of both (docs/gpu-kernels.md). */
template <int X, int side>
__device__ __forceinline__ void give_block(const tiles_backward_args &a, backward_warp<X, side> &w,
                                           const char *keys, const char *values,
                                           const float (&x)[backward_warp<X, side>::R][4][4],
                                           const float (&g)[backward_warp<X, side>::R][4][4])
{
    constexpr int R = backward_warp<X, side>::R;
    const int even8 = (a.dim8 + 1) / 2 * 2;
    const uint32_t k = shared_address(keys) + four_matrices(w.lane, even8 * 128, 128),
                   v = shared_address(values) + four_matrices(w.lane, 128, 512);
#pragma unroll
    for (int c = 0; c < 4; c += 2) { /* 16 tokens: groups c and c + 1 */
        uint32_t f[R][4], left[R][4], y[R][4];
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int from = c + e / 2, at = e % 2 * 2;
                f[p][e] = pack_both(g[p][from][at], g[p][from][at + 1], left[p][e]);
                y[p][e] = pack(x[p][from][at], x[p][from][at + 1]);
            }
#pragma unroll
        for (int r = 0; r < X; r += 2)
            if (r < a.dim8) {
                uint32_t b[4]; /* groups c and c + 1 of block r, then of r + 1 */
                load_matrices_transposed(b, k + (c * even8 + r) * 128);
#pragma unroll
                for (int p = 0; p < R; p++) {
                    mma16(w.dx[p][r], f[p], b[0], b[1]);
                    mma16(w.dx[p][r], left[p], b[0], b[1]);
                    mma16(w.dx[p][r + 1], f[p], b[2], b[3]);
                    mma16(w.dx[p][r + 1], left[p], b[2], b[3]);
                }
            }
        if constexpr (side == BACKWARD_KEYS) {
#pragma unroll
            for (int n = 0; n < X; n += 2) { /* groups c and c + 1 of columns n, then of n + 1 */
                uint32_t b[4];
                load_matrices(b, v + n * 512 + c * 128);
#pragma unroll
                for (int p = 0; p < R; p++) {
                    mma16(w.dv[p][n], y[p], b[0], b[1]);
                    mma16(w.dv[p][n + 1], y[p], b[2], b[3]);
                }
            }
        }
    }
}

/* The same from the tokens. */
template <int X, int side>
__device__ __forceinline__ void
backward_block(const tiles_backward_args &a, backward_warp<X, side> &w, const char *keys,
               const char *values, const char *rows,
               const backward_view<backward_warp<X, side>::R> &see, bool all,
               const float2 (&own)[backward_warp<X, side>::R][2])
{
    constexpr int R = backward_warp<X, side>::R;
    float x[R][4][4], g[R][4][4];
    products<X, side>(w, keys, values, a.dim8, x, g);
    weigh_any<side, R>(a, rows, see, own, all, w.lane % 4, x, g);
    give_block<X, side>(a, w, keys, values, x, g);
}

} // namespace lnt
#endif
