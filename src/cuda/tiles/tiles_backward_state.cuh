/* cuda/tiles/tiles_backward_state.cuh - parts of tiles_backward.cuh: rows of a warp, and tiles of a
 * state taken back to the elements they were made of. */
#ifndef LNT_CUDA_TILES_BACKWARD_STATE_CUH
#define LNT_CUDA_TILES_BACKWARD_STATE_CUH

#include "cuda/tiles/tiles.h"

namespace lnt
{

/* 16 R rows a warp; two of 16 share what is read of the other side.  That pays for queries of width
 * 64, where few warps fit anyway; elsewhere more warps do. */
template <int X, int side> struct side_shape {
    static constexpr int R = X == 8 && side != BACKWARD_KEYS ? 2 : 1, WARPS = 8 / R;
    static constexpr int BLOCKS = X <= 4 ? 2 : R;
};

enum {
    BACKWARD_TOKENS = 128, /* rows of a block of threads */
    BACKWARD_RING = 4,
    BACKWARD_TILES = 8, /* of a state in a stage */
    GATHER_LD = BACKWARD_TOKENS + 8
};

/* Lane 4 g + t of a warp has rows g and g + 8 (u = 0, 1) of 16 tokens: half a packed block, groups
 * 2 half and 2 half + 1 (tiles_pack.cu). */
__device__ __forceinline__ int token_of(int half, int u, int lane)
{
    const int g = lane / 4;
    return g / 2 * 8 + 2 * (2 * half + u) + g % 2;
}

/* Where a lane points to for four matrices of 8 x 8, the second `beside` bytes after the first and
 * the other two `below` after these: so two registers side by side are a B operand. */
__device__ __forceinline__ uint32_t four_matrices(int lane, int beside, int below)
{
    return (uint32_t)(lane % 8 * 16 + lane / 8 % 2 * beside + lane / 16 * below);
}

/* ---- the state, tile by tile ----------------------------------------------------------------- */

/* Tiles come in stages of BACKWARD_TILES; what is asked for at once lies in at most two of them, so the
 * one two before the newest is free.  A thread copies the same bytes of every stage. */
template <int X, int THREADS> struct tile_ring {
    static constexpr int TILE = (X + 1) * 256, STAGE = BACKWARD_TILES * TILE;
    static constexpr int BYTES = BACKWARD_RING * STAGE;
    uint32_t ring, next;    /* of all; the tile that is next */
    uint32_t to;            /* where this thread copies to, in the next stage */
    const char *from;       /* and from */
    int left;               /* bytes of the state from there on */
    unsigned wanted, ready; /* tiles asked for so far, and come */

    __device__ __forceinline__ void fetch()
    {
#pragma unroll
        for (int i = 0; i < STAGE; i += THREADS * 16)
            if (i < left && (i + THREADS * 16 <= STAGE || i + (int)threadIdx.x * 16 < STAGE))
                copy16(to + i, from + i);
        copy_commit();
        from += STAGE, left -= STAGE, to += STAGE;
        if (to >= ring + BYTES) to -= BYTES;
    }
    __device__ __forceinline__ void begin(char *shared, const char *state, int count)
    {
        ring = next = shared_address(shared), wanted = ready = 0;
        to = ring + threadIdx.x * 16, from = state + threadIdx.x * 16;
        left = count * TILE - (int)threadIdx.x * 16;
        for (int i = 0; i < BACKWARD_RING - 2; i++) fetch();
    }
    /* The next n tiles, n <= BACKWARD_TILES, are there; they are to be taken before more are asked for.
     */
    __device__ __forceinline__ void need(unsigned n)
    {
        wanted += n;
        while (ready < wanted) {
            copy_wait<BACKWARD_RING - 3>();
            __syncthreads();
            fetch();
            ready += BACKWARD_TILES;
        }
    }
    __device__ __forceinline__ uint32_t take()
    {
        const uint32_t at = next;
        next = at + TILE == ring + BYTES ? ring : at + TILE;
        return at;
    }
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* A value for each of the rows of this lane. */
template <int R> struct row_pair {
    float at[R][2];
};

template <int X, int side> struct backward_warp {
    static constexpr int V = side == BACKWARD_KEYS ? X : 1, R = side_shape<X, side>::R;
    using ring = tile_ring<X, side_shape<X, side>::WARPS * 32>;
    using pairs = row_pair<R>;
    uint32_t x[R][2][X]; /* q or k: elements 2 t, 2 t + 1 of block r */
    uint32_t d[R][2][X]; /* dout or v */
    float dx[R][X][4], dv[R][V][4];
    float dot[R][2]; /* of queries, of phi.(state d): twice degree 1, and degree 2; this lane's */
    const uint2
        *halves;      /* [half-block][BACKWARD_TOKENS]: 4 elements; then the constants 1, 0, 0, 0 */
    float *slopes;    /* of queries: the gradient of the denominator, as gathered */
    float *gathered;  /* [element][GATHER_LD]: what reaches an element as part of a prefix; lane
                          * t has the elements whose remainder by 4 is t */
    int row, lane;    /* row: this lane's first of the block's; 16 p + 8 u after it, the others */
    uint32_t in_tile; /* where this lane points to in a tile */

    __device__ __forceinline__ void place(int first_row)
    {
        lane = (int)threadIdx.x % 32, row = first_row + lane / 4;
        in_tile = four_matrices(lane, 256, 128);
        asm volatile("" : "+r"(in_tile)); /* once, not at every tile */
    }
    /* keys, values: of the block of 32 tokens that holds tile number `tile`. */
    __device__ __forceinline__ void load(int p, const char *keys, const char *values, int tile,
                                         int dim8)
    {
        const int even8 = (dim8 + 1) / 2 * 2;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int q = 2 * (tile % 2) + u;
#pragma unroll
            for (int r = 0; r < X; r++)
                x[p][u][r] =
                    r < dim8 ? *(const uint32_t *)(keys + (q * even8 + r) * 128 + lane * 4) : 0;
#pragma unroll
            for (int n = 0; n < X; n++)
                d[p][u][n] = transpose8(*(const uint32_t *)(values + (n * 4 + q) * 128 + lane * 4));
            dot[p][u] = 0;
        }
#pragma unroll
        for (int r = 0; r < X; r++) dx[p][r][0] = dx[p][r][1] = dx[p][r][2] = dx[p][r][3] = 0;
#pragma unroll
        for (int n = 0; n < V; n++) dv[p][n][0] = dv[p][n][1] = dv[p][n][2] = dv[p][n][3] = 0;
    }
    /* Of dx[p][r][e] in arrays as gathered. */
    __device__ __forceinline__ int place_of(int r, int e, int p) const
    {
        return (8 * r + lane % 4 * 2 + e % 2) * GATHER_LD + row + 16 * p + e / 2 * 8;
    }
    /* The 4 elements of half-block h. */
    __device__ __forceinline__ void half(int h, uint2 (&four)[R][2]) const
    {
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                four[p][u] = halves[h * BACKWARD_TOKENS + row + 16 * p + 8 * u];
    }
    static __device__ __forceinline__ float part(const uint2 &four, int k)
    {
        const uint32_t two = k < 2 ? four.x : four.y;
        return k % 2 ? high_of(two) : low_of(two);
    }
    __device__ __forceinline__ float element(int j, int p, int u) const
    {
        const uint16_t *e =
            (const uint16_t *)(halves + j / 4 * BACKWARD_TOKENS + row + 16 * p + 8 * u);
        return __uint_as_float((uint32_t)e[j % 4] << 16);
    }
    /* To the elements of half-block h, summed over the quad. */
    __device__ __forceinline__ void give_half(int h, const pairs (&e)[4])
    {
        const int t = lane % 4;
        const bool high = t & 2, odd = t & 1;
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                const float e0 = e[0].at[p][u], e1 = e[1].at[p][u], e2 = e[2].at[p][u],
                            e3 = e[3].at[p][u];
                const float a = (high ? e2 : e0) + __shfl_xor_sync(~0u, high ? e0 : e2, 2);
                const float b = (high ? e3 : e1) + __shfl_xor_sync(~0u, high ? e1 : e3, 2);
                const float sum = (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 1);
                gathered[(4 * h + t) * GATHER_LD + row + 16 * p + 8 * u] += sum;
            }
    }
    __device__ __forceinline__ void give_one(int j, const pairs &e)
    {
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                float sum = e.at[p][u] + __shfl_xor_sync(~0u, e.at[p][u], 1);
                sum += __shfl_xor_sync(~0u, sum, 2);
                if (lane % 4 == j % 4) gathered[j * GATHER_LD + row + 16 * p + 8 * u] += sum;
            }
    }
};

/* run(y, r, e, p, u) for all numbers of dx. */
template <int X, int side, class F>
__device__ __forceinline__ void each_number(backward_warp<X, side> &w, const F &run)
{
#pragma unroll
    for (int p = 0; p < w.R; p++)
#pragma unroll
        for (int r = 0; r < X; r++)
#pragma unroll
            for (int e = 0; e < 4; e++) run(w.dx[p][r][e], r, e, p, e / 2);
}

/* Two prefixes of a tile, and what reaches them. */
template <int R> struct prefix_pair {
    row_pair<R> value[2], gradient[2];
    uint32_t twice[2][R][2]; /* the values, bf16, for the monomials of keys */

    __device__ __forceinline__ prefix_pair(const row_pair<R> &p0, const row_pair<R> &p1)
    {
        value[0] = p0, value[1] = p1;
#pragma unroll
        for (int w = 0; w < 2; w++)
#pragma unroll
            for (int p = 0; p < R; p++)
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    gradient[w].at[p][u] = 0;
                    twice[w][p][u] = lnt::twice(value[w].at[p][u]);
                }
    }
};

/* The gradient of a tile's 16 monomials, g [row tile][prefix][C fragment] = d x state^T. */
template <int X, int side>
__device__ __forceinline__ void tile_gradient(const backward_warp<X, side> &w, uint32_t tile,
                                              float (&g)[backward_warp<X, side>::R][2][4])
{
    constexpr int R = backward_warp<X, side>::R;
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int e = 0; e < 4; e++) g[p][0][e] = g[p][1][e] = 0;
#pragma unroll
    for (int n = 0; n < X; n += 2) {
        uint32_t b[4]; /* columns n, n + 1 of prefix 0, then of 1 */
        load_matrices_transposed(b, tile + w.in_tile + n * 256);
#pragma unroll
        for (int p = 0; p < R; p++) {
            const uint32_t a[4] = { w.d[p][0][n], w.d[p][1][n], w.d[p][0][n + 1],
                                    w.d[p][1][n + 1] };
            mma16(g[p][0], a, b[0], b[1]);
            mma16(g[p][1], a, b[2], b[3]);
        }
    }
}

/* phi.g of a prefix's tiles, `times` of it. */
template <int X, int side>
__device__ __forceinline__ void add_dot(backward_warp<X, side> &w, float times,
                                        const prefix_pair<backward_warp<X, side>::R> &prefix)
{
    if constexpr (side == BACKWARD_QUERIES)
#pragma unroll
        for (int p = 0; p < 2 * w.R; p++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                w.dot[p / 2][p % 2] =
                    fmaf(times * prefix.value[k].at[p / 2][p % 2],
                         prefix.gradient[k].at[p / 2][p % 2], w.dot[p / 2][p % 2]);
}

/* One tile: two prefixes times block r.  Adds to dx, to the gradients of the prefixes, and, for
 * keys, what the tile gives dv.  first: of these prefixes. */
template <int X, int side>
__device__ __forceinline__ void backward_tile(backward_warp<X, side> &w, uint32_t tile, int r,
                                              bool first,
                                              prefix_pair<backward_warp<X, side>::R> &prefix)
{
    constexpr int R = backward_warp<X, side>::R;
    float g[R][2][4];
    tile_gradient<X, side>(w, tile, g);
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float x0 = low_of(w.x[p][u][r]), x1 = high_of(w.x[p][u][r]);
            float *dx = &w.dx[p][r][2 * u];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float f = prefix.value[k].at[p][u], *c = &g[p][k][2 * u];
                float &given = prefix.gradient[k].at[p][u];
                dx[0] = fmaf(f, c[0], dx[0]), dx[1] = fmaf(f, c[1], dx[1]);
                given = fmaf(x0, c[0], first ? x1 * c[1] : fmaf(x1, c[1], given));
            }
        }
    if constexpr (side == BACKWARD_KEYS) {
        uint32_t a[R][4]; /* the monomials */
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[p][e] = multiply(prefix.twice[e / 2][p][e % 2], w.x[p][e % 2][r]);
#pragma unroll
        for (int n = 0; n < X; n += 2) {
            uint32_t b[4];
            load_matrices(b, tile + n * 256 + w.lane * 16);
#pragma unroll
            for (int p = 0; p < R; p++) {
                mma16(w.dv[p][n], a[p], b[0], b[1]);
                mma16(w.dv[p][n + 1], a[p], b[2], b[3]);
            }
        }
    }
}

/* Degree 1: the second prefix is 1 too, for what is left of the state by rounding. */
template <int X, int side>
__device__ __forceinline__ void backward_one(backward_warp<X, side> &w,
                                             typename backward_warp<X, side>::ring &s, int dim8)
{
    constexpr int R = backward_warp<X, side>::R;
    row_pair<R> one;
#pragma unroll
    for (int p = 0; p < R; p++) one.at[p][0] = one.at[p][1] = 1.0f;
    prefix_pair<R> prefix(one, one);
    s.need(dim8);
#pragma unroll
    for (int r = 0; r < X; r++)
        if (r < dim8) backward_tile<X, side>(w, s.take(), r, r == 0, prefix);
    add_dot<X, side>(w, 2, prefix);
}

/* Which blocks a unit's prefixes meet: known here where MASK is not 0, so that there are no
 * branches between its tiles. */
template <int MASK> struct backward_blocks {
    int mask;
    __device__ __forceinline__ bool has(int r) const { return (MASK ? MASK : mask) >> r & 1; }
    /* Block r is the first. */
    __device__ __forceinline__ bool begins(int r) const
    {
        return MASK != 0 && (MASK & ((1 << r) - 1)) == 0;
    }
    __device__ __forceinline__ int count(int first, int blocks) const
    {
        return __popc((MASK ? MASK : mask) >> first & ((1 << blocks) - 1));
    }
};

/* The elements of a half-block as numbers. */
template <int X, int side>
__device__ __forceinline__ void take_half(const backward_warp<X, side> &w, int h,
                                          row_pair<backward_warp<X, side>::R> (&x)[4])
{
    uint2 four[backward_warp<X, side>::R][2];
    w.half(h, four);
#pragma unroll
    for (int p = 0; p < 2 * w.R; p++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[k].at[p / 2][p % 2] = backward_warp<X, side>::part(four[p / 2][p % 2], k);
}

template <int X, int side, int MASK>
__device__ __forceinline__ void
backward_half(backward_warp<X, side> &w, typename backward_warp<X, side>::ring &s, const unit &unit)
{
    constexpr int pair[10][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 1 },
                                  { 1, 2 }, { 1, 3 }, { 2, 2 }, { 2, 3 }, { 3, 3 } };
    constexpr int R = backward_warp<X, side>::R;
    const backward_blocks<MASK> blocks = { unit.mask };
    row_pair<R> x[4], given[4] = {};
    take_half<X, side>(w, unit.h, x);
#pragma unroll
    for (int k = 0; k < 10; k += 2) {
        row_pair<R> product[2];
#pragma unroll
        for (int p = 0; p < 2 * R; p++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                product[i].at[p / 2][p % 2] =
                    x[pair[k + i][0]].at[p / 2][p % 2] * x[pair[k + i][1]].at[p / 2][p % 2];
        prefix_pair<R> prefix(product[0], product[1]);
        s.need(blocks.count(0, X));
#pragma unroll
        for (int r = 0; r < X; r++)
            if (blocks.has(r)) backward_tile<X, side>(w, s.take(), r, blocks.begins(r), prefix);
#pragma unroll
        for (int p = 0; p < 2 * R; p++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float y = prefix.gradient[i].at[p / 2][p % 2];
                const int i0 = pair[k + i][0], i1 = pair[k + i][1];
                float &g0 = given[i0].at[p / 2][p % 2], &g1 = given[i1].at[p / 2][p % 2];
                g0 = fmaf(y, x[i1].at[p / 2][p % 2], g0);
                g1 = fmaf(y, x[i0].at[p / 2][p % 2], g1);
            }
    }
    w.give_half(unit.h, given);
}

/* x_j times half-block h, for as many units from number `i` on as differ in j alone; the first
 * after them. */
template <int X, int side, int MASK>
__device__ __forceinline__ int
backward_quads(backward_warp<X, side> &w, typename backward_warp<X, side>::ring &s,
               const tiles_units &units, int i, const unit &unit, int dim8)
{
    constexpr int R = backward_warp<X, side>::R,
                  RUN = BACKWARD_TILES / 2; /* blocks asked for at once */
    const backward_blocks<MASK> blocks = { unit.mask };
    const uint32_t first = units.list[i];
    uint32_t word = first;
    row_pair<R> x[4], given[4] = {};
    take_half<X, side>(w, unit.h, x);
#pragma unroll 1
    do {
        const int at = (int)(word >> unit::KIND & (1 << unit::J) - 1);
        row_pair<R> f[4], j, one = {};
#pragma unroll
        for (int p = 0; p < 2 * R; p++) {
            j.at[p / 2][p % 2] = w.element(at, p / 2, p % 2);
#pragma unroll
            for (int k = 0; k < 4; k++)
                f[k].at[p / 2][p % 2] = x[k].at[p / 2][p % 2] * j.at[p / 2][p % 2];
        }
        prefix_pair<R> low(f[0], f[1]), high(f[2], f[3]);
#pragma unroll
        for (int r = 0; r < X; r++) {
            if (r % RUN == 0) s.need(2 * blocks.count(r, RUN));
            if (blocks.has(r)) {
                backward_tile<X, side>(w, s.take(), r, blocks.begins(r), low);
                backward_tile<X, side>(w, s.take(), r, blocks.begins(r), high);
            }
        }
#pragma unroll
        for (int p = 0; p < 2 * R; p++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float g = (k < 2 ? low : high).gradient[k % 2].at[p / 2][p % 2];
                float &half = given[k].at[p / 2][p % 2], &sum = one.at[p / 2][p % 2];
                sum = fmaf(g, x[k].at[p / 2][p % 2], sum);
                half = fmaf(g, j.at[p / 2][p % 2], half);
            }
        if (at < 8 * dim8) {
            w.give_one(at, one);
        } else {
            add_dot<X, side>(w, 1, low);
            add_dot<X, side>(w, 1, high);
        }
        word = ++i < units.count ? units.list[i] : 0;
    } while (((word ^ first) & ~(((1u << unit::J) - 1) << unit::KIND)) == 0);
    w.give_half(unit.h, given);
    return i;
}

/* The masks that a basis has where no block is missing are known to the compiler up to X = 4. */
template <int X, int side>
__device__ __forceinline__ int any_quads(backward_warp<X, side> &w,
                                         typename backward_warp<X, side>::ring &s,
                                         const tiles_units &units, int i, const unit &u, int dim8)
{
    if constexpr (X == 4) switch (u.mask) {
        case 3:
            return backward_quads<X, side, 3>(w, s, units, i, u, dim8);
        case 7:
            return backward_quads<X, side, 7>(w, s, units, i, u, dim8);
        case 8:
            return backward_quads<X, side, 8>(w, s, units, i, u, dim8);
        case 11:
            return backward_quads<X, side, 11>(w, s, units, i, u, dim8);
        case 12:
            return backward_quads<X, side, 12>(w, s, units, i, u, dim8);
        case 13:
            return backward_quads<X, side, 13>(w, s, units, i, u, dim8);
        case 14:
            return backward_quads<X, side, 14>(w, s, units, i, u, dim8);
        case 15:
            return backward_quads<X, side, 15>(w, s, units, i, u, dim8);
        }
    return backward_quads<X, side, 0>(w, s, units, i, u, dim8);
}

template <int X, int side>
__device__ __forceinline__ void contract_state(backward_warp<X, side> &w,
                                               typename backward_warp<X, side>::ring &s,
                                               const tiles_units &units, int dim8)
{
    constexpr int ALL = (1 << X) - 1;
#pragma unroll 1
    for (int i = 0; i < units.count;) {
        const uint32_t word = units.list[i];
        const unit u = { (int)(word & (1 << unit::KIND) - 1),
                         (int)(word >> unit::KIND & (1 << unit::J) - 1),
                         (int)(word >> (unit::KIND + unit::J) & (1 << unit::H) - 1),
                         (int)(word >> (unit::KIND + unit::J + unit::H)) };
        if (u.kind == UNIT_QUAD) {
            i = any_quads<X, side>(w, s, units, i, u, dim8);
            continue;
        }
        if (u.kind == UNIT_ONE)
            backward_one<X, side>(w, s, dim8);
        else if (X == 4 && u.mask == ALL)
            backward_half<X, side, X == 4 ? ALL : 0>(w, s, u);
        else
            backward_half<X, side, 0>(w, s, u);
        i++;
    }
    copy_wait<0>();
    __syncthreads();
}

} // namespace lnt
#endif
