/* cuda/linear/linear_backward_queries.cu - of the gradients of linear attention (linear_backward.cu) those of
 * the queries: dq, inv and h, and the sums of R = phi(q) inv [D, h / inv] of the segments. */
#include "cuda/linear/linear_backward.cuh"

namespace lnt
{

/* 16 queries of a warp: T - middle Z and Z, of psi; and what belongs to every feature alike.  Where
 * a query sees few keys T and h / inv Z nearly cancel: there `middle` is the mean of D.v, taken
 * away before anything is rounded; elsewhere 0. */
template <int X> struct query_rows {
    float t[X][4], z[X][4], t_all[2], z_all[2], middle[2];
    int lane, own; /* own: this lane's first row of the chunk */

    __device__ __forceinline__ void read_state(const rows16<X> &d, const __nv_bfloat16 *state,
                                               const float *zs, float rate, bool causal)
    {
        const float *ones = zs + 8 * X;
        float left[2] = { 1.0f, 1.0f };
        const bool decays = rate != 0;
        if (decays && causal) left[0] = power_of(rate, own + 1), left[1] = power_of(rate, own + 9);
#pragma unroll
        for (int c = 0; c < X; c++) t[c][0] = t[c][1] = t[c][2] = t[c][3] = 0;
        times_transposed<X>(t, d, state, lane);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            t_all[u] = middle[u] = 0;
            z_all[u] = lane % 4 ? 0.0f : (ones[8 * X] + ones[8 * X + 1]) * left[u];
#pragma unroll
            for (int c = 0; c < X; c++) {
                const float2 s = *(const float2 *)(zs + 8 * c + 2 * (lane % 4)),
                             v = *(const float2 *)(ones + 8 * c + 2 * (lane % 4));
                z[c][2 * u] = s.x * left[u], z[c][2 * u + 1] = s.y * left[u];
                if (decays) t[c][2 * u] *= left[u], t[c][2 * u + 1] *= left[u];
                t_all[u] = fmaf(low_of(d.at(c, u)), v.x, fmaf(high_of(d.at(c, u)), v.y, t_all[u]));
            }
            t_all[u] *= left[u];
        }
    }
    /* g = D.v less the middle, m = 1, of the keys of a block that a row sees; with gamma^(i-j). */
    __device__ __forceinline__ void block_of(const rows16<X> &d, const __nv_bfloat16 *values,
                                             int block, float rate, float (&g)[2][4],
                                             float (&m)[2][4]) const
    {
        dots<X>(g, d, values, 16 * block, lane);
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int behind = own + e / 2 * 8 - (16 * block + 8 * c + lane % 4 * 2 + e % 2);
                m[c][e] = behind < 0 ? 0.0f : rate != 0 ? power_of(rate, behind) : 1.0f;
                g[c][e] = (g[c][e] - middle[e / 2]) * m[c][e];
            }
    }
    __device__ __forceinline__ void find_middle(const rows16<X> &d, const __nv_bfloat16 *values,
                                                float rate)
    {
        float sum[2] = { t_all[0], t_all[1] }, count[2] = { z_all[0], z_all[1] };
#pragma unroll 1
        for (int block = 0; block <= own / 16; block++) {
            float g[2][4], m[2][4];
            block_of(d, values, block, rate, g, m);
#pragma unroll
            for (int c = 0; c < 2; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[e / 2] += g[c][e], count[e / 2] += m[c][e];
        }
#pragma unroll
        for (int u = 0; u < 2; u++) {
            middle[u] = lanes_sum<4>(sum[u]) / lanes_sum<4>(count[u]);
            t_all[u] = fmaf(-middle[u], z_all[u], t_all[u]);
#pragma unroll
            for (int c = 0; c < X; c++)
#pragma unroll
                for (int e = 2 * u; e < 2 * u + 2; e++)
                    t[c][e] = fmaf(-middle[u], z[c][e], t[c][e]);
        }
    }
    /* The keys of the chunk up to the rows' own; psi(k) and v. */
    __device__ __forceinline__ void read_keys(const rows16<X> &d, const __nv_bfloat16 *keys,
                                              const __nv_bfloat16 *values, float rate)
    {
        const int last = own / 16;
#pragma unroll 1
        for (int block = 0; block <= last; block++) {
            float g[2][4], m[2][4];
            block_of(d, values, block, rate, g, m);
#pragma unroll
            for (int c = 0; c < 2; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) t_all[e / 2] += g[c][e], z_all[e / 2] += m[c][e];
            uint32_t p[4], w[4];
            pack_block(p, g);
            pack_block(w, m);
#pragma unroll
            for (int n = 0; n < X; n += 2) {
                uint32_t b[4];
                load_matrices_transposed(
                    b, matrices_at<linear_shape<X>::LD>(keys, 16 * block, 8 * n, lane));
                mma16(t[n], p, b[0], b[1]);
                mma16(z[n], w, b[0], b[1]);
                if (n + 1 < X) {
                    mma16(t[n + 1 < X ? n + 1 : n], p, b[2], b[3]);
                    mma16(z[n + 1 < X ? n + 1 : n], w, b[2], b[3]);
                }
            }
        }
    }
};

/* Where dq of a chunk goes. */
struct query_out {
    int64_t head, row0; /* of the tensor; the row of the chunk's row 0 */
    int64_t first;      /* of the segment, as a power of gamma */
};

/* den, h and dq of the rows; in place of q what they give R: psi(q) inv, and beside dout h / inv.
 */
template <int X>
__device__ __forceinline__ void finish_rows(const linear_backward_args &a, const backward_place &at,
                                            query_rows<X> &r, __nv_bfloat16 *q, __nv_bfloat16 *d,
                                            float *weights, const query_out &out, bool words)
{
    constexpr int LD = linear_shape<X>::LD;
    const int lane = r.lane;
    const float plus = map_offset(a.map);
    rows16<X> x;
    x.load(q, lane, r.own / 16 * 16);
    __syncwarp();
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const float t_all = lanes_sum<4>(r.t_all[u]) * plus,
                    z_all = lanes_sum<4>(r.z_all[u]) * plus;
        float dot = 0, den = 0;
#pragma unroll
        for (int c = 0; c < X; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int column = 8 * c + 2 * (lane % 4) + e;
                const float raw = e ? high_of(x.at(c, u)) : low_of(x.at(c, u));
                const float phi = column < a.dim ? map_psi(a.map, raw) + plus : 0.0f;
                r.t[c][2 * u + e] += t_all, r.z[c][2 * u + e] += z_all;
                dot = fmaf(phi, r.t[c][2 * u + e], dot);
                den = fmaf(phi, r.z[c][2 * u + e], den);
            }
        dot = lanes_sum<4>(dot), den = lanes_sum<4>(den) + a.eps;
        const int64_t row = out.row0 + r.own + 8 * u;
        const bool in = row >= 0 && row < at.n.queries,
                   some = in && (at.n.keys > 0 || a.s_in) && den != 0;
        const float inverse = some ? 1.0f / den : 0.0f;
        /* dphi(q) = inv (T - middle Z) + rest Z */
        const float rest = (r.middle[u] * a.eps - dot) * inverse * inverse,
                    y = -fmaf(r.middle[u], den - a.eps, dot) * inverse, h = y * inverse;
        float factor = inverse;
        if (at.decays) factor *= power_of(at.rate, (int)(out.first + r.own + 8 * u));
        const float high = __bfloat162float(__float2bfloat16_rn(y));
        *(uint32_t *)(d + (r.own + 8 * u) * LD + 8 * X + 2 * (lane % 4)) =
            lane % 4 ? 0 : pack(high, y - high);
        if (lane % 4 == 0) {
            weights[r.own + 8 * u] = factor;
            if (in)
                a.rows[(at.n.b * a.heads + out.head) * a.length_q + row] = make_float2(inverse, h);
        }
        const int64_t to = row_of(a.dq, at.n.b, out.head, row);
#pragma unroll
        for (int c = 0; c < X; c++) {
            const int column = 8 * c + 2 * (lane % 4);
            const float x0 = low_of(x.at(c, u)), x1 = high_of(x.at(c, u));
            const float p0 = column < a.dim ? map_psi(a.map, x0) : 0.0f,
                        p1 = column + 1 < a.dim ? map_psi(a.map, x1) : 0.0f;
            *(uint32_t *)(q + (r.own + 8 * u) * LD + column) = pack(p0 * factor, p1 * factor);
            if (in)
                write_pair(a.dq, to, column, a.dim, words,
                           fmaf(r.t[c][2 * u], inverse, rest * r.z[c][2 * u]) *
                               map_slope(a.map, x0, p0),
                           fmaf(r.t[c][2 * u + 1], inverse, rest * r.z[c][2 * u + 1]) *
                               map_slope(a.map, x1, p1));
        }
    }
}

/* Shared memory. */
template <int X> struct query_memory {
    static constexpr int TILE = linear_shape<X>::TILE;
    __nv_bfloat16 *keys, *values;   /* two chunks each, in turns */
    __nv_bfloat16 *queries, *douts; /* three: the one before is still added to R */
    backward_states<X> states;      /* S */
    float *worth, *weights;         /* by key; by query, three times */
    __device__ __forceinline__ query_memory(char *bytes)
        : keys((__nv_bfloat16 *)bytes), values(keys + 2 * TILE), queries(values + 2 * TILE),
          douts(queries + 3 * TILE), states(douts + 3 * TILE), worth(states.end()),
          weights(worth + 64)
    {
    }
};

/* The chunks of a segment; items are chunks times the heads of the group. */
template <int X> struct query_walk {
    static constexpr int TILE = linear_shape<X>::TILE;
    const linear_backward_args &a;
    const backward_place &at;
    const query_memory<X> &m;
    chunk_source<X, BACKWARD_THREADS> from_q, from_k, from_v, from_d;
    bool words;
    int64_t begin;
    int chunks;
    __device__ __forceinline__ query_walk(const linear_backward_args &a_, const backward_place &at_,
                                          const query_memory<X> &m_)
        : a(a_), at(at_), m(m_), from_q(a.q, a.dim), from_k(a.k, a.dim), from_v(a.v, a.dim_value),
          from_d(a.dout, a.dim_value), words(has_words(a.dq)), begin(at.segment * a.segment),
          chunks(chunks_of(begin, min(begin + a.segment, a.causal ? at.n.keys : at.n.queries)))
    {
    }
    __device__ __forceinline__ int64_t token(int chunk) const
    {
        return begin + (int64_t)chunk * CHUNK;
    }
    __device__ __forceinline__ int64_t head(int item) const
    {
        return at.n.kv * at.group + item % at.group;
    }
    __device__ __forceinline__ void get(int item) const
    {
        const int c = item / at.group;
        const int64_t first = token(c), row = first - at.past;
        if (a.causal && item % at.group == 0) {
            const int to = c % 2 * TILE;
            from_k.get(at.n.b, at.n.kv, first, 0, at.n.keys - first, m.keys + to);
            from_v.get(at.n.b, at.n.kv, first, 0, at.n.keys - first, m.values + to);
        }
        const int64_t h = head(item);
        const int to = item % 3 * TILE;
        from_q.get(at.n.b, h, row, at.skip(row), at.n.queries - row, m.queries + to);
        from_d.get(at.n.b, h, row, at.skip(row), at.n.queries - row, m.douts + to);
    }
    /* dq of an item, by the first four warps. */
    __device__ __forceinline__ void answer(int item, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                           int state, int lane, int warp) const
    {
        const int c = item / at.group;
        __nv_bfloat16 *q = m.queries + item % 3 * TILE, *d = m.douts + item % 3 * TILE;
        query_rows<X> rows;
        rows.lane = lane, rows.own = warp * 16 + lane / 4;
        rows16<X> dout;
        dout.load(d, lane, warp * 16);
        rows.read_state(dout, m.states.rounded_of(state), m.states.floats_of(state), at.rate,
                        a.causal);
        if (a.causal && token(c) == 0) rows.find_middle(dout, v, at.rate);
        if (a.causal) rows.read_keys(dout, k, v, at.rate);
        const query_out out = { head(item), token(c) - at.past, (int64_t)c * CHUNK };
        finish_rows<X>(a, at, rows, q, d, m.weights + item % 3 * 64, out, words);
    }
    /* R += the queries of an item that is answered. */
    __device__ __forceinline__ void add(backward_state<X, 4> &r, int item) const
    {
        const int from = item % 3;
        r.template append<false>(m.queries + from * TILE, m.douts + from * TILE,
                                 m.weights + from * 64);
    }
};

/* Warps 0 to 3 have 16 queries each; warps 4 to 7 have S and R: they add the chunk's keys for the
 * next one, and to R the queries of the chunk before. */
template <int X>
__global__ void __launch_bounds__(BACKWARD_THREADS, X <= 8 ? 2 : 1)
    linear_backward_queries_kernel(const __grid_constant__ linear_backward_args a)
{
    using sums = backward_state<X, 4>;
    extern __shared__ __align__(128) char bytes[];
    const query_memory<X> m(bytes);
    clear_padding<X, BACKWARD_THREADS>(bytes, backward_shape<X>::QUERY_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const backward_place at(a);
    const query_walk<X> walk(a, at, m);
    sums s, r;
    if (warp >= 4) {
        s.load(a.causal ? a.sums + (at.head * a.segments + at.segment) * sums::COUNT
                        : a.total + at.head * sums::COUNT,
               warp - 4);
        r.clear(warp - 4);
        s.publish(m.states.rounded_of(0), m.states.floats_of(0));
    }
    const int items = walk.chunks * at.group;
    if (items) walk.get(0);
    copy_commit();
    for (int item = 0; item < items; item++) {
        const int c = item / at.group;
        const int there = (int)max(min(at.n.keys - walk.token(c), (int64_t)CHUNK), (int64_t)0);
        const bool first = item % at.group == 0;
        const bool goes_on = a.causal && (item + 1) % at.group == 0 && c + 1 < walk.chunks;
        __nv_bfloat16 *k = m.keys + c % 2 * m.TILE, *v = m.values + c % 2 * m.TILE;
        copy_wait<0>();
        __syncthreads();
        if (item + 1 < items) walk.get(item + 1);
        copy_commit();
        if (first && a.causal) {
            map_tile<X, false>(k, nullptr, nullptr, nullptr, there, a.dim, a.map);
            if (at.decays) lay_weights(m.worth, at.rate, there);
            __syncthreads();
        }
        if (warp < 4) {
            walk.answer(item, k, v, a.causal ? c : 0, lane, warp);
        } else {
            if (goes_on) {
                if (at.decays) s.shrink(power_of(at.rate, there));
                s.template append<true>(k, v, at.decays ? m.worth : nullptr);
            }
            if (item > 0) walk.add(r, item - 1);
        }
        if (m.states.STATES == 1) __syncthreads();
        if (warp >= 4 && goes_on) s.publish(m.states.rounded_of(c + 1), m.states.floats_of(c + 1));
    }
    __syncthreads();
    if (warp < 4) return;
    if (items) walk.add(r, items - 1);
    r.store(a.gradient_sums + (at.head * a.query_segments + at.segment) * sums::COUNT);
}

/* ---- the launch ------------------------------------------------------------------------------ */

template <int X> static cudaError_t run(const linear_backward_args &a, cudaStream_t stream)
{
    constexpr int bytes = backward_shape<X>::QUERY_BYTES;
    static_assert(bytes <= linear_bytes(X, true), "choose.cc asks for less");
    const dim3 grid((unsigned)a.query_segments, (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(linear_backward_queries_kernel<X>, grid, BACKWARD_THREADS, bytes, stream,
                         a);
}

cudaError_t linear_backward_queries_run(const linear_backward_args &a, cudaStream_t stream)
{
    return by_width<2>(a.width, [&](auto x) { return run<x.value>(a, stream); });
}

} // namespace lnt
