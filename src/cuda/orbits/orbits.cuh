/* cuda/orbits/orbits.cuh - the parts of orbits_sum.cu and orbits_answer.cu: rows in shared memory, keys
 * turned over, and the state
 *
 *     S [column of (v, 1)][monomial] = sum over tokens of [v, 1]^T phi(k)
 *
 * in the accumulators of the tensor cores.  A team of warps has a sequence of chunks: one warp
 * where it can hold all monomials, else four or eight that share them. */
#ifndef LNT_CUDA_ORBITS_CUH
#define LNT_CUDA_ORBITS_CUH

#include "cuda/common/product.cuh"
#include "cuda/orbits/orbits.h"
#include "cuda/orbits/orbits_basis.h"

namespace lnt
{

template <int X_, int terms_, int warps = 0> struct orbits_shape {
    static constexpr int X = X_, terms = terms_, D = 8 * X, N8 = X + 1;
    static constexpr int WARPS = warps                  ? warps
                                 : X == 4               ? 8
                                 : X == 1 || terms == 3 ? 1
                                                        : 4;               /* of a team */
    static constexpr int TEAMS = WARPS == 1 ? 4 : 1, THREADS = 32 * WARPS; /* of a block; a team */
    static constexpr bool TOGETHER = WARPS > 1; /* four warps multiply together: product.cuh */
    static constexpr int T = orbits<D, terms>().count;
    /* Of a warp: blocks of 8 members, and orbits; warps that share a block's orbits. */
    static constexpr int BLOCKS = WARPS == 1 ? X : 1, PARTS = WARPS == 1 ? 1 : WARPS / X;
    static constexpr int OWN = (T + PARTS - 1) / PARTS;
    static constexpr int M16 = (X + 1) / 2; /* 16 columns at a time */
    static constexpr int Z16 = X == 1 ? 1 : (OWN * BLOCKS + 15) / 16;
    static constexpr int CHUNK = WARPS == 1 ? 64 : 128;
    static constexpr int R = WARPS == 1 ? 2 : 1; /* 16 R queries at a time */
    /* Bytes of a row in shared memory, so that no bank comes twice, and between its blocks of 8. */
    static constexpr int LD = X == 1 ? 16 : 16 * X + 16, PLANE = 16;
    static constexpr int ROWS_BYTES = CHUNK * LD, TURNED_BYTES = CHUNK / 16 * 2 * D * 32;
    /* Monomials to read, 16 at a time: two orbits, or two blocks of one; degree 0 apart. */
    static constexpr int K16 = X == 1 ? T / 2 : (T - 1) * X / 2;
    static constexpr int STATE_BYTES = K16 * (X == 1 ? 576 : N8 * 256),
                         MEAN_BYTES = (8 * X + 8) * 4;
    static constexpr int SUMS = T * X * 8 * (8 * X + 1); /* [orbit][block][column][8] floats */
};

/* ---- barriers of some of a block's warps ----------------------------------------------------- */

/* Number `barrier`, of so many threads: each comes to tell, or to wait until all have come. */
#ifndef LNT_RACECHECK

/* By one thread, before any comes. */
__device__ __forceinline__ void warps_begin(int, int) {}

__device__ __forceinline__ void warps_wait(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void warps_tell(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

#else

/* The same for compute-sanitizer, which follows these barriers and not bar.arrive:
 * docs/log/gpu-tuning.md. */
__device__ __forceinline__ uint32_t warps_barrier(int barrier)
{
    __shared__ __align__(8) uint64_t all[16];
    return shared_address(all + barrier);
}

__device__ __forceinline__ void warps_begin(int barrier, int threads)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(warps_barrier(barrier)), "r"(threads)
                 : "memory");
}

__device__ __forceinline__ uint64_t warps_come(int barrier)
{
    uint64_t phase;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];"
                 : "=l"(phase)
                 : "r"(warps_barrier(barrier))
                 : "memory");
    return phase;
}

__device__ __forceinline__ void warps_wait(int barrier, int)
{
    const uint64_t phase = warps_come(barrier);
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(warps_barrier(barrier)), "l"(phase)
                     : "memory");
    } while (!done);
    __syncwarp();
}

__device__ __forceinline__ void warps_tell(int barrier, int) { warps_come(barrier); }

#endif

/* ---- a team ---------------------------------------------------------------------------------- */

template <class S> struct orbits_team {
    int id, lane, warp; /* in the team */
    int block, part;    /* of this warp */
    __device__ __forceinline__ orbits_team()
    {
        /* unsigned: or every one of them costs a correction for negative numbers */
        id = (int)(threadIdx.x % S::THREADS), lane = (int)(threadIdx.x % 32u);
        warp = (int)(threadIdx.x % S::THREADS / 32u);
        block = S::WARPS == 1 ? 0 : warp % S::X, part = S::WARPS == 1 ? 0 : warp / S::X;
    }
    __device__ __forceinline__ int number() const
    {
        return S::TEAMS == 1 ? 0 : (int)(threadIdx.x / S::THREADS);
    }
    __device__ __forceinline__ void sync() const
    {
        if (S::WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    }
};

struct orbits_sequence {
    int64_t b, kv, queries, keys, past;
    __device__ orbits_sequence(const orbits_args &a, int64_t head)
    {
        b = head / a.kv_heads, kv = head % a.kv_heads;
        queries = a.lengths_q ? a.lengths_q[b] : a.length_q;
        keys = a.lengths_k ? a.lengths_k[b] : a.length_k;
        past = keys - queries;
    }
};

/* A position near enough to 0 for an int. */
__device__ __forceinline__ int near(int64_t position)
{
    return (int)min(max(position, (int64_t) - (1 << 30)), (int64_t)1 << 30);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is computed of x after this is not computed before: for what is hardly ever taken, whose
 * addresses the compiler would otherwise have ready in every turn of a loop. */
__device__ __forceinline__ void hide(int64_t &x) { asm volatile("" : "+l"(x)); }
/* And what it was computed of need not be kept, to compute it again. */
__device__ __forceinline__ void hide(int &x) { asm volatile("" : "+r"(x)); }

/* Rows skip ... there - 1 of `rows`, the first of which would be at row0; zeros elsewhere. */
template <class S>
__device__ __forceinline__ void fetch_here(const view &x, int64_t row0, int rows, int skip,
                                           int64_t there, int width, char *to, int id, int threads)
{
#pragma unroll 1
    for (int w = id; w < rows * S::D; w += threads) {
        const int row = w / S::D, i = w % S::D;
        const bool in = row >= skip && row < there && i < width;
        *(__nv_bfloat16 *)(to + row * S::LD + i / 8 * S::PLANE + i % 8 * 2) =
            __float2bfloat16_rn(in ? load(x, row0 + row * x.stride[2] + i * x.stride[3]) : 0.0f);
    }
}
template <class S>
__device__ __noinline__ void fetch_slowly(const view &x, int64_t row0, int rows, int skip,
                                          int64_t there, int width, char *to, int id, int threads)
{
    fetch_here<S>(x, row0, rows, skip, there, width, to, id, threads);
}

/* The same, 16 bytes at a time where all of it is there. */
template <class S, int rows, int threads>
__device__ __forceinline__ void fetch(const view &x, int64_t row0, int skip, int64_t there,
                                      int width, bool wide, char *to, int id)
{
    if (!wide || skip > 0 || there < rows) {
        hide(row0), hide(there);
        fetch_slowly<S>(x, row0, rows, skip, there, width, to, id, threads);
        return;
    }
    const int piece = id % S::X, row = id / S::X;
    const char *from = (const char *)((const __nv_bfloat16 *)x.data + row0 + row * x.stride[2]);
    const uint32_t at = shared_address(to + row * S::LD + piece * S::PLANE);
    const int64_t step = threads / S::X * x.stride[2] * 2;
#pragma unroll
    for (int i = 0; i < rows * S::X / threads; i++)
        copy16(at + i * (threads / S::X) * S::LD, from + piece * 16 + i * step);
}

/* A tensor that is fetched so many rows at a time, rows of `width` elements. */
template <class S, int rows, int threads> struct orbits_source {
    const view &x;
    int width;
    bool wide;
    __device__ __forceinline__ orbits_source(const view &x_, int width_)
        : x(x_), width(width_), wide(is_wide(x_, width_) && width_ == S::D)
    {
    }
    /* Those from `row` of a head on, of which skip ... there - 1 are there. */
    __device__ __forceinline__ void get(int64_t b, int64_t h, int64_t row, int skip, int64_t there,
                                        char *to, int id) const
    {
        fetch<S, rows, threads>(x, row_of(x, b, h, row), skip, there, width, wide, to, id);
    }
};

/* Rows divided by their lengths, at least 1e-12, times factor. */
template <class S>
__device__ __forceinline__ void normalize_rows(char *rows, int count, float factor, int id,
                                               int threads)
{
    for (int row = id; row < count; row += threads) {
        uint4 *at = (uint4 *)(rows + row * S::LD);
        uint4 x[S::X];
        float sum = 0;
#pragma unroll
        for (int i = 0; i < S::X; i++) {
            x[i] = at[i];
            const uint32_t two[4] = { x[i].x, x[i].y, x[i].z, x[i].w };
#pragma unroll
            for (int k = 0; k < 4; k++) {
                sum = fmaf(low_of(two[k]), low_of(two[k]), sum);
                sum = fmaf(high_of(two[k]), high_of(two[k]), sum);
            }
        }
        const float by = factor * rsqrtf(fmaxf(sum, 1e-24f));
#pragma unroll
        for (int i = 0; i < S::X; i++) {
            uint32_t two[4] = { x[i].x, x[i].y, x[i].z, x[i].w };
#pragma unroll
            for (int k = 0; k < 4; k++) two[k] = pack(low_of(two[k]) * by, high_of(two[k]) * by);
            at[i] = make_uint4(two[0], two[1], two[2], two[3]);
        }
    }
}

/* Keys as [16 tokens][element, and again][t][the pairs 2 t and 8 + 2 t]: what lane 4 g + t reads
 * at 8 t of row g + s is element g + s of its four tokens. */
template <class S>
__device__ __forceinline__ void turn_keys(const char *keys, char *turned, const orbits_team<S> &w)
{
    constexpr int UNITS = S::CHUNK / 16 * S::X;
    const int g = w.lane / 4, t = w.lane % 4, i = w.lane / 8;
#pragma unroll
    for (int u = 2 * w.warp; u < UNITS; u += 2 * S::WARPS) {
        const int mine = u + i / 2;
        uint32_t r[4];
        load_matrices_transposed(
            r, shared_address(keys + (mine / S::X * 16 + i % 2 * 8 + w.lane % 8) * S::LD +
                              mine % S::X * 16));
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int unit = u + k;
            char *to = turned + unit / S::X * 2 * S::D * 32 + (unit % S::X * 8 + g) * 32 + t * 8;
            const uint2 two = make_uint2(r[2 * k], r[2 * k + 1]);
            *(uint2 *)to = two;
            *(uint2 *)(to + S::D * 32) = two;
        }
    }
}

/* The values of 16 tokens: [v, 1]^T as A, and v as B (columns 8 n: v[n / 2][n % 2] and [n % 2 +
 * 2]).
 */
template <class S>
__device__ __forceinline__ void take_values(const char *values, int token, int lane,
                                            uint32_t (&v)[S::M16][4])
{
    if constexpr (S::X == 1) {
        const uint32_t one = lane / 4 == 0 ? 0x3f803f80u : 0;
        load_two_transposed(v[0][0], v[0][2], shared_address(values + (token + lane % 16) * S::LD));
        v[0][1] = v[0][3] = one;
    } else {
#pragma unroll
        for (int r = 0; r < S::M16; r++)
            load_matrices_transposed(
                v[r], shared_address(values + (token + lane / 16 * 8 + lane % 8) * S::LD +
                                     (2 * r + lane / 8 % 2) * S::PLANE));
    }
}

/* ---- the state ------------------------------------------------------------------------------- */

/* S of this warp's monomials.  With one block of columns the ones are row 8 of the A operand; with
 * more z has accumulators of its own: there the monomials are A, those of two tiles (an orbit and
 * block each) its rows, and each pair of tiles has a column. */
template <class S> struct orbits_state {
    float s[S::OWN][S::BLOCKS][S::M16][4];
    float z[S::Z16][4];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int o = 0; o < S::OWN; o++)
#pragma unroll
            for (int b = 0; b < S::BLOCKS; b++)
#pragma unroll
                for (int r = 0; r < S::M16; r++)
#pragma unroll
                    for (int e = 0; e < 4; e++) s[o][b][r][e] = 0;
#pragma unroll
        for (int k = 0; k < S::Z16; k++) z[k][0] = z[k][1] = z[k][2] = z[k][3] = 0;
    }

    /* f(column, x, y): the numbers of this lane in orbit o, block b, members 2 t and 2 t + 1; z is
     * among them only where there is one block of columns. */
    template <class F> __device__ __forceinline__ void each(int o, int b, int lane, const F &f)
    {
        const int g = lane / 4;
#pragma unroll
        for (int r = 0; r < S::M16; r++) {
            f(16 * r + g, s[o][b][r][0], s[o][b][r][1]);
            if (S::X > 1)
                f(16 * r + 8 + g, s[o][b][r][2], s[o][b][r][3]);
            else if (g == 0)
                f(8, s[o][b][r][2], s[o][b][r][3]);
        }
    }
    /* f(x): z of member g, where this lane has it. */
    template <class F> __device__ __forceinline__ void each_z(int o, int b, int lane, const F &f)
    {
        const int tile = o * S::BLOCKS + b, column = tile / 2 % 8;
        if (S::X > 1 && lane % 4 == column / 2) f(z[tile / 16][tile % 2 * 2 + column % 2]);
    }
    __device__ __forceinline__ void load(const float *from, const orbits_team<S> &w)
    {
        clear();
#pragma unroll
        for (int o = 0; o < S::OWN; o++)
#pragma unroll
            for (int b = 0; b < S::BLOCKS; b++) {
                const int orbit = w.part * S::OWN + o;
                if (orbit >= S::T) continue;
                const float *at = from + (orbit * S::X + w.block + b) * 8 * (S::D + 1);
                each(o, b, w.lane, [&](int column, float &x, float &y) {
                    const float2 two = *(const float2 *)(at + column * 8 + w.lane % 4 * 2);
                    x = two.x, y = two.y;
                });
                each_z(o, b, w.lane, [&](float &x) { x = at[S::D * 8 + w.lane / 4]; });
            }
    }
    __device__ __forceinline__ void store(float *to, const orbits_team<S> &w)
    {
#pragma unroll
        for (int o = 0; o < S::OWN; o++)
#pragma unroll
            for (int b = 0; b < S::BLOCKS; b++) {
                const int orbit = w.part * S::OWN + o;
                if (orbit >= S::T) continue;
                float *at = to + (orbit * S::X + w.block + b) * 8 * (S::D + 1);
                each(o, b, w.lane, [&](int column, float x, float y) {
                    *(float2 *)(at + column * 8 + w.lane % 4 * 2) = make_float2(x, y);
                });
                each_z(o, b, w.lane, [&](float x) { at[S::D * 8 + w.lane / 4] = x; });
            }
    }

    /* Orbit o of block b, for 16 tokens: B of the products. */
    static __device__ __forceinline__ void feature(const uint2 (&x)[S::D], int o, int b, uint2 &f)
    {
        constexpr orbits<S::D, S::terms> all = {};
        const orbit w = all.list[o < S::T ? o : 0];
        const uint2 first = x[8 * b];
        f = make_uint2(0x3f803f80u, 0x3f803f80u);
        if (w.degree > 0) f = first;
        if (w.degree == 2) {
            const uint2 y = x[(8 * b + w.t) % S::D];
            f = make_uint2(multiply(f.x, y.x), multiply(f.y, y.y));
        }
        if (w.degree == 3) {
            const uint2 y = x[(8 * b + w.s) % S::D], c = x[(8 * b + w.t) % S::D];
            f = make_uint2(multiply(f.x, y.x), multiply(f.y, y.y));
            f = make_uint2(multiply(f.x, c.x), multiply(f.y, c.y));
        }
    }

    /* += 16 tokens; turned: theirs, at this warp's block. */
    template <int PART>
    __device__ __forceinline__ void add16(const char *turned, const uint32_t (&v)[S::M16][4],
                                          int lane)
    {
        uint2 x[S::D];
#pragma unroll
        for (int i = 0; i < S::D; i++)
            x[i] = *(const uint2 *)(turned + (lane / 4 + i) * 32 + lane % 4 * 8);
        constexpr int LEFT = S::T - PART * S::OWN,
                      TILES = (LEFT < S::OWN ? LEFT : S::OWN) * S::BLOCKS;
        uint32_t even = 0; /* the tokens of the tile before, two and two together */
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const int o = tile / S::BLOCKS, b = tile % S::BLOCKS;
            uint2 f;
            feature(x, PART * S::OWN + o, b, f);
#pragma unroll
            for (int r = 0; r < S::M16; r++) mma16(s[o][b][r], v[r], f.x, f.y);
            if (S::X == 1) continue;
            const uint32_t both = add_pairs(f.x, f.y);
            const uint32_t one = lane / 4 == tile / 2 % 8 ? 0x3f803f80u : 0;
            if (tile % 2)
                mma8(z[tile / 16], even, both, one);
            else if (tile + 1 == TILES)
                mma8(z[tile / 16], both, 0, one);
            else
                even = both;
        }
    }
    template <int PART>
    __device__ __forceinline__ void add_part(const char *turned, const char *values, int there,
                                             const orbits_team<S> &w)
    {
#pragma unroll 1
        for (int k = 0; k < there; k += 16) {
            uint32_t v[S::M16][4];
            take_values<S>(values, k, w.lane, v);
            add16<PART>(turned + k / 16 * 2 * S::D * 32 + w.block * 8 * 32, v, w.lane);
        }
        /* Rows past the end are 0, and so is all but degree 0 of them. */
        const float less = (float)((16 - there % 16) % 16);
        if (PART == 0 && S::X == 1 && w.lane / 4 == 0) s[0][0][0][2] -= less, s[0][0][0][3] -= less;
#pragma unroll
        for (int b = 0; b < S::BLOCKS && PART == 0; b++)
            each_z(0, b, w.lane, [&](float &x) { x -= less; });
    }
    /* += `there` tokens of a chunk. */
    template <int PART = 0>
    __device__ __forceinline__ void add(const char *turned, const char *values, int there,
                                        const orbits_team<S> &w)
    {
        if (w.part == PART) add_part<PART>(turned, values, there, w);
        if constexpr (PART + 1 < S::PARTS)
            if (w.part > PART) add<PART + 1>(turned, values, there, w);
    }
};

} // namespace lnt
#endif
