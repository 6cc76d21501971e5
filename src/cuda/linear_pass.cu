/* cuda/linear_pass.cu - causal linear attention in one pass over q, k and v (compute
 * capability 9.0):
 *
 *     y_i = phi(q_i) S_i / (phi(q_i).z_i + eps)      S_i = sum over j <= i of phi(k_j) v_j^T
 *
 * A cluster of up to 8 blocks has a sequence and head.  Each step takes 128 tokens a block: every
 * block sums phi(k) [v, 1] over its own; the sums are exchanged through the shared
 * memory of the cluster, where each block adds up its share of the numbers in the order of the
 * tokens and gives each block the state before its own; with that and its own keys it answers its
 * queries.  The sums of a step are made before the answers of the step before, so that the exchange
 * hides behind them.  Each number is read and written once.  See docs/gpu.md */
#include "cuda/linear.cuh"

namespace lnt
{

enum { PASS_MOST = 8, PASS_TOKENS = 128, PASS_WARPS = 8, PASS_THREADS = 256, PASS_STAGES = 3 };

template <int X> struct pass_shape {
    static constexpr int LD = 8 * X + 8, TILE = PASS_TOKENS * LD; /* elements */
    static constexpr int FRAGMENTS = X / 2 * (X + 1);             /* 16 features x 8 columns of S */
    static constexpr int SUMS = FRAGMENTS * 32; /* float4 */
    /* Warps over the features and the columns of S; the first of the latter has z as well. */
    static constexpr int WR = X / 2, WC = PASS_WARPS / WR, NT = X / WC;
    static constexpr int STATE = 8 * X * LD; /* elements */
    static constexpr int BYTES = 3 * PASS_STAGES * TILE * 2 + 2 * SUMS * 16 + 2 * STATE * 2;
};

/* ---- clusters -------------------------------------------------------------------------------- */

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, int rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}
__device__ __forceinline__ float4 cluster_load(uint32_t at)
{
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(at)
                 : "memory");
    return x;
}
__device__ __forceinline__ void cluster_store(uint32_t at, float4 x)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(x.x), "f"(x.y),
                 "f"(x.z), "f"(x.w)
                 : "memory");
}

/* 16 bytes; or zeros, and nothing is read. */
__device__ __forceinline__ void copy16_or_clear(uint32_t to, const void *from, bool there)
{
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

/* This thread's pieces of 128 rows of x, one tensor and head. */
template <int X> struct pass_rows {
    static constexpr int LD = pass_shape<X>::LD, STEP = PASS_THREADS / X;
    const __nv_bfloat16 *from; /* of token 0 */
    int64_t stride;
    __device__ __forceinline__ pass_rows(const view &x, int64_t b, int64_t h)
    {
        stride = x.stride[2];
        from = (const __nv_bfloat16 *)x.data + row_of(x, b, h, (int)threadIdx.x / X) +
               (int)threadIdx.x % X * 8;
    }
    /* Rows from `token` on, of which `there` are. */
    __device__ __forceinline__ void fetch(int64_t token, int there, __nv_bfloat16 *to) const
    {
        const int row = (int)threadIdx.x / X;
        const uint32_t at = shared_address(to + row * LD + (int)threadIdx.x % X * 8);
        const __nv_bfloat16 *x = from + token * stride;
        if (there == PASS_TOKENS) {
#pragma unroll
            for (int i = 0; i < PASS_TOKENS; i += STEP, x += STEP * stride)
                copy16(at + i * LD * 2, x);
        } else {
#pragma unroll
            for (int i = 0; i < PASS_TOKENS; i += STEP, x += STEP * stride)
                copy16_or_clear(at + i * LD * 2, x, row + i < there);
        }
    }
};

/* ---- S --------------------------------------------------------------------------------------- */

/* phi of the keys, in place; 0 past the end. */
template <int X, int map> __device__ __forceinline__ void map_keys(__nv_bfloat16 *keys, int there)
{
    constexpr int LD = pass_shape<X>::LD, STEP = PASS_THREADS / X;
    const int column = (int)threadIdx.x % X * 8;
#pragma unroll
    for (int i = 0; i < PASS_TOKENS; i += STEP) {
        const int row = (int)threadIdx.x / X + i;
        uint4 *at = (uint4 *)(keys + row * LD + column);
        const uint4 x = *at;
        *at = row < there ? make_uint4(map_two<map>(x.x), map_two<map>(x.y), map_two<map>(x.z),
                                       map_two<map>(x.w))
                          : make_uint4(0, 0, 0, 0);
    }
}

/* As matrices_at, ordered columns first: so the pairs a product takes lie side by side. */
template <int LD>
__device__ __forceinline__ uint32_t matrices_across(const __nv_bfloat16 *x, int row, int column,
                                                    int lane)
{
    return shared_address(x + (row + lane % 8 + lane / 16 * 8) * LD + column + lane / 8 % 2 * 8);
}

/* The fragments of S that a warp makes: tile NT is z, of the first warps over columns. */
template <int X> struct pass_place {
    int lane, wr, wc;
    __device__ __forceinline__ pass_place()
    {
        lane = (int)threadIdx.x % 32;
        wr = (int)threadIdx.x / 32 % pass_shape<X>::WR,
        wc = (int)threadIdx.x / 32 / pass_shape<X>::WR;
    }
    __device__ __forceinline__ int column8(int c) const
    {
        return c < pass_shape<X>::NT ? wc * pass_shape<X>::NT + c : X;
    }
    __device__ __forceinline__ bool has(int c) const { return c < pass_shape<X>::NT || wc == 0; }
    __device__ __forceinline__ int slot(int c) const
    {
        return (wr * (X + 1) + column8(c)) * 32 + lane;
    }
};

template <int X>
__device__ __forceinline__ void sum_tokens(const __nv_bfloat16 *keys, const __nv_bfloat16 *values,
                                           const pass_place<X> &p, float4 *sums)
{
    using shape = pass_shape<X>;
    constexpr int LD = shape::LD, NT = shape::NT;
    float s[NT + 1][4] = {};
    const uint32_t one = p.lane / 4 == 0 ? 0x3f803f80u : 0;
#pragma unroll
    for (int k = 0; k < PASS_TOKENS; k += 16) {
        uint32_t a[4], b[NT][2];
        load_matrices_transposed(a, matrices_across<LD>(keys, k, p.wr * 16, p.lane));
#pragma unroll
        for (int c = 0; c < NT; c += 2) {
            const int n = p.column8(c);
            uint32_t four[4];
            load_matrices_transposed(four, matrices_at<LD>(values, k, n / 2 * 16, p.lane));
            b[c][0] = NT == 1 && n % 2 ? four[2] : four[0];
            b[c][1] = NT == 1 && n % 2 ? four[3] : four[1];
            if (NT > 1) b[(c + 1) % NT][0] = four[2], b[(c + 1) % NT][1] = four[3];
        }
#pragma unroll
        for (int c = 0; c < NT; c++) mma16(s[c], a, b[c][0], b[c][1]);
        if (p.wc == 0) mma16(s[NT], a, one, one);
    }
#pragma unroll
    for (int c = 0; c <= NT; c++)
        if (p.has(c)) sums[p.slot(c)] = make_float4(s[c][0], s[c][1], s[c][2], s[c][3]);
}

/* Which of the sums a thread adds up for all blocks; SUMS or more: none. */
template <int X> __device__ __forceinline__ int slice_place(int rank, int ranks)
{
    const int slice = (pass_shape<X>::SUMS + ranks - 1) / ranks;
    return (int)threadIdx.x < slice ? rank * slice + (int)threadIdx.x : pass_shape<X>::SUMS;
}

/* This block's slice of the sums of all blocks: the state before each goes to each. */
template <int X>
__device__ __forceinline__ void scan_slice(uint32_t sums, uint32_t prefix, int place, int ranks,
                                           float4 &carry)
{
    if (place >= pass_shape<X>::SUMS) return;
    const uint32_t at = (uint32_t)place * 16;
    float4 sum[PASS_MOST];
#pragma unroll
    for (int r = 0; r < PASS_MOST; r++)
        if (r < ranks) sum[r] = cluster_load(cluster_address(sums + at, r));
#pragma unroll
    for (int r = 0; r < PASS_MOST; r++) {
        if (r >= ranks) break;
        cluster_store(cluster_address(prefix + at, r), carry);
        carry.x += sum[r].x, carry.y += sum[r].y, carry.z += sum[r].z, carry.w += sum[r].w;
    }
}

/* As bf16 [feature][column]; z as the sum of columns W and W + 1. */
template <int X>
__device__ __forceinline__ void round_prefix(const float4 *prefix, const pass_place<X> &p,
                                             __nv_bfloat16 *state)
{
#pragma unroll
    for (int c = 0; c <= pass_shape<X>::NT; c++) {
        if (!p.has(c)) continue;
        float4 x = prefix[p.slot(c)];
        const int feature = p.wr * 16 + p.lane / 4, column = p.column8(c) * 8 + p.lane % 4 * 2;
        if (column == 8 * X) {
            const float high0 = __bfloat162float(__float2bfloat16_rn(x.x)),
                        high1 = __bfloat162float(__float2bfloat16_rn(x.z));
            x.y = x.x - high0, x.x = high0, x.w = x.z - high1, x.z = high1;
        }
        uint32_t *to = (uint32_t *)(state + feature * pass_shape<X>::LD + column);
        to[0] = pack(x.x, x.y);
        to[8 * pass_shape<X>::LD / 2] = pack(x.z, x.w);
    }
}

/* ---- the answers of 16 queries --------------------------------------------------------------- */

/* o = sum over the block's keys up to each query's own, 32 at a time. */
template <int X>
__device__ __forceinline__ void answer_keys(const uint32_t (&a)[X / 2][4],
                                            const __nv_bfloat16 *keys, const __nv_bfloat16 *values,
                                            float (&o)[X + 1][4], int lane, int warp)
{
    constexpr int LD = pass_shape<X>::LD;
    const int row = warp * 16 + lane / 4;
    const uint32_t one = lane / 4 == 0 ? 0x3f803f80u : 0;
#pragma unroll 1
    for (int key = 0; key <= warp * 16; key += 32) {
        float w[4][4] = {};
#pragma unroll
        for (int k = 0; k < X / 2; k++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                uint32_t b[4];
                load_matrices(b, matrices_across<LD>(keys, key + 16 * c, 16 * k, lane));
                mma16(w[2 * c], a[k], b[0], b[1]);
                mma16(w[2 * c + 1], a[k], b[2], b[3]);
            }
        if (key + 31 > warp * 16)
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (key + 8 * c + lane % 4 * 2 + e % 2 > row + e / 2 * 8) w[c][e] = 0;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const uint32_t p[4] = { pack(w[2 * c][0], w[2 * c][1]), pack(w[2 * c][2], w[2 * c][3]),
                                    pack(w[2 * c + 1][0], w[2 * c + 1][1]),
                                    pack(w[2 * c + 1][2], w[2 * c + 1][3]) };
#pragma unroll
            for (int n = 0; n < X; n += 2) {
                uint32_t b[4];
                load_matrices_transposed(b, matrices_at<LD>(values, key + 16 * c, 8 * n, lane));
                mma16(o[n], p, b[0], b[1]);
                mma16(o[n + 1], p, b[2], b[3]);
            }
            mma16(o[X], p, one, one);
        }
    }
}

/* o += phi(q) S; the last tile of columns has z. */
template <int X>
__device__ __forceinline__ void answer_state(const uint32_t (&a)[X / 2][4],
                                             const __nv_bfloat16 *state, float (&o)[X + 1][4],
                                             int lane)
{
    constexpr int LD = pass_shape<X>::LD;
#pragma unroll
    for (int k = 0; k < X / 2; k++) {
#pragma unroll
        for (int n = 0; n < X; n += 2) {
            uint32_t b[4];
            load_matrices_transposed(b, matrices_at<LD>(state, 16 * k, 8 * n, lane));
            mma16(o[n], a[k], b[0], b[1]);
            mma16(o[n + 1], a[k], b[2], b[3]);
        }
        uint32_t b0, b1;
        load_two_transposed(b0, b1, shared_address(state + (16 * k + lane % 16) * LD + 8 * X));
        mma16(o[X], a[k], b0, b1);
    }
}

/* Through the warp's own rows of `rows`, which it has read. */
template <int X>
__device__ __forceinline__ void write_answers(const linear_args &a, int64_t base, int there,
                                              const float (&o)[X + 1][4], __nv_bfloat16 *rows,
                                              int lane)
{
    constexpr int LD = pass_shape<X>::LD;
    __syncwarp();
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int row = lane / 4 + 8 * u;
        float den = o[X][2 * u] + o[X][2 * u + 1];
        den = __shfl_sync(~0u, den, lane & ~3) + a.eps;
        const float factor = den != 0 ? 1.0f / den : 0.0f;
        if (row < there && lane % 4 == 0 && !(den > 0)) atomicAdd(a.nonpositive, 1ull);
#pragma unroll
        for (int c = 0; c < X; c++)
            *(uint32_t *)(rows + row * LD + 8 * c + 2 * (lane % 4)) =
                pack(o[c][2 * u] * factor, o[c][2 * u + 1] * factor);
    }
    __syncwarp();
#pragma unroll
    for (int w = lane; w < 16 * X; w += 32) {
        const int row = w / X, column = w % X * 8;
        if (row < there)
            *(uint4 *)((__nv_bfloat16 *)a.out.data + base + row * a.out.stride[2] + column) =
                *(const uint4 *)(rows + row * LD + column);
    }
}

/* ---- the library's state --------------------------------------------------------------------- */

/* f(number, where it stands in s or z) for the numbers of this thread's slice. */
template <int X, class F>
__device__ __forceinline__ void each_of_slice(int at, float4 &carry, const F &f)
{
    if (at >= pass_shape<X>::SUMS) return;
    const int lane = at % 32;
    const int wr = at / 32 / (X + 1), n = at / 32 % (X + 1);
    float *x = &carry.x;
#pragma unroll
    for (int e = 0; e < 4; e++)
        f(x[e], wr * 16 + lane / 4 + e / 2 * 8, n * 8 + lane % 4 * 2 + e % 2);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int X, int map>
__global__ void __launch_bounds__(PASS_THREADS, X == 8 ? 1 : 2)
    linear_pass_kernel(const __grid_constant__ linear_args a)
{
#if __CUDA_ARCH__ >= 900
    using shape = pass_shape<X>;
    extern __shared__ __align__(128) char bytes[];
    __nv_bfloat16 *keys = (__nv_bfloat16 *)bytes, *values = keys + PASS_STAGES * shape::TILE,
                  *queries = values + PASS_STAGES * shape::TILE;
    float4 *sums = (float4 *)(queries + PASS_STAGES * shape::TILE), *prefix = sums + shape::SUMS;
    __nv_bfloat16 *states = (__nv_bfloat16 *)(prefix + shape::SUMS);
    const int ranks = (int)gridDim.x, rank = (int)blockIdx.x, lane = (int)threadIdx.x % 32,
              warp = (int)threadIdx.x / 32, slice = slice_place<X>(rank, ranks);
    const int64_t head = blockIdx.y, b = head / a.kv_heads, h = head % a.kv_heads;
    const int64_t at_once = (int64_t)ranks * PASS_TOKENS;
    const int steps = (int)((a.length_k + at_once - 1) / at_once);
    const pass_place<X> place;
    const pass_rows<X> rows_q(a.q, b, h), rows_k(a.k, b, h), rows_v(a.v, b, h);

    auto token = [&](int s) { return ((int64_t)s * ranks + rank) * PASS_TOKENS; };
    auto there = [&](int s) {
        return (int)max(min(a.length_k - token(s), (int64_t)PASS_TOKENS), (int64_t)0);
    };
    auto get = [&](int s) {
        if (s < steps) {
            const int at = s % PASS_STAGES * shape::TILE, n = there(s);
            rows_k.fetch(token(s), n, keys + at);
            rows_v.fetch(token(s), n, values + at);
            rows_q.fetch(token(s), n, queries + at);
        }
        copy_commit();
    };
    float4 carry = make_float4(0, 0, 0, 0);
    if (a.s_in)
        each_of_slice<X>(slice, carry, [&](float &x, int f, int c) {
            if (c <= 8 * X)
                x = c == 8 * X ? a.z_in[head * 8 * X + f] : a.s_in[(head * 8 * X + f) * 8 * X + c];
        });
    get(0);
    get(1);
    /* Step s: the sums of step s, and the answers of step s - 1. */
#pragma unroll 1
    for (int s = 0; s <= steps; s++) {
        const int now = s % PASS_STAGES * shape::TILE,
                  before = (s + PASS_STAGES - 1) % PASS_STAGES * shape::TILE;
        uint32_t q[X / 2][4];
        float o[X + 1][4] = {};
        if (s < steps) {
            copy_wait<1>();
            __syncthreads();
            map_keys<X, map>(keys + now, there(s));
            __syncthreads();
            sum_tokens<X>(keys + now, values + now, place, sums);
            cluster_arrive();
        } else {
            __syncthreads();
        }
        if (s > 0) {
#pragma unroll
            for (int k = 0; k < X / 2; k++) {
                load_matrices(q[k],
                              matrices_at<shape::LD>(queries + before, warp * 16, 16 * k, lane));
                map_pairs<4>(q[k], map);
            }
            answer_keys<X>(q, keys + before, values + before, o, lane, warp);
        }
        if (s < steps) {
            cluster_wait();
            scan_slice<X>(shared_address(sums), shared_address(prefix), slice, ranks, carry);
            cluster_arrive();
        }
        if (s > 0) {
            answer_state<X>(q, states + (s - 1) % 2 * shape::STATE, o, lane);
            write_answers<X>(a, row_of(a.out, b, h, token(s - 1) + warp * 16),
                             there(s - 1) - warp * 16, o, queries + before + warp * 16 * shape::LD,
                             lane);
        }
        if (s < steps) {
            __syncthreads(); /* all have answered: the stage before is free */
            get(s + 2);
            cluster_wait();
            round_prefix<X>(prefix, place, states + s % 2 * shape::STATE);
        }
    }
    if (a.s_out)
        each_of_slice<X>(slice, carry, [&](float &x, int f, int c) {
            if (c <= 8 * X)
                *(c == 8 * X ? a.z_out + head * 8 * X + f
                             : a.s_out + (head * 8 * X + f) * 8 * X + c) = x;
        });
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int X, int map> struct pass_launch {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    const void *kernel = (const void *)linear_pass_kernel<X, map>;
    pass_launch(unsigned ranks, unsigned heads, cudaStream_t stream)
    {
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim.x = ranks;
        cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        config.gridDim = dim3(ranks, heads), config.blockDim = dim3(PASS_THREADS);
        config.dynamicSmemBytes = pass_shape<X>::BYTES, config.stream = stream;
        config.attrs = &cluster, config.numAttrs = 1;
    }
    cudaError_t prepare() const
    {
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    pass_shape<X>::BYTES);
    }
    cudaError_t run(const linear_args &a)
    {
        const cudaError_t e = prepare();
        return e == cudaSuccess ? cudaLaunchKernelEx(&config, linear_pass_kernel<X, map>, a) : e;
    }
};

template <int X> static cudaError_t by_map(const linear_args &a, cudaStream_t stream)
{
    const unsigned heads = (unsigned)(a.batch * a.kv_heads), ranks = (unsigned)a.ranks;
    switch (a.map) {
    case LNT_MAP_RELU:
        return pass_launch<X, LNT_MAP_RELU>(ranks, heads, stream).run(a);
    case LNT_MAP_EXP:
        return pass_launch<X, LNT_MAP_EXP>(ranks, heads, stream).run(a);
    case LNT_MAP_IDENTITY:
        return pass_launch<X, LNT_MAP_IDENTITY>(ranks, heads, stream).run(a);
    default:
        return pass_launch<X, LNT_MAP_ELU1>(ranks, heads, stream).run(a);
    }
}

cudaError_t linear_pass_run(const linear_args &a, cudaStream_t stream)
{
    return a.width == 4 ? by_map<4>(a, stream) : by_map<8>(a, stream);
}

template <int X> static int clusters_of(int ranks)
{
    pass_launch<X, LNT_MAP_ELU1> launch((unsigned)ranks, 1, 0);
    int clusters = 0;
    cudaError_t e = launch.prepare();
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveClusters(&clusters, launch.kernel, &launch.config);
    if (e != cudaSuccess) cudaGetLastError(); /* it cannot: 0 */
    return e == cudaSuccess ? clusters : 0;
}

int linear_pass_ranks(int width, int64_t heads, double *blocks)
{
    int best = 0;
    *blocks = 0;
    for (int ranks = PASS_MOST; ranks >= 4; ranks--) {
        const int64_t clusters = width == 4 ? clusters_of<4>(ranks) : clusters_of<8>(ranks);
        if (!clusters) continue;
        const int64_t turns = (heads + clusters - 1) / clusters;
        const double busy = (double)(ranks * heads) / (double)turns;
        if (busy > *blocks) best = ranks, *blocks = busy;
    }
    return best;
}

} // namespace lnt
