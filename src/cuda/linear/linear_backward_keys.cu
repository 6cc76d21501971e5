/* cuda/linear/linear_backward_keys.cu - of the gradients of linear attention (linear_backward.cu) those
 * of the keys and values, from the last chunk of a segment to the first. */
#include "cuda/linear/linear_backward.cuh"

namespace lnt
{

/* dv of 16 keys: phi(k) R, and within the chunk weights times dout. */
template <int X> struct value_rows {
    rows16<X> k; /* phi(k) */
    float acc[X][4];

    __device__ __forceinline__ void read_state(const __nv_bfloat16 *keys, int own, int lane,
                                               const __nv_bfloat16 *state, const float *z,
                                               const float (&left)[2], int map, int dim)
    {
        const float *ones = z + 8 * X;
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
        sum[0] = lanes_sum<4>(sum[0]) * plus, sum[1] = lanes_sum<4>(sum[1]) * plus;
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
    __device__ __forceinline__ void write(const linear_backward_args &a, const linear_sequence &n,
                                          int64_t first, int lane, bool words) const
    {
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t row = first + 8 * u;
            if (row >= n.keys) continue;
#pragma unroll
            for (int c = 0; c < X; c++)
                write_pair(a.dv, row_of(a.dv, n.b, n.kv, row), 8 * c + 2 * (lane % 4), a.dim_value,
                           words, acc[c][2 * u], acc[c][2 * u + 1]);
        }
    }
};

/* dphi of 16 keys: R [v, 1], and within the chunk (dout.v inv + h) psi(q). */
template <int X> struct key_rows {
    rows16<X> v;
    float acc[X][4], all[2];

    __device__ __forceinline__ void read_state(const __nv_bfloat16 *values, int own, int lane,
                                               const __nv_bfloat16 *state, const float *z,
                                               const float (&left)[2])
    {
        const float *ones = z + 8 * X;
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
    /* dk = dphi times the slope at k. */
    __device__ __forceinline__ void write(const linear_backward_args &a, const linear_sequence &n,
                                          const __nv_bfloat16 *keys, int own, int64_t first,
                                          int lane, bool words) const
    {
        rows16<X> k;
        k.load(keys, lane, own / 16 * 16);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t row = first + 8 * u;
            const float more = lanes_sum<4>(all[u]) * map_offset(a.map);
            if (row >= n.keys) continue;
#pragma unroll
            for (int c = 0; c < X; c++) {
                const float k0 = low_of(k.at(c, u)), k1 = high_of(k.at(c, u));
                write_pair(a.dk, row_of(a.dk, n.b, n.kv, row), 8 * c + 2 * (lane % 4), a.dim, words,
                           (acc[c][2 * u] + more) * map_slope(a.map, k0, map_psi(a.map, k0)),
                           (acc[c][2 * u + 1] + more) * map_slope(a.map, k1, map_psi(a.map, k1)));
            }
        }
    }
};

/* Shared memory. */
template <int X> struct key_memory {
    static constexpr int TILE = linear_shape<X>::TILE;
    __nv_bfloat16 *keys, *values, *queries, *douts; /* two chunks each, in turns */
    __nv_bfloat16 *phi, *weighted;                  /* of the queries: phi, psi times factor */
    backward_states<X> states;                      /* R */
    float *inverse, *h, *factor;                    /* by query */
    __device__ __forceinline__ key_memory(char *bytes)
        : keys((__nv_bfloat16 *)bytes), values(keys + 2 * TILE), queries(values + 2 * TILE),
          douts(queries + 2 * TILE), phi(douts + 2 * TILE), weighted(phi + TILE),
          states(weighted + TILE), inverse(states.end()), h(inverse + 64), factor(h + 64)
    {
    }
};

/* The chunks of a segment, the last first; items are chunks times the heads of the group. */
template <int X> struct key_walk {
    using shape = linear_shape<X>;
    const linear_backward_args &a;
    const backward_place &at;
    const key_memory<X> &m;
    chunk_source<X, BACKWARD_THREADS> from_q, from_k, from_v, from_d;
    int64_t begin;
    int chunks, heads; /* heads: 1 where not causal, the state has all queries */
    __device__ __forceinline__ key_walk(const linear_backward_args &a_, const backward_place &at_,
                                        const key_memory<X> &m_)
        : a(a_), at(at_), m(m_), from_q(a.q, a.dim), from_k(a.k, a.dim), from_v(a.v, a.dim_value),
          from_d(a.dout, a.dim_value), begin(at.segment * a.segment),
          chunks(chunks_of(begin, min(begin + a.segment, at.n.keys))),
          heads(a.causal ? at.group : 1)
    {
    }
    __device__ __forceinline__ int64_t token(int chunk) const
    {
        return begin + (int64_t)chunk * CHUNK;
    }
    __device__ __forceinline__ void get(int item) const
    {
        const int c = chunks - 1 - item / heads;
        const int64_t first = token(c), row = first - at.past;
        const int64_t head = at.n.kv * at.group + item % heads;
        if (item % heads == 0) {
            const int to = c % 2 * shape::TILE;
            from_k.get(at.n.b, at.n.kv, first, 0, at.n.keys - first, m.keys + to);
            from_v.get(at.n.b, at.n.kv, first, 0, at.n.keys - first, m.values + to);
        }
        if (a.causal) {
            const int to = item % 2 * shape::TILE;
            from_q.get(at.n.b, head, row, at.skip(row), at.n.queries - row, m.queries + to);
            from_d.get(at.n.b, head, row, at.skip(row), at.n.queries - row, m.douts + to);
        }
    }
    /* inv, h and what R gets of the queries of a chunk, head g of the group; -dout.y = h / inv
     * beside dout. */
    __device__ __forceinline__ void lay_rows(int64_t first, int g, __nv_bfloat16 *douts) const
    {
        const int i = (int)threadIdx.x;
        if (i >= CHUNK) return;
        const int64_t row = first - at.past + i, head = at.n.kv * at.group + g;
        const bool in = row >= 0 && row < at.n.queries;
        const float2 x =
            in ? a.rows[(at.n.b * a.heads + head) * a.length_q + row] : make_float2(0, 0);
        m.inverse[i] = x.x, m.h[i] = x.y;
        m.factor[i] = at.decays ? x.x * power_of(at.rate, i) : x.x;
        const float y = x.x != 0 ? x.y / x.x : 0.0f,
                    high = __bfloat162float(__float2bfloat16_rn(y));
        *(uint4 *)(douts + i * shape::LD + 8 * X) = make_uint4(pack(high, y - high), 0, 0, 0);
    }
};

/* Warps 0 to 3 make dv of 16 keys each, warps 4 to 7 dk; all of them have R. */
template <int X>
__global__ void __launch_bounds__(BACKWARD_THREADS, X <= 8 ? 2 : 1)
    linear_backward_keys_kernel(const __grid_constant__ linear_backward_args a)
{
    using shape = linear_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    const key_memory<X> m(bytes);
    clear_padding<X, BACKWARD_THREADS>(bytes, backward_shape<X>::KEY_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int own = warp % 4 * 16 + lane / 4;
    const backward_place at(a);
    const key_walk<X> walk(a, at, m);
    const int chunks = walk.chunks, heads = walk.heads;
    if (!chunks) return;
    const bool words_k = has_words(a.dk), words_v = has_words(a.dv);
    backward_state<X, 8> r;
    r.load(a.causal ? a.gradient_sums +
                          (at.head * a.query_segments + at.segment) * backward_state<X, 8>::COUNT
                    : a.gradient_total + at.head * backward_state<X, 8>::COUNT,
           warp);
    walk.get(0);
    copy_commit();
    r.publish(m.states.rounded_of(0), m.states.floats_of(0));
    for (int i = 0; i < chunks; i++) {
        const int c = chunks - 1 - i, state = a.causal ? i : 0;
        const int64_t token = walk.token(c);
        const int there = (int)min(at.n.keys - token, (int64_t)CHUNK);
        const __nv_bfloat16 *k = m.keys + c % 2 * shape::TILE, *v = m.values + c % 2 * shape::TILE;
        const float *zs = m.states.floats_of(state);
        float left[2] = { 1.0f, 1.0f };
        if (at.decays)
            left[0] = power_of(at.rate, max(there - own, 0)),
            left[1] = power_of(at.rate, max(there - own - 8, 0));
        value_rows<X> dv;
        key_rows<X> dk;
        for (int g = 0; g < heads; g++) {
            const int item = i * heads + g;
            __nv_bfloat16 *q = m.queries + item % 2 * shape::TILE,
                          *d = m.douts + item % 2 * shape::TILE;
            copy_wait<0>();
            __syncthreads();
            if (item + 1 < chunks * heads) walk.get(item + 1);
            copy_commit();
            if (a.causal) walk.lay_rows(token, g, d);
            if (g == 0 && warp < 4)
                dv.read_state(k, own, lane, m.states.rounded_of(state), zs, left, a.map, a.dim);
            else if (g == 0)
                dk.read_state(v, own, lane, m.states.rounded_of(state), zs, left);
            if (!a.causal) continue;
            __syncthreads();
            map_tile<X, true>(q, m.phi, m.weighted, m.factor, CHUNK, a.dim, a.map);
            __syncthreads();
            if (warp < 4)
                dv.read_queries(m.phi, d, m.inverse, at.rate, own, lane);
            else
                dk.read_queries(q, d, m.inverse, m.h, at.rate, own, lane);
            if (g == 0 && at.decays) r.shrink(power_of(at.rate, there));
            r.template append<false>(m.weighted, d, m.factor);
        }
        if (warp < 4)
            dv.write(a, at.n, token + own, lane, words_v);
        else
            dk.write(a, at.n, k, own, token + own, lane, words_k);
        if (m.states.STATES == 1) __syncthreads();
        if (a.causal && i + 1 < chunks)
            r.publish(m.states.rounded_of(i + 1), m.states.floats_of(i + 1));
    }
}

/* ---- the launch ------------------------------------------------------------------------------ */

template <int X> static cudaError_t run(const linear_backward_args &a, cudaStream_t stream)
{
    constexpr int bytes = backward_shape<X>::KEY_BYTES;
    static_assert(bytes <= linear_bytes(X, true), "choose.cc asks for less");
    const dim3 grid((unsigned)a.segments, (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(linear_backward_keys_kernel<X>, grid, BACKWARD_THREADS, bytes, stream, a);
}

cudaError_t linear_backward_keys_run(const linear_backward_args &a, cudaStream_t stream)
{
    return by_width<2>(a.width, [&](auto x) { return run<x.value>(a, stream); });
}

} // namespace lnt
