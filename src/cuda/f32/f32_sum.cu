/* cuda/f32/f32_sum.cu - the states of f32.h:
 *
 *     S_s = sum over the keys of segment s of gamma^(last - j) phi(k_j) [v_j, 1]^T
 *
 * then the sum of those before each segment.  A block of threads has 128 features of one segment,
 * 16 a warp, and walks its tokens 32 at a time; where there are fewer features its warps fall into
 * 2, 4 or 8 groups, each with tokens of its own, whose sums are added at the end. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

enum { SUM_LD = F32_TOKENS + 8, SUM_FEATURES = 16 * F32_WARPS, SUM_BYTES = 100 * 1024 };

template <int N8> struct sum_shared {  /* in floats */
    int rows, keys, values, phi, size; /* keys and values of a group in a stage */
    __host__ __device__ sum_shared(int dim, int groups)
    {
        rows = dim + 1; /* and a 1 */
        keys = rows * F32_TOKENS;
        values = F32_TOKENS * f32_shape<N8>::LD;
        phi = 2 * groups * (keys + values);
        size = phi + SUM_FEATURES * SUM_LD;
    }
};

/* The warp's 16 features of 32 tokens, [16][SUM_LD]; a lane has 4 of 4.  first, last: of the
 * segment, counted from the first of the 32. */
__device__ __forceinline__ void features_of_keys(const f32_args &a, const f32_sequence &n,
                                                 const uint64_t (&feature)[4], const float *keys,
                                                 int64_t first, int64_t last, float *phi, int lane)
{
    const int place = lane % 8 * 4;
    phi += lane / 8 * 4 * SUM_LD + place;
    float4 weight = make_float4(1, 1, 1, 1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t token = token_at(place + i);
        const int64_t left = a.reverse ? token + 1 - first : max(last - token, (int64_t)0);
        if (a.log_decay) (&weight.x)[i] = n.left(left);
    }
    make_features(feature, a.factors, keys + place, F32_TOKENS, [&](int i, const float4 &y) {
        *(float4 *)(phi + i * SUM_LD) = a.log_decay ? multiply(y, weight) : y;
    });
}

/* The sums of groups 1, 2 ... are added to those of group 0, through shared memory that nothing
 * else uses any more. */
template <int N8>
__device__ __forceinline__ void add_groups(float (&acc)[N8][4], int groups, float *shared)
{
    const int each = F32_THREADS / groups, own = (int)threadIdx.x / each;
    float4 *at = (float4 *)shared + threadIdx.x % each;
    __syncthreads(); /* where there was no token, the ones may still be on their way */
    for (int g = 1; g < groups; g++) {
#pragma unroll
        for (int n = 0; n < N8; n++)
            if (own == g) at[n * each] = *(const float4 *)acc[n];
        __syncthreads();
#pragma unroll
        for (int n = 0; n < N8; n++)
            if (own == 0) {
                const float4 more = at[n * each];
                acc[n][0] += more.x, acc[n][1] += more.y, acc[n][2] += more.z, acc[n][3] += more.w;
            }
        __syncthreads();
    }
}

template <int N8>
__global__ void __launch_bounds__(F32_THREADS, f32_shape<N8>::BLOCKS)
    f32_sum_kernel(const __grid_constant__ f32_args a, int blocks, int groups)
{
    using shape = f32_shape<N8>;
    extern __shared__ __align__(16) float shared[];
    const sum_shared<N8> at(a.dim, groups);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = F32_WARPS / groups, group = warp / warps, own = warp % warps * 16;
    const int64_t head = blockIdx.y, segment = blockIdx.x / (unsigned)blocks;
    const int64_t feature = (int64_t)(blockIdx.x % (unsigned)blocks) * warps * 16;
    const f32_sequence n(a, head / a.kv_heads, head % a.kv_heads);
    const int dim = (a.dim + 7) / 8 * 8;
    const int64_t begin = segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = end > begin ? (int)((end - begin + F32_TOKENS - 1) / F32_TOKENS) : 0;
    const int64_t first = head * (f32_rounded(a.length_k) / F32_TOKENS) + begin / F32_TOKENS;
    float *phi = shared + at.phi + warp * 16 * SUM_LD;
    auto keys_of = [&](int c) { return shared + (c & (2 * groups - 1)) * (at.keys + at.values); };

    auto get = [&](int c) {
        for (int i = c; i < min(c + groups, chunks); i++) {
            copy_rows<F32_TOKENS, F32_TOKENS>(keys_of(i), a.keys + (first + i) * dim * F32_TOKENS,
                                              a.dim);
            copy_rows<shape::N, shape::LD>(
                keys_of(i) + at.keys, a.values + (first + i) * F32_TOKENS * shape::N, F32_TOKENS);
        }
        copy_commit();
    };
    get(0);
    uint64_t four[4]; /* the lane's */
#pragma unroll
    for (int i = 0; i < 4; i++)
        four[i] = a.table[min(feature + own + lane / 8 * 4 + i, a.count - 1)];
    for (int i = warp; i < 2 * groups; i += F32_WARPS) keys_of(i)[a.dim * F32_TOKENS + lane] = 1.0f;
    float acc[N8][4] = {};
    for (int c = 0; c < chunks; c += groups) {
        get(c + groups);
        copy_wait<1>();
        __syncthreads();
        const int mine = c + group;
        if (feature + own < a.count && mine < chunks) {
            const int64_t from = -(int64_t)mine * F32_TOKENS;
            features_of_keys(a, n, four, keys_of(mine), from, end - 1 - begin + from, phi, lane);
            __syncwarp();
#pragma unroll
            for (int k = 0; k < F32_TOKENS; k += 8 * shape::K) {
                f32_rows<shape::K> rows;
                rows.take_rows(phi + k, SUM_LD, lane);
                multiply_add(acc, rows, keys_of(mine) + at.keys + k * shape::LD, shape::LD, lane);
            }
        }
        __syncthreads();
    }
    add_groups(acc, groups, shared);
    if (group) return;
    float *to = a.sums + (head * a.segments + segment) * f32_rounded(a.count) * shape::N;
#pragma unroll
    for (int n8 = 0; n8 < N8; n8++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int64_t f = feature + own + lane / 4 + 8 * u;
            if (f < a.count)
                *(float2 *)(to + f * shape::N + 8 * n8 + 2 * (lane % 4)) =
                    make_float2(acc[n8][2 * u], acc[n8][2 * u + 1]);
        }
}

/* ---- the states before the segments ---------------------------------------------------------- */

enum { SCAN_THREADS = 256, SCAN_PREFETCH = 16 };

__global__ void __launch_bounds__(SCAN_THREADS)
    f32_scan_kernel(const __grid_constant__ f32_args a, int columns)
{
    const int64_t numbers = f32_rounded(a.count) * columns, head = blockIdx.y;
    const int64_t e = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x;
    if (e >= numbers) return;
    const f32_sequence n(a, head / a.kv_heads, head % a.kv_heads);
    const int64_t f = head * a.count + e / columns;
    const int c = (int)(e % columns);
    const bool is_z = c == columns - 8, in = e / columns < a.count && (is_z || c < a.dim_value);
    const float factor = in && a.factor ? a.factor[e / columns] : 1.0f;
    float x = 0; /* and it stays so where nothing is summed */
    if (a.s_in && in) x = is_z ? a.z_in[f] : a.s_in[f * a.dim_value + c];
    float *at = a.sums + head * a.segments * numbers + e;
    for (int s = 0; s < a.segments; s += SCAN_PREFETCH) {
        float sum[SCAN_PREFETCH];
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++)
            sum[i] = in && s + i < a.summed ? at[(s + i) * numbers] : 0.0f;
#pragma unroll
        for (int i = 0; i < SCAN_PREFETCH; i++) {
            if (s + i >= a.segments) break;
            if (a.causal) at[(s + i) * numbers] = x * factor;
            const int64_t tokens = min(a.segment, n.keys - (s + i) * a.segment);
            x = fmaf(x, a.log_decay ? n.left(max(tokens, (int64_t)0)) : 1.0f, sum[i]);
        }
    }
    if (!a.causal) *at = x * factor;
    if (a.s_out && in) *(is_z ? a.z_out + f : a.s_out + f * a.dim_value + c) = x;
}

/* Of a feature of normalised rows its degree counts: states of gradients are divided by this, see
 * plugin.h. */
__device__ static float gradient_unit(const f32_args &a, int64_t feature)
{
    float unit = 1;
    for (int byte = 0; byte < 7 && a.normalize; byte++)
        if ((int)(a.table[feature] >> (8 * byte) & 255) != a.dim) unit *= sqrtf((float)a.dim);
    return unit;
}

/* The states after the segments: of the heads of a group together. */
__global__ void __launch_bounds__(SCAN_THREADS)
    f32_backward_scan_kernel(const __grid_constant__ f32_backward_args a, int columns)
{
    const int64_t numbers = f32_rounded(a.count) * columns, head = blockIdx.y;
    const int64_t e = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x;
    if (e >= numbers) return;
    const f32_sequence n(a, head / a.kv_heads, head % a.kv_heads);
    const int group = a.heads / a.kv_heads;
    const int64_t f = head * a.count + e / columns;
    const int c = (int)(e % columns);
    const bool is_z = c == columns - 8, in = e / columns < a.count && (is_z || c < a.dim_value);
    const float factor = in && a.factor ? a.factor[e / columns] : 1.0f;
    const float unit = in && (a.ds_out || a.ds_in) ? gradient_unit(a, e / columns) : 1.0f;
    float x = 0;
    if (a.ds_out && in) x = unit * (is_z ? a.dz_out[f] : a.ds_out[f * a.dim_value + c]);
    float *at = a.gradient_sums + head * group * a.gradient_segments * numbers + e;
    for (int s = a.gradient_segments - 1; s >= 0; s--) {
        float sum = 0;
        for (int g = 0; g < group && in && a.places; g++)
            sum += at[((int64_t)g * a.gradient_segments + s) * numbers];
        if (a.causal) at[s * numbers] = x;
        const int64_t tokens = min(a.segment, n.keys - s * a.segment);
        x = fmaf(x, a.log_decay ? n.left(max(tokens, (int64_t)0)) : 1.0f, sum * factor);
    }
    if (!a.causal) *at = x;
    if (a.ds_in && in) *(is_z ? a.dz_in + f : a.ds_in + f * a.dim_value + c) = x / unit;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* As many groups as make a tenth less idle work or more each time they double. */
template <int N8> static int groups_for(const f32_args &a)
{
    auto made = [&](int groups) {
        const int64_t features = SUM_FEATURES / groups;
        return (a.count + features - 1) / features * features;
    };
    int groups = 1;
    while (groups < F32_WARPS && made(2 * groups) * 10 <= made(groups) * 9 &&
           sum_shared<N8>(a.dim, 2 * groups).size * (int)sizeof(float) <= SUM_BYTES)
        groups *= 2;
    return groups;
}

template <int N8> static cudaError_t sum_run(const f32_args &a, cudaStream_t stream)
{
    const int groups = groups_for<N8>(a), features = SUM_FEATURES / groups;
    const int bytes = sum_shared<N8>(a.dim, groups).size * (int)sizeof(float);
    assert(bytes <= SUM_BYTES);
    const int blocks = (int)((a.count + features - 1) / features);
    const dim3 grid((unsigned)(blocks * a.summed), (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(f32_sum_kernel<N8>, grid, F32_THREADS, bytes, stream, a, blocks, groups);
}

static cudaError_t sum_by_width(const f32_args &a, cudaStream_t stream)
{
    return f32_by_columns(a.dim_value,
                          [&](auto n8) { return sum_run<decltype(n8)::value>(a, stream); });
}

static dim3 scan_grid(const f32_args &a)
{
    const int64_t numbers = f32_rounded(a.count) * f32_columns(a.dim_value);
    return dim3((unsigned)((numbers + SCAN_THREADS - 1) / SCAN_THREADS),
                (unsigned)(a.batch * a.kv_heads));
}

cudaError_t f32_sum_run(const f32_args &a, cudaStream_t stream)
{
    const cudaError_t e = a.summed ? sum_by_width(a, stream) : cudaSuccess;
    if (e != cudaSuccess) return e;
    f32_scan_kernel<<<scan_grid(a), SCAN_THREADS, 0, stream>>>(a, f32_columns(a.dim_value));
    return cudaGetLastError();
}

cudaError_t f32_backward_sum_run(const f32_backward_args &a, cudaStream_t stream)
{
    f32_args queries = a; /* in the place of keys */
    queries.kv_heads = a.heads, queries.group = a.heads / a.kv_heads, queries.reverse = 1;
    queries.keys = a.q_keys, queries.values = a.q_values, queries.sums = a.gradient_sums;
    queries.segments = queries.summed = a.gradient_segments, queries.length_k = a.places;
    if (!a.causal) queries.lengths_k = a.lengths_q;
    const cudaError_t e = a.places ? sum_by_width(queries, stream) : cudaSuccess;
    if (e != cudaSuccess) return e;
    f32_backward_scan_kernel<<<scan_grid(a), SCAN_THREADS, 0, stream>>>(a,
                                                                        f32_columns(a.dim_value));
    return cudaGetLastError();
}

} // namespace lnt
