/* cuda/pairs/pairs_backward_state.cuh - the part of pairs_backward.cu that reads states: the two
 * products of every part, the way back from pairs to elements, and slopes.  Two warpgroups, 64 rows
 * each. */
#ifndef LNT_CUDA_PAIRS_BACKWARD_STATE_CUH
#define LNT_CUDA_PAIRS_BACKWARD_STATE_CUH

#include "cuda/pairs/pairs_backward.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* From shared memory each time, or the compiler keeps what is made of it in registers that are not
 * there. */
__device__ __forceinline__ uint32_t load_word(uint32_t at)
{
    uint32_t x;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
    return x;
}
__device__ __forceinline__ uint2 load_words(uint32_t at)
{
    uint2 x;
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(at));
    return x;
}

/* Where a lane finds its rows in shared memory, from `base` on: row u of group k is GROUP k + 64 u
 * further on, groups being counted modulo 8.  near: A of tiles 4, 5, 6, pairs within groups, NEAR
 * apart. */
struct pairs_backward_lane {
    static constexpr int GROUP = BACKWARD_TOKENS * 8, NEAR = 2 * 128 * 16;
    uint32_t base;
    uint32_t rows;   /* its first row of group 0, four elements */
    uint32_t second; /* of these 2 (t % 2) and the next */
    uint32_t near;

    __device__ __forceinline__ uint32_t group(uint32_t from, int k) const
    {
        return base + ((from + k * GROUP) & (8 * GROUP - 1));
    }
    /* Elements 2 t, 2 t + 1 of row u of block r of 8. */
    __device__ __forceinline__ uint32_t block(int lane, int r, int u) const
    {
        return base + second + (2 * r + lane % 4 / 2) * GROUP + 64 * u;
    }

    template <int side>
    __device__ __forceinline__ pairs_backward_lane(const backward_warp<4, side> &w, char *shared)
    {
        base = shared_address(shared + PAIRS_BACKWARD_HALVES_AT);
        rows = w.row * 8, second = rows + w.lane % 2 * 4;
        near = shared_address(shared + PAIRS_BACKWARD_NEAR_AT) +
               (threadIdx.x - PAIRS_BACKWARD_STATE_FIRST * 32) * 16;
    }
    template <int side>
    __device__ __forceinline__ void lay_near(const backward_warp<4, side> &w) const
    {
        uint32_t a[3][4];
#pragma unroll
        for (int u = 0; u < 2; u++) {
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const uint32_t x = w.x[0][u][r], other = __shfl_xor_sync(~0u, x, 1);
                /* the next in the group of 4, cyclic */
                a[r / 2][r % 2 * 2 + u] = multiply(x, __byte_perm(x, other, 0x5432));
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint2 four = load_words(base + rows + (4 * h + w.lane % 4) * GROUP + 64 * u);
                a[2][2 * h + u] = multiply(four.x, four.y);
            }
        }
#pragma unroll
        for (int k = 0; k < 3; k++) store_piece(near + k * NEAR, a[k]);
    }
};

/* What part c needs of the rows: of groups a = c + 1, c + 2 elements t / 2 and 2 + t / 2, each
 * twice; of groups c + 2 ... c + 6 elements 2 (t % 2), 2 (t % 2) + 1. */
struct pairs_backward_rows {
    uint32_t first[2][4], second[5][2];

    __device__ __forceinline__ void take_first(const pairs_backward_lane &l, int lane, int c)
    {
        const uint32_t which = lane % 4 / 2 ? 0x3232 : 0x1010;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int k = e / 2, u = e % 2;
            const uint2 four = load_words(l.group(l.rows, c + 1 + k) + 64 * u);
            first[k][u] = __byte_perm(four.x, 0, which);
            first[k][2 + u] = __byte_perm(four.y, 0, which);
        }
    }
    __device__ __forceinline__ void take_second(const pairs_backward_lane &l, int c)
    {
#pragma unroll
        for (int e = 0; e < 10; e++)
            second[e / 2][e % 2] = load_word(l.group(l.second, c + 2 + e / 2) + 64 * (e % 2));
    }
};

/* What A of tile k of part c is made of; and A. */
__device__ __forceinline__ void tile_words(const pairs_backward_lane &l, int lane, int c, int k,
                                           uint32_t (&words)[4])
{
    if (k >= 4 && k < PAIRS_BACKWARD_HALF) {
        load_piece(words, l.near + (k - 4) * l.NEAR);
    } else if (k < PAIRS_TILES) {
        const uint32_t at = k < 4 ? l.block(lane, k, 0)
                                  : l.group(l.second, c + pairs_second(k - PAIRS_BACKWARD_HALF));
        words[0] = load_word(at), words[1] = load_word(at + 64);
    }
}
__device__ __forceinline__ void tile_make(const uint32_t (&words)[4], const uint32_t (&first)[2][4],
                                          int k, uint32_t (&a)[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (k < 4)
            a[e] = e < 2 ? multiply(words[e], words[e]) : words[e - 2];
        else if (k < PAIRS_BACKWARD_HALF)
            a[e] = words[e];
        else
            a[e] = multiply(first[pairs_first(k - PAIRS_BACKWARD_HALF) - 1][e], words[e % 2]);
}

/* U of the tiles in common, of their two halves. */
struct pairs_backward_sums {
    float common[2][PAIRS_BACKWARD_HALF][4];
};

/* Warpgroups that read states multiply in turns: one's products run while the other does what is
 * between its own. */
__device__ __forceinline__ void turn_wait(int set)
{
    asm volatile("bar.sync %0, 256;" ::"r"(set + 4) : "memory");
}
__device__ __forceinline__ void turn_give(int set)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(5 - set) : "memory");
}

/* T of part c: to given, dv and dout.n; of keys, of the columns of h too.  part: where it lies. */
template <int side>
__device__ __forceinline__ void pairs_last(backward_warp<4, side> &w, const char *part, int c,
                                           int set, const pairs_backward_lane &l)
{
    constexpr int N8 = side == BACKWARD_KEYS ? 17 : 16;
    pairs_backward_rows rows;
    rows.take_first(l, w.lane, c);
    float d[N8][4];
    const float *linear = (const float *)(part + PAIRS_PART_BYTES) + w.lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < N8; n++) {
        const float2 two = *(const float2 *)(linear + 8 * n);
        d[n][0] = d[n][2] = two.x, d[n][1] = d[n][3] = two.y;
    }
    const operand b = operand_at(part, 128, 256);
    uint32_t a[2][2][4], words[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++) tile_words(l, w.lane, c, i, words[i]);
    turn_wait(set);
#pragma unroll
    for (int k = 0; k < PAIRS_TILES; k += 2) { /* two under way, and the next two */
#pragma unroll
        for (int i = 0; i < 2; i++) tile_make(words[i], rows.first, k + i, a[k / 2 % 2][i]);
        product_begin();
#pragma unroll
        for (int i = 0; i < 2; i++)
            product<N8>(d, a[k / 2 % 2][i], operand_plus(b, (uint32_t)(k + i) * PAIRS_TILE_BYTES));
        product_commit();
        if (k == PAIRS_TILES - 2) turn_give(set);
#pragma unroll
        for (int i = 0; i < 2; i++) tile_words(l, w.lane, c, k + 2 + i, words[i]);
        product_wait<1>();
    }
    product_wait<0>();
    product_hold(d);
    row_pair<1> given[4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const uint2 four = load_words(l.base + l.rows + c * l.GROUP + 64 * u);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float x = backward_warp<4, side>::part(four, i);
            float sum = 0;
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float *y = &d[4 * i + n][2 * u];
                sum = fmaf(low_of(w.d[0][u][n]), y[0], fmaf(high_of(w.d[0][u][n]), y[1], sum));
                if constexpr (side == BACKWARD_KEYS) {
                    float *dv = &w.dv[0][n][2 * u];
                    dv[0] = fmaf(x, y[0], dv[0]), dv[1] = fmaf(x, y[1], dv[1]);
                }
            }
            given[i].at[0][u] = sum;
            if constexpr (side == BACKWARD_QUERIES) w.dot[0][u] = fmaf(x, sum, w.dot[0][u]);
        }
    }
    if constexpr (N8 == 17) /* lanes 0 and 2: of elements 0 and 1, what is left of them */
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool odd = w.lane % 2;
            given[e % 2].at[0][e / 2] += odd ? 0.0f : d[16][e];
            given[2 + e % 2].at[0][e / 2] += odd ? d[16][e] : 0.0f;
        }
    w.give_half(c, given);
}

/* From y, the gradients of the pairs across groups that part c has, to their elements. */
template <int side>
__device__ __forceinline__ void take_back_first_two(backward_warp<4, side> &w, int c,
                                                    const pairs_backward_lane &l,
                                                    const float (&y)[2][PAIRS_BACKWARD_HALF][4])
{
    const int t = w.lane % 4;
    pairs_backward_rows rows;
    rows.take_first(l, w.lane, c);
    rows.take_second(l, c);
    /* [group c + 1, c + 2][half][row]: dx of element 2 half + t / 2; [group c + 2 + k][row][e]: of
     * element 2 (t % 2) + e. */
    float first[2][2][2] = {}, second[5][2][2] = {};
#pragma unroll
    for (int k = 0; k < PAIRS_BACKWARD_HALF; k++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int h = i / 4, u = i / 2 % 2, e = i % 2;
            const float g = y[h][k][2 * u + e];
            const int one = pairs_first(k) - 1, two = pairs_second(k) - 2;
            const uint32_t other = rows.second[two][u];
            first[one][h][u] = fmaf(g, e ? high_of(other) : low_of(other), first[one][h][u]);
            second[two][u][e] = fmaf(g, high_of(rows.first[one][2 * h + u]), second[two][u][e]);
        }
    /* Lane t: element 2 (t % 2) + t / 2 of a group. */
    float *to = w.gathered + (t % 2 * 2 + t / 2) * GATHER_LD + w.row;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 7; k++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float y0 = k < 2 ? first[k % 2][0][u] : second[(k + 3) % 5][u][0],
                        y1 = k < 2 ? first[k % 2][1][u] : second[(k + 3) % 5][u][1];
            const bool odd = k < 2 ? t % 2 : t / 2;
            to[(c + (k < 2 ? 1 : 0) + k) % 8 * 4 * GATHER_LD + 8 * u] +=
                (odd ? y1 : y0) + __shfl_xor_sync(~0u, odd ? y0 : y1, k < 2 ? 1 : 2);
        }
    __syncwarp();
}

/* U of part c: of the tiles in common added up, of the others taken back. */
template <int side>
__device__ __forceinline__ void pairs_first_two(backward_warp<4, side> &w, const char *part, int c,
                                                int set, const pairs_backward_lane &l,
                                                pairs_backward_sums &sums)
{
    constexpr int LAST = side == BACKWARD_KEYS ? 8 : 7;
    const int t = w.lane % 4;
    const operand b = operand_at(part, 256, PAIRS_TILE_BYTES);
    uint32_t a[2][4], twice_x[4][2], two_x[2]; /* two_x: elements 2 (t % 2), 2 (t % 2) + 1 */
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const uint2 four = load_words(l.base + l.rows + c * l.GROUP + 64 * u);
        two_x[u] = t % 2 ? four.y : four.x;
        twice_x[0][u] = __byte_perm(four.x, 0, 0x1010);
        twice_x[1][u] = __byte_perm(four.x, 0, 0x3232);
        twice_x[2][u] = __byte_perm(four.y, 0, 0x1010);
        twice_x[3][u] = __byte_perm(four.y, 0, 0x3232);
    }
    float y[2][PAIRS_BACKWARD_HALF][4];
    /* 16 columns of element k / 2; of keys then columns 120 ... 135, of which h alone counts (made
     * by a multiplication, or ptxas has products wait for each other: C7520). */
#pragma unroll
    for (int k = 0; k <= LAST; k++) {
        const operand at = operand_plus(b, k < 8 ? (uint32_t)k * 512 : 15 * 256);
#pragma unroll
        for (int e = 0; e < 4; e++)
            a[k % 2][e] =
                k == 8 ? multiply(two_x[e % 2], e < 2 ? 0 : 0x3f803f80u)
                       : multiply(twice_x[k / 2 % 4][e % 2], w.d[0][e % 2][k % 2 * 2 + e / 2]);
        if (k == 0) turn_wait(set);
        product_begin();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            product_turned(sums.common[h], a[k % 2], operand_plus(at, h * 128), 1);
            product_turned(y[h], a[k % 2],
                           operand_plus(at, h * 128 + PAIRS_BACKWARD_HALF * PAIRS_TILE_BYTES),
                           k > 0);
        }
        product_commit();
        if (k < LAST) product_wait<1>();
    }
    turn_give(set);
    product_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) product_hold(sums.common[h]), product_hold(y[h]);
    take_back_first_two(w, c, l, y);
}

/* dx += what the sums give, once all parts are read. */
template <int side>
__device__ __forceinline__ void take_back_pairs(backward_warp<4, side> &w,
                                                const pairs_backward_sums &sums)
{
    const int t = w.lane % 4;
#pragma unroll
    for (int u = 0; u < 2; u++) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float x0 = low_of(w.x[0][u][r]), x1 = high_of(w.x[0][u][r]);
            const float x2 = __shfl_xor_sync(~0u, x0, 1); /* the next after x1, cyclic */
            float &y0 = w.dx[0][r][2 * u], &y1 = w.dx[0][r][2 * u + 1];
            const float *square = &sums.common[0][r][2 * u], *one = &sums.common[1][r][2 * u],
                        *next = &sums.common[r % 2][4 + r / 2][2 * u];
            y0 += fmaf(2 * x0, square[0], one[0]) + x1 * next[0] +
                  __shfl_xor_sync(~0u, x1 * next[1], 1);
            y1 += fmaf(2 * x1, square[1], one[1]) + x0 * next[0] + x2 * next[1];
        }
#pragma unroll
        for (int h = 0; h < 2; h++) { /* two apart in group 4 h + t */
            const int group = 4 * h + t;
            const uint2 four = w.halves[group * BACKWARD_TOKENS + w.row + 8 * u];
            float *to = w.gathered + 4 * group * GATHER_LD + w.row + 8 * u;
            const float g0 = sums.common[h][6][2 * u], g1 = sums.common[h][6][2 * u + 1];
            to[0] += g0 * low_of(four.y), to[GATHER_LD] += g1 * high_of(four.y);
            to[2 * GATHER_LD] += g0 * low_of(four.x), to[3 * GATHER_LD] += g1 * high_of(four.x);
        }
    }
    __syncwarp();
}

template <int side>
__device__ __forceinline__ void contract_pairs(backward_warp<4, side> &w, char *shared, int set,
                                               const pairs_backward_units<side> &units)
{
    const pairs_backward_lane l(w, shared);
    l.lay_near(w);
    pairs_backward_sums sums = {};
#pragma unroll 1
    for (int c = 0; c < PAIRS_GROUPS; c++) {
        units.wait(c);
        const char *part = units.at(c);
        pairs_last<side>(w, part, c, set, l);
        pairs_first_two<side>(w, part, c, set, l, sums);
        units.leave(c, w.lane);
    }
#pragma unroll
    for (int e = 0; e < 8; e++) /* the rows again */
        w.x[0][e / 4][e % 4] = load_word(l.block(w.lane, e % 4, e / 4));
    take_back_pairs<side>(w, sums);
}

/* dx += a x tile number i of a unit of slopes, high and low; rest: what rounding took from a. */
__device__ __forceinline__ void slope_products(float (&dx)[4][4], const char *unit, int i,
                                               const uint32_t (&a)[4], const uint32_t *rest)
{
    const operand high = operand_at(unit + i * 2 * PAIRS_SLOPE_BYTES, 128, 256);
    product_begin();
    product<4>(dx, a, operand_plus(high, PAIRS_SLOPE_BYTES));
    if (rest) product<4>(dx, *(const uint32_t(*)[4])rest, high);
    product<4>(dx, a, high);
    product_commit();
}

/* The four elements of a half-block of a lane's rows, each twice: [2 k + e][u], e in the middle. */
__device__ __forceinline__ void slope_factors(uint32_t (&f)[2][2][2], uint32_t half)
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int k = e / 2, u = e % 2;
        const uint32_t from = load_word(half + k * 4 + 64 * u);
        f[k][0][u] = __byte_perm(from, 0, 0x1010), f[k][1][u] = __byte_perm(from, 0, 0x3232);
    }
}

/* As contract_slopes (tiles_backward_slopes.cuh), by warpgroups: 2 tiles of x, then 40 of its pairs. */
__device__ __forceinline__ void read_slopes(backward_warp<4, BACKWARD_QUERIES> &w,
                                            const pairs_backward_units<BACKWARD_QUERIES> &units,
                                            const float *first, float (&value)[2])
{
    float(&dx)[4][4] = w.dx[0];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int e = 0; e < 4; e++) dx[r][e] = first[8 * r + w.lane % 4 * 2 + e % 2];
    float one[2], two[2];
#pragma unroll
    for (int u = 0; u < 2; u++) one[u] = along<4, BACKWARD_QUERIES>(w, 0, u);
    units.wait(PAIRS_GROUPS);
    const char *unit = units.at(PAIRS_GROUPS);
    uint32_t a[8][4], rest[8][4];
    const uint32_t rows = shared_address(w.halves + w.row);
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) a[i][e] = w.x[0][e % 2][2 * i + e / 2];
        slope_products(dx, unit, i, a[i], nullptr);
    }
    product_wait<0>();
    product_hold(dx);
#pragma unroll
    for (int u = 0; u < 2; u++) two[u] = along<4, BACKWARD_QUERIES>(w, 0, u);
    int i = 2;
#pragma unroll
    for (int block = 0; block < 4; block++)
#pragma unroll 1
        for (int pair = 4 * block; pair < 4 * block + 4; pair += 2) { /* with blocks from this on */
            uint32_t f[2][2][2];
            slope_factors(f, rows + pair / 2 * pairs_backward_lane::GROUP);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                if (block == 1 && k == 1 && pair == 4) { /* the first unit is read */
                    product_wait<0>();
                    product_hold(dx);
                    units.leave(PAIRS_GROUPS, w.lane);
                    units.wait(PAIRS_GROUPS + 1);
                    unit = units.at(PAIRS_GROUPS + 1), i = 0;
                }
#pragma unroll
                for (int r = block; r < 4; r++, i++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const uint32_t y = w.x[0][e % 2][r], by = f[k][e / 2][e % 2];
                        a[4 * k + r][e] = multiply(by, y);
                        rest[4 * k + r][e] = multiply_subtract(by, y, a[4 * k + r][e]);
                    }
                    slope_products(dx, unit, i, a[4 * k + r], rest[4 * k + r]);
                }
            }
            product_wait<0>();
            product_hold(dx);
        }
    product_wait<0>();
    product_hold(dx);
    units.leave(PAIRS_GROUPS + 1, w.lane);
#pragma unroll
    for (int u = 0; u < 2; u++)
        value[u] =
            one[u] + (two[u] - one[u]) / 2 + (along<4, BACKWARD_QUERIES>(w, 0, u) - two[u]) / 3;
}

/* The rows of a warpgroup's set as half-blocks, and nothing gathered yet.  keys: the set's first
 * block. */
__device__ __forceinline__ void lay_set(const char *keys, int set, uint2 *halves, float *gathered)
{
    const int i = (int)threadIdx.x % 128, row = i % 64, place = 64 * set + row;
    const char *from = keys + row / 8 * 512 + row % 8 * 16;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int r = i / 64 + 2 * k;
        const uint4 eight = *(const uint4 *)(from + r * 128);
        halves[2 * r * BACKWARD_TOKENS + place] = make_uint2(eight.x, eight.y);
        halves[(2 * r + 1) * BACKWARD_TOKENS + place] = make_uint2(eight.z, eight.w);
    }
#pragma unroll
    for (int e = 0; e < 16; e++) gathered[(2 * e + i / 64) * GATHER_LD + place] = 0;
}

/* What a warpgroup's rows get from their states, item after item, left for those who meet tokens:
 * a lane's numbers of dx and then of dv, or of queries the denominator's gradient, 4 at a time;
 * den and dout.n of queries by row. */
template <int side>
__device__ __forceinline__ void read_states(const tiles_backward_args &a, char *shared, int warp,
                                            int lane, int count)
{
    const int set = warp / 4;
    pairs_backward_units<side> units = { shared, pairs_backward_barriers(shared) };
    backward_warp<4, side> w;
    w.place(warp * 16);
    w.halves = (const uint2 *)(shared + PAIRS_BACKWARD_HALVES_AT);
    w.gathered = (float *)(shared + PAIRS_BACKWARD_GATHERED_AT);
    auto sync = [&] { asm volatile("bar.sync %0, 128;" ::"r"(set + 1) : "memory"); };
    if (set == 1) turn_give(set);
    int number = 0;
#pragma unroll 1
    for (int i = pairs_backward_next<side, true>(a, (int)blockIdx.x, count); i < count;
         i = pairs_backward_next<side, true>(a, i + (int)gridDim.x, count), number++) {
        const pairs_backward_item item = pairs_backward_find<side>(a, i);
        const int64_t head = item.at.b * a.heads + item.at.h,
                      block =
                          head * a.own_blocks + item.first(item.there<side>(set) ? set : 1 - set);
        const int64_t state = item.state;
        const char *keys = a.own_keys + block * 2048,
                   *values = a.own_values + (block + warp % 4 / 2) * 2560;
        lay_set(keys, set, (uint2 *)(shared + PAIRS_BACKWARD_HALVES_AT), w.gathered);
        w.load(0, keys + warp % 4 / 2 * 2048, values, warp, 4);
        sync();
        contract_pairs<side>(w, shared, set, units);
        each_number<4, side>(
            w, [&](float &y, int r, int e, int p, int) { y += w.gathered[w.place_of(r, e, p)]; });
        if (number > 0) barrier_wait(units.bar.taken(), (number & 1) ^ 1);
        float4 *to =
            (float4 *)(shared + PAIRS_BACKWARD_GIVEN_AT) + set * 8 * 128 + threadIdx.x % 128;
#pragma unroll
        for (int r = 0; r < 4; r++) to[r * 128] = *(const float4 *)w.dx[0][r];
        if constexpr (side == BACKWARD_QUERIES) {
            float weights[2], dot[2] = { w.dot[0][0], w.dot[0][1] };
            const float *first = (const float *)(a.slopes + (state + 1) * a.slope_bytes) - 32;
            read_slopes(w, units, first, weights);
#pragma unroll
            for (int r = 0; r < 4; r++) to[(4 + r) * 128] = *(const float4 *)w.dx[0][r];
#pragma unroll
            for (int u = 0; u < 2; u++) {
                weights[u] = lanes_sum<4>(weights[u]), dot[u] = lanes_sum<4>(dot[u]);
                if (lane % 4 == 0)
                    ((float2 *)(shared + PAIRS_BACKWARD_GIVEN_ROWS_AT))[w.row + 8 * u] =
                        make_float2(weights[u], dot[u]);
            }
        } else {
#pragma unroll
            for (int r = 0; r < 4; r++) to[(4 + r) * 128] = *(const float4 *)w.dv[0][r];
        }
        barrier_arrive(units.bar.given());
        units.turn += pairs_backward_units<side>::COUNT / 2;
        sync(); /* all have read their rows */
    }
    if (set == 0) turn_wait(set); /* what is left */
}

#endif

} // namespace lnt
#endif
