/* cuda/f32/f32_backward.cu - gradients of f32.h, of one side's rows against the other side:
 *
 *     queries   dphi(q_i) = S g_i,       and over the keys of their segment  dq_i += G_ij w' k_j
 *     keys      dphi(k_j) = R [v_j, 1],  dv_j = R^T phi(k_j),  and over the queries of theirs
 *               dk_j += G_ij w' q_i,  dv_j += w g_i
 *
 * A block of threads has 16 rows a warp.  The rows' gradients are summed in shared memory, where a
 * gradient of a feature is taken back to the elements that the feature is a product of. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

/* In floats.  LD: rows of x, dx and phi apart; VALUES: those of values and states, so that they can
 * be read down and across. */
template <int N8> struct backward_shared {
    static constexpr int VALUES = 8 * N8 + 4, B = F32_TOKENS * VALUES;
    int ld, rows; /* rows: elements, zeros up to 8; a 1 after the last */
    int copies;   /* of dx: one for each half of a warp, where there is room */
    int dx, u, phi, keys, b, table, size; /* x is at 0; phi and keys are not there at once */
    __host__ __device__ backward_shared(int dim, int warps, int copies_) : copies(copies_)
    {
        ld = 16 * warps + 8, rows = dim % 8 ? (dim + 7) / 8 * 8 : dim + 1;
        dx = rows * ld;
        u = dx + copies * rows * ld;
        phi = keys = u + 16 * warps * VALUES;
        const int features = F32_TOKENS * ld, two = 2 * rows * F32_KEY_LD;
        b = phi + (features > two ? features : two);
        table = b + 2 * B;
        size = table + 2 * 2 * F32_TOKENS;
    }
};

/* What one block of threads does. */
struct backward_job {
    f32_sequence n;
    int side;
    int64_t h;        /* a head, or a kv head */
    int64_t first;    /* place of the first row */
    int64_t segment;  /* that it is in */
    int64_t end;      /* of the rows that are there */
    int64_t from, to; /* places of the other side that are read one by one */

    __device__ backward_job(const f32_args &a, int side_, int rows)
        : n(a, blockIdx.z,
            side_ == F32_KEYS ? blockIdx.y : blockIdx.y * (unsigned)a.kv_heads / (unsigned)a.heads),
          side(side_), h(blockIdx.y)
    {
        const bool turned = side == F32_QUERIES; /* the longest first */
        first = (int64_t)(turned ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
        segment = a.causal ? first / a.segment : 0;
        end = side == F32_KEYS || a.causal ? n.keys : n.queries;
        const int64_t all = side == F32_QUERIES || a.causal ? n.keys : n.queries;
        from = 0, to = all;
        if (a.by_state && !a.causal) to = 0;
        if (!a.causal) return;
        if (side == F32_QUERIES) {
            from = a.by_state ? segment * a.segment : 0;
            to = min(all, first + rows);
        } else {
            from = max(first, n.past / F32_TOKENS * F32_TOKENS); /* where the queries begin */
            if (a.by_state) to = min(all, (segment + 1) * a.segment);
        }
    }
    /* Tokens between a row and the state it reads: those that its decay counts. */
    __device__ __forceinline__ int64_t behind(const f32_args &a, int64_t place) const
    {
        if (side == F32_QUERIES) return place + 1 - segment * a.segment;
        return max(min((segment + 1) * a.segment, n.keys) - 1 - place, (int64_t)0);
    }
};

/* As many warps as there are, not F32_WARPS. */
template <int W, int LD>
__device__ __forceinline__ void backward_copy(float *to, const float *from, int rows)
{
    copy_rows<W, LD>(to, from, rows, (int)blockDim.x);
}

/* x [rows][ld], one row a column with a 1 after its elements; dx 0; u [row][VALUES]. */
template <int N8>
__device__ static void take_own(const f32_args &a, const backward_job &job, const float *keys,
                                const float *values, const backward_shared<N8> &at, float *shared)
{
    constexpr int N = f32_shape<N8>::N;
    const int dim = (a.dim + 7) / 8 * 8, own = (int)blockDim.x / 2; /* 16 rows a warp */
    const int64_t block = job.first / F32_TOKENS;
    const int64_t there = f32_rounded(job.end) - job.first; /* packed; the rest is not */
    for (int i = (int)threadIdx.x; i < at.rows * own; i += (int)blockDim.x) {
        const int e = i / own, place = i % own, row = (place & ~31) + token_at(place % 32);
        float x = e == a.dim ? 1.0f : 0.0f;
        if (e < a.dim && place < there)
            x = keys[((block + place / 32) * dim + e) * F32_TOKENS + place % 32];
        shared[e * at.ld + row] = x;
    }
    for (int i = (int)threadIdx.x; i < at.copies * at.rows * at.ld; i += (int)blockDim.x)
        shared[at.dx + i] = 0.0f;
    for (int i = (int)threadIdx.x; i < own * N; i += (int)blockDim.x)
        shared[at.u + i / N * at.VALUES + i % N] = i / N < there ? values[job.first * N + i] : 0.0f;
}

/* ---- products -------------------------------------------------------------------------------- */

/* 16 rows of A [row][ld], columns from `a` on. */
template <int K>
__device__ __forceinline__ void take_plain(f32_rows<K> &to, const float *a, int ld, int lane)
{
    a += lane / 4 * ld + lane % 4;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            split(a[i % 2 * 8 * ld + 8 * k + i / 2 * 4], to.high[k][i], to.low[k][i]);
}

/* acc += A B as multiply_add() has it; B(k, n, i): element 4 i + t of column g of its tiles. */
template <int N8, int K, class B>
__device__ __forceinline__ void multiply_add_by(float (&acc)[N8][4], const f32_rows<K> &a,
                                                const B &b)
{
#pragma unroll
    for (int n = 0; n < N8; n++) {
        float sum[4] = {};
        uint32_t high[K][2], low[K][2];
#pragma unroll
        for (int k = 0; k < K; k++) {
            float two[2];
            b(k, n, two);
            split(two[0], high[k][0], low[k][0]);
            split(two[1], high[k][1], low[k][1]);
            mma_tf32(sum, a.low[k], high[k][0], high[k][1]);
            mma_tf32(sum, a.high[k], low[k][0], low[k][1]);
        }
#pragma unroll
        for (int k = 0; k < K; k++) mma_tf32(sum, a.high[k], high[k][0], high[k][1]);
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i] += sum[i];
    }
}

/* The rows' u times `rows` of values or of a state, [32][VALUES]: 16 x 32, over all columns. row(g)
 * is the one that column g of a tile stands for. */
template <int N8, class R>
__device__ __forceinline__ void dot_rows(float (&out)[F32_TOKENS / 8][4], const float *u,
                                         const float *values, int lane, const R &row)
{
    constexpr int LD = backward_shared<N8>::VALUES;
    const float *b = values + row(lane / 4) * LD + lane % 4;
    auto some = [&](auto tiles, int first) {
        constexpr int K = decltype(tiles)::value;
        f32_rows<K> a;
        take_plain(a, u + 8 * first, LD, lane);
        multiply_add_by(out, a, [&](int k, int n, float *two) {
            two[0] = b[8 * n * LD + 8 * (first + k)], two[1] = b[8 * n * LD + 8 * (first + k) + 4];
        });
    };
#pragma unroll 1
    for (int first = 0; first + 4 <= N8; first += 4) some(std::integral_constant<int, 4>(), first);
    if constexpr (N8 % 4 > 0) some(std::integral_constant<int, N8 % 4>(), N8 / 4 * 4);
}

/* ---- the state ------------------------------------------------------------------------------- */

__device__ __forceinline__ int element(uint64_t feature, int byte)
{
    return (int)(feature >> (8 * byte)) & 255;
}

/* From the gradient of the product of a feature's first elements, t, to those elements. */
__device__ __forceinline__ void take_back_prefix(uint64_t feature, int factors, float t,
                                                 const float *x, float *dx, int ld)
{
    float value[6], after[6];
#pragma unroll
    for (int p = 0; p < 6; p++)
        value[p] = p < factors - 2 || p == 5 ? x[element(feature, p) * ld] : 1.0f;
    after[5] = 1;
#pragma unroll
    for (int p = 4; p >= 0; p--) after[p] = after[p + 1] * value[p + 1];
#pragma unroll
    for (int p = 0; p < 6; p++) {
        if (p < factors - 2 || p == 5) dx[element(feature, p) * ld] += t * after[p];
        t *= value[p];
    }
}

/* dx of one row += the gradients of features `begin` to `end` of the table, which are in phi. */
__device__ __forceinline__ void take_back(const uint64_t *table, int begin, int end, int factors,
                                          const float *phi, const float *x, float *dx, int ld)
{
    float prefix = 1, t = 0;
    uint64_t before = 0;
    for (int f = begin; f < end; f++) {
        const uint64_t feature = table[f];
        if (factors > 1 && (f == begin || !(feature >> 56 & 1))) {
            if (f > begin) take_back_prefix(before, factors, t, x, dx, ld);
            prefix = x[element(feature, 5) * ld], t = 0;
            for (int p = 0; p < factors - 2; p++) prefix *= x[element(feature, p) * ld];
            before = feature;
        }
        const int last = element(feature, 6) * ld;
        const float g = phi[f * ld];
        t = fmaf(g, x[last], t);
        dx[last] = fmaf(g, prefix, dx[last]);
    }
    if (factors > 1) take_back_prefix(before, factors, t, x, dx, ld);
}

/* dv of the warp's rows += phi R of 32 features, which are left in phi. */
template <int N8>
__device__ __forceinline__ void add_values(float (&dv)[N8][4], const uint64_t *table, int factors,
                                           const float *x, float *phi, int ld, const float *state,
                                           int lane)
{
    uint64_t four[4];
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = table[lane / 4 * 4 + i];
    float *to = phi + lane / 4 * 4 * ld + lane % 4 * 4;
    make_features(four, factors, x + lane % 4 * 4, ld,
                  [&](int i, const float4 &y) { *(float4 *)(to + i * ld) = y; });
    __syncwarp();
    f32_rows<F32_TOKENS / 8> rows;
    rows.take_columns(phi, ld, lane);
    multiply_add(dv, rows, state, backward_shared<N8>::VALUES, lane);
    __syncwarp();
}

template <int N8>
__device__ __forceinline__ void backward_state(const f32_args &a, const backward_job &job,
                                               const float *state, const backward_shared<N8> &at,
                                               float *shared, float (&dv)[N8][4])
{
    constexpr int N = f32_shape<N8>::N, LD = backward_shared<N8>::VALUES;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, half = lane / 16;
    const int64_t rounded = f32_rounded(a.count);
    float *x = shared + warp * 16, *dx = shared + at.dx + warp * 16,
          *phi = shared + at.phi + warp * 16;
    const float *u = shared + at.u + warp * 16 * LD;
    auto get = [&](int64_t f) {
        const int stage = (int)(f / F32_TOKENS % 2);
        if (f < rounded) {
            backward_copy<N, LD>(shared + at.b + stage * at.B, state + f * N, F32_TOKENS);
            backward_copy<2 * F32_TOKENS, 2 * F32_TOKENS>(
                shared + at.table + stage * 2 * F32_TOKENS, (const float *)(a.table + f), 1);
        }
        copy_commit();
    };
    float left[2]; /* what the decay leaves of the state, for the lane's rows */
#pragma unroll
    for (int i = 0; i < 2; i++)
        left[i] = a.log_decay ? job.n.left(job.behind(a, job.first + warp * 16 + lane / 4 + 8 * i))
                              : 1.0f;
    get(0);
    for (int64_t f = 0; f < rounded; f += F32_TOKENS) {
        const int stage = (int)(f / F32_TOKENS % 2);
        const float *b = shared + at.b + stage * at.B;
        const uint64_t *table = (const uint64_t *)(shared + at.table) + stage * F32_TOKENS;
        get(f + F32_TOKENS);
        copy_wait<1>();
        __syncthreads();
        if (job.side == F32_KEYS) add_values(dv, table, a.factors, x, phi, at.ld, b, lane);
        float g[F32_TOKENS / 8][4] = {};
        dot_rows<N8>(g, u, b, lane, [](int column) { return column; });
#pragma unroll
        for (int n = 0; n < F32_TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                phi[(8 * n + 2 * (lane % 4) + i % 2) * at.ld + lane / 4 + i / 2 * 8] =
                    g[n][i] * left[i / 2];
        __syncwarp();
        const int each = F32_TOKENS / at.copies, row = lane % 16;
        if (half < at.copies)
            take_back(table, half * each, (half + 1) * each, a.factors, phi + row, x + row,
                      dx + half * at.rows * at.ld + row, at.ld);
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < N8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) dv[n][i] *= left[i / 2];
}

/* ---- the other side, one by one -------------------------------------------------------------- */

/* Weights, and in the place of the products x their derivatives by x; log: of softmax. */
template <class L>
__device__ __forceinline__ void weigh(const f32_args &a, f32_scores &x, f32_scores &w, const L &log)
{
    if (a.mode == F32_TAYLOR) {
        f32_scores slope = {};
#pragma unroll
        for (int e = 0; e < 16; e++) w[e / 4][e % 4] = a.coefficient[a.terms - 1];
#pragma unroll 1
        for (int t = a.terms - 2; t >= 0; t--) {
            const float c = a.coefficient[t];
#pragma unroll
            for (int e = 0; e < 16; e++) {
                const int n = e / 4, i = e % 4;
                slope[n][i] = fmaf(slope[n][i], x[n][i], w[n][i]);
                w[n][i] = fmaf(w[n][i], x[n][i], c);
            }
        }
#pragma unroll
        for (int e = 0; e < 16; e++) x[e / 4][e % 4] = slope[e / 4][e % 4];
        return;
    }
    const float scale = a.coefficient[0] * 0.6931471805599453f;
#pragma unroll
    for (int e = 0; e < 16; e++) {
        const int n = e / 4, i = e % 4;
        w[n][i] =
            a.mode == F32_LINEAR ? x[n][i] : exp2f(fmaf(x[n][i], a.coefficient[0], -log(n, i)));
        x[n][i] = a.mode == F32_LINEAR ? 1.0f : w[n][i] * scale;
    }
}

/* G w' and w of the pairs that see each other, with their decay; as A.  first: how far behind the
 * lane's first row its first token is. */
__device__ __forceinline__ void as_rows(const f32_args &a, const backward_job &job, int first,
                                        const f32_scores &slope, const f32_scores &g,
                                        const f32_scores &w, f32_rows<F32_TOKENS / 8> &gradient,
                                        f32_rows<F32_TOKENS / 8> &weight)
{
#pragma unroll
    for (int n = 0; n < F32_TOKENS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) { /* of C, then of A: rows change first there */
            const int to = i / 2 + i % 2 * 2;
            int apart = first + 8 * n + i % 2 * 4 - i / 2 * 8;
            if (job.side != F32_KEYS) apart = -apart;
            const float left = a.log_decay ? job.n.left(max(apart, 0)) : 1.0f;
            const bool seen = !a.causal || apart >= 0;
            split(seen ? slope[n][i] * g[n][i] * left : 0.0f, gradient.high[n][to],
                  gradient.low[n][to]);
            split(seen ? w[n][i] * left : 0.0f, weight.high[n][to], weight.low[n][to]);
        }
}

/* dx of the lane's rows += gradient times the other side's keys. */
__device__ __forceinline__ void add_elements(float *dx, int ld,
                                             const f32_rows<F32_TOKENS / 8> &gradient,
                                             const float *keys, int dim, int lane)
{
    for (int tile = 0; tile < dim / 8; tile++) {
        float sum[1][4] = {};
        const float *column = keys + (8 * tile + lane / 4) * F32_KEY_LD + lane % 4 * 2;
        multiply_add_by(sum, gradient, [&](int step, int, float *two) {
            *(float2 *)two = *(const float2 *)(column + 8 * step);
        });
#pragma unroll
        for (int i = 0; i < 4; i++)
            dx[(8 * tile + 2 * (lane % 4) + i % 2) * ld + i / 2 * 8] += sum[0][i];
    }
}

/* logs: of the queries of this head, at their places. */
template <int N8>
__device__ __forceinline__ void
backward_pairs(const f32_args &a, const backward_job &job, const float *keys, const float *values,
               const float *logs, const backward_shared<N8> &at, float *shared, float (&dv)[N8][4])
{
    constexpr int N = f32_shape<N8>::N, LD = backward_shared<N8>::VALUES;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int dim = (a.dim + 7) / 8 * 8;
    const bool is_key = job.side == F32_KEYS;
    const int64_t own = job.first + warp * 16 + lane / 4; /* place of the lane's first row */
    const float *x = shared + warp * 16, *u = shared + at.u + warp * 16 * LD;
    float *dx = shared + at.dx + warp * 16 + lane / 4;
    float log[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (logs && !is_key && own + 8 * i < job.end) log[i] = logs[own + 8 * i];
    auto get = [&](int64_t place) {
        if (place < job.to) {
            const int64_t block = place / F32_TOKENS, stage = block % 2;
            backward_copy<F32_TOKENS, F32_KEY_LD>(shared + at.keys + stage * at.rows * F32_KEY_LD,
                                                  keys + block * dim * F32_TOKENS, dim);
            backward_copy<N, LD>(shared + at.b + stage * at.B, values + block * F32_TOKENS * N,
                                 F32_TOKENS);
        }
        copy_commit();
    };
    get(job.from);
    for (int64_t place = job.from; place < job.to; place += F32_TOKENS) {
        const int64_t stage = place / F32_TOKENS % 2;
        const float *k = shared + at.keys + stage * at.rows * F32_KEY_LD;
        const float *b = shared + at.b + stage * at.B;
        get(place + F32_TOKENS);
        copy_wait<1>();
        __syncthreads();
        f32_scores s = {}, g = {}, w;
        multiply_keys(s, x, at.ld, k, dim, lane);
        /* Column g of a tile is the place of token g / 2 + 4 (g % 2), as among the keys. */
        dot_rows<N8>(g, u, b, lane, [](int column) { return column / 2 + column % 2 * 4; });
        weigh(a, s, w, [&](int n, int i) {
            return is_key ? logs[place + 8 * n + lane % 4 + i % 2 * 4] : log[i / 2];
        });
        f32_rows<F32_TOKENS / 8> gradient, weight;
        as_rows(a, job, (int)(place - own) + lane % 4, s, g, w, gradient, weight);
        add_elements(dx, at.ld, gradient, k, dim, lane);
        if (is_key) multiply_add(dv, weight, b, LD, lane);
        __syncthreads();
    }
}

/* ---- rows out -------------------------------------------------------------------------------- */

template <int N8>
__device__ __forceinline__ void write_gradients(const f32_backward_args &a, const backward_job &job,
                                                const backward_shared<N8> &at, const float *shared,
                                                const float (&dv)[N8][4])
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const bool is_key = job.side == F32_KEYS;
    const view &x = is_key ? a.k : a.q, &to = is_key ? a.dk : a.dq;
    const int64_t heads = is_key ? a.kv_heads : a.heads, length = is_key ? a.length_k : a.length_q,
                  before = is_key || !a.causal ? 0 : job.n.past;
    __syncwarp();
    for (int r = warp * 16; r < warp * 16 + 16; r++) {
        const int64_t i = job.first + r - before;
        if (i < 0 || job.first + r >= job.end) continue;
        const float *dx = shared + at.dx + r;
        for (int e = lane; e < a.dim; e += 32) {
            float y = dx[e * at.ld];
            if (at.copies > 1) y += dx[(at.rows + e) * at.ld];
            if (a.gradient) {
                a.gradient[((job.n.b * heads + job.h) * length + i) * a.dim + e] = y;
                continue;
            }
            if (a.mode == F32_LINEAR) y *= f32_slope(a, take(x, row_of(x, job.n.b, job.h, i), e));
            store(to, row_of(to, job.n.b, job.h, i) + e * to.stride[3], y);
        }
    }
    if (!is_key) return;
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t j = job.first + warp * 16 + lane / 4 + 8 * u;
        if (j >= job.end) continue;
        const int64_t row = row_of(a.dv, job.n.b, job.h, j);
#pragma unroll
        for (int n = 0; n < N8 - 1; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int c = 8 * n + 2 * (lane % 4) + i;
                if (c < a.dim_value) store(a.dv, row + c * a.dv.stride[3], dv[n][2 * u + i]);
            }
    }
}

template <int N8>
__global__ void __launch_bounds__(F32_THREADS, N8 > 5 ? 1 : 2)
    f32_backward_kernel(const __grid_constant__ f32_backward_args a, int side, int copies)
{
    extern __shared__ __align__(16) float shared[];
    constexpr int N = f32_shape<N8>::N;
    const int warps = (int)blockDim.x / 32;
    const backward_shared<N8> at(a.dim, warps, copies);
    const backward_job job(a, side, 16 * warps);
    if (job.first >= job.end) return; /* such rows are cleared elsewhere */
    const bool is_key = side == F32_KEYS;
    const int64_t dim = (a.dim + 7) / 8 * 8, kv = job.n.b * a.kv_heads + job.n.kv,
                  group = a.heads / a.kv_heads, keys = f32_rounded(a.length_k),
                  queries = f32_rounded(a.places);
    const int64_t own = is_key ? kv * keys : (job.n.b * a.heads + job.h) * queries;
    float dv[N8][4] = {};
    take_own<N8>(a, job, (is_key ? a.keys : a.q_keys) + own * dim,
                 (is_key ? a.values : a.q_values) + own * N, at, shared);
    __syncthreads();
    const int64_t numbers = f32_rounded(a.count) * N;
    const bool any = is_key ? !a.causal || job.segment + 1 < a.gradient_segments || a.ds_out
                            : !a.causal || job.segment > 0 || a.s_in;
    if (a.by_state && any)
        backward_state(a, job,
                       is_key ? a.gradient_sums +
                                    (kv * group * a.gradient_segments + job.segment) * numbers
                              : a.sums + (kv * a.segments + job.segment) * numbers,
                       at, shared, dv);
    for (int64_t g = 0; g < (is_key ? group : 1); g++) {
        const int64_t head = is_key ? kv * group + g : job.n.b * a.heads + job.h;
        const float *logs = a.mode == F32_SOFTMAX ? a.logs + head * queries : nullptr;
        const int64_t other = is_key ? head * queries : kv * keys;
        backward_pairs(a, job, (is_key ? a.q_keys : a.keys) + other * dim,
                       (is_key ? a.q_values : a.values) + other * N, logs, at, shared, dv);
    }
    write_gradients(a, job, at, shared, dv);
}

template <int N8> static cudaError_t run(const f32_backward_args &a, int side, cudaStream_t stream)
{
    const int64_t places = side == F32_KEYS ? a.length_k : a.places;
    if (!places) return cudaSuccess;
    int device, most, all; /* bytes of a block of threads, and of a multiprocessor */
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    if (e != cudaSuccess) return e;
    auto bytes = [&](int warps, int copies) {
        return backward_shared<N8>(a.dim, warps, copies).size * (int)sizeof(float);
    };
    assert(bytes(2, 1) <= f32_backward_bytes(a.dim, a.dim_value));
    int warps = F32_WARPS;
    while (warps > 2 && bytes(warps, 1) > most) warps /= 2;
    /* A second copy of dx is worth less than a second block of threads. */
    auto two_fit = [&](int copies) { return 2 * (bytes(warps, copies) + 1024) <= all; };
    const bool room = bytes(warps, 2) <= most && two_fit(2) >= two_fit(1);
    const int copies = a.by_state && room ? 2 : 1;
    const int rows = 16 * warps;
    const dim3 grid((unsigned)((places + rows - 1) / rows),
                    (unsigned)(side == F32_KEYS ? a.kv_heads : a.heads), (unsigned)a.batch);
    return launch_kernel(f32_backward_kernel<N8>, grid, 32 * warps, bytes(warps, copies), stream, a,
                         side, copies);
}

cudaError_t f32_backward_run(const f32_backward_args &a, int side, cudaStream_t stream)
{
    return f32_by_columns(a.dim_value,
                          [&](auto n8) { return run<decltype(n8)::value>(a, side, stream); });
}

} // namespace lnt
