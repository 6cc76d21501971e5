/* cuda/tiles/tiles_backward.cuh - gradients of Taylor and softmax attention
 * (docs/math/taylor.md).  With w(x) the weight of a score, inv = 1 / den and h = -(dout.y) / den of a
 * query (tiles_backward_rows.cu):
 *
 *     G_ij = inv_i dout_i.v_j + h_i
 *     dq_i = sum_j G_ij w'(q_i.k_j) k_j       dk_j = sum_i G_ij w'(q_i.k_j) q_i
 *     dv_j = sum_i w(q_i.k_j) inv_i dout_i
 *
 * dq and dk are one kernel with the sides exchanged.  What lies in other segments comes from a
 * state, S = sum of phi(k) [v, 1] before the query or R = sum of phi(q) [inv dout, h] after the
 * key: the gradient of phi is d x state^T, 16 monomials at a time, and each tile is taken back to
 * its elements at once, in registers:
 *
 *     monomial = prefix x_e:    dx_e += prefix g,   dprefix += x_e g,   then to the prefix's
 * factors
 *
 * The last column, z of S and h of R, does not depend on d: the gradient of phi.z is a polynomial
 * of lower degree, and comes from a matrix (contract_slopes).  So den and dout.y are known only
 * once S is read, and what it gave is scaled then.
 * What lies in the same segment, or all of it where there is no state, is met token by token.  Sums
 * are f32 in a fixed order.  A warp has 16 rows; per tile and warp X + 2 tensor-core products (2 X
 * + 2 with dv) and 16 multiply-adds. */
#ifndef LNT_CUDA_TILES_BACKWARD_CUH
#define LNT_CUDA_TILES_BACKWARD_CUH

#include <assert.h>

#include "cuda/tiles/tiles_backward_slopes.cuh"
#include "cuda/tiles/tiles_backward_tokens.cuh"

namespace lnt
{

template <int X> struct backward_memory {
    int halves, gathered, slopes, ring;
    __host__ __device__ backward_memory(const tiles_backward_args &a, int side)
    {
        const bool by_state = a.prefixes && side != BACKWARD_ROWS;
        const int state = by_state ? tile_ring<X, 32>::BYTES : 0,
                  tokens = a.direct ? BACKWARD_STAGES * token_ring<X>::stage_bytes(a.dim8) : 0;
        halves = by_state ? (2 * a.dim8 + 1) * BACKWARD_TOKENS * 8 : 0;
        gathered = by_state ? 8 * a.dim8 * GATHER_LD * 4 : 0;
        slopes = by_state && side == BACKWARD_QUERIES ? 8 * X * GATHER_LD * 4 : 0;
        ring = state > tokens ? state : tokens;
    }
    __host__ __device__ int bytes() const { return halves + gathered + slopes + ring; }
};

/* The rows of this block's 128 tokens as half-blocks, and nothing gathered yet. */
__device__ static void lay_halves(const tiles_backward_args &a, const char *keys, uint2 *halves,
                                  float *gathered)
{
    const int even8 = (a.dim8 + 1) / 2 * 2;
    for (int w = (int)threadIdx.x; w < BACKWARD_TOKENS * a.dim8; w += (int)blockDim.x) {
        /* Row 16 i + 8 u + g is token g of group 2 (i % 2) + u of block i / 2. */
        const int row = w % BACKWARD_TOKENS, r = w / BACKWARD_TOKENS;
        const int block = row / 32, q = row / 8 % 4, g = row % 8;
        const uint4 eight =
            *(const uint4 *)(keys + (int64_t)block * even8 * 512 + (q * even8 + r) * 128 + g * 16);
        halves[2 * r * BACKWARD_TOKENS + row] = make_uint2(eight.x, eight.y);
        halves[(2 * r + 1) * BACKWARD_TOKENS + row] = make_uint2(eight.z, eight.w);
    }
    for (int row = (int)threadIdx.x; row < BACKWARD_TOKENS; row += (int)blockDim.x)
        halves[2 * a.dim8 * BACKWARD_TOKENS + row] = make_uint2(0x3f80u, 0);
    for (int w = (int)threadIdx.x; w < 8 * a.dim8 * GATHER_LD; w += (int)blockDim.x)
        gathered[w] = 0;
}

/* Where a block of threads stands. */
struct backward_where {
    int64_t b, h, kv, nq, nk, own, past; /* own: tokens of its side, by place */
    int64_t first;                       /* block of 32 tokens */
    int64_t segment;
};

template <int side> __device__ __forceinline__ backward_where place_of(const tiles_backward_args &a)
{
    backward_where p;
    p.b = blockIdx.z, p.h = blockIdx.y;
    p.kv = side == BACKWARD_KEYS ? p.h : p.h * a.kv_heads / a.heads;
    p.nq = a.lengths_q ? a.lengths_q[p.b] : a.length_q;
    p.nk = a.lengths_k ? a.lengths_k[p.b] : a.length_k;
    p.past = a.causal ? p.nk - p.nq : 0;
    p.own = side == BACKWARD_KEYS || a.causal ? p.nk : p.nq;
    p.first = (int64_t)blockIdx.x * (BACKWARD_TOKENS / 32);
    p.segment = a.prefixes && a.causal ? p.first * 32 / a.segment : 0;
    return p;
}

/* The blocks of 32 tokens of the other side that are met one by one. */
template <int side>
__device__ __forceinline__ void span_of(const tiles_backward_args &a, const backward_where &p,
                                        int64_t &from, int64_t &end)
{
    from = 0, end = ((side == BACKWARD_KEYS ? a.causal ? p.nk : p.nq : p.nk) + 31) / 32;
    if (!a.causal) return;
    const int64_t length = a.prefixes ? a.segment / 32 : end;
    const int64_t own_end = p.first + BACKWARD_TOKENS / 32;
    from = side == BACKWARD_KEYS ? p.first : p.segment * length;
    const int64_t last = side == BACKWARD_KEYS ? (p.segment + 1) * length : own_end;
    if (a.prefixes || side != BACKWARD_KEYS) end = last < end ? last : end;
    if (end < from) end = from;
}

/* meet(keys, values, rows, see, all) for each block of the other side; all: every row sees every
 * token. */
template <int X, int side, class F>
__device__ __forceinline__ void read_tokens(const tiles_backward_args &a, const backward_where &p,
                                            const backward_warp<X, side> &w, token_ring<X> &s,
                                            int64_t from, int64_t block, const F &meet)
{
    constexpr int R = backward_warp<X, side>::R;
#pragma unroll 1
    for (int i = 0; i < s.stages; i++) {
        const char *stage = s.next(i);
#pragma unroll 1
        for (int k = 0; k < BACKWARD_BLOCKS; k++) {
            const int number = i * BACKWARD_BLOCKS + k;
            const int64_t other = from + number;
            if (number >= s.blocks) continue;
            if (a.causal && (side == BACKWARD_KEYS ? other < block : other > block)) continue;
            const char *keys = stage + k * s.key_bytes,
                       *values = stage + BACKWARD_BLOCKS * s.key_bytes + k * s.VALUE_BYTES,
                       *rows = stage + BACKWARD_BLOCKS * (s.key_bytes + s.VALUE_BYTES) +
                               k * s.ROW_BYTES;
            const bool all = !a.causal || other != block;
            backward_view<R> see;
            see.there = (int)min(p.nk - 32 * other, (int64_t)32);
#pragma unroll
            for (int e = 0; e < 2 * R; e++)
                see.place[e / 2][e % 2] =
                    all ? (side == BACKWARD_KEYS ? 0 : 31)
                        : token_of(((int)threadIdx.x / 32 * R + e / 2) % 2, e % 2, w.lane);
            meet(keys, values, rows, see, all);
        }
    }
    copy_wait<0>();
    __syncthreads();
}

/* What BACKWARD_ROWS found, of the quad's rows; beside a state the sums themselves. */
__device__ __forceinline__ void write_sums(const tiles_backward_args &a, const backward_where &p,
                                           int64_t place, bool in, float den, float dot, float top,
                                           int lane)
{
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
        const float other = __shfl_xor_sync(~0u, top, d), more = __shfl_xor_sync(~0u, den, d),
                    with = __shfl_xor_sync(~0u, dot, d);
        if (a.mode == TILES_SOFTMAX) {
            const float most = fmaxf(top, other), shift = most == -INFINITY ? 0.0f : most;
            const float f0 = exp2f(top - shift), f1 = exp2f(other - shift);
            den = den * f0 + more * f1, dot = dot * f0 + with * f1, top = most;
        } else {
            den += more, dot += with;
        }
    }
    if (lane % 4) return;
    float2 &to = a.rows[(p.b * a.heads + p.h) * a.own_blocks * 32 + place];
    if (a.prefixes) {
        to = in ? make_float2(den, dot) : make_float2(0, 0);
        return;
    }
    const int64_t seen = a.causal ? place + 1 : p.nk;
    const bool some = in && den != 0 && seen > 0;
    const float inverse = some ? 1.0f / den : 0.0f;
    const float norm = a.output_norm && some ? sqrtf((float)seen / (float)a.dim) : 1.0f;
    float2 out = make_float2(inverse * norm, -dot * inverse * inverse * norm);
    if (a.mode == TILES_SOFTMAX)
        out = make_float2(some ? top + log2f(den) : INFINITY, -dot * inverse);
    to = out;
}

/* Two columns of a row of gradients. */
__device__ __forceinline__ void write_two(const view &x, int64_t row, int column, int width,
                                          float y0, float y1)
{
    const int64_t at = row + column * x.stride[3];
    if (x.dtype == LNT_BF16 && x.stride[3] == 1 && column + 1 < width &&
        ((uintptr_t)((__nv_bfloat16 *)x.data + at) & 3) == 0) {
        *(uint32_t *)((__nv_bfloat16 *)x.data + at) = pack(y0, y1);
    } else {
        if (column < width) store(x, at, y0);
        if (column + 1 < width) store(x, at + x.stride[3], y1);
    }
}

/* Row p, u of the warp's, which stands at `place`. */
template <int X, int side>
__device__ __forceinline__ void write_row(const tiles_backward_args &a, const backward_where &at,
                                          const backward_warp<X, side> &w, int p, int u,
                                          int64_t row)
{
    const int own_heads = side == BACKWARD_KEYS ? a.kv_heads : a.heads;
    const int64_t length = side == BACKWARD_KEYS ? a.length_k : a.length_q;
    const int64_t to = row_of(a.dx, at.b, at.h, row), value = row_of(a.dv, at.b, at.h, row);
    float *whole = a.gradient;
    if (whole) whole += ((at.b * own_heads + at.h) * length + row) * a.dim;
#pragma unroll
    for (int r = 0; r < X; r++) {
        const int column = 8 * r + w.lane % 4 * 2;
        const float y0 = w.dx[p][r][2 * u], y1 = w.dx[p][r][2 * u + 1];
        if (whole) {
            if (column < a.dim) whole[column] = y0;
            if (column + 1 < a.dim) whole[column + 1] = y1;
        } else {
            write_two(a.dx, to, column, a.dim, y0, y1);
        }
    }
    if constexpr (side == BACKWARD_KEYS)
#pragma unroll
        for (int n = 0; n < X; n++)
            write_two(a.dv, value, 8 * n + w.lane % 4 * 2, a.dim_value, w.dv[p][n][2 * u],
                      w.dv[p][n][2 * u + 1]);
}

/* What the rows get from their state, number `state`: of keys the gradient, of queries that of the
 * numerator's product with dout, and in shared memory that of the denominator; this lane's part of
 * both is added to the sums. */
template <int X, int side>
__device__ __forceinline__ void read_state(const tiles_backward_args &a, backward_warp<X, side> &w,
                                           typename backward_warp<X, side>::ring &tiles, char *ring,
                                           const tiles_units &units, int64_t state,
                                           backward_sums<backward_warp<X, side>::R> &sums)
{
    const float *first = (const float *)(a.slopes + (state + 1) * a.slope_bytes) - 8 * X;
    __syncthreads();
    contract_slopes<X, side>(w, tiles, first, a.dim8, a.terms, sums.weights);
    tiles.begin(ring, a.state + state * (a.tile_count - 1) * (X + 1) * 256, a.tile_count - 1);
    if (side == BACKWARD_QUERIES)
        each_number<X, side>(w, [&](float &y, int r, int e, int p, int) {
            w.slopes[w.place_of(r, e, p)] = y, y = 0;
        });
    contract_state<X, side>(w, tiles, units, a.dim8);
    each_number<X, side>(w, [&](float &y, int r, int e, int p, int) {
        if (r < a.dim8) y += w.gathered[w.place_of(r, e, p)];
    });
    /* x times the gradient of what is of degree p is p times that. */
    if (side == BACKWARD_QUERIES)
#pragma unroll
        for (int p = 0; p < 2 * w.R; p++)
            sums.dot[p / 2][p % 2] =
                (w.dot[p / 2][p % 2] + along<X, side>(w, p / 2, p % 2)) * (1.0f / 3);
}

/* 1 / den and h of the rows of queries, from the sums over state and keys, and left for the keys'
 * side.  mean: degree 0 of the state, or NULL. */
template <int X>
__device__ __forceinline__ void
finish_rows(const tiles_backward_args &a, const backward_where &at,
            const backward_warp<X, BACKWARD_QUERIES> &w, const float *mean, int64_t block,
            const backward_sums<backward_warp<X, BACKWARD_QUERIES>::R> &sums,
            float2 (&own)[backward_warp<X, BACKWARD_QUERIES>::R][2])
{
#pragma unroll
    for (int e = 0; e < 2 * w.R; e++) {
        const int p = e / 2, u = e % 2, t = w.lane % 4;
        float den = sums.weights[p][u], dot = sums.dot[p][u];
        if (mean) {
#pragma unroll
            for (int n = 0; n < X; n++)
                dot = fmaf(low_of(w.d[p][u][n]), mean[8 * n + 2 * t],
                           fmaf(high_of(w.d[p][u][n]), mean[8 * n + 2 * t + 1], dot));
            if (t == 0) den += mean[8 * X];
        }
        den = lanes_sum<4>(den), dot = lanes_sum<4>(dot);
        if (backward_twice(X) && a.direct) den += own[p][u].x, dot += own[p][u].y;
        const int64_t place =
            32 * block + token_of(((int)threadIdx.x / 32 * w.R + p) % 2, u, w.lane);
        const int64_t row = place - at.past, seen = a.causal ? place + 1 : at.nk;
        const bool some = row >= 0 && row < at.nq && den != 0;
        const float inverse = some ? 1.0f / den : 0.0f;
        const float norm = a.output_norm && some ? sqrtf((float)seen / (float)a.dim) : 1.0f;
        own[p][u] = make_float2(inverse * norm, -dot * inverse * inverse * norm);
        if (t == 0) a.rows[(at.b * a.heads + at.h) * a.own_blocks * 32 + place] = own[p][u];
    }
}

/* The warp's rows, which begin in block `block` of 32; own: of queries what BACKWARD_ROWS found. */
template <int X, int side>
__device__ __forceinline__ void take_rows(const tiles_backward_args &a, const backward_where &at,
                                          backward_warp<X, side> &w, const char *keys,
                                          const char *values, int warp, int64_t block,
                                          float2 (&own)[backward_warp<X, side>::R][2])
{
    constexpr int R = backward_warp<X, side>::R;
    const int64_t even8 = (a.dim8 + 1) / 2 * 2;
#pragma unroll
    for (int i = 0; i < R; i++) {
        const int tile = warp * R + i;
        w.load(i, keys + tile / 2 * even8 * 512, values + tile / 2 * (X + 1) * 512, tile, a.dim8);
#pragma unroll
        for (int u = 0; u < 2; u++)
            own[i][u] = side != BACKWARD_QUERIES
                            ? make_float2(0, 0)
                            : a.rows[(at.b * a.heads + at.h) * a.own_blocks * 32 + 32 * block +
                                     token_of(tile % 2, u, w.lane)];
    }
}

/* meet() for each block of the other side that is met one by one, of keys for all heads. */
template <int X, int side, class F>
__device__ __forceinline__ void meet_all(const tiles_backward_args &a, const backward_where &p,
                                         const backward_warp<X, side> &w, char *ring, int64_t block,
                                         const F &meet)
{
    int64_t from, end;
    span_of<side>(a, p, from, end);
    const int group = a.heads / a.kv_heads, heads = side == BACKWARD_KEYS ? group : 1;
#pragma unroll 1
    for (int g = 0; g < heads; g++) {
        const int64_t other =
            side == BACKWARD_KEYS ? p.b * a.heads + p.h * group + g : p.b * a.kv_heads + p.kv;
        token_ring<X> tokens;
        tokens.begin(a, ring, other, from, (int)(end - from), side == BACKWARD_KEYS);
        read_tokens<X, side>(a, p, w, tokens, from, block, meet);
    }
}

/* The gradient of the queries' denominator, over state and keys, where it is summed beside the
 * numerator's; else the keys are met twice. */
template <int X, int side> struct backward_apart {
    static constexpr bool IS = side == BACKWARD_QUERIES && !backward_twice(X);
    float z[IS ? backward_warp<X, side>::R : 1][IS ? X : 1][4];
};

/* dq = 1 / den A + h Z: both of the state and of the keys, then den and h. */
template <int X>
__device__ __forceinline__ void
finish_queries(const tiles_backward_args &a, const backward_where &p,
               backward_warp<X, BACKWARD_QUERIES> &w, char *ring, const float *mean, int64_t block,
               bool by_state, backward_apart<X, BACKWARD_QUERIES> &dz,
               backward_sums<backward_warp<X, BACKWARD_QUERIES>::R> &sums,
               float2 (&own)[backward_warp<X, BACKWARD_QUERIES>::R][2])
{
    using view = const backward_view<backward_warp<X, BACKWARD_QUERIES>::R>;
    constexpr bool apart = backward_apart<X, BACKWARD_QUERIES>::IS;
    if constexpr (apart)
        if (a.direct)
            meet_all(a, p, w, ring, block,
                     [&](const char *k, const char *v, const char *, view &see, bool all) {
                         if (all)
                             meet_block<X, true>(a, w, k, v, see, dz.z, sums);
                         else
                             meet_block<X, false>(a, w, k, v, see, dz.z, sums);
                     });
    finish_rows<X>(a, p, w, mean, block, sums, own);
    each_number<X, BACKWARD_QUERIES>(w, [&](float &y, int r, int e, int i, int u) {
        float z = 0;
        if constexpr (apart)
            z = dz.z[i][r][e];
        else if (by_state)
            z = w.slopes[w.place_of(r, e, i)];
        y = fmaf(y, own[i][u].x, z * own[i][u].y);
    });
}

/* All rows of the warp. */
template <int X, int side>
__device__ __forceinline__ void write_all(const tiles_backward_args &a, const backward_where &p,
                                          const backward_warp<X, side> &w, int warp, int64_t block,
                                          const backward_sums<backward_warp<X, side>::R> &sums)
{
    constexpr int R = backward_warp<X, side>::R;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t place = 32 * block + token_of((warp * R + i) % 2, u, w.lane);
            const int64_t row = side == BACKWARD_KEYS ? place : place - p.past;
            const bool in = row >= 0 && row < (side == BACKWARD_KEYS ? p.nk : p.nq);
            if constexpr (side == BACKWARD_ROWS)
                write_sums(a, p, place, in, sums.weights[i][u], sums.dot[i][u], sums.top[i][u],
                           w.lane);
            else if (in)
                write_row<X, side>(a, p, w, i, u, row);
        }
}

template <int X, int side>
__global__ void __launch_bounds__(side_shape<X, side>::WARPS * 32, side_shape<X, side>::BLOCKS)
    tiles_backward_kernel(const __grid_constant__ tiles_backward_args a,
                          const __grid_constant__ tiles_units units)
{
    constexpr int R = side_shape<X, side>::R;
    extern __shared__ __align__(128) char shared[];
    const backward_memory<X> memory(a, side);
    char *ring = shared + memory.halves + memory.gathered + memory.slopes;
    const int warp = (int)threadIdx.x / 32;
    const backward_where p = place_of<side>(a);
    if (p.first * 32 >= p.own && side != BACKWARD_ROWS) return;
    const int own_heads = side == BACKWARD_KEYS ? a.kv_heads : a.heads;
    const int64_t even8 = (a.dim8 + 1) / 2 * 2;
    const int64_t blocks = (p.b * own_heads + p.h) * a.own_blocks + p.first;
    const int64_t block = p.first + warp * R / 2; /* of the warp's rows */
    const char *keys = a.own_keys + blocks * even8 * 512,
               *values = a.own_values + blocks * (X + 1) * 512;
    constexpr bool can = side != BACKWARD_ROWS && X <= BACKWARD_STATE_WIDTH;
    const bool remembers = a.prefixes && p.segment != a.edge;
    const bool by_state = can && remembers && a.tile_count > 1;
    const int64_t state = (p.b * a.kv_heads + p.kv) * a.prefixes + p.segment;

    typename backward_warp<X, side>::ring tiles;
    if (by_state) tiles.begin(ring, a.slopes + state * a.slope_bytes, a.slope_tiles * 2);
    backward_warp<X, side> w;
    w.place(warp * 16 * R);
    w.halves = (const uint2 *)shared, w.gathered = (float *)(shared + memory.halves);
    w.slopes = w.gathered + memory.gathered / 4;
    float2 own[R][2];
    take_rows(a, p, w, keys, values, warp, block, own);
    const float *mean = remembers ? a.mean + state * (8 * X + 8) : nullptr;
    backward_apart<X, side> dz = {};
    backward_sums<R> sums = {};
#pragma unroll
    for (int i = 0; i < R; i++) sums.top[i][0] = sums.top[i][1] = -INFINITY;
    if constexpr (can)
        if (by_state) {
            lay_halves(a, keys, (uint2 *)shared, w.gathered);
            read_state<X, side>(a, w, tiles, ring, units, state, sums);
            if constexpr (dz.IS)
                each_number<X, side>(w, [&](float &, int r, int e, int i, int) {
                    dz.z[i][r][e] = w.slopes[w.place_of(r, e, i)];
                });
        }
    if (side == BACKWARD_KEYS && remembers) {
#pragma unroll
        for (int n = 0; n < backward_warp<X, side>::V; n++)
#pragma unroll
            for (int e = 0; e < 4 * R; e++)
                w.dv[e / 4][n][e % 4] += mean[8 * n + w.lane % 4 * 2 + e % 2];
    }
    if constexpr (can && side == BACKWARD_QUERIES)
        if (a.prefixes) finish_queries<X>(a, p, w, ring, mean, block, by_state, dz, sums, own);
    using view = const backward_view<R>;
    if (a.direct && !(dz.IS && a.prefixes))
        meet_all(a, p, w, ring, block,
                 [&](const char *k, const char *v, const char *rows, view &see, bool all) {
                     if constexpr (side == BACKWARD_ROWS)
                         sum_block<X>(a, w, k, v, see, sums);
                     else
                         backward_block<X, side>(a, w, k, v, rows, see, all, own);
                 });
    write_all(a, p, w, warp, block, sums);
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int X, int side>
static cudaError_t launch(const tiles_backward_args &a, const tiles_units &units,
                          cudaStream_t stream)
{
    const int shared = backward_memory<X>(a, side).bytes();
    assert(shared <= tiles_backward_bytes(X, a.dim8, a.prefixes, a.direct));
    const dim3 grid((unsigned)(a.own_blocks / (BACKWARD_TOKENS / 32)),
                    (unsigned)(side == BACKWARD_KEYS ? a.kv_heads : a.heads), (unsigned)a.batch);
    return launch_kernel(tiles_backward_kernel<X, side>, grid, side_shape<X, side>::WARPS * 32,
                         shared, stream, a, units);
}

template <int X>
cudaError_t backward_width(const tiles_backward_args &a, int side, const tiles_units &units,
                           cudaStream_t stream)
{
    if (side == BACKWARD_QUERIES) return launch<X, BACKWARD_QUERIES>(a, units, stream);
    if (side == BACKWARD_KEYS) return launch<X, BACKWARD_KEYS>(a, units, stream);
    return launch<X, BACKWARD_ROWS>(a, units, stream);
}

} // namespace lnt
#endif
