/* cuda/linear_back_keys.cu - of the gradients of linear attention (linear_backward.cu) those of the
 * keys and values, from the last chunk of a segment to the first. */
#include "cuda/linear_backward.cuh"

namespace lnt
{

/* dv of 16 keys: phi(k) R, and within the chunk weights times dout. */
template <int X> struct value_rows {
    rows16<X> k; /* phi(k) */
    float acc[X][4];

    __device__ __forceinline__ void read_state(const __nv_bfloat16 *keys, int own, int lane,
                                               const __nv_bfloat16 *state, const float *ones,
                                               const float (&left)[2], int map, int dim)
    {
        const float plus = map_offset(map);
        float sum[2] = { 0, 0 };
        k.load(keys, lane, own / 16 * 16);
#pragma unroll
        for (int c = 0; c < X; c++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                const int column = 8 * c + 2 * (lane % 4);
                uint32_t &x = k.at(c, u);
                const float f0 = column < dim ? map_psi(map, low_of(x)) + plus : 0.0f,
                            f1 = column + 1 < dim ? map_psi(map, high_of(x)) + plus : 0.0f;
                x = pack(f0, f1), sum[u] += f0 + f1;
                acc[c][2 * u] = acc[c][2 * u + 1] = 0;
            }
#pragma unroll
        for (int i = 0; i < rows16<X>::K16; i++) times_rows<X>(acc, k.a[i], state, 16 * i, lane);
        sum[0] = quad_sum(sum[0]) * plus, sum[1] = quad_sum(sum[1]) * plus;
#pragma unroll
        for (int c = 0; c < X; c++) {
            const float2 v = *(const float2 *)(ones + 8 * c + 2 * (lane % 4));
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[c][e] = fmaf(sum[e / 2], e % 2 ? v.y : v.x, acc[c][e]) * left[e / 2];
        }
    }
    __device__ __forceinline__ void read_queries(const __nv_bfloat16 *phi,
                                                 const __nv_bfloat16 *douts, const float *inverse,
                                                 float rate, int own, int lane)
    {
#pragma unroll 1
        for (int block = own / 16; block < 4; block++) {
            float w[2][4];
            dots<X>(w, k, phi, 16 * block, lane);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int query = 16 * block + 8 * c + lane % 4 * 2;
                const float2 by = *(const float2 *)(inverse + query);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int behind = query + e % 2 - (own + e / 2 * 8);
                    w[c][e] *= e % 2 ? by.y : by.x;
                    if (rate != 0) w[c][e] *= power_of(rate, max(behind, 0));
                    if (behind < 0) w[c][e] = 0;
                }
            }
            uint32_t p[4];
            pack_block(p, w);
            times_rows<X>(acc, p, douts, 16 * block, lane);
        }
    }
};

/* dphi of 16 keys: R [v, 1], and within the chunk (dout.v inv + h) psi(q). */
template <int X> struct key_rows {
    rows16<X> v;
    float acc[X][4], all[2];

    __device__ __forceinline__ void read_state(const __nv_bfloat16 *values, int own, int lane,
                                               const __nv_bfloat16 *state, const float *z,
                                               const float *ones, const float (&left)[2])
    {
        v.load(values, lane, own / 16 * 16);
        all[0] = lane % 4 ? 0.0f : (ones[8 * X] + ones[8 * X + 1]) * left[0];
        all[1] = lane % 4 ? 0.0f : (ones[8 * X] + ones[8 * X + 1]) * left[1];
#pragma unroll
        for (int c = 0; c < X; c++) {
            const float2 z2 = *(const float2 *)(z + 8 * c + 2 * (lane % 4)),
                         o2 = *(const float2 *)(ones + 8 * c + 2 * (lane % 4));
            acc[c][0] = acc[c][2] = z2.x, acc[c][1] = acc[c][3] = z2.y;
#pragma unroll
            for (int u = 0; u < 2; u++)
                all[u] =
                    fmaf(low_of(v.at(c, u)) * o2.x + high_of(v.at(c, u)) * o2.y, left[u], all[u]);
        }
        times_transposed<X>(acc, v, state, lane);
#pragma unroll
        for (int c = 0; c < X; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[c][e] *= left[e / 2];
    }
    __device__ __forceinline__ void read_queries(const __nv_bfloat16 *psi,
                                                 const __nv_bfloat16 *douts, const float *inverse,
                                                 const float *h, float rate, int own, int lane)
    {
#pragma unroll 1
        for (int block = own / 16; block < 4; block++) {
            float g[2][4];
            dots<X>(g, v, douts, 16 * block, lane);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int query = 16 * block + 8 * c + lane % 4 * 2;
                const float2 by = *(const float2 *)(inverse + query),
                             plus = *(const float2 *)(h + query);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int behind = query + e % 2 - (own + e / 2 * 8);
                    g[c][e] = fmaf(g[c][e], e % 2 ? by.y : by.x, e % 2 ? plus.y : plus.x);
                    if (rate != 0) g[c][e] *= power_of(rate, max(behind, 0));
                    if (behind < 0) g[c][e] = 0;
                    all[e / 2] += g[c][e];
                }
            }
            uint32_t p[4];
            pack_block(p, g);
            times_rows<X>(acc, p, psi, 16 * block, lane);
        }
    }
};

/* Warps 0 to 3 make dv of 16 keys each, warps 4 to 7 dk; all of them have R. */
template <int X>
__global__ void __launch_bounds__(BACK_THREADS, X <= 8 ? 2 : 1)
    back_key_kernel(const __grid_constant__ linear_back_args a)
{
    using shape = linear_shape<X>;
    constexpr int FLOATS = back_shape<X>::STATE_FLOATS, STATES = back_shape<X>::STATES;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + 2 * shape::TILE;
    __nv_bfloat16 *queries = values + 2 * shape::TILE, *douts = queries + 2 * shape::TILE;
    __nv_bfloat16 *phi = douts + 2 * shape::TILE, *weighted = phi + shape::TILE;
    __nv_bfloat16 *states = weighted + shape::TILE;
    float *floats = (float *)(states + STATES * shape::ROUNDED);
    float *inverse = floats + STATES * FLOATS, *h = inverse + 64, *factor = h + 64;
    clear_padding<X, BACK_THREADS>(bytes, back_shape<X>::KEY_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int own = warp % 4 * 16 + lane / 4;
    const back_place at(a);
    const linear_sequence &n = at.n;
    const int64_t begin = at.segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = chunks_of(begin, end);
    if (!chunks) return;
    const chunk_source<X, BACK_THREADS> from_q(a.q, a.dim), from_k(a.k, a.dim),
        from_v(a.v, a.dim_value), from_d(a.dout, a.dim_value);
    const bool words_k = has_words(a.dk), words_v = has_words(a.dv);
    const int heads = a.causal ? at.group : 1; /* not causal: the state has all queries */
    /* Items are chunks, the last first, times the heads of the group. */
    auto get = [&](int item) {
        const int c = chunks - 1 - item / heads;
        const int64_t token = begin + (int64_t)c * CHUNK, row = token - at.past;
        const int64_t head = n.kv * at.group + item % heads;
        if (item % heads == 0) {
            const int to = c % 2 * shape::TILE;
            from_k.get(n.b, n.kv, token, 0, n.keys - token, keys + to);
            from_v.get(n.b, n.kv, token, 0, n.keys - token, values + to);
        }
        if (a.causal) {
            const int to = item % 2 * shape::TILE;
            from_q.get(n.b, head, row, at.skip(row), n.queries - row, queries + to);
            from_d.get(n.b, head, row, at.skip(row), n.queries - row, douts + to);
        }
    };
    back_state<X, 8> r;
    r.load(a.causal ? a.gradient_sums +
                          (at.head * a.query_segments + at.segment) * back_state<X, 8>::COUNT
                    : a.gradient_total + at.head * back_state<X, 8>::COUNT,
           warp);
    get(0);
    copy_commit();
    r.publish(states, floats, floats + 8 * X);
    for (int i = 0; i < chunks; i++) {
        const int c = chunks - 1 - i, state = a.causal ? i % STATES : 0;
        const int64_t token = begin + (int64_t)c * CHUNK;
        const int there = (int)min(n.keys - token, (int64_t)CHUNK);
        const float *zs = floats + state * FLOATS;
        float left[2] = { 1.0f, 1.0f };
        if (at.decays)
            left[0] = power_of(at.rate, max(there - own, 0)),
            left[1] = power_of(at.rate, max(there - own - 8, 0));
        value_rows<X> dv;
        key_rows<X> dk;
        for (int g = 0; g < heads; g++) {
            const int item = i * heads + g;
            __nv_bfloat16 *q = queries + item % 2 * shape::TILE,
                          *d = douts + item % 2 * shape::TILE;
            copy_wait<0>();
            __syncthreads();
            if (item + 1 < chunks * heads) get(item + 1);
            copy_commit();
            if (a.causal && threadIdx.x < CHUNK) {
                const int64_t row = token - at.past + (int)threadIdx.x;
                const bool in = row >= 0 && row < n.queries;
                const float2 x =
                    in ? a.rows[(n.b * a.heads + n.kv * at.group + g) * a.length_q + row]
                       : make_float2(0, 0);
                inverse[threadIdx.x] = x.x, h[threadIdx.x] = x.y;
                factor[threadIdx.x] = at.decays ? x.x * power_of(at.rate, (int)threadIdx.x) : x.x;
                /* -dout.y = h / inverse */
                const float y = x.x != 0 ? x.y / x.x : 0.0f,
                            high = __bfloat162float(__float2bfloat16_rn(y));
                uint4 *beside = (uint4 *)(d + threadIdx.x * shape::LD + 8 * X);
                *beside = make_uint4(pack(high, y - high), 0, 0, 0);
            }
            if (g == 0 && warp < 4)
                dv.read_state(keys + c % 2 * shape::TILE, own, lane,
                              states + state * shape::ROUNDED, zs + 8 * X, left, a.map, a.dim);
            else if (g == 0)
                dk.read_state(values + c % 2 * shape::TILE, own, lane,
                              states + state * shape::ROUNDED, zs, zs + 8 * X, left);
            if (!a.causal) continue;
            __syncthreads();
            map_tile<X, true>(q, phi, weighted, factor, CHUNK, a.dim, a.map);
            __syncthreads();
            if (warp < 4)
                dv.read_queries(phi, d, inverse, at.rate, own, lane);
            else
                dk.read_queries(q, d, inverse, h, at.rate, own, lane);
            if (g == 0 && at.decays) r.shrink(power_of(at.rate, there));
            r.template append<false>(weighted, d, factor);
        }
        rows16<X> x;
        if (warp >= 4) x.load(keys + c % 2 * shape::TILE, lane, own / 16 * 16);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t row = token + own + 8 * u;
            const float all = warp < 4 ? 0.0f : quad_sum(dk.all[u]) * map_offset(a.map);
            if (row >= n.keys) continue;
#pragma unroll
            for (int t = 0; t < X; t++) {
                const int column = 8 * t + 2 * (lane % 4);
                if (warp < 4) {
                    write_pair(a.dv, row_of(a.dv, n.b, n.kv, row), column, a.dim_value, words_v,
                               dv.acc[t][2 * u], dv.acc[t][2 * u + 1]);
                } else {
                    const float x0 = low_of(x.at(t, u)), x1 = high_of(x.at(t, u));
                    write_pair(a.dk, row_of(a.dk, n.b, n.kv, row), column, a.dim, words_k,
                               (dk.acc[t][2 * u] + all) * map_slope(a.map, x0, map_psi(a.map, x0)),
                               (dk.acc[t][2 * u + 1] + all) *
                                   map_slope(a.map, x1, map_psi(a.map, x1)));
                }
            }
        }
        if (STATES == 1) __syncthreads();
        if (a.causal && i + 1 < chunks) {
            float *next = floats + (i + 1) % STATES * FLOATS;
            r.publish(states + (i + 1) % STATES * shape::ROUNDED, next, next + 8 * X);
        }
    }
}

/* ---- the launch ------------------------------------------------------------------------------ */

template <int X> static cudaError_t run(const linear_back_args &a, cudaStream_t stream)
{
    constexpr int bytes = back_shape<X>::KEY_BYTES;
    const cudaError_t e = cudaFuncSetAttribute((const void *)back_key_kernel<X>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    const dim3 grid((unsigned)a.segments, (unsigned)(a.batch * a.kv_heads));
    back_key_kernel<X><<<grid, BACK_THREADS, bytes, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t linear_back_keys_run(const linear_back_args &a, cudaStream_t stream)
{
    return by_width<2>(a.width, [&](auto x) { return run<x.value>(a, stream); });
}

} // namespace lnt
