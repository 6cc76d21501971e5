/* cuda/orbits/orbits_answer.cuh - the parts of orbits_answer.cu and orbits_walk.cu: monomials of the
 * queries, the state as the products take it, keys one by one, rows out. */
#ifndef LNT_CUDA_ORBITS_ANSWER_CUH
#define LNT_CUDA_ORBITS_ANSWER_CUH

#include "cuda/orbits/orbits.cuh"

namespace lnt
{

/* ---- the state in shared memory -------------------------------------------------------------- */

/* Where the pair of monomials 2 t, 2 t + 1 of half h of sixteen i stands, column 8 n + g: lane by
 * lane where each warp multiplies alone, else as product.cuh has it.  With one block of columns z
 * stands once, and every column of its tile is the denominator; there a sixteen takes 72 pairs, as
 * the sums of its orbits do (orbits_walk.cu). */
template <class S> __device__ __forceinline__ int word_at(int i, int n, int h, int lane)
{
    if (S::X == 1) return (i * 72 + (n ? 32 + lane % 4 : lane)) * 2 + h;
    return !S::TOGETHER ? (i * 32 + lane) * 2 * S::N8 + 2 * n + h
                        : ((i * S::N8 + n) * 2 + h) * 32 + lane;
}

/* Orbit o > 0 of block b is half `half` of sixteen `sixteen`. */
template <class S> __device__ __forceinline__ constexpr int sixteen(int o, int b)
{
    return S::X == 1 ? (o - 1) / 2 : (o - 1) * (S::X / 2) + b / 2;
}
template <class S> __device__ __forceinline__ constexpr int half(int o, int b)
{
    return S::X == 1 ? (o - 1) % 2 : b % 2;
}

template <class S> __device__ __forceinline__ void clear_state(uint32_t *state, int id, int threads)
{
    for (int i = id; i < S::STATE_BYTES / 4; i += threads) state[i] = 0;
}

/* From the accumulators, times the coefficients; degree 0 in f32. */
template <class S, int PART>
__device__ __forceinline__ void round_part(const orbits_args &a, orbits_state<S> &s,
                                           uint32_t *state, float *mean, const orbits_team<S> &w)
{
    constexpr orbits<S::D, S::terms> all = {};
    const int g = w.lane / 4, t = w.lane % 4;
#pragma unroll
    for (int k = 0; k < S::OWN; k++)
#pragma unroll
        for (int b = 0; b < S::BLOCKS; b++) {
            constexpr int first = PART * S::OWN;
            const int o = first + k < S::T ? first + k : 0;
            if (first + k >= S::T) continue;
            const float factor = a.coefficient[all.list[o].degree] * (float)all.list[o].times;
            if (o == 0) {
                if (t == 0 && w.block + b == 0)
                    s.each(k, b, w.lane, [&](int c, float x, float) { mean[c] = x * factor; });
                if (w.lane / 4 == 0 && w.block + b == 0)
                    s.each_z(k, b, w.lane, [&](float x) { mean[S::D] = x * factor; });
                continue;
            }
            const int i = sixteen<S>(o, w.block + b), h = half<S>(o, w.block + b);
            s.each(k, b, w.lane, [&](int c, float x, float y) {
                state[word_at<S>(i, c / 8, h, c % 8 * 4 + t)] = pack(x * factor, y * factor);
            });
            s.each_z(k, b, w.lane, [&](float x) {
                ((__nv_bfloat16 *)(state + word_at<S>(i, S::X, h, g / 2)))[g % 2] =
                    __float2bfloat16_rn(x * factor);
            });
        }
}

template <class S, int PART = 0>
__device__ __forceinline__ void round_state(const orbits_args &a, orbits_state<S> &s,
                                            uint32_t *state, float *mean, const orbits_team<S> &w)
{
    if (w.part == PART) round_part<S, PART>(a, s, state, mean, w);
    if constexpr (PART + 1 < S::PARTS)
        if (w.part > PART) round_state<S, PART + 1>(a, s, state, mean, w);
}

/* On the device, for places that are not known when compiled. */
template <int d, int terms> __constant__ const orbits<d, terms> orbits_table;

/* From memory, by all threads of the block. */
template <class S>
__device__ __forceinline__ void take_state(const orbits_args &a, const float *from, uint32_t *state,
                                           float *mean)
{
    const orbit *list = orbits_table<S::D, S::terms>.list;
    for (int k = (int)threadIdx.x; k < (S::T - 1) * S::X * S::N8 * 32; k += (int)blockDim.x) {
        const int lane = k % 32, n = k / 32 % S::N8, b = k / 32 / S::N8 % S::X,
                  o = k / 32 / S::N8 / S::X + 1, c = 8 * n + lane / 4;
        if (c > S::D) continue;
        const float2 two =
            *(const float2 *)(from + ((o * S::X + b) * (S::D + 1) + c) * 8 + lane % 4 * 2);
        const float factor = a.coefficient[list[o].degree] * (float)list[o].times;
        state[word_at<S>(sixteen<S>(o, b), n, half<S>(o, b), lane)] =
            pack(two.x * factor, two.y * factor);
    }
    for (int c = (int)threadIdx.x; c <= S::D; c += (int)blockDim.x)
        mean[c] = from[c * 8] * a.coefficient[0];
}

/* ---- queries --------------------------------------------------------------------------------- */

/* 16 queries as a warp's lanes hold them: x[u][s] is elements 2 t + s and 2 t + 1 + s of row g + 8
 * u, indices mod D. */
template <class S> struct orbits_queries {
    uint32_t x[2][S::D];

    __device__ __forceinline__ void take(const char *rows, int lane)
    {
        constexpr int WORDS = S::D / 2;
        const unsigned t = (unsigned)lane % 4;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint32_t *row = (const uint32_t *)(rows + (lane / 4 + 8 * u) * S::LD);
#pragma unroll
            for (int i = 0; i < WORDS; i++) x[u][2 * i] = row[(t + (unsigned)i) % WORDS];
#pragma unroll
            for (int i = 0; i < WORDS; i++)
                x[u][2 * i + 1] = __byte_perm(x[u][2 * i], x[u][(2 * i + 2) % S::D], 0x5432);
        }
    }
    __device__ __forceinline__ uint32_t feature(int u, int o, int b) const
    {
        constexpr orbits<S::D, S::terms> all = {};
        if (o >= S::T) return 0;
        const orbit w = all.list[o < S::T ? o : 0];
        uint32_t f = x[u][8 * b];
        if (w.degree == 3) f = multiply(f, x[u][(8 * b + w.s) % S::D]);
        if (w.degree >= 2) f = multiply(f, x[u][(8 * b + w.t) % S::D]);
        return f;
    }
    /* A of sixteen i. */
    __device__ __forceinline__ void features(int i, uint32_t (&a)[4]) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int o = S::X == 1 ? 2 * i + 1 + h : i / (S::X == 1 ? 1 : S::X / 2) + 1;
            const int b = S::X == 1 ? 0 : i % (S::X == 1 ? 1 : S::X / 2) * 2 + h;
            a[2 * h] = feature(0, o, b), a[2 * h + 1] = feature(1, o, b);
        }
    }
};

/* out += phi(q) x state, of 16 R queries. */
template <class S, int R>
__device__ __forceinline__ void read_state(const uint32_t *state, const orbits_queries<S> (&q)[R],
                                           float (&out)[R][S::N8][4], int lane)
{
    if constexpr (!S::TOGETHER) {
#pragma unroll
        for (int i = 0; i < S::K16; i++) {
            uint2 b[S::N8];
#pragma unroll
            for (int n = 0; n < S::N8; n++)
                b[n] = *(const uint2 *)(state + word_at<S>(i, n, 0, lane));
#pragma unroll
            for (int r = 0; r < R; r++) {
                uint32_t x[4];
                q[r].features(i, x);
#pragma unroll
                for (int n = 0; n < S::N8; n++) mma16(out[r][n], x, b[n].x, b[n].y);
            }
        }
    } else {
        const operand b = operand_at((const char *)state, 128, 256);
#pragma unroll
        for (int i = 0; i < S::K16; i++) {
            uint32_t x[R][4];
#pragma unroll
            for (int r = 0; r < R; r++) q[r].features(i, x[r]);
            product_begin();
#pragma unroll
            for (int r = 0; r < R; r++)
                product<S::N8>(out[r], x[r], operand_plus(b, i * S::N8 * 256));
            product_commit();
            product_wait<1>();
        }
        product_wait<0>();
    }
}

/* ---- keys one by one ------------------------------------------------------------------------- */

/* 16 keys as B of the scores: k[m][b], keys 8 m, elements 8 b. */
template <class S>
__device__ __forceinline__ void take_keys(const char *keys, int token, int lane,
                                          uint32_t (&k)[2][S::X])
{
    if constexpr (S::X == 1) {
        load_two(k[0][0], k[1][0], shared_address(keys + (token + lane % 16) * S::LD));
    } else {
#pragma unroll
        for (int p = 0; p < S::X; p += 2) {
            uint32_t four[4];
            load_matrices(four, shared_address(keys + (token + lane / 16 * 8 + lane % 8) * S::LD +
                                               (p + lane / 8 % 2) * 16));
            k[0][p] = four[0], k[0][p + 1] = four[1], k[1][p] = four[2], k[1][p + 1] = four[3];
        }
    }
}

template <class S> __device__ __forceinline__ float orbits_weight(const orbits_args &a, float x)
{
    float y = a.coefficient[2];
    if (S::terms == 4) y = fmaf(a.coefficient[3], x, y);
    return fmaf(fmaf(y, x, a.coefficient[1]), x, a.coefficient[0]);
}

/* out += w(q.k) [v, 1] over 16 keys; last: they are the queries' own, each sees those up to it. */
template <class S, bool last>
__device__ __forceinline__ void
weigh_keys(const orbits_args &a, const orbits_queries<S> &q, const uint32_t (&k)[2][S::X],
           const uint32_t (&v)[S::M16][4], float (&out)[S::N8][4], int lane)
{
    const int g = lane / 4, t = lane % 4;
    const uint32_t one = S::X == 1 || g == 0 ? 0x3f803f80u : 0;
    float s[2][4] = {};
#pragma unroll
    for (int m = 0; m < 2; m++)
        if constexpr (S::X == 1) {
            mma8(s[m], q.x[0][0], q.x[1][0], k[m][0]);
        } else {
#pragma unroll
            for (int p = 0; p < S::X; p += 2) {
                const uint32_t x[4] = { q.x[0][8 * p], q.x[1][8 * p], q.x[0][8 * p + 8],
                                        q.x[1][8 * p + 8] };
                mma16(s[m], x, k[m][p], k[m][p + 1]);
            }
        }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[m][e] = orbits_weight<S>(a, s[m][e]);
            if (last && 8 * m + 2 * t + e % 2 > g + e / 2 * 8) s[m][e] = 0;
        }
    const uint32_t p[4] = { pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]),
                            pack(s[1][2], s[1][3]) };
#pragma unroll
    for (int n = 0; n < S::X; n++) mma16(out[n], p, v[n / 2][n % 2], v[n / 2][n % 2 + 2]);
    mma16(out[S::X], p, one, one);
}

/* Over the keys of the chunk up to each query; tile[r]: which 16 of it the queries r are,
 * ascending; V: how the values stand.
 */
template <class S, int R, class V = S>
__device__ __forceinline__ void read_keys(const orbits_args &a, const char *keys,
                                          const char *values, const orbits_queries<S> (&q)[R],
                                          const int (&tile)[R], float (&out)[R][S::N8][4], int lane)
{
    uint32_t k[2][S::X], v[S::M16][4];
#pragma unroll 1
    for (int block = 0; block < tile[0]; block++) {
        take_keys<S>(keys, 16 * block, lane, k);
        take_values<V>(values, 16 * block, lane, v);
#pragma unroll
        for (int r = 0; r < R; r++) weigh_keys<S, false>(a, q[r], k, v, out[r], lane);
    }
#pragma unroll
    for (int r = 0; r < R; r++) { /* tile[r] = tile[0] + r where R > 1 */
        take_keys<S>(keys, 16 * tile[r], lane, k);
        take_values<V>(values, 16 * tile[r], lane, v);
        weigh_keys<S, true>(a, q[r], k, v, out[r], lane);
#pragma unroll
        for (int after = r + 1; after < R; after++)
            weigh_keys<S, false>(a, q[after], k, v, out[after], lane);
    }
}

/* ---- rows out -------------------------------------------------------------------------------- */

__device__ __forceinline__ float reciprocal_of_normal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 0 where there is none. */
__device__ __forceinline__ float reciprocal(float x)
{
    return fabsf(x) >= 0x1p-126f ? reciprocal_of_normal(x) : 0.0f;
}

/* Of row g + 8 u, without degree 0: lane 0 of the quad has it. */
template <class S>
__device__ __forceinline__ float denominator(const float (&out)[S::N8][4], int u, int lane)
{
    const float own = out[S::X][2 * u];
    return S::X == 1 ? own : __shfl_sync(~0u, own, lane & ~3);
}

/* 16 rows, all of them there, by pairs of columns.  mean: degree 0, or NULL where out has it. */
template <class S>
__device__ __forceinline__ void write_plainly(const orbits_args &a, uint32_t *to, int stride,
                                              const float *mean, const float (&out)[S::N8][4],
                                              int lane)
{
    const float count = mean ? mean[S::D] : 0.0f, den[2] = { denominator<S>(out, 0, lane) + count,
                                                             denominator<S>(out, 1, lane) + count };
    if (!(divides(den[0]) && divides(den[1])) && lane % 4 == 0)
        atomicAdd(a.nonpositive, (unsigned long long)!divides(den[0]) + !divides(den[1]));
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const float factor = reciprocal(den[u]);
#pragma unroll
        for (int c = 0; c < S::X; c++) {
            const float2 m =
                mean ? *(const float2 *)(mean + 8 * c + lane % 4 * 2) : make_float2(0, 0);
            to[u * 4 * stride + 4 * c] =
                pack((out[c][2 * u] + m.x) * factor, (out[c][2 * u + 1] + m.y) * factor);
        }
    }
}

/* 16 rows from query `first` on, which may be before the first or past the last. */
template <class S>
__device__ __forceinline__ void write_rows(const orbits_args &a, const orbits_sequence &n,
                                           int64_t h, int64_t first, bool pairs, const float *mean,
                                           const float (&out)[S::N8][4], int lane)
{
    const int t = lane % 4;
    if (pairs && first >= 0 && first + 16 <= n.queries) {
        const int stride = (int)a.out.stride[2]; /* 8 rows are 4 strides of words */
        write_plainly<S>(a,
                         (uint32_t *)((__nv_bfloat16 *)a.out.data + row_of(a.out, n.b, h, first)) +
                             lane / 4 * (stride / 2) + t,
                         stride, mean, out, lane);
        return;
    }
    hide(first);
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t i = first + lane / 4 + 8 * u;
        const float den = denominator<S>(out, u, lane) + (mean ? mean[S::D] : 0.0f);
        const int64_t seen = a.causal ? min(n.keys, i + n.past + 1) : n.keys;
        const bool in = i >= 0 && i < n.queries && (seen > 0 || a.s_in);
        float factor = in ? reciprocal(den) : 0.0f;
        if (in && a.output_norm) factor *= sqrtf((float)seen / (float)a.dim);
        if (in && t == 0 && !divides(den)) atomicAdd(a.nonpositive, 1ull);
        if (i < 0 || i >= a.length_q) continue;
        const int64_t row = row_of(a.out, n.b, h, i);
#pragma unroll
        for (int c = 0; c < S::X; c++) {
            const int column = 8 * c + 2 * t;
            const float y0 = (out[c][2 * u] + (mean ? mean[column] : 0.0f)) * factor,
                        y1 = (out[c][2 * u + 1] + (mean ? mean[column + 1] : 0.0f)) * factor;
            const int64_t at = row + column * a.out.stride[3];
            if (column < a.dim_value) store(a.out, at, y0);
            if (column + 1 < a.dim_value) store(a.out, at + a.out.stride[3], y1);
        }
    }
}

/* Whether rows of y go out as they are in the accumulators. */
__device__ __forceinline__ bool writes_pairs(const orbits_args &a)
{
    return is_wide(a.out, a.dim_value) && a.dim_value == 8 * a.width && !a.output_norm &&
           a.out.stride[2] < 1 << 24;
}

/* Queries before the first key see nothing. */
template <class S>
__device__ __forceinline__ void clear_rows(const orbits_args &a, int64_t head, int id)
{
    const orbits_sequence n(a, head);
    const int64_t rows = min(-n.past, a.length_q), group = a.heads / a.kv_heads;
    for (int64_t i = id; i < rows * group * a.dim_value; i += S::THREADS)
        store(a.out,
              row_of(a.out, n.b, n.kv * group + i / a.dim_value / rows, i / a.dim_value % rows) +
                  i % a.dim_value * a.out.stride[3],
              0.0f);
}

} // namespace lnt
#endif
