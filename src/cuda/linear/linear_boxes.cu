/* cuda/linear/linear_boxes.cu - gradients of causal linear attention without decay, upon boxes of 64
 * tokens (sm_90a); linear_backward.cu has the formulas, and everything else:
 *
 *     dphi(q_i) = inv_i T_i + h_i Z_i      T_i = sum over j <= i of (D_i.v_j) phi(k_j)
 *     dphi(k_j) = sum over i >= j of (inv_i D_i.v_j + h_i) phi(q_i)
 *     dv_j      = sum over i >= j of phi(q_i).phi(k_j) inv_i D_i
 *
 * phi is psi + 1 where it has a large mean; products are of psi, the rest is the same for every
 * feature and stays in f32.  Five launches, a block of threads for each segment of 4 chunks: the
 * sums of psi(k) [v, 1] and v; the states before the segments; over the queries dq, inv and h, and
 * the sums of inv psi(q) [D, h / inv], inv D and h; the states after the segments; over the keys dk
 * and dv.  Within a segment tokens meet one by one.  Reads k and v three times, q and D twice. */
#include "cuda/linear/linear_boxes.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* ---- the sums of psi(k) [v, 1] and v --------------------------------------------------------- */

__device__ __forceinline__ void sum_keys(const boxes_args &a, const char *bytes)
{
    const boxes_block p(a, bytes);
    const uint32_t ones_at = p.shared + BY_BUFFERS, barriers = ones_at + 256;
    const int thread = (int)threadIdx.x;
    lay_ones(ones_at);
    product_publish();
    if (thread == 0) {
        for (int i = 0; i < BOXES_CHUNKS; i++) barrier_init(barriers + 8 * (uint32_t)i, 1);
        barrier_publish();
    }
    __syncthreads();
    if (thread == 0) {
        const uint64_t policy = read_once();
        for (int c = 0; c < p.chunks; c++) {
            const uint32_t full = barriers + 8 * (uint32_t)c;
            barrier_expect(full, 2 * BOX_BYTES);
            box_load(p.first(c), &a.k, p.b, p.h, p.begin + c * BOX_ROWS, full, policy);
            box_load(p.second(c), &a.v, p.b, p.h, p.begin + c * BOX_ROWS, full, policy);
        }
    }
    const uint64_t ones = column_operand(ones_at);
    float s[8][4], z[1][4], u[1][4];
    for (int c = 0; c < p.chunks; c++) {
        barrier_wait(barriers + 8 * (uint32_t)c, 0);
        psi_box(p.first(c), a.map, thread);
        __syncthreads();
        const uint64_t k = box_operand(p.first(c)), v = box_operand(p.second(c));
        product_wait<0>();
        product_hold(s);
        product_hold(z);
        product_hold(u);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint64_t ki = operand_on(k, i * BOX_DOWN), vi = operand_on(v, i * BOX_DOWN);
            product_down(s, ki, vi, c + i > 0);
            product_down_columns(z, ki, ones, c + i > 0);
            product_down_columns(u, vi, ones, c + i > 0);
        }
        product_commit();
    }
    product_wait<0>();
    product_hold(s);
    product_hold(z);
    product_hold(u);
    p.put_sum(a.sums, s, z, u, 0.0f, thread);
}
#endif

__global__ void __launch_bounds__(BOXES_THREADS, 3)
    linear_boxes_sum_kernel(const __grid_constant__ boxes_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(1024) char bytes[];
    sum_keys(a, bytes);
#endif
}

/* ---- from sums to states --------------------------------------------------------------------- */

/* The sums become what comes before them, or, in reverse, after.  Of 32 numbers a block: each of
 * its parts has a run of segments, and begins with what the parts before it have. */
template <bool reverse> __global__ void linear_boxes_scan_kernel(float *sums, int segments)
{
    __shared__ float parts[BOXES_PARTS][32];
    const int e = (int)(blockIdx.x * 32 + threadIdx.x), part = (int)threadIdx.y;
    const int each = (segments + BOXES_PARTS - 1) / BOXES_PARTS, from = min(part * each, segments),
              count = min(each, segments - from);
    float *at = sums + ((int64_t)blockIdx.y * segments + from) * BOXES_STATE + e;
    auto place = [&](int s) { return (int64_t)(reverse ? count - 1 - s : s) * BOXES_STATE; };
    float x = 0;
    for (int s = 0; s < count; s += BOXES_PREFETCH) {
        float sum[BOXES_PREFETCH];
#pragma unroll
        for (int i = 0; i < BOXES_PREFETCH; i++) sum[i] = s + i < count ? at[place(s + i)] : 0.0f;
#pragma unroll
        for (int i = 0; i < BOXES_PREFETCH; i++) x += sum[i];
    }
    parts[part][threadIdx.x] = x;
    __syncthreads();
    x = 0;
    for (int i = 1; i < BOXES_PARTS; i++) { /* in the order of the segments */
        const int other = reverse ? BOXES_PARTS - i : i - 1;
        if (reverse ? other > part : other < part) x += parts[other][threadIdx.x];
    }
    for (int s = 0; s < count; s += BOXES_PREFETCH) {
        float sum[BOXES_PREFETCH];
#pragma unroll
        for (int i = 0; i < BOXES_PREFETCH; i++) sum[i] = s + i < count ? at[place(s + i)] : 0.0f;
#pragma unroll
        for (int i = 0; i < BOXES_PREFETCH; i++)
            if (s + i < count) at[place(s + i)] = x, x += sum[i];
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static size_t gradient_segments(int64_t length)
{
    return (size_t)((length + BOXES_TOKENS - 1) / BOXES_TOKENS);
}

size_t linear_boxes_workspace(int64_t heads, int64_t length)
{
    return 2 * (size_t)heads * gradient_segments(length) * BOXES_STATE * sizeof(float);
}

static bool describe_gradients(boxes_args *g, const linear_backward_args &a)
{
    const int64_t n = a.length_q, d = a.dim, m = a.dim_value;
    return bulk_describe(&g->q, a.q, a.batch, a.heads, n, d) &&
           bulk_describe(&g->k, a.k, a.batch, a.heads, n, d) &&
           bulk_describe(&g->v, a.v, a.batch, a.heads, n, m) &&
           bulk_describe(&g->dout, a.dout, a.batch, a.heads, n, m) &&
           bulk_describe(&g->dq, a.dq, a.batch, a.heads, n, d) &&
           bulk_describe(&g->dk, a.dk, a.batch, a.heads, n, d) &&
           bulk_describe(&g->dv, a.dv, a.batch, a.heads, n, m);
}

static cudaError_t launch(const boxes_args &g, cudaStream_t stream)
{
    const unsigned heads = (unsigned)g.all_heads;
    /* BOXES_STATE is a multiple of 32. */
    const dim3 grid((unsigned)g.segments, heads), scan(BOXES_STATE / 32, heads),
        parts(32, BOXES_PARTS);
    cudaError_t e =
        launch_kernel(linear_boxes_sum_kernel, grid, BOXES_THREADS, BOXES_SUM_BYTES, stream, g);
    if (e != cudaSuccess) return e;
    linear_boxes_scan_kernel<false><<<scan, parts, 0, stream>>>(g.sums, g.segments);
    e = cudaGetLastError();
    if (e == cudaSuccess) e = linear_boxes_queries_run(g, stream);
    if (e != cudaSuccess) return e;
    linear_boxes_scan_kernel<true><<<scan, parts, 0, stream>>>(g.gradient_sums, g.segments);
    e = cudaGetLastError();
    return e == cudaSuccess ? linear_boxes_keys_run(g, stream) : e;
}

bool linear_boxes_run(const linear_backward_args &a, char *workspace, cudaStream_t stream,
                      cudaError_t *error)
{
    boxes_args g = {};
    if (!a.causal || a.decay || a.heads != a.kv_heads || a.length_q != a.length_k || a.lengths_q ||
        a.lengths_k || a.s_in || a.ds_out || a.ds_in || a.dim > BOX_WIDTH ||
        a.dim_value > BOX_WIDTH || !describe_gradients(&g, a))
        return false;
    g.length = a.length_q, g.heads = a.heads, g.dim = a.dim, g.map = a.map, g.eps = a.eps;
    g.segments = (int)gradient_segments(a.length_q), g.rows = a.rows;
    g.all_heads = a.batch * a.heads;
    g.sums = (float *)workspace;
    g.gradient_sums = g.sums + (size_t)g.all_heads * (size_t)g.segments * BOXES_STATE;
    *error = launch(g, stream);
    return true;
}

} // namespace lnt
