/* cuda/linear_backward.cu - gradients of linear attention (docs/math/linear.md).  With n_i and
 * den_i the numerator and denominator of query i, and D_i = dout_i:
 *
 *     inv_i = 1 / den_i      h_i = -(D_i.n_i) / den_i^2
 *     dphi(q_i) = sum over j <= i of (inv_i D_i.v_j + h_i) gamma^(i-j) phi(k_j)
 *     dphi(k_j) = sum over i >= j of the same times phi(q_i)
 *     dv_j      = sum over i >= j of gamma^(i-j) phi(q_i).phi(k_j) inv_i D_i
 *
 * Five launches, none of them serial in n: the sums of the segments of S = phi(k) [v, 1]; the state
 * before each; over the queries, dq, inv and h, and the sums of R = phi(q) inv [D, h / inv]; the
 * state after each segment; over the keys, dk and dv.  A chunk of 64 tokens is read against the
 * state in shared memory and against itself.  n_i is never made:  with
 *
 *     T_i = sum over j of (D_i.v_j) phi(k_j)      Z_i = sum over j of phi(k_j)
 *
 * den_i = phi(q_i).Z_i + eps, D_i.n_i = phi(q_i).T_i and dphi(q_i) = inv_i T_i + h_i Z_i.  Reads q
 * and D twice, k and v three times, writes each gradient once. */
#include "cuda/linear_backward.cuh"

namespace lnt
{

template <int X> struct back_shape {
    using shape = linear_shape<X>;
    static constexpr int STATE_FLOATS = 8 * X + shape::COLUMNS; /* z and the last row */
    static constexpr int STATES =
        X == 16 ? 1 : 2; /* one to read and the next; where there is room */
    static constexpr int SUM_BYTES = 2 * SUM_STAGES * shape::TILE * 2 + 64 * 4;
    static constexpr int QUERY_BYTES =
        (10 * shape::TILE + STATES * shape::ROUNDED) * 2 + (STATES * STATE_FLOATS + 4 * 64) * 4;
    static constexpr int KEY_BYTES =
        (10 * shape::TILE + STATES * shape::ROUNDED) * 2 + (STATES * STATE_FLOATS + 3 * 64) * 4;
};

/* What both passes know of their block: positions are those of the keys, and the query of position
 * p is row p - past; not causal, each counts for itself. */
struct back_place {
    linear_sequence n;
    int64_t segment, head, past;
    int group;
    float rate; /* log2 of what a token keeps of those before it */
    bool decays;
    __device__ __forceinline__ back_place(const linear_back_args &a)
        : n(a, blockIdx.y), segment(blockIdx.x), head(blockIdx.y)
    {
        past = a.causal ? n.past : 0, group = a.heads / a.kv_heads;
        rate = a.decay ? log2f(n.gamma) : 0.0f, decays = rate != 0;
    }
    __device__ __forceinline__ int skip(int64_t row) const
    {
        return (int)min(max(-row, (int64_t)0), (int64_t)CHUNK);
    }
};

/* gamma^(there - 1 - j): what token j of a chunk is worth at its end. */
__device__ __forceinline__ void lay_weights(float *weights, float rate, int there)
{
    if (threadIdx.x < CHUNK) {
        const int left = there - 1 - (int)threadIdx.x;
        weights[threadIdx.x] = left < 0 ? 0.0f : power_of(rate, left);
    }
}

/* ---- the sums of a segment ------------------------------------------------------------------- */

template <int X>
__global__ void __launch_bounds__(BACK_THREADS)
    back_sum_kernel(const __grid_constant__ linear_back_args a)
{
    using shape = linear_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + SUM_STAGES * shape::TILE;
    float *weights = (float *)(values + SUM_STAGES * shape::TILE);
    back_clear<X>(bytes, back_shape<X>::SUM_BYTES);
    const back_place at(a);
    const linear_sequence &n = at.n;
    const int64_t begin = at.segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = end > begin ? (int)((end - begin + CHUNK - 1) / CHUNK) : 0;
    const bool wide_k = is_wide(a.k, a.dim) && a.dim == 8 * X,
               wide_v = is_wide(a.v, a.dim_value) && a.dim_value == 8 * X;
    auto get = [&](int c) {
        if (c < chunks) {
            const int64_t token = begin + (int64_t)c * CHUNK, there = end - token;
            const int to = c % SUM_STAGES * shape::TILE;
            back_fetch<X>(a.k, row_of(a.k, n.b, n.kv, token), 0, there, a.dim, wide_k, keys + to);
            back_fetch<X>(a.v, row_of(a.v, n.b, n.kv, token), 0, there, a.dim_value, wide_v,
                          values + to);
        }
        copy_commit();
    };
    for (int c = 0; c < SUM_STAGES - 1; c++) get(c);
    back_state<X, 8> s;
    s.clear((int)threadIdx.x / 32);
    for (int c = 0; c < chunks; c++) {
        copy_wait<SUM_STAGES - 2>();
        __syncthreads();
        get(c + SUM_STAGES - 1);
        const int from = c % SUM_STAGES * shape::TILE;
        const int there = (int)min(end - begin - (int64_t)c * CHUNK, (int64_t)CHUNK);
        map_tile<X, false>(keys + from, nullptr, nullptr, nullptr, there, a.dim, a.map);
        const bool weighs = at.decays || there < CHUNK; /* past the end the ones have to be 0 */
        if (weighs) lay_weights(weights, at.rate, there);
        __syncthreads();
        if (at.decays) s.shrink(power_of(at.rate, there));
        s.template append<true>(keys + from, values + from, weighs ? weights : nullptr);
    }
    s.store(a.sums + (at.head * a.segments + at.segment) * back_state<X, 8>::COUNT);
}

/* ---- from sums to states --------------------------------------------------------------------- */

enum { BACK_AHEAD = 16 };

/* S: forward, from the state before the first key; R: backward, from the gradient of the last
 * state.  The sums become the states before (S) or after (R) their segments, then comes the total.
 */
template <int X, bool reverse>
__global__ void back_scan_kernel(const __grid_constant__ linear_back_args a)
{
    constexpr int COUNT = back_state<X, 8>::COUNT, COLUMNS = linear_shape<X>::COLUMNS;
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= COUNT) return;
    const int64_t head = blockIdx.y;
    const linear_sequence n(a, head);
    const int f = e / COLUMNS, c = e % COLUMNS;
    const bool is_z = c == 8 * X, in = f < a.dim && (is_z || c < a.dim_value);
    const float *s0 = reverse ? a.ds_out : a.s_in, *z0 = reverse ? a.dz_out : a.z_in;
    const int64_t row = head * a.dim + f;
    float x = 0;
    if (s0 && in) x = is_z ? z0[row] : s0[row * a.dim_value + c];
    if (s0 && !reverse && (in || f == 8 * X) && (is_z || c < a.dim_value) &&
        map_offset(a.map) > 0) {
        /* A state of phi: its mean over the features goes to the last row. */
        float mean = 0;
        for (int i = 0; i < a.dim; i++)
            mean += is_z ? z0[head * a.dim + i] : s0[(head * a.dim + i) * a.dim_value + c];
        mean /= (float)a.dim;
        x = f == 8 * X ? mean : in ? x - mean : 0.0f;
    }
    if (reverse) x /= n.gamma; /* states here stand one token after the last */
    const int segments = reverse ? a.query_segments : a.segments;
    float *at = (reverse ? a.gradient_sums : a.sums) + head * segments * COUNT + e;
    for (int s = 0; s < segments; s += BACK_AHEAD) {
        float sum[BACK_AHEAD];
#pragma unroll
        for (int i = 0; i < BACK_AHEAD; i++)
            if (s + i < segments)
                sum[i] = at[(int64_t)(reverse ? segments - 1 - s - i : s + i) * COUNT];
#pragma unroll
        for (int i = 0; i < BACK_AHEAD; i++)
            if (s + i < segments) {
                const int64_t place = reverse ? segments - 1 - s - i : s + i;
                at[place * COUNT] = x;
                float left = 1.0f;
                if (a.decay)
                    left = powf(n.gamma,
                                (float)max(min(a.segment, n.keys - place * a.segment), (int64_t)0));
                x = fmaf(x, left, sum[i]);
            }
    }
    (reverse ? a.gradient_total : a.total)[head * COUNT + e] = x;
}

/* The gradient of the state before the first key: R there, of phi. */
template <int X> __global__ void back_state_kernel(const __grid_constant__ linear_back_args a)
{
    constexpr int COUNT = back_state<X, 8>::COUNT, COLUMNS = linear_shape<X>::COLUMNS;
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x), f = e / COLUMNS, c = e % COLUMNS;
    const int64_t head = blockIdx.y, row = head * a.dim + f;
    const bool is_z = c == 8 * X;
    if (f >= a.dim || !(is_z || c < a.dim_value)) return;
    const float *total = a.gradient_total + head * COUNT, *ones = total + 8 * X * COLUMNS;
    const float plus = map_offset(a.map), gamma = linear_sequence(a, head).gamma;
    float x = total[e] + plus * ones[c];
    if (is_z) x += total[e + 1] + plus * ones[c + 1];
    *(is_z ? a.dz_in + row : a.ds_in + row * a.dim_value + c) = x * gamma;
}

/* ---- over the queries ------------------------------------------------------------------------ */

/* 16 queries of a warp: T - middle Z and Z, of psi; and what belongs to every feature alike.  Where
 * a query sees few keys T and h / inv Z nearly cancel: there `middle` is the mean of D.v, taken
 * away before anything is rounded; elsewhere 0. */
template <int X> struct query_rows {
    float t[X][4], z[X][4], t_all[2], z_all[2], middle[2];
    int lane, own; /* own: this lane's first row of the chunk */

    __device__ __forceinline__ void read_state(const rows16<X> &d, const __nv_bfloat16 *state,
                                               const float *zs, const float *ones, float rate,
                                               bool causal)
    {
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
            middle[u] = quad_sum(sum[u]) / quad_sum(count[u]);
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
__device__ __forceinline__ void finish_rows(const linear_back_args &a, const back_place &at,
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
        const float t_all = quad_sum(r.t_all[u]) * plus, z_all = quad_sum(r.z_all[u]) * plus;
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
        dot = quad_sum(dot), den = quad_sum(den) + a.eps;
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

/* Warps 0 to 3 have 16 queries each; warps 4 to 7 have S and R: they add the chunk's keys for the
 * next one, and to R the queries of the chunk before. */
template <int X>
__global__ void __launch_bounds__(BACK_THREADS, X <= 8 ? 2 : 1)
    back_query_kernel(const __grid_constant__ linear_back_args a)
{
    using shape = linear_shape<X>;
    constexpr int FLOATS = back_shape<X>::STATE_FLOATS, STATES = back_shape<X>::STATES;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + 2 * shape::TILE;
    __nv_bfloat16 *queries = values + 2 * shape::TILE, *douts = queries + 3 * shape::TILE;
    __nv_bfloat16 *states = douts + 3 * shape::TILE;
    float *floats = (float *)(states + STATES * shape::ROUNDED), *worth = floats + STATES * FLOATS,
          *weights = worth + 64;
    back_clear<X>(bytes, back_shape<X>::QUERY_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const back_place at(a);
    const linear_sequence &n = at.n;
    const int64_t begin = at.segment * a.segment;
    const int64_t end = min(begin + a.segment, a.causal ? n.keys : n.queries);
    const int chunks = end > begin ? (int)((end - begin + CHUNK - 1) / CHUNK) : 0;
    const bool wide_q = is_wide(a.q, a.dim) && a.dim == 8 * X,
               wide_k = is_wide(a.k, a.dim) && a.dim == 8 * X,
               wide_v = is_wide(a.v, a.dim_value) && a.dim_value == 8 * X,
               wide_d = is_wide(a.dout, a.dim_value) && a.dim_value == 8 * X,
               words = has_words(a.dq);
    auto get = [&](int item) {
        const int c = item / at.group;
        const int64_t token = begin + (int64_t)c * CHUNK, row = token - at.past;
        if (a.causal && item % at.group == 0) {
            const int to = c % 2 * shape::TILE;
            back_fetch<X>(a.k, row_of(a.k, n.b, n.kv, token), 0, n.keys - token, a.dim, wide_k,
                          keys + to);
            back_fetch<X>(a.v, row_of(a.v, n.b, n.kv, token), 0, n.keys - token, a.dim_value,
                          wide_v, values + to);
        }
        const int64_t h = n.kv * at.group + item % at.group;
        const int to = item % 3 * shape::TILE;
        back_fetch<X>(a.q, row_of(a.q, n.b, h, row), at.skip(row), n.queries - row, a.dim, wide_q,
                      queries + to);
        back_fetch<X>(a.dout, row_of(a.dout, n.b, h, row), at.skip(row), n.queries - row,
                      a.dim_value, wide_d, douts + to);
    };
    back_state<X, 4> s, r;
    if (warp >= 4) {
        s.load(a.causal ? a.sums + (at.head * a.segments + at.segment) * back_state<X, 4>::COUNT
                        : a.total + at.head * back_state<X, 4>::COUNT,
               warp - 4);
        r.clear(warp - 4);
        s.publish(states, floats, floats + 8 * X);
    }
    const int items = chunks * at.group;
    if (items) get(0);
    copy_commit();
    for (int item = 0; item < items; item++) {
        const int c = item / at.group;
        const int64_t token = begin + (int64_t)c * CHUNK;
        const int there = (int)max(min(n.keys - token, (int64_t)CHUNK), (int64_t)0);
        const bool first = item % at.group == 0;
        const bool goes_on = a.causal && (item + 1) % at.group == 0 && c + 1 < chunks;
        __nv_bfloat16 *k = keys + c % 2 * shape::TILE, *v = values + c % 2 * shape::TILE;
        const int state = a.causal ? c % STATES : 0;
        copy_wait<0>();
        __syncthreads();
        if (item + 1 < items) get(item + 1);
        copy_commit();
        if (first && a.causal) {
            map_tile<X, false>(k, nullptr, nullptr, nullptr, there, a.dim, a.map);
            if (at.decays) lay_weights(worth, at.rate, there);
            __syncthreads();
        }
        if (warp < 4) {
            __nv_bfloat16 *q = queries + item % 3 * shape::TILE,
                          *d = douts + item % 3 * shape::TILE;
            query_rows<X> rows;
            rows.lane = lane, rows.own = warp * 16 + lane / 4;
            rows16<X> dout;
            dout.load(d, lane, warp * 16);
            const float *zs = floats + state * FLOATS;
            rows.read_state(dout, states + state * shape::ROUNDED, zs, zs + 8 * X, at.rate,
                            a.causal);
            if (a.causal && token == 0) rows.find_middle(dout, v, at.rate);
            if (a.causal) rows.read_keys(dout, k, v, at.rate);
            const query_out out = { n.kv * at.group + item % at.group, token - at.past,
                                    (int64_t)c * CHUNK };
            finish_rows<X>(a, at, rows, q, d, weights + item % 3 * 64, out, words);
        } else {
            if (goes_on) {
                if (at.decays) s.shrink(power_of(at.rate, there));
                s.template append<true>(k, v, at.decays ? worth : nullptr);
            }
            const int before = (item + 2) % 3;
            if (item > 0)
                r.template append<false>(queries + before * shape::TILE,
                                         douts + before * shape::TILE, weights + before * 64);
        }
        if (STATES == 1) __syncthreads();
        if (warp >= 4 && goes_on) {
            float *zs = floats + (c + 1) % STATES * FLOATS;
            s.publish(states + (c + 1) % STATES * shape::ROUNDED, zs, zs + 8 * X);
        }
    }
    __syncthreads();
    if (warp < 4) return;
    if (items) {
        const int before = (items + 2) % 3;
        r.template append<false>(queries + before * shape::TILE, douts + before * shape::TILE,
                                 weights + before * 64);
    }
    r.store(a.gradient_sums + (at.head * a.query_segments + at.segment) * back_state<X, 4>::COUNT);
}

/* ---- over the keys --------------------------------------------------------------------------- */

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
    back_clear<X>(bytes, back_shape<X>::KEY_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int own = warp % 4 * 16 + lane / 4;
    const back_place at(a);
    const linear_sequence &n = at.n;
    const int64_t begin = at.segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = end > begin ? (int)((end - begin + CHUNK - 1) / CHUNK) : 0;
    if (!chunks) return;
    const bool wide_q = is_wide(a.q, a.dim) && a.dim == 8 * X,
               wide_k = is_wide(a.k, a.dim) && a.dim == 8 * X,
               wide_v = is_wide(a.v, a.dim_value) && a.dim_value == 8 * X,
               wide_d = is_wide(a.dout, a.dim_value) && a.dim_value == 8 * X,
               words_k = has_words(a.dk), words_v = has_words(a.dv);
    const int heads = a.causal ? at.group : 1; /* not causal: the state has all queries */
    /* Items are chunks, the last first, times the heads of the group. */
    auto get = [&](int item) {
        const int c = chunks - 1 - item / heads;
        const int64_t token = begin + (int64_t)c * CHUNK, row = token - at.past;
        const int64_t head = n.kv * at.group + item % heads;
        if (item % heads == 0) {
            const int to = c % 2 * shape::TILE;
            back_fetch<X>(a.k, row_of(a.k, n.b, n.kv, token), 0, n.keys - token, a.dim, wide_k,
                          keys + to);
            back_fetch<X>(a.v, row_of(a.v, n.b, n.kv, token), 0, n.keys - token, a.dim_value,
                          wide_v, values + to);
        }
        if (a.causal) {
            const int to = item % 2 * shape::TILE;
            back_fetch<X>(a.q, row_of(a.q, n.b, head, row), at.skip(row), n.queries - row, a.dim,
                          wide_q, queries + to);
            back_fetch<X>(a.dout, row_of(a.dout, n.b, head, row), at.skip(row), n.queries - row,
                          a.dim_value, wide_d, douts + to);
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

/* ---- launches -------------------------------------------------------------------------------- */

template <int X> static cudaError_t run(const linear_back_args &a, cudaStream_t stream)
{
    using shape = back_shape<X>;
    const auto allow = [](const void *kernel, int bytes) {
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    };
    cudaError_t e = allow((const void *)back_sum_kernel<X>, shape::SUM_BYTES);
    if (e == cudaSuccess) e = allow((const void *)back_query_kernel<X>, shape::QUERY_BYTES);
    if (e == cudaSuccess) e = allow((const void *)back_key_kernel<X>, shape::KEY_BYTES);
    if (e != cudaSuccess) return e;
    const unsigned heads = (unsigned)(a.batch * a.kv_heads);
    const dim3 states((back_state<X, 8>::COUNT + 127) / 128, heads);
    const dim3 keys((unsigned)a.segments, heads), queries((unsigned)a.query_segments, heads);
    if (a.segments > 0) back_sum_kernel<X><<<keys, BACK_THREADS, shape::SUM_BYTES, stream>>>(a);
    back_scan_kernel<X, false><<<states, 128, 0, stream>>>(a);
    if (a.query_segments > 0)
        back_query_kernel<X><<<queries, BACK_THREADS, shape::QUERY_BYTES, stream>>>(a);
    back_scan_kernel<X, true><<<states, 128, 0, stream>>>(a);
    if (a.ds_in) back_state_kernel<X><<<states, 128, 0, stream>>>(a);
    if (a.segments > 0) back_key_kernel<X><<<keys, BACK_THREADS, shape::KEY_BYTES, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t linear_back_run(const linear_back_args &a, cudaStream_t stream)
{
    switch (a.width) {
    case 2:
        return run<2>(a, stream);
    case 4:
        return run<4>(a, stream);
    case 8:
        return run<8>(a, stream);
    default:
        return run<16>(a, stream);
    }
}

} // namespace lnt
