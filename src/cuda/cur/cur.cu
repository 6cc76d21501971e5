/* cuda/cur/cur.cu - the landmarks of CUR attention, and W = U^+ (R v) of one head by one block of
 * threads.
 *
 *     iterate   U^+ = U^T P / c,  A = U U^T / c:  E = (13 - 15 A + 7 A^2 - A^3) / 4, A <- A E, P <-
 * P E ridge     U^+ = (U^T U + r)^-1 U^T,  r = ridge |U|_F^2, by Cholesky
 *
 * as src/attention/pinv.c has it, in f64.  O(M^3) a head.  See docs/math/cur.md */
#include "cuda/cur/cur.h"
#include "cuda/f32/f32.cuh"

namespace lnt
{

enum { CUR_THREADS = 256, CUR_TILE = 64, CUR_INNER = 8 };

/* ---- landmarks ------------------------------------------------------------------------------- */

/* Landmark l of a head of x, n tokens, into row [dim], in f64 where it is a mean. */
__device__ static void load_landmark(const view &x, int64_t base, int64_t n, int64_t l, int64_t M,
                                     bool mean, int dim, double (*sums)[128], float *row)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t first = l * n / M, end = mean ? (l + 1) * n / M : first + 1;
    for (int e = lane; e < dim; e += 32) {
        double sum = 0;
        for (int64_t t = first + warp; t < end; t += F32_WARPS)
            sum += (double)load(x, base + t * x.stride[2] + e * x.stride[3]);
        sums[warp][e] = sum;
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < dim; e += CUR_THREADS) {
        double sum = 0;
        for (int w = 0; w < F32_WARPS; w++) sum += sums[w][e];
        row[e] = (float)(sum / (double)(end - first));
    }
    __syncthreads();
}

__device__ static bool has_landmarks(const f32_args &a, const f32_sequence &n)
{
    return n.queries > a.landmarks && n.keys > a.landmarks;
}

/* Where landmark l stands among 32 keys: token_at() the other way. */
__device__ __forceinline__ int place_of(int l) { return (l & ~7) + l % 4 * 2 + l % 8 / 4; }

__global__ void __launch_bounds__(CUR_THREADS)
    cur_load_queries_kernel(const __grid_constant__ cur_args a)
{
    __shared__ double sums[F32_WARPS][128];
    const f32_args &s = a.f32;
    const int64_t head = blockIdx.y, l = blockIdx.x, h = head % s.heads, b = head / s.heads;
    const f32_sequence n(s, b, h * s.kv_heads / s.heads);
    if (!has_landmarks(s, n)) return;
    load_landmark(s.q, row_of(s.q, b, h, 0), n.queries, l, s.landmarks, a.query_means, s.dim, sums,
                  a.queries + (head * s.landmarks + l) * s.dim);
}

__global__ void __launch_bounds__(CUR_THREADS)
    cur_load_keys_kernel(const __grid_constant__ cur_args a)
{
    __shared__ double sums[F32_WARPS][128];
    __shared__ float row[128];
    const f32_args &s = a.f32;
    const int64_t head = blockIdx.y, l = blockIdx.x;
    const int dim = (s.dim + 7) / 8 * 8, blocks = (int)(f32_rounded(s.landmarks) / F32_TOKENS);
    const f32_sequence n(s, head / s.kv_heads, head % s.kv_heads);
    if (!has_landmarks(s, n)) return;
    if (l < s.landmarks)
        load_landmark(s.k, row_of(s.k, n.b, n.kv, 0), n.keys, l, s.landmarks, a.key_means, s.dim,
                      sums, row);
    float *to = a.keys + (head * blocks + l / F32_TOKENS) * dim * F32_TOKENS;
    for (int e = (int)threadIdx.x; e < dim; e += CUR_THREADS)
        to[e * F32_TOKENS + place_of((int)(l % F32_TOKENS))] =
            e < s.dim && l < s.landmarks ? row[e] : 0.0f;
}

cudaError_t cur_load_run(const cur_args &a, cudaStream_t stream)
{
    const f32_args &s = a.f32;
    const dim3 queries((unsigned)s.landmarks, (unsigned)(s.batch * s.heads));
    const dim3 keys((unsigned)f32_rounded(s.landmarks), (unsigned)(s.batch * s.kv_heads));
    cur_load_queries_kernel<<<queries, CUR_THREADS, 0, stream>>>(a);
    cur_load_keys_kernel<<<keys, CUR_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---- matrices of a block of threads ---------------------------------------------------------- */

/* A matrix, or one turned over, in f64. */
struct matrix {
    double *x;
    int row, column; /* steps */
    __device__ __forceinline__ double &operator()(int i, int j) const
    {
        return x[i * row + j * column];
    }
    __device__ __forceinline__ matrix turned() const { return { x, column, row }; }
};

/* c [rows, columns] = factor a b, through 64 x 64 of it at a time, 4 x 4 a thread. */
__device__ static void product(const matrix &c, const matrix &a, const matrix &b, int rows,
                               int columns, int inner, double factor,
                               double (*shared)[CUR_INNER][CUR_TILE])
{
    const int thread = (int)threadIdx.x, i0 = thread / 16 * 4, j0 = thread % 16 * 4;
    for (int tile = 0; tile < rows; tile += CUR_TILE)
        for (int at = 0; at < columns; at += CUR_TILE) {
            double sum[4][4] = {};
            for (int k0 = 0; k0 < inner; k0 += CUR_INNER) {
                __syncthreads();
                for (int w = thread; w < CUR_INNER * CUR_TILE; w += CUR_THREADS) {
                    const int k = w / CUR_TILE, e = w % CUR_TILE;
                    const bool in = k0 + k < inner;
                    shared[0][k][e] = in && tile + e < rows ? a(tile + e, k0 + k) : 0.0;
                    shared[1][k][e] = in && at + e < columns ? b(k0 + k, at + e) : 0.0;
                }
                __syncthreads();
                for (int k = 0; k < CUR_INNER; k++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            sum[i][j] = fma(shared[0][k][i0 + i], shared[1][k][j0 + j], sum[i][j]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (tile + i0 + i < rows && at + j0 + j < columns)
                        c(tile + i0 + i, at + j0 + j) = factor * sum[i][j];
        }
    __syncthreads();
}

/* The sum, or the largest, over the block. */
__device__ static double reduce(double x, bool largest, double *shared)
{
    __syncthreads();
    shared[threadIdx.x] = x;
    __syncthreads();
    double y = shared[0];
    for (int i = 1; i < CUR_THREADS; i++) y = largest ? fmax(y, shared[i]) : y + shared[i];
    return y;
}

/* ---- one head -------------------------------------------------------------------------------- */

struct cur_head {
    const cur_args &a;
    int64_t head, b, h, kv;
    int M, m, N;
    matrix u, t[5];     /* [M, M] */
    matrix rv, w, half; /* [M, m] */
    double (*shared)[CUR_INNER][CUR_TILE];

    __device__ cur_head(const cur_args &args, int columns, double (*scratch)[CUR_INNER][CUR_TILE])
        : a(args), head(blockIdx.x), shared(scratch)
    {
        const f32_args &s = a.f32;
        b = head / s.heads, h = head % s.heads, kv = h * s.kv_heads / s.heads;
        M = s.landmarks, m = s.dim_value, N = columns;
        double *at = a.matrices + head * cur_numbers(M, m);
        u = { at, M, 1 };
        for (int i = 0; i < 5; i++) t[i] = { at + (i + 1) * M * M, M, 1 };
        at += 6 * M * M;
        rv = { at, m, 1 }, w = { at + M * m, m, 1 }, half = { at + 2 * M * m, m, 1 };
    }

    /* R v from its parts, divided. */
    __device__ void add_parts() const
    {
        const f32_args &s = a.f32;
        const float *from = s.partial + head * s.parts * M * N;
        for (int l = (int)threadIdx.x / 32; l < M; l += CUR_THREADS / 32) {
            float top = -INFINITY;
            double den = 0;
            for (int p = 0; p < s.parts; p++) top = fmaxf(top, from[(p * M + l) * N + N - 7]);
            for (int p = 0; p < s.parts; p++)
                den += (double)from[(p * M + l) * N + N - 8] *
                       exp2((double)from[(p * M + l) * N + N - 7] - (double)top);
            for (int c = (int)threadIdx.x % 32; c < m; c += 32) {
                double sum = 0;
                for (int p = 0; p < s.parts; p++)
                    sum += (double)from[(p * M + l) * N + c] *
                           exp2((double)from[(p * M + l) * N + N - 7] - (double)top);
                rv(l, c) = sum / den;
                a.rows[(head * M + l) * N + c] = (float)(sum / den);
            }
        }
        __syncthreads();
    }

    /* U = softmax(scale q_I k_J^T), a warp a row. */
    __device__ void make_u() const
    {
        const f32_args &s = a.f32;
        const int lane = (int)threadIdx.x % 32, dim = (s.dim + 7) / 8 * 8;
        const int blocks = (int)(f32_rounded(M) / F32_TOKENS);
        const float *keys = a.keys + (b * s.kv_heads + kv) * blocks * dim * F32_TOKENS;
        for (int i = (int)threadIdx.x / 32; i < M; i += CUR_THREADS / 32) {
            const float *q = a.queries + (head * M + i) * s.dim;
            double most = -INFINITY, sum = 0;
            for (int j = lane; j < M; j += 32) {
                const float *k =
                    keys + j / F32_TOKENS * dim * F32_TOKENS + place_of(j % F32_TOKENS);
                double x = 0;
                for (int e = 0; e < s.dim; e++) x = fma((double)q[e], (double)k[e * F32_TOKENS], x);
                u(i, j) = x * a.scale;
                most = fmax(most, x * a.scale);
            }
            for (int o = 16; o; o /= 2) most = fmax(most, __shfl_xor_sync(~0u, most, o));
            for (int j = lane; j < M; j += 32) {
                const double y = exp(u(i, j) - most);
                u(i, j) = y;
                sum += y;
            }
            for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
            for (int j = lane; j < M; j += 32) u(i, j) /= sum;
        }
        __syncthreads();
    }

    /* What the first A is divided by: |U|_1, or that times |U|_inf. */
    __device__ double divisor() const
    {
        double column = 0, row = 0;
        for (int i = (int)threadIdx.x; i < M; i += CUR_THREADS) {
            double down = 0, along = 0;
            for (int j = 0; j < M; j++) down += fabs(u(j, i)), along += fabs(u(i, j));
            column = fmax(column, down), row = fmax(row, along);
        }
        double *scratch = &shared[0][0][0];
        column = reduce(column, true, scratch), row = reduce(row, true, scratch);
        return a.by_both ? column * row : column;
    }

    __device__ void iterate() const
    {
        const double c = divisor();
        matrix A = t[0], P = t[1], E = t[2], S = t[3], T = t[4];
        product(A, u, u.turned(), M, M, M, 1 / c, shared);
        for (int k = 0; k < a.iterations; k++) {
            product(S, A, A, M, M, M, 1, shared);
            product(T, S, A, M, M, M, 1, shared);
            for (int e = (int)threadIdx.x; e < M * M; e += CUR_THREADS) {
                E.x[e] = 0.25 * (7 * S.x[e] - 15 * A.x[e] - T.x[e]) + (e / M == e % M ? 3.25 : 0);
                if (k == 0) P.x[e] = E.x[e];
            }
            __syncthreads();
            product(S, A, E, M, M, M, 1, shared);
            const matrix old = A;
            A = S, S = old;
            if (k == 0) continue;
            product(T, P, E, M, M, M, 1, shared);
            const matrix kept = P;
            P = T, T = kept;
        }
        product(half, P, rv, M, m, M, 1, shared);
        product(w, u.turned(), half, M, m, M, 1 / c, shared);
    }

    /* The lower triangle of g becomes its Cholesky factor, a column at a time. */
    __device__ void factorise(const matrix &g) const
    {
        for (int k = 0; k < M; k++) {
            const double root = sqrt(g(k, k));
            __syncthreads();
            for (int i = k + (int)threadIdx.x; i < M; i += CUR_THREADS)
                g(i, k) = i == k ? root : g(i, k) / root;
            __syncthreads();
            const int left = M - k - 1;
            for (int e = (int)threadIdx.x; e < left * left; e += CUR_THREADS) {
                const int i = k + 1 + e / left, j = k + 1 + e % left;
                if (j <= i) g(i, j) -= g(i, k) * g(j, k);
            }
            __syncthreads();
        }
    }

    /* w [M, m] becomes g^-1 w, g given by its factor; a thread a column. */
    __device__ void solve(const matrix &g) const
    {
        for (int c = (int)threadIdx.x; c < m; c += CUR_THREADS) {
            for (int i = 0; i < M; i++) {
                double x = w(i, c);
                for (int j = 0; j < i; j++) x -= g(i, j) * w(j, c);
                w(i, c) = x / g(i, i);
            }
            for (int i = M - 1; i >= 0; i--) {
                double x = w(i, c);
                for (int j = i + 1; j < M; j++) x -= g(j, i) * w(j, c);
                w(i, c) = x / g(i, i);
            }
        }
        __syncthreads();
    }

    __device__ void ridge() const
    {
        double square = 0;
        for (int e = (int)threadIdx.x; e < M * M; e += CUR_THREADS) square += u.x[e] * u.x[e];
        square = reduce(square, false, &shared[0][0][0]);
        const matrix g = t[0];
        product(g, u.turned(), u, M, M, M, 1, shared);
        for (int i = (int)threadIdx.x; i < M; i += CUR_THREADS) g(i, i) += a.ridge * square;
        __syncthreads();
        factorise(g);
        product(w, u.turned(), rv, M, m, M, 1, shared);
        solve(g);
    }

    /* As f32_pack.cu has values. */
    __device__ void write() const
    {
        const int64_t rounded = f32_rounded(M);
        for (int e = (int)threadIdx.x; e < rounded * N; e += CUR_THREADS) {
            const int l = e / N, c = e % N;
            float x = 0;
            if (l < M) x = c < m ? (float)w(l, c) : c == N - 8 ? 1.0f : 0.0f;
            a.values[head * rounded * N + e] = x;
        }
    }
};

__global__ void __launch_bounds__(CUR_THREADS)
    cur_solve_kernel(const __grid_constant__ cur_args a, int columns)
{
    __shared__ double shared[2][CUR_INNER][CUR_TILE];
    const cur_head head(a, columns, shared);
    if (!has_landmarks(a.f32, f32_sequence(a.f32, head.b, head.kv))) return;
    head.add_parts();
    head.make_u();
    if (a.ridged)
        head.ridge();
    else
        head.iterate();
    head.write();
}

cudaError_t cur_solve_run(const cur_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)(a.f32.batch * a.f32.heads));
    cur_solve_kernel<<<grid, CUR_THREADS, 0, stream>>>(a, f32_columns(a.f32.dim_value));
    return cudaGetLastError();
}

} // namespace lnt
