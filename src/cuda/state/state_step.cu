/* cuda/state/state_step.cu - a decoding step of linear and Taylor attention, all of it in one kernel:
 *
 *     S <- gamma S + phi(k) v^T     z <- gamma z + phi(k)     y = phi(q) S / (phi(q).z + eps)
 *
 * S [D,m] and z [D] are f32 in the library's order, read once and written once; that is the cost:
 * 8 D (m + 1) bytes a kv head.  A state is cut into `splits` runs of rows, each a block of threads.
 * Two chunks of rows are under way to shared memory at any time, with z and the table of their
 * monomials: each thread asks for what it uses itself, and for the chunk after next as soon as it
 * has used it, so that nothing but the features needs a barrier.  Loads that were waited for where
 * they are used (z, the table) cost a quarter of the time.  The block that arrives last adds the
 * partial answers in order, so the result does not depend on which that is.  A group of heads
 * shares the pass over its state. */
#include "cuda/state/state.h"

namespace lnt
{

enum { STEP_THREADS = 256, STEP_ANSWERS = 8 };

/* T tokens, G heads that share the state, V columns a thread reads at once, U times a chunk. */
template <int T, int G, int V> struct step_shape {
    static constexpr int A = T * G, U = A <= 2 ? 3 : 2;
};

__device__ static float feature_map(int map, float x)
{
    switch (map) {
    case LNT_MAP_RELU:
        return fmaxf(x, 0.0f);
    case LNT_MAP_EXP:
        return expf(x);
    case LNT_MAP_IDENTITY:
        return x;
    default:
        return x > 0 ? x + 1.0f : expf(x);
    }
}

/* x [dim + 1], `step` apart: a row of q or k as the features see it, and a 1.  By one warp. */
__device__ static void take_row(const state_step_args &a, const view &t, int64_t row, float factor,
                                float *x, int step, int lane)
{
    float sum = 0;
    for (int i = lane; i < a.dim; i += 32) {
        const float e = load(t, row + i * t.stride[3]);
        x[i * step] = e;
        sum = fmaf(e, e, sum);
    }
    if (lane == 0) x[a.dim * step] = 1.0f;
    if (!a.normalize) return;
    for (int i = 16; i; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    factor /= fmaxf(sqrtf(sum), 1e-12f);
    __syncwarp();
    for (int i = lane; i < a.dim; i += 32) x[i * step] *= factor;
}

/* Feature f of N rows that stand element by element side by side, without its factor. */
template <int N>
__device__ __forceinline__ void features(const state_step_args &a, uint2 index, int64_t f,
                                         const float *x, float (&y)[N])
{
    if (!a.taylor) {
#pragma unroll
        for (int n = 0; n < N; n++) y[n] = feature_map(a.map, x[f * N + n]);
        return;
    }
#pragma unroll
    for (int n = 0; n < N; n++) y[n] = 1.0f;
    auto times = [&](uint32_t element) {
        const float *at = x + element * N;
        if constexpr (N == 2) {
            const float2 two = *(const float2 *)at;
            y[0] *= two.x, y[1] *= two.y;
        } else {
#pragma unroll
            for (int n = 0; n < N; n++) y[n] *= at[n];
        }
    };
    /* Past the monomial's degree the table names element dim, which is 1. */
    times(index.x & 255), times(index.x >> 8 & 255), times(index.x >> 16 & 255);
    if (a.terms > 4)
        times(index.x >> 24), times(index.y & 255), times(index.y >> 8 & 255),
            times(index.y >> 16 & 255);
}

/* Of a feature on its way. */
struct alignas(16) step_row {
    uint2 index;
    float factor, z;
};

template <int T, int G, int V> struct step_shared { /* in floats */
    static constexpr int A = T * G, U = step_shape<T, G, V>::U;
    int chunk, values, phi_k, phi_q, second, size; /* rows of k and q are at 0 */
    int rows, pieces, stage;                       /* on their way: step_row [chunk], S */
    __host__ __device__ step_shared(int dim, int dim_value)
    {
        const int rows_at_once = STEP_THREADS / (dim_value / V);
        chunk = rows_at_once * U;
        values = (T + A) * (dim + 1);
        phi_k = values + T * dim_value;
        phi_q = phi_k + T * chunk;
        size = phi_q + A * chunk; /* of one chunk; the next stands in a second copy */
        second = size - phi_k;
        size += second;
        rows = (size + 3) / 4 * 4;
        pieces = rows + chunk * 4;
        stage = chunk * 4 + STEP_THREADS * U * V;
        size = rows + 2 * stage;
        const int reduce = STEP_THREADS * 5;
        if (size < reduce) size = reduce;
    }
};

struct step_job {
    int64_t b, kv, first_head, slot, token; /* token: the first of this launch */
};

template <int T, int G, int V>
__device__ static void take_rows(const state_step_args &a, const step_job &job,
                                 const step_shared<T, G, V> &at, float *shared)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int w = warp; w < T + T * G; w += STEP_THREADS / 32) {
        if (w < T) {
            if (a.append)
                take_row(a, a.k, row_of(a.k, job.b, job.kv, job.token + w), 1.0f, shared + w,
                         T + T * G, lane);
        } else if (a.answer) {
            const int t = (w - T) / G, g = (w - T) % G;
            const float factor = a.temperature ? a.temperature[job.first_head + g] : 1.0f;
            take_row(a, a.q, row_of(a.q, job.b, job.first_head + g, job.token + t), factor,
                     shared + w, T + T * G, lane);
        }
    }
    for (int w = (int)threadIdx.x; w < T * a.dim_value && a.append; w += STEP_THREADS)
        shared[at.values + w] = load(a.v, row_of(a.v, job.b, job.kv, job.token + w / a.dim_value) +
                                              w % a.dim_value * a.v.stride[3]);
}

template <int bytes> __device__ __forceinline__ void copy_few(const void *to, const void *from)
{
    if (bytes == 16)
        copy16(shared_address(to), from);
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)),
                     "l"(from), "n"(bytes)
                     : "memory");
}

/* Asks for row f of the table and of z. */
__device__ __forceinline__ void ask_row(const state_step_args &a, step_row *to, const float *z,
                                        int64_t f)
{
    if (a.taylor) {
        copy_few<8>(&to->index, a.index + f);
        copy_few<4>(&to->factor, a.factor + f);
    }
    copy_few<4>(&to->z, z + f);
}

/* Features of the chunk's rows into shared memory; z on the way. */
template <int T, int G, int V>
__device__ __forceinline__ void make_features(const state_step_args &a,
                                              const step_shared<T, G, V> &at, const float *shared,
                                              float *to, step_row *coming, float *z, int64_t first,
                                              int64_t end, float gamma, float (&den)[T * G])
{
    const int rows = (int)min(end - first, (int64_t)at.chunk);
    for (int w = (int)threadIdx.x; w < rows; w += STEP_THREADS) {
        const int64_t f = first + w;
        const step_row row = coming[w];
        const float factor = a.taylor ? row.factor : 1.0f;
        float sum = row.z, phi[T + T * G];
        if (f + 2 * at.chunk < end) ask_row(a, coming + w, z, f + 2 * at.chunk);
        features<T + T * G>(a, row.index, f, shared, phi);
#pragma unroll
        for (int t = 0; t < T; t++) {
            if (a.append) {
                to[at.phi_k + t * at.chunk + w] = phi[t];
                sum = fmaf(sum, gamma, phi[t]);
            }
            if (a.answer)
#pragma unroll
                for (int g = 0; g < G; g++) {
                    const int i = t * G + g;
                    const float read = factor * phi[T + i];
                    to[at.phi_q + i * at.chunk + w] = read;
                    den[i] = fmaf(read, sum, den[i]);
                }
        }
        if (a.append) z[f] = sum;
    }
}

template <int V> struct alignas(4 * V) piece {
    float x[V];
};

/* Sums x [columns of a thread] over the threads that have the same column; the first row has them.
 */
template <int V>
__device__ __forceinline__ void sum_rows(float *shared, float (&x)[V], int lanes, int rows)
{
    const int row = (int)threadIdx.x / lanes;
    __syncthreads();
    for (int i = 0; i < V; i++) shared[threadIdx.x * V + i] = x[i];
    __syncthreads();
    if (row == 0)
        for (int r = 1; r < rows; r++)
            for (int i = 0; i < V; i++) x[i] += shared[(threadIdx.x + r * lanes) * V + i];
}

__device__ __forceinline__ float sum_block(float *shared, float x)
{
    for (int i = 16; i; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < STEP_THREADS / 32; i++) sum += shared[i];
    return sum;
}

/* y = num / (den + eps), from the partial sums of all splits [split][answer][m + 1]. */
template <int T, int G>
__device__ static void finish(const state_step_args &a, const step_job &job, const float *partial)
{
    const int width = a.dim_value + 1;
    for (int w = (int)threadIdx.x; w < T * G * a.dim_value; w += STEP_THREADS) {
        const int i = w / a.dim_value, c = w % a.dim_value, t = i / G, g = i % G;
        float num = 0, den = a.eps;
        for (int s = 0; s < a.splits; s++) {
            num += partial[((int64_t)s * T * G + i) * width + c];
            den += partial[((int64_t)s * T * G + i) * width + a.dim_value];
        }
        float y = den != 0 ? num / den : 0.0f;
        if (a.output_norm)
            y *= sqrtf((float)(a.seen[job.slot] + job.token + t + (a.append ? 1 : 0)) /
                       (float)a.dim);
        if (c == 0 && !divides(den)) atomicAdd(a.nonpositive, 1ull);
        store(a.out, row_of(a.out, job.b, job.first_head + g, job.token + t) + c * a.out.stride[3],
              y);
    }
}

/* A block's run of rows of S and z, and what a thread has of it: of `rows` rows at a time one row's
 * V columns. */
template <int T, int G, int V> struct step_walk {
    static constexpr int U = step_shape<T, G, V>::U;
    const state_step_args &a;
    const step_shared<T, G, V> &at;
    float *shared, *s, *z;
    float gamma;
    int lanes, rows, row, column;
    bool works;
    int64_t begin, end;
    __device__ __forceinline__ step_walk(const state_step_args &a_, const step_job &job,
                                         const step_shared<T, G, V> &at_, float *shared_)
        : a(a_), at(at_), shared(shared_)
    {
        lanes = a.dim_value / V, rows = STEP_THREADS / lanes;
        row = (int)threadIdx.x / lanes, column = (int)threadIdx.x % lanes * V;
        works = row < rows;
        gamma = a.decay ? a.decay[job.kv] : 1.0f;
        s = a.s + (job.slot * a.kv_heads + job.kv) * a.count * a.dim_value;
        z = a.z + (job.slot * a.kv_heads + job.kv) * a.count;
        const int64_t chunks = (a.count + at.chunk - 1) / at.chunk;
        begin = chunks * blockIdx.x / a.splits * at.chunk;
        end = min(chunks * (blockIdx.x + 1) / a.splits * at.chunk, a.count);
    }
    /* What is on its way, of two chunks in turns. */
    __device__ __forceinline__ step_row *coming(int64_t turn) const
    {
        return (step_row *)(shared + at.rows + (turn ? at.stage : 0));
    }
    __device__ __forceinline__ piece<V> *pieces(int64_t turn) const
    {
        return (piece<V> *)(shared + at.pieces + (turn ? at.stage : 0)) + threadIdx.x;
    }
    __device__ __forceinline__ void ask_piece(piece<V> *to, int64_t first, int u) const
    {
        const int64_t f = first + row + u * rows;
        if (works && f < end) copy_few<4 * V>(to + u * STEP_THREADS, s + f * a.dim_value + column);
    }
    __device__ __forceinline__ void ask_two_chunks() const
    {
        for (int turn = 0; turn < 2; turn++) {
            const int64_t first = begin + turn * at.chunk;
            for (int w = (int)threadIdx.x; w < at.chunk && first + w < end; w += STEP_THREADS)
                ask_row(a, coming(turn) + w, z, first + w);
#pragma unroll
            for (int u = 0; u < U; u++) ask_piece(pieces(turn), first, u);
            copy_commit();
        }
    }
    /* S of a chunk: <- gamma S + phi(k) v^T, num += phi(q) S, for one token after the other. */
    __device__ __forceinline__ void take_chunk(int64_t first, int64_t turn, const float *phi,
                                               const float (&v)[T][V], float (&num)[T * G][V]) const
    {
        const int here = (int)min(end - first, (int64_t)at.chunk);
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int r = row + u * rows;
            if (!works || r >= here) continue;
            piece<V> p = pieces(turn)[u * STEP_THREADS];
            ask_piece(pieces(turn), first + 2 * at.chunk, u);
#pragma unroll
            for (int t = 0; t < T; t++) {
                const float add = a.append ? phi[at.phi_k + t * at.chunk + r] : 0.0f;
#pragma unroll
                for (int i = 0; i < V; i++)
                    if (a.append) p.x[i] = fmaf(add, v[t][i], gamma * p.x[i]);
#pragma unroll
                for (int g = 0; g < G; g++) {
                    const float read = a.answer ? phi[at.phi_q + (t * G + g) * at.chunk + r] : 0.0f;
#pragma unroll
                    for (int i = 0; i < V; i++)
                        num[t * G + g][i] = fmaf(read, p.x[i], num[t * G + g][i]);
                }
            }
            if (a.append) *(piece<V> *)(s + (first + r) * a.dim_value + column) = p;
        }
    }
    /* The block's sums, to own [answer][m + 1]. */
    __device__ __forceinline__ void leave(float *own, float (&num)[T * G][V],
                                          const float (&den)[T * G]) const
    {
        const int width = a.dim_value + 1;
#pragma unroll
        for (int i = 0; i < T * G; i++) {
            sum_rows<V>(shared, num[i], lanes, rows);
            if (row == 0)
                for (int c = 0; c < V; c++) own[i * width + column + c] = num[i][c];
            const float sum = sum_block(shared, den[i]);
            if (threadIdx.x == 0) own[i * width + a.dim_value] = sum;
        }
    }
};

/* Whether this block is the last of the head's: all have left their sums. */
__device__ __forceinline__ bool arrives_last(const state_step_args &a, int head)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(a.arrived + head, 1u) == (unsigned)a.splits - 1;
    __syncthreads();
    return last;
}

template <int T, int G, int V>
__global__ void __launch_bounds__(STEP_THREADS, T *G <= 2 ? 4 : 3)
    state_step_kernel(const __grid_constant__ state_step_args a, int64_t token, int first_of_group)
{
    extern __shared__ float shared[];
    const int head = (int)blockIdx.y;
    step_job job = { head / a.kv_heads, head % a.kv_heads, 0, 0, token };
    job.first_head = job.kv * (a.heads / a.kv_heads) + first_of_group;
    job.slot = a.slots ? a.slots[job.b] : job.b;
    const step_shared<T, G, V> at(a.dim, a.dim_value);
    const step_walk<T, G, V> walk(a, job, at, shared);
    walk.ask_two_chunks();
    take_rows<T, G, V>(a, job, at, shared);
    __syncthreads();
    float v[T][V] = {}, num[T * G][V] = {}, den[T * G] = {};
    for (int t = 0; t < T && walk.works && a.append; t++)
        for (int i = 0; i < V; i++) v[t][i] = shared[at.values + t * a.dim_value + walk.column + i];

#pragma unroll 1
    for (int64_t first = walk.begin, turn = 0; first < walk.end; first += at.chunk, turn ^= 1) {
        float *phi = shared + (turn ? at.second : 0);
        copy_wait<1>();
        make_features<T, G, V>(a, at, shared, phi, walk.coming(turn), walk.z, first, walk.end,
                               walk.gamma, den);
        __syncthreads();
        walk.take_chunk(first, turn, phi, v, num);
        copy_commit();
    }
    __syncthreads();
    if (!a.answer) return;

    const int width = a.dim_value + 1;
    walk.leave(a.partial + ((int64_t)head * a.splits + blockIdx.x) * T * G * width, num, den);
    if (!arrives_last(a, head)) return;
    __threadfence();
    finish<T, G>(a, job, a.partial + (int64_t)head * a.splits * T * G * width);
    if (threadIdx.x == 0) a.arrived[head] = 0;
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int T, int G, int V>
static cudaError_t launch(const state_step_args &a, int64_t token, int first_of_group,
                          cudaStream_t stream)
{
    const step_shared<T, G, V> at(a.dim, a.dim_value);
    const dim3 grid((unsigned)a.splits, (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(state_step_kernel<T, G, V>, grid, STEP_THREADS,
                         at.size * (int)sizeof(float), stream, a, token, first_of_group);
}

template <int T, int G>
static cudaError_t by_width(const state_step_args &a, int64_t token, int first_of_group,
                            cudaStream_t stream)
{
    return a.dim_value % 4 == 0 ? launch<T, G, 4>(a, token, first_of_group, stream)
                                : launch<T, G, 1>(a, token, first_of_group, stream);
}

/* One token, the heads of a group 8, 4, 2 or 1 at a time; the first of them appends. */
static cudaError_t one_token(const state_step_args &a, int64_t token, cudaStream_t stream)
{
    state_step_args b = a;
    const int group = a.heads / a.kv_heads;
    for (int g = 0, n; g < group; g += n) {
        const int left = group - g;
        cudaError_t e;
        n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (n == 8)
            e = by_width<1, 8>(b, token, g, stream);
        else if (n == 4)
            e = by_width<1, 4>(b, token, g, stream);
        else if (n == 2)
            e = by_width<1, 2>(b, token, g, stream);
        else
            e = by_width<1, 1>(b, token, g, stream);
        if (e != cudaSuccess || !a.answer) return e;
        b.append = 0;
    }
    return cudaSuccess;
}

cudaError_t state_step_run(const state_step_args &a, cudaStream_t stream)
{
    const bool alone = a.heads == a.kv_heads || !a.answer;
    int64_t t = 0;
    while (t < a.tokens) {
        const int64_t left = a.tokens - t;
        const int n = !alone ? 1 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const cudaError_t e = n == 4   ? by_width<4, 1>(a, t, 0, stream)
                              : n == 2 ? by_width<2, 1>(a, t, 0, stream)
                                       : one_token(a, t, stream);
        if (e != cudaSuccess) return e;
        t += n;
    }
    return cudaSuccess;
}

/* Enough blocks to fill the machine about 4 times over, but no smaller than a chunk or two. */
int state_step_splits(int heads, int64_t count, int dim_value, int multiprocessors)
{
    const int64_t bytes = count * (dim_value + 1) * 4, most = bytes / 16384;
    int64_t splits = (int64_t)multiprocessors * 8 / heads;
    if (splits > most) splits = most;
    return (int)(splits < 1 ? 1 : splits > STEP_SPLITS ? (int64_t)STEP_SPLITS : splits);
}

size_t state_step_workspace(int heads, int splits, int dim_value)
{
    return (size_t)heads * (size_t)splits * STEP_ANSWERS * (size_t)(dim_value + 1) * sizeof(float);
}

} // namespace lnt
