/* cuda/f32/f32_answer.cu - the answers of f32.h:
 *
 *     y_i = (phi(q_i) S + sum_j w_ij v_j) / (phi(q_i).z + sum_j w_ij + eps)
 *
 * A block of threads has 128 queries, 16 a warp, at positions of one segment: S is the state before
 * it, j its own keys up to the query.  Not causal: S is all.  The direct form and softmax: j is
 * all. Features go 32 at a time through shared memory, keys likewise. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

enum { ANSWER_LD = F32_ROWS + 8 }; /* rows of queries apart in shared memory */

template <int N8> struct answer_shared { /* in floats */
    static constexpr int B = F32_TOKENS * f32_shape<N8>::LD;
    int rows, phi, keys, b, size; /* x is at 0; phi and keys are not there at once */
    __host__ __device__ explicit answer_shared(int dim)
    {
        rows = (dim + 8) / 8 * 8; /* zeros up to 8, and a 1 after the last */
        phi = keys = rows * ANSWER_LD;
        const int features = F32_TOKENS * ANSWER_LD, two = 2 * rows * F32_KEY_LD;
        b = phi + (features > two ? features : two);
        size = b + 2 * B;
    }
};

struct answer_job {
    f32_sequence n;
    int64_t h, first, position; /* of the first query, which may be before 0 */
    int64_t prefix;             /* segment of the state */
    int64_t begin, end;         /* keys that are read one by one */
    bool any;                   /* whether any query is there */
    bool lands;                 /* landmarks stand for the keys */

    __device__ answer_job(const f32_args &a, int64_t tile, int64_t part)
        : n(a, blockIdx.z, blockIdx.y * (unsigned)a.kv_heads / (unsigned)a.heads), h(blockIdx.y)
    {
        int64_t over = a.causal ? n.past % F32_ROWS : 0;
        if (over < 0) over += F32_ROWS;
        first = tile * F32_ROWS - over; /* so that positions begin at a multiple of 128 */
        position = a.causal ? first + n.past : 0;
        any = first < n.queries && first + F32_ROWS > 0;
        prefix = a.causal && position > 0 ? position / a.segment : 0;
        begin = a.causal && a.by_state ? prefix * a.segment : 0;
        end = a.causal ? min(n.keys, position + F32_ROWS) : a.by_state ? 0 : n.keys;
        lands = a.land_keys && n.queries > a.landmarks && n.keys > a.landmarks;
        if (lands) n.keys = end = a.landmarks;
        if (!a.parts) return;
        const int64_t each = f32_rounded((n.keys + a.parts - 1) / a.parts);
        begin = part * each, end = min(n.keys, begin + each);
    }
    /* Keys that row r may see. */
    __device__ __forceinline__ int64_t seen(const f32_args &a, int r) const
    {
        return a.causal ? max((int64_t)0, min(n.keys, position + r + 1)) : n.keys;
    }
};

/* x [rows][ANSWER_LD]: the queries as the features see them, one a column, and a row of ones. */
template <int N8>
__device__ static void take_queries(const f32_args &a, const answer_job &job,
                                    const answer_shared<N8> &at, float *x)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float tau = a.temperature ? a.temperature[job.h] : 1.0f;
#pragma unroll 4
    for (int r = warp * 16; r < warp * 16 + 16; r++) {
        const int64_t i = job.first + r;
        const bool in = i >= 0 && i < job.n.queries;
        const int64_t row = row_of(a.q, job.n.b, job.h, i);
        float square = 0;
        for (int e = lane; e < at.rows; e += 32) {
            float y = e == a.dim ? 1.0f : 0.0f;
            if (in && e < a.dim) y = f32_map(a, take(a.q, row, e));
            x[e * ANSWER_LD + r] = y;
            if (e < a.dim) square = fmaf(y, y, square);
        }
        if (!a.normalize) continue;
        const float factor = f32_norm(square, 32) * tau;
        for (int e = lane; e < a.dim; e += 32) x[e * ANSWER_LD + r] *= factor;
    }
}

/* ---- the state ------------------------------------------------------------------------------- */

/* The four features of a warp that begin at `first`, or before it the last. */
__device__ __forceinline__ void ask_features(const f32_args &a, int64_t first,
                                             uint64_t (&feature)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) feature[i] = __ldg(a.table + min(first + i, a.count - 1));
}

template <int N8>
__device__ __forceinline__ void read_state(const f32_args &a, const answer_job &job,
                                           const answer_shared<N8> &at, float *shared,
                                           float (&acc)[N8][4])
{
    using shape = f32_shape<N8>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t rounded = f32_rounded(a.count);
    const float *state =
        a.sums + ((job.n.b * a.kv_heads + job.n.kv) * a.segments + job.prefix) * rounded * shape::N;
    auto get = [&](int64_t f) {
        if (f < rounded)
            copy_rows<shape::N, shape::LD>(shared + at.b + (f / F32_TOKENS) % 2 * at.B,
                                           state + f * shape::N, F32_TOKENS);
        copy_commit();
    };
    /* 32 features of 128 queries, [32][ANSWER_LD]: a warp has 4 features, a lane 4 queries of them.
     */
    float *phi = shared + at.phi + warp * 4 * ANSWER_LD + lane * 4;
    uint64_t feature[4];
    ask_features(a, warp * 4, feature);
    get(0);
    for (int64_t f = 0; f < rounded; f += F32_TOKENS) {
        get(f + F32_TOKENS);
        make_features(feature, a.factors, shared + lane * 4, ANSWER_LD,
                      [&](int i, const float4 &y) { *(float4 *)(phi + i * ANSWER_LD) = y; });
        ask_features(a, f + F32_TOKENS + warp * 4, feature);
        copy_wait<1>();
        __syncthreads();
        const float *b = shared + at.b + (f / F32_TOKENS) % 2 * at.B;
#pragma unroll
        for (int k = 0; k < F32_TOKENS; k += 8 * shape::K) {
            f32_rows<shape::K> rows;
            rows.take_columns(shared + at.phi + k * ANSWER_LD + warp * 16, ANSWER_LD, lane);
            multiply_add(acc, rows, b + k * shape::LD, shape::LD, lane);
        }
        __syncthreads();
    }
    if (!a.log_decay) return;
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t r = job.position + warp * 16 + lane / 4 + 8 * u;
        const float left = job.n.left(r + 1 - job.prefix * a.segment);
#pragma unroll
        for (int n = 0; n < N8; n++) acc[n][2 * u] *= left, acc[n][2 * u + 1] *= left;
    }
}

/* ---- keys one by one ------------------------------------------------------------------------- */

__device__ __forceinline__ void weigh_taylor(const f32_args &a, f32_scores &x)
{
    f32_scores y;
#pragma unroll
    for (int e = 0; e < 16; e++) y[e / 4][e % 4] = a.coefficient[a.terms - 1];
    for (int t = a.terms - 2; t >= 0; t--) {
        const float c = a.coefficient[t];
#pragma unroll
        for (int e = 0; e < 16; e++) y[e / 4][e % 4] = fmaf(y[e / 4][e % 4], x[e / 4][e % 4], c);
    }
#pragma unroll
    for (int e = 0; e < 16; e++) x[e / 4][e % 4] = y[e / 4][e % 4];
}

/* e^(x - top), the largest so far; what was summed before shrinks to that. */
template <int N8>
__device__ __forceinline__ void weigh_softmax(f32_scores &x, const int (&left)[2], float (&top)[2],
                                              float (&acc)[N8][4])
{
#pragma unroll
    for (int u = 0; u < 2; u++) {
        float most = top[u];
#pragma unroll
        for (int n = 0; n < F32_TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (8 * n + 4 * i < left[u]) most = fmaxf(most, x[n][2 * u + i]);
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        if (most == -INFINITY) most = 0; /* nothing seen so far */
        const float shrink = exp2f(top[u] - most);
        top[u] = most;
#pragma unroll
        for (int n = 0; n < N8; n++) acc[n][2 * u] *= shrink, acc[n][2 * u + 1] *= shrink;
#pragma unroll
        for (int n = 0; n < F32_TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) x[n][2 * u + i] = exp2f(x[n][2 * u + i] - most);
    }
}

/* Weights of the keys from `own` on, the lane's first, for rows that may see so many of all; as A.
 */
template <int N8>
__device__ __forceinline__ void weigh_keys(const f32_args &a, const answer_job &job, f32_scores &x,
                                           int64_t own, const int64_t (&seen)[2], float (&top)[2],
                                           float (&acc)[N8][4], f32_rows<F32_TOKENS / 8> &w)
{
    int left[2]; /* of the keys from the first on, how many the rows may see */
#pragma unroll
    for (int u = 0; u < 2; u++)
        left[u] = (int)max(min(seen[u] - own, (int64_t)F32_TOKENS), (int64_t)0);
    if (a.mode == F32_TAYLOR) weigh_taylor(a, x);
    if (a.mode == F32_SOFTMAX) {
#pragma unroll
        for (int e = 0; e < 16; e++) x[e / 4][e % 4] *= a.coefficient[0];
        weigh_softmax(x, left, top, acc);
    }
#pragma unroll
    for (int n = 0; n < F32_TOKENS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) { /* of C, then of A: rows change first there */
            const int j = 8 * n + 4 * (i % 2);
            float y = x[n][i];
            if (a.log_decay) y *= job.n.left(max(seen[i / 2] - 1 - own - j, (int64_t)0));
            if (j >= left[i / 2]) y = 0;
            split(y, w.high[n][i / 2 + i % 2 * 2], w.low[n][i / 2 + i % 2 * 2]);
        }
}

template <int N8>
__device__ __forceinline__ void read_keys(const f32_args &a, const answer_job &job,
                                          const answer_shared<N8> &at, float *shared,
                                          float (&acc)[N8][4], float (&top)[2])
{
    using shape = f32_shape<N8>;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, row = warp * 16;
    const int dim = (a.dim + 7) / 8 * 8;
    const int64_t blocks = f32_rounded(job.lands ? a.landmarks : a.length_k) / F32_TOKENS;
    const float *keys = job.lands ? a.land_keys : a.keys;
    const float *values = job.lands ? a.land_values : a.values;
    keys += (job.n.b * a.kv_heads + job.n.kv) * blocks * dim * F32_TOKENS;
    values += (job.lands ? job.n.b * a.heads + job.h : job.n.b * a.kv_heads + job.n.kv) * blocks *
              F32_TOKENS * shape::N;
    const int64_t seen[2] = { job.seen(a, row + lane / 4), job.seen(a, row + lane / 4 + 8) };
    const bool there = job.first + row < job.n.queries; /* whether the warp has any query */
    const int64_t last = there ? job.seen(a, row + 15) : 0;
    auto get = [&](int64_t key) {
        if (key < job.end) {
            const int64_t block = key / F32_TOKENS, stage = block % 2;
            copy_rows<F32_TOKENS, F32_KEY_LD>(shared + at.keys + stage * at.rows * F32_KEY_LD,
                                              keys + block * dim * F32_TOKENS, dim);
            copy_rows<shape::N, shape::LD>(shared + at.b + stage * at.B,
                                           values + block * F32_TOKENS * shape::N, F32_TOKENS);
        }
        copy_commit();
    };
    get(job.begin);
    for (int64_t key = job.begin; key < job.end; key += F32_TOKENS) {
        const int64_t stage = key / F32_TOKENS % 2;
        get(key + F32_TOKENS);
        copy_wait<1>();
        __syncthreads();
        if (key < last) {
            f32_scores x = {};
            multiply_keys(x, shared + row, ANSWER_LD,
                          shared + at.keys + stage * at.rows * F32_KEY_LD, dim, lane);
            f32_rows<F32_TOKENS / 8> w;
            weigh_keys(a, job, x, key + lane % 4, seen, top, acc, w);
            multiply_add(acc, w, shared + at.b + stage * at.B, shape::LD, lane);
        }
        __syncthreads();
    }
}

/* ---- rows out -------------------------------------------------------------------------------- */

template <int N8>
__device__ __forceinline__ void write_partial(const f32_args &a, const answer_job &job,
                                              int64_t part, const float (&acc)[N8][4],
                                              const float (&top)[2])
{
    constexpr int N = f32_shape<N8>::N;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t i = job.first + warp * 16 + lane / 4 + 8 * u;
        if (i >= a.length_q) continue;
        const int64_t head = job.n.b * a.heads + job.h;
        float *to = a.partial + ((head * a.parts + part) * a.length_q + i) * N + 2 * (lane % 4);
#pragma unroll
        for (int n = 0; n < N8 - 1; n++)
            *(float2 *)(to + 8 * n) = make_float2(acc[n][2 * u], acc[n][2 * u + 1]);
        if (lane % 4 == 0) *(float2 *)(to + N - 8) = make_float2(acc[N8 - 1][2 * u], top[u]);
    }
}

/* The landmark that query i is, as landmark l is query floor(l n / M); -1: none. */
__device__ __forceinline__ int64_t landmark_of(const f32_args &a, const answer_job &job, int64_t i)
{
    const int64_t M = a.landmarks, n = job.n.queries, l = (i * M + n - 1) / n;
    return job.lands && a.land_rows && l < M && l * n / M == i ? l : -1;
}

template <int N8>
__device__ __forceinline__ void write_rows(const f32_args &a, const answer_job &job,
                                           const float (&acc)[N8][4], const float (&top)[2])
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const bool plain = a.out.dtype == LNT_F32 && a.out.stride[3] == 1;
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int r = warp * 16 + lane / 4 + 8 * u;
        const int64_t i = job.first + r;
        const float den = __shfl_sync(~0u, acc[N8 - 1][2 * u], lane & ~3) + a.eps;
        if (i < 0 || i >= a.length_q) continue;
        const int64_t seen = job.seen(a, r);
        const bool in = i < job.n.queries;
        float factor = in && den != 0 ? 1.0f / den : 0.0f;
        if (a.inverse && lane % 4 == 0)
            a.inverse[(job.n.b * a.heads + job.h) * a.length_q + i] = a.mode != F32_SOFTMAX ? factor
                                                                      : factor > 0
                                                                          ? top[u] + log2f(den)
                                                                          : INFINITY;
        if (a.output_norm) factor *= sqrtf((float)seen / (float)a.dim);
        if (in && (seen > 0 || a.s_in) && lane % 4 == 0 && !divides(den))
            atomicAdd(a.nonpositive, 1ull);
        const int64_t row = row_of(a.out, job.n.b, job.h, i), l = landmark_of(a, job, i);
        const float *known =
            a.land_rows + ((job.n.b * a.heads + job.h) * a.landmarks + l) * f32_shape<N8>::N;
#pragma unroll
        for (int n = 0; n < N8 - 1; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int c = 8 * n + 2 * (lane % 4) + e;
                if (c >= a.dim_value) continue;
                const float y = l >= 0 ? known[c] : acc[n][2 * u + e] * factor;
                if (plain)
                    ((float *)a.out.data)[row + c] = y;
                else
                    store(a.out, row + c * a.out.stride[3], y);
            }
    }
}

template <int N8>
__global__ void __launch_bounds__(F32_THREADS, f32_shape<N8>::BLOCKS)
    f32_answer_kernel(const __grid_constant__ f32_args a)
{
    extern __shared__ __align__(16) float shared[];
    const answer_shared<N8> at(a.dim);
    const unsigned turned = gridDim.x - 1 - blockIdx.x; /* the longest first */
    const unsigned parts = a.parts ? (unsigned)a.parts : 1u;
    const answer_job job(a, turned / parts, turned % parts);
    float acc[N8][4] = {}, top[2] = { -INFINITY, -INFINITY };
    if (job.any) {
        take_queries(a, job, at, shared);
        __syncthreads();
        if (a.by_state && (!a.causal || job.prefix > 0 || a.s_in))
            read_state(a, job, at, shared, acc);
        read_keys(a, job, at, shared, acc, top);
    }
    if (a.parts)
        write_partial(a, job, turned % parts, acc, top);
    else
        write_rows(a, job, acc, top);
}

template <int N8> static cudaError_t run(const f32_args &a, cudaStream_t stream)
{
    const int bytes = answer_shared<N8>(a.dim).size * (int)sizeof(float);
    assert(bytes <= f32_answer_bytes(a.dim, a.dim_value));
    const int64_t tiles = (a.length_q + F32_ROWS - 1) / F32_ROWS + (a.causal ? 1 : 0);
    const dim3 grid((unsigned)(tiles * (a.parts ? a.parts : 1)), (unsigned)a.heads,
                    (unsigned)a.batch);
    return launch_kernel(f32_answer_kernel<N8>, grid, F32_THREADS, bytes, stream, a);
}

cudaError_t f32_answer_run(const f32_args &a, cudaStream_t stream)
{
    return f32_by_columns(a.dim_value,
                          [&](auto n8) { return run<decltype(n8)::value>(a, stream); });
}

} // namespace lnt
