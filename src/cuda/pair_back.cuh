/* cuda/pair_back.cuh - the part of pair_back.cu that reads a state: its stream through shared
 * memory, the two products of every part, and the way back from pairs to elements. */
#ifndef LNT_CUDA_PAIR_BACK_CUH
#define LNT_CUDA_PAIR_BACK_CUH

#include "cuda/back_kernel.cuh"
#include "cuda/bulk.cuh"

namespace lnt
{

enum {
    PAIR_BACK_WARPS = 8,
    PAIR_BACK_STAGES = 4,
    PAIR_BACK_HALF = PAIR_TILES / 2, /* tiles of a stage */
    PAIR_BACK_HALF_BYTES = PAIR_BACK_HALF * PAIR_TILE_BYTES,
    PAIR_BACK_GATHERED = 32 * GATHER_LD * 4,
    PAIR_BACK_HALVES_AT = 0,
    PAIR_BACK_GATHERED_AT = 9 * BACK_TOKENS * 8,
    PAIR_BACK_LINEAR_AT = PAIR_BACK_GATHERED_AT + PAIR_BACK_GATHERED,
    PAIR_BACK_STATE_AT = PAIR_BACK_LINEAR_AT + PAIR_LINEAR * 4,
    PAIR_BACK_RING_AT = PAIR_BACK_STATE_AT + PAIR_BACK_STAGES * PAIR_BACK_HALF_BYTES,
    /* Tiles of slopes: some from the beginning, before tokens; the others where the last part but
     * one of the state was. */
    PAIR_SLOPE_BYTES = 5 * 256,
    PAIR_SLOPES = 2 * (2 + 40),
    PAIR_SLOPES_EARLY = 45,
    PAIR_BACK_BARRIERS_AT = PAIR_BACK_RING_AT + PAIR_SLOPES_EARLY * PAIR_SLOPE_BYTES,
    PAIR_BACK_SHARED = PAIR_BACK_BARRIERS_AT + (2 * PAIR_BACK_STAGES + 2) * 8
};
static_assert((PAIR_SLOPES - PAIR_SLOPES_EARLY) * PAIR_SLOPE_BYTES <= 2 * PAIR_BACK_HALF_BYTES,
              "room for slopes");

#if LNT_WARPGROUPS

/* Halves of the parts of a state, one after the other, through a ring; and slopes, or NULL. */
struct pair_back_stream {
    char *shared;
    const char *state, *slopes;

    __device__ __forceinline__ uint32_t come(int i) const
    {
        return shared_address(shared + PAIR_BACK_BARRIERS_AT) + (uint32_t)i % PAIR_BACK_STAGES * 8;
    }
    __device__ __forceinline__ uint32_t done(int i) const { return come(i) + PAIR_BACK_STAGES * 8; }
    __device__ __forceinline__ uint32_t slopes_come(bool late) const
    {
        return come(0) + (2 * PAIR_BACK_STAGES + late) * 8;
    }
    static __device__ __forceinline__ int parity(int i) { return i / PAIR_BACK_STAGES & 1; }
    __device__ __forceinline__ char *at(int i) const
    {
        return shared + PAIR_BACK_STATE_AT + i % PAIR_BACK_STAGES * PAIR_BACK_HALF_BYTES;
    }
    /* By one thread. */
    __device__ __forceinline__ void fetch(int i, const float *linear = nullptr) const
    {
        if (i >= 2 * PAIR_GROUPS) return;
        if (i >= PAIR_BACK_STAGES) barrier_wait(done(i), parity(i - PAIR_BACK_STAGES));
        barrier_expect(come(i), PAIR_BACK_HALF_BYTES + (linear ? PAIR_LINEAR * 4 : 0));
        bulk_load(shared_address(at(i)), state + (int64_t)i * PAIR_BACK_HALF_BYTES,
                  PAIR_BACK_HALF_BYTES, come(i));
        if (linear)
            bulk_load(shared_address(shared + PAIR_BACK_LINEAR_AT), linear, PAIR_LINEAR * 4,
                      come(i));
    }
    __device__ __forceinline__ void begin(const float *linear) const
    {
        if (threadIdx.x) return;
        for (int i = 0; i < PAIR_BACK_STAGES; i++) {
            barrier_init(come(i), 1);
            barrier_init(done(i), PAIR_BACK_WARPS);
        }
        barrier_init(slopes_come(false), 1);
        barrier_init(slopes_come(true), 1);
        barrier_publish();
        for (int i = 0; i < PAIR_BACK_STAGES; i++) fetch(i, i ? nullptr : linear);
        if (slopes) get_slopes(false);
    }
    __device__ __forceinline__ void get_slopes(bool late) const
    {
        const int from = late ? PAIR_SLOPES_EARLY : 0,
                  bytes = ((late ? PAIR_SLOPES : PAIR_SLOPES_EARLY) - from) * PAIR_SLOPE_BYTES;
        barrier_expect(slopes_come(late), bytes);
        bulk_load(shared_address(shared + (late ? PAIR_BACK_STATE_AT : PAIR_BACK_RING_AT)),
                  slopes + from * PAIR_SLOPE_BYTES, bytes, slopes_come(late));
    }
    /* By one thread, in the last part: where the one before it was. */
    __device__ __forceinline__ void get_late_slopes() const
    {
        for (int i = 2 * PAIR_GROUPS - 4; i < 2 * PAIR_GROUPS - 2; i++)
            barrier_wait(done(i), parity(i));
        get_slopes(true);
    }
};
static_assert((2 * PAIR_GROUPS - 4) % PAIR_BACK_STAGES == 0, "that part is at the beginning");

/* The tiles of slopes, one after the other, as tile_ring gives them. */
struct pair_slopes {
    uint32_t early, late;
    int at = 0;
    __device__ __forceinline__ pair_slopes(const pair_back_stream &s)
    {
        early = shared_address(s.shared + PAIR_BACK_RING_AT);
        late = shared_address(s.shared + PAIR_BACK_STATE_AT) - PAIR_SLOPES_EARLY * PAIR_SLOPE_BYTES;
    }
    __device__ __forceinline__ void need(int) {}
    __device__ __forceinline__ uint32_t take()
    {
        const int i = at++;
        return (i < PAIR_SLOPES_EARLY ? early : late) + (uint32_t)i * PAIR_SLOPE_BYTES;
    }
};

/* A of the tiles that all parts have in common. */
template <int side>
__device__ __forceinline__ void take_common(const back_warp<4, side> &w,
                                            uint32_t (&common)[PAIR_BACK_HALF][4])
{
#pragma unroll
    for (int u = 0; u < 2; u++) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const uint32_t x = w.x[0][u][r], other = __shfl_xor_sync(~0u, x, 1);
            common[r][u] = multiply(x, x), common[r][2 + u] = x;
            /* the next in the group of 4, cyclic */
            common[4 + r / 2][r % 2 * 2 + u] = multiply(x, __byte_perm(x, other, 0x5432));
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint2 four = w.halves[(4 * h + w.lane % 4) * BACK_TOKENS + w.row + 8 * u];
            common[6][2 * h + u] = multiply(four.x, four.y);
        }
    }
}

/* What part c needs of the rows: of groups a = c + 1, c + 2 elements t / 2 and 2 + t / 2, each
 * twice; of groups c + 2 ... c + 6 elements 2 (t % 2), 2 (t % 2) + 1. */
struct pair_back_rows {
    uint32_t first[2][4], second[5][2];

    template <int side> __device__ __forceinline__ void take(const back_warp<4, side> &w, int c)
    {
        const int t = w.lane % 4;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint2 *rows = w.halves + w.row + 8 * u;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const uint2 four = rows[(c + 1 + k) % 8 * BACK_TOKENS];
                const uint32_t which = t / 2 ? 0x3232 : 0x1010;
                first[k][u] = __byte_perm(four.x, 0, which);
                first[k][2 + u] = __byte_perm(four.y, 0, which);
            }
#pragma unroll
            for (int k = 0; k < 5; k++)
                second[k][u] = ((const uint32_t *)(rows + (c + 2 + k) % 8 * BACK_TOKENS))[t % 2];
        }
    }
    /* A of tile 7 + k. */
    __device__ __forceinline__ void tile(int k, uint32_t (&a)[4]) const
    {
#pragma unroll
        for (int e = 0; e < 4; e++)
            a[e] = multiply(first[pair_first(k) - 1][e], second[pair_second(k) - 2][e % 2]);
    }
};

template <int side> struct pair_back_sums {
    float common[2][PAIR_BACK_HALF][4]; /* U of the tiles in common, of their two halves */
    float second[8][2][2]; /* [group c + k][row][e]: dx of elements 2 (t % 2) + e, a part of it */
};

/* T of elements l = 2 half, 2 half + 1 of part c: to given and dv; of keys' second half, of the
 * columns of h too. */
template <int side, int half>
__device__ __forceinline__ void pair_last(back_warp<4, side> &w, const pair_back_stream &s, int c,
                                          const uint32_t (&common)[PAIR_BACK_HALF][4],
                                          const pair_back_rows &rows, const float (&x)[4][2],
                                          row_pair<1> (&given)[4])
{
    constexpr int N8 = side == BACK_KEYS && half ? 9 : 8;
    float d[N8][4];
    const float *linear = (const float *)(s.shared + PAIR_BACK_LINEAR_AT) + c * 8 * PAIR_N8 +
                          64 * half + w.lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < N8; n++) {
        const float2 two = *(const float2 *)(linear + 8 * n);
        d[n][0] = d[n][2] = two.x, d[n][1] = d[n][3] = two.y;
    }
    operand b = operand_plus(operand_at(s.at(2 * c), 128, 256), (uint32_t)half * 8 * 256),
            b2 = operand_plus(operand_at(s.at(2 * c + 1), 128, 256), (uint32_t)half * 8 * 256);
    operand_pin(b);
    operand_pin(b2);
    product_begin();
#pragma unroll
    for (int k = 0; k < PAIR_BACK_HALF; k++)
        product<N8>(d, common[k], operand_plus(b, (uint32_t)k * PAIR_TILE_BYTES));
    product_commit();
    uint32_t a[2][4];
#pragma unroll
    for (int k = 0; k < PAIR_BACK_HALF; k++) {
        rows.tile(k, a[k % 2]);
        product_begin();
        product<N8>(d, a[k % 2], operand_plus(b2, (uint32_t)k * PAIR_TILE_BYTES));
        product_commit();
        product_wait<1>();
    }
    product_wait<0>();
    product_hold(d);
#pragma unroll
    for (int l = 0; l < 2; l++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            float sum = 0;
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float *y = &d[4 * l + n][2 * u];
                sum = fmaf(low_of(w.d[0][u][n]), y[0], fmaf(high_of(w.d[0][u][n]), y[1], sum));
                if constexpr (side == BACK_KEYS) {
                    float *dv = &w.dv[0][n][2 * u];
                    dv[0] = fmaf(x[2 * half + l][u], y[0], dv[0]);
                    dv[1] = fmaf(x[2 * half + l][u], y[1], dv[1]);
                }
            }
            given[2 * half + l].at[0][u] = sum;
            if constexpr (side == BACK_QUERIES)
                w.dot[0][u] = fmaf(x[2 * half + l][u], sum, w.dot[0][u]);
        }
    if constexpr (N8 == 9) /* lanes 0 and 2: of elements 0 and 1, what is left of them */
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool odd = w.lane % 2;
            given[e % 2].at[0][e / 2] += odd ? 0.0f : d[8][e];
            given[2 + e % 2].at[0][e / 2] += odd ? d[8][e] : 0.0f;
        }
}

/* U of part c: of the tiles in common added up, of the others taken back. */
template <int side>
__device__ __forceinline__ void
pair_first_two(back_warp<4, side> &w, const pair_back_stream &s, int c, const pair_back_rows &rows,
               const uint32_t (&twice_x)[4][2], const uint32_t (&two_x)[2],
               pair_back_sums<side> &sums)
{
    const int t = w.lane % 4;
    float y[2][PAIR_BACK_HALF][4];
    operand b = operand_at(s.at(2 * c), 256, PAIR_TILE_BYTES),
            b2 = operand_at(s.at(2 * c + 1), 256, PAIR_TILE_BYTES);
    operand_pin(b);
    operand_pin(b2);
    uint32_t a[2][4];
    /* 16 columns of element k / 2; of keys then columns 120 ... 135, of which h alone counts (made
     * by a multiplication, or ptxas has products wait for each other: C7520). */
#pragma unroll
    for (int k = 0; k < (side == BACK_KEYS ? 9 : 8); k++) {
        const uint32_t column = k < 8 ? (uint32_t)k * 512 : 15 * 256;
#pragma unroll
        for (int e = 0; e < 4; e++)
            a[k % 2][e] =
                k == 8 ? multiply(two_x[e % 2], e < 2 ? 0 : 0x3f803f80u)
                       : multiply(twice_x[k / 2 % 4][e % 2], w.d[0][e % 2][k % 2 * 2 + e / 2]);
        product_begin();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            product_turned(sums.common[h], a[k % 2], operand_plus(b, column + h * 128), 1);
            product_turned(y[h], a[k % 2], operand_plus(b2, column + h * 128), k > 0);
        }
        product_commit();
        product_wait<1>();
    }
    product_wait<0>();
    product_hold(sums.common[0]);
    product_hold(sums.common[1]);
    product_hold(y[0]);
    product_hold(y[1]);
    float first[2][2][2] = {}; /* [group c + 1, c + 2][half][row]: dx of element 2 half + t / 2 */
#pragma unroll
    for (int k = 0; k < PAIR_BACK_HALF; k++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int u = 0; u < 2; u++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float g = y[h][k][2 * u + e];
                    const int one = pair_first(k) - 1, two = pair_second(k);
                    const uint32_t other = rows.second[two - 2][u];
                    first[one][h][u] =
                        fmaf(g, e ? high_of(other) : low_of(other), first[one][h][u]);
                    sums.second[two][u][e] =
                        fmaf(g, high_of(rows.first[one][2 * h + u]), sums.second[two][u][e]);
                }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int u = 0; u < 2; u++) { /* lane t: element 2 (t % 2) + t / 2 */
            const float keep = t % 2 ? first[k][1][u] : first[k][0][u],
                        give = t % 2 ? first[k][0][u] : first[k][1][u];
            w.gathered[((c + 1 + k) % 8 * 4 + t % 2 * 2 + t / 2) * GATHER_LD + w.row + 8 * u] +=
                keep + __shfl_xor_sync(~0u, give, 1);
        }
    __syncwarp();
}

/* From group c to c + 1. */
template <int side> __device__ __forceinline__ void turn(pair_back_sums<side> &sums)
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const float first = sums.second[0][e / 2][e % 2];
#pragma unroll
        for (int k = 0; k < 7; k++) sums.second[k][e / 2][e % 2] = sums.second[k + 1][e / 2][e % 2];
        sums.second[7][e / 2][e % 2] = first;
    }
}

/* dx += what the sums give, once all parts are read. */
template <int side>
__device__ __forceinline__ void take_back_pairs(back_warp<4, side> &w,
                                                const pair_back_sums<side> &sums)
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
#pragma unroll
            for (int e = 0; e < 2; e++) { /* groups 2 r and 2 r + 1, for lanes 0, 1 and 2, 3 */
                const float a = sums.second[2 * r][u][e], b = sums.second[2 * r + 1][u][e];
                w.dx[0][r][2 * u + e] += (t / 2 ? b : a) + __shfl_xor_sync(~0u, t / 2 ? a : b, 2);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++) { /* two apart in group 4 h + t */
            const int group = 4 * h + t;
            const uint2 four = w.halves[group * BACK_TOKENS + w.row + 8 * u];
            float *to = w.gathered + 4 * group * GATHER_LD + w.row + 8 * u;
            const float g0 = sums.common[h][6][2 * u], g1 = sums.common[h][6][2 * u + 1];
            to[0] += g0 * low_of(four.y), to[GATHER_LD] += g1 * high_of(four.y);
            to[2 * GATHER_LD] += g0 * low_of(four.x), to[3 * GATHER_LD] += g1 * high_of(four.x);
        }
    }
    __syncwarp();
}

template <int side>
__device__ __forceinline__ void contract_pairs(back_warp<4, side> &w, const pair_back_stream &s)
{
    const bool late = __shfl_sync(~0u, (int)threadIdx.x / 128, 0) != 0;
    uint32_t common[PAIR_BACK_HALF][4];
    take_common<side>(w, common);
    pair_back_sums<side> sums = {};
#pragma unroll 1
    for (int c = 0; c < PAIR_GROUPS; c++) {
        pair_back_rows rows;
        rows.take(w, c);
        uint32_t twice_x[4][2], two_x[2]; /* elements 2 (t % 2), 2 (t % 2) + 1 */
        float x[4][2];
        row_pair<1> given[4];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint2 four = w.halves[c * BACK_TOKENS + w.row + 8 * u];
            two_x[u] = w.lane % 2 ? four.y : four.x;
            twice_x[0][u] = __byte_perm(four.x, 0, 0x1010);
            twice_x[1][u] = __byte_perm(four.x, 0, 0x3232);
            twice_x[2][u] = __byte_perm(four.y, 0, 0x1010);
            twice_x[3][u] = __byte_perm(four.y, 0, 0x3232);
#pragma unroll
            for (int l = 0; l < 4; l++) x[l][u] = high_of(twice_x[l][u]);
        }
        barrier_wait(s.come(2 * c), s.parity(2 * c));
        barrier_wait(s.come(2 * c + 1), s.parity(2 * c + 1));
        /* The second warpgroup begins with the other half: so one multiplies on the tensor cores
         * while the other does not. */
#pragma unroll 1
        for (int step = 0; step < 2; step++) {
            if ((step != 0) == late) {
                pair_last<side, 0>(w, s, c, common, rows, x, given);
                pair_last<side, 1>(w, s, c, common, rows, x, given);
                w.give_half(c, given);
            } else {
                pair_first_two<side>(w, s, c, rows, twice_x, two_x, sums);
            }
            if (step == 0 && threadIdx.x == 0 && c > 0) { /* where part c - 1 was */
                s.fetch(2 * c + 2);
                s.fetch(2 * c + 3);
                if (side == BACK_QUERIES && c == PAIR_GROUPS - 1) s.get_late_slopes();
            }
            __syncwarp();
        }
        turn(sums);
        if (w.lane == 0) barrier_arrive(s.done(2 * c)), barrier_arrive(s.done(2 * c + 1));
    }
    take_back_pairs<side>(w, sums);
}

#endif

} // namespace lnt
#endif
