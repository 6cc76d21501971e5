/* cuda/linear/linear_forward.cu - linear attention, forward:
 *
 *     y_i = phi(q_i) S_i / (phi(q_i).z_i + eps)      S_i = sum over j <= i of gamma^(i-j) phi(k_j)
 * v_j^T
 *
 * Three launches: the sums of the segments, the state before each, the answers.  The last walks its
 * segment in chunks of 64 tokens with S in the accumulators of the tensor cores:
 *
 *     O = gamma^(i+1) phi(Q) S + (gamma^(i-j) phi(Q) phi(K)^T, j <= i) V       S <- gamma^64 S +
 * ...
 *
 * A column of ones after the values makes the denominators.  Keys and values are read twice, q
 * once, y written once: 2 (d + m) + (d + m) elements a token and head.  See docs/gpu-kernels.md */
#include "cuda/linear/linear.cuh"

namespace lnt
{

/* ---- the sums of a segment ------------------------------------------------------------------- */

template <int X, bool decays>
__global__ void __launch_bounds__(LINEAR_THREADS)
    linear_sum_kernel(const __grid_constant__ linear_args a)
{
    using shape = linear_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + SUM_STAGES * shape::TILE;
    clear_padding<X>(bytes, shape::SUM_BYTES);
    const int64_t segment = blockIdx.x, head = blockIdx.y;
    const linear_sequence n(a, head);
    const int64_t begin = segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = chunks_of(begin, end);
    const chunk_source<X> from_k(a.k, a.dim), from_v(a.v, a.dim_value);

    auto get = [&](int c) {
        if (c < chunks) {
            const int64_t token = begin + (int64_t)c * CHUNK, there = end - token;
            const int at = c % SUM_STAGES * shape::TILE;
            from_k.get(n.b, n.kv, token, 0, there, keys + at);
            from_v.get(n.b, n.kv, token, 0, there, values + at);
        }
        copy_commit();
    };
    for (int c = 0; c < SUM_STAGES - 1; c++) get(c);
    linear_state<X> s;
    s.clear();
    for (int c = 0; c < chunks; c++) {
        copy_wait<SUM_STAGES - 2>();
        __syncthreads();
        get(c + SUM_STAGES - 1);
        const int at = c % SUM_STAGES * shape::TILE;
        const int64_t there = min(end - begin - (int64_t)c * CHUNK, (int64_t)CHUNK);
        map_chunk<X>(keys + at, (int)there, a.dim, a.map);
        __syncthreads();
        if (decays) s.shrink(n.gamma, (int)there);
        s.template append<decays>(keys + at, values + at, n.gamma, (int)there);
    }
    s.store(a.sums + (head * a.segments + segment) * shape::STATE);
}

/* ---- the states before the segments ---------------------------------------------------------- */

template <int X> __global__ void linear_scan_kernel(const __grid_constant__ linear_args a)
{
    using shape = linear_shape<X>;
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= shape::STATE) return;
    const int64_t head = blockIdx.y;
    const linear_sequence n(a, head);
    const int f = e / shape::COLUMNS, c = e % shape::COLUMNS;
    const bool is_z = c == 8 * X, in = f < a.dim && (is_z || c < a.dim_value);
    float x = 0;
    if (a.s_in && in)
        x = is_z ? a.z_in[head * a.dim + f] : a.s_in[(head * a.dim + f) * a.dim_value + c];
    float *at = a.sums + head * a.segments * shape::STATE + e;
    for (int s = 0; s < a.segments; s += SCAN_PREFETCH) {
        float sum[SCAN_PREFETCH];
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++)
            if (s + i < a.segments) sum[i] = at[(int64_t)(s + i) * shape::STATE];
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++)
            if (s + i < a.segments) {
                at[(int64_t)(s + i) * shape::STATE] = x;
                float left = 1.0f;
                if (a.decay)
                    left = powf(n.gamma, (float)max(min(a.segment, n.keys - (s + i) * a.segment),
                                                    (int64_t)0));
                x = fmaf(x, left, sum[i]);
            }
    }
    if (a.total) a.total[head * shape::STATE + e] = x;
    if (a.s_out && in)
        *(is_z ? a.z_out + head * a.dim + f : a.s_out + (head * a.dim + f) * a.dim_value + c) = x;
}

/* ---- the answers ----------------------------------------------------------------------------- */

/* Rows of one chunk and one head out of the accumulators, through the warp's own rows of `rows`,
 * which it has read. */
template <int X>
__device__ __forceinline__ void
write_chunk(const linear_args &a, const linear_sequence &n, int64_t h, int64_t first, bool wide,
            float (&o)[X + 1][4], __nv_bfloat16 *rows, int lane, int warp)
{
    constexpr int LD = linear_shape<X>::LD;
    rows += warp * 16 * LD;
    const int64_t base = row_of(a.out, n.b, h, first + warp * 16);
    __syncwarp();
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t i = first + warp * 16 + lane / 4 + 8 * u;
        float den = o[X][2 * u] + o[X][2 * u + 1];
        den = __shfl_sync(~0u, den, lane & ~3) + a.eps;
        const bool in =
            i >= 0 && i < n.queries && (!a.causal || i + n.past >= 0) && (n.keys > 0 || a.s_in);
        const float factor = in && den != 0 ? 1.0f / den : 0.0f;
        if (in && lane % 4 == 0 && !divides(den)) atomicAdd(a.nonpositive, 1ull);
#pragma unroll
        for (int c = 0; c < X; c++)
            *(uint32_t *)(rows + (lane / 4 + 8 * u) * LD + 8 * c + 2 * (lane % 4)) =
                pack(o[c][2 * u] * factor, o[c][2 * u + 1] * factor);
    }
    __syncwarp();
#pragma unroll
    for (int w = lane; w < 16 * X; w += 32) {
        const int64_t i = first + warp * 16 + w / X;
        if (i < 0 || i >= a.length_q) continue;
        const int column = w % X * 8;
        const __nv_bfloat16 *from = rows + w / X * LD + column;
        const int64_t to = base + w / X * a.out.stride[2] + column * a.out.stride[3];
        if (wide && column < a.dim_value)
            *(uint4 *)((__nv_bfloat16 *)a.out.data + to) = *(const uint4 *)from;
        else
            for (int e = 0; e < 8 && column + e < a.dim_value; e++)
                store(a.out, to + e * a.out.stride[3], __bfloat162float(from[e]));
    }
}

/* Causal: chunks of keys from `begin`, the queries that stand beside them.  Not causal: chunks of
 * queries, all with the state of all keys. */
template <int X, bool decays>
__global__ void __launch_bounds__(LINEAR_THREADS)
    linear_answer_kernel(const __grid_constant__ linear_args a)
{
    using shape = linear_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + 2 * shape::TILE;
    __nv_bfloat16 *queries = values + 2 * shape::TILE, *state = queries + 2 * shape::TILE;
    clear_padding<X>(bytes, shape::ANSWER_BYTES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t segment = blockIdx.x, head = blockIdx.y;
    const linear_sequence n(a, head);
    const int group = a.heads / a.kv_heads;
    /* Positions are those of the keys; queries of position p are rows p - past. */
    const int64_t past = a.causal ? n.past : 0, length = a.causal ? n.keys : a.length_q;
    const int64_t begin = segment * a.segment;
    const int64_t end = min(begin + a.segment, a.causal ? max(length, a.length_q + past) : length);
    const int chunks = chunks_of(begin, end);
    const chunk_source<X> from_q(a.q, a.dim), from_k(a.k, a.dim), from_v(a.v, a.dim_value);
    const bool wide_out = is_wide(a.out, a.dim_value);

    auto get_keys = [&](int c) {
        const int64_t token = begin + (int64_t)c * CHUNK;
        const int at = c % 2 * shape::TILE;
        from_k.get(n.b, n.kv, token, 0, n.keys - token, keys + at);
        from_v.get(n.b, n.kv, token, 0, n.keys - token, values + at);
    };
    /* Queries: item = chunk * group + head of the group.  Rows before 0 are not there. */
    auto get_queries = [&](int item) {
        const int64_t row = begin + (int64_t)(item / group) * CHUNK - past;
        const int skip = (int)min(max(-row, (int64_t)0), (int64_t)CHUNK);
        from_q.get(n.b, n.kv * group + item % group, row, skip, n.queries - row,
                   queries + item % 2 * shape::TILE);
    };
    if (a.causal && segment == 0) /* rows that stand before the first key */
        clear_rows(a, n, 0, min(-n.past, a.length_q), 0, 1);
    linear_state<X> s;
    s.load(a.causal ? a.sums + (head * a.segments + segment) * shape::STATE
                    : a.total + head * shape::STATE);
    if (chunks) {
        if (a.causal) get_keys(0);
        get_queries(0);
    }
    copy_commit();
    s.round(state);
    for (int c = 0; c < chunks; c++) {
        const int64_t token = begin + (int64_t)c * CHUNK;
        const int there = (int)max(min(n.keys - token, (int64_t)CHUNK), (int64_t)0);
        __nv_bfloat16 *k = keys + c % 2 * shape::TILE, *v = values + c % 2 * shape::TILE;
        for (int g = 0; g < group; g++) {
            const int item = c * group + g;
            __nv_bfloat16 *q = queries + item % 2 * shape::TILE;
            copy_wait<0>();
            __syncthreads();
            if (g == 0 && a.causal && c + 1 < chunks) get_keys(c + 1);
            if (item + 1 < chunks * group) get_queries(item + 1);
            copy_commit();
            if (g == 0 && a.causal) map_chunk<X>(k, there, a.dim, a.map);
            __syncthreads();
            float o[X + 1][4];
            read_chunk<X, decays>(q, k, v, state, n.gamma, a.causal, a.map, o, lane, warp);
            write_chunk<X>(a, n, n.kv * group + g, token - past, wide_out, o, q, lane, warp);
        }
        if (!a.causal || c + 1 == chunks) continue;
        if (decays) s.shrink(n.gamma, there);
        s.template append<decays>(k, v, n.gamma, there);
        __syncthreads(); /* all have read the state */
        s.round(state);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int X, bool decays> static cudaError_t run(const linear_args &a, cudaStream_t stream)
{
    using shape = linear_shape<X>;
    static_assert(shape::SUM_BYTES <= linear_bytes(X, false) &&
                      shape::ANSWER_BYTES <= linear_bytes(X, false),
                  "choose.cc asks for less");
    const unsigned heads = (unsigned)(a.batch * a.kv_heads);
    const int64_t pieces = a.causal ? a.segments : (a.length_q + a.segment - 1) / a.segment;
    const dim3 sums((unsigned)a.segments, heads),
        answers(a.length_q > 0 ? (unsigned)pieces : 0, heads);
    const cudaError_t e = launch_kernel(linear_sum_kernel<X, decays>, sums, LINEAR_THREADS,
                                        shape::SUM_BYTES, stream, a);
    if (e != cudaSuccess) return e;
    linear_scan_kernel<X><<<dim3((shape::STATE + 255) / 256, heads), 256, 0, stream>>>(a);
    return launch_kernel(linear_answer_kernel<X, decays>, answers, LINEAR_THREADS,
                         shape::ANSWER_BYTES, stream, a);
}

cudaError_t linear_run(const linear_args &a, cudaStream_t stream)
{
    return by_width<1>(a.width, [&](auto x) {
        return a.decay ? run<x.value, true>(a, stream) : run<x.value, false>(a, stream);
    });
}

} // namespace lnt
