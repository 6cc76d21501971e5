/* cuda/linear/linear_backward.cu - gradients of linear attention (docs/math/linear.md).  With n_i and
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
#include "cuda/linear/linear_backward.cuh"

namespace lnt
{

/* ---- the sums of a segment ------------------------------------------------------------------- */

template <int X>
__global__ void __launch_bounds__(BACKWARD_THREADS)
    linear_backward_sum_kernel(const __grid_constant__ linear_backward_args a)
{
    using shape = linear_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + SUM_STAGES * shape::TILE;
    float *weights = (float *)(values + SUM_STAGES * shape::TILE);
    clear_padding<X, BACKWARD_THREADS>(bytes, backward_shape<X>::SUM_BYTES);
    const backward_place at(a);
    const linear_sequence &n = at.n;
    const int64_t begin = at.segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = chunks_of(begin, end);
    const chunk_source<X, BACKWARD_THREADS> from_k(a.k, a.dim), from_v(a.v, a.dim_value);
    auto get = [&](int c) {
        if (c < chunks) {
            const int64_t token = begin + (int64_t)c * CHUNK, there = end - token;
            const int to = c % SUM_STAGES * shape::TILE;
            from_k.get(n.b, n.kv, token, 0, there, keys + to);
            from_v.get(n.b, n.kv, token, 0, there, values + to);
        }
        copy_commit();
    };
    for (int c = 0; c < SUM_STAGES - 1; c++) get(c);
    backward_state<X, 8> s;
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
    s.store(a.sums + (at.head * a.segments + at.segment) * backward_state<X, 8>::COUNT);
}

/* ---- from sums to states --------------------------------------------------------------------- */

enum { BACKWARD_PREFETCH = 16, BACKWARD_SCAN_THREADS = 128 };

/* S: forward, from the state before the first key; R: backward, from the gradient of the last
 * state.  The sums become the states before (S) or after (R) their segments, then comes the total.
 */
template <int X, bool reverse>
__global__ void linear_backward_scan_kernel(const __grid_constant__ linear_backward_args a)
{
    constexpr int COUNT = backward_state<X, 8>::COUNT, COLUMNS = linear_shape<X>::COLUMNS;
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
    for (int s = 0; s < segments; s += BACKWARD_PREFETCH) {
        float sum[BACKWARD_PREFETCH];
#pragma unroll
        for (int i = 0; i < BACKWARD_PREFETCH; i++)
            if (s + i < segments)
                sum[i] = at[(int64_t)(reverse ? segments - 1 - s - i : s + i) * COUNT];
#pragma unroll
        for (int i = 0; i < BACKWARD_PREFETCH; i++)
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
template <int X>
__global__ void linear_backward_state_kernel(const __grid_constant__ linear_backward_args a)
{
    constexpr int COUNT = backward_state<X, 8>::COUNT, COLUMNS = linear_shape<X>::COLUMNS;
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

/* ---- launches -------------------------------------------------------------------------------- */

template <int X> static unsigned scan_blocks()
{
    return (backward_state<X, 8>::COUNT + BACKWARD_SCAN_THREADS - 1) / BACKWARD_SCAN_THREADS;
}

template <int X> static cudaError_t sums(const linear_backward_args &a, cudaStream_t stream)
{
    constexpr int bytes = backward_shape<X>::SUM_BYTES;
    static_assert(bytes <= linear_bytes(X, true), "choose.cc asks for less");
    const unsigned heads = (unsigned)(a.batch * a.kv_heads);
    const dim3 keys((unsigned)a.segments, heads), states(scan_blocks<X>(), heads);
    const cudaError_t e =
        launch_kernel(linear_backward_sum_kernel<X>, keys, BACKWARD_THREADS, bytes, stream, a);
    if (e != cudaSuccess) return e;
    linear_backward_scan_kernel<X, false><<<states, BACKWARD_SCAN_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

template <int X>
static cudaError_t gradient_states(const linear_backward_args &a, cudaStream_t stream)
{
    const dim3 states(scan_blocks<X>(), (unsigned)(a.batch * a.kv_heads));
    linear_backward_scan_kernel<X, true><<<states, BACKWARD_SCAN_THREADS, 0, stream>>>(a);
    if (a.ds_in) linear_backward_state_kernel<X><<<states, BACKWARD_SCAN_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t linear_backward_run(const linear_backward_args &a, cudaStream_t stream)
{
    auto states_before = [&](auto x) { return sums<x.value>(a, stream); };
    auto states_after = [&](auto x) { return gradient_states<x.value>(a, stream); };
    cudaError_t e = by_width<2>(a.width, states_before);
    if (e == cudaSuccess && a.query_segments > 0) e = linear_backward_queries_run(a, stream);
    if (e == cudaSuccess) e = by_width<2>(a.width, states_after);
    if (e == cudaSuccess && a.segments > 0) e = linear_backward_keys_run(a, stream);
    return e;
}

} // namespace lnt
