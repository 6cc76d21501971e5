/* cuda/linear/linear_boxes_queries.cu - of the gradients upon boxes (linear_boxes.cu) those of the
 * queries: dq, inv and h, and the sums of inv psi(q) [D, h / inv], inv D and h of the segments. */
#include "cuda/linear/linear_boxes.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* known: the map where it is compiled, -1 where it is not. */
template <int known> struct query_item {
    const boxes_block &p;
    int lane, warp;
    __device__ __forceinline__ int map() const { return known < 0 ? p.a.map : known; }

    /* T, Z of the chunk's own keys, and what belongs to every feature alike. */
    __device__ __forceinline__ void read(int chunk, const uint32_t (&d)[4][4], float (&t)[8][4],
                                         float (&z)[8][4], float (&all)[1][4]) const
    {
        const uint64_t state = box_operand(p.shared + BY_STATE);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            product_box<false>(t, d[i], operand_on(state, i * BOX_ACROSS), i > 0);
        add_columns(all, d, p.shared + BY_COLUMNS, 256, false);
        product_commit();
        float g[8][4];
        uint32_t w[4][4];
        for (int c = 0; c <= chunk; c++) {
            scores(g, d, p.second(c));
            product_wait<0>();
            product_hold(g);
            product_hold(t);
            product_hold(all);
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int u = 0; u < 2; u++)
                    w[n / 2][n % 2 * 2 + u] = pack(g[n][2 * u], g[n][2 * u + 1]);
            if (c == chunk) keep_own<true>(w, lane, warp);
            product_begin();
            add_box(t, w, p.first(c), true);
            add_columns(all, w, p.shared + BY_ONES, 0, true);
            product_commit();
        }
        uint32_t one[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) one[i / 4][i % 4] = 0x3f803f80u;
        keep_own<true>(one, lane, warp);
        product_begin();
        add_box(z, one, p.first(chunk), false);
        product_commit();
        if (p.begin + chunk == 0) {
            /* The first queries see few keys, and T and Z nearly cancel: what was rounded off. */
            product_wait<0>();
            product_hold(t);
            product_hold(z);
            product_hold(all);
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int u = 0; u < 2; u++)
                    w[n / 2][n % 2 * 2 + u] = pack(rest_of(g[n][2 * u]), rest_of(g[n][2 * u + 1]));
            keep_own<true>(w, lane, warp);
            product_begin();
            add_box(t, w, p.first(chunk), true);
            add_columns(all, w, p.shared + BY_ONES, 0, true);
            product_commit();
        }
        product_wait<0>();
        product_hold(t);
        product_hold(z);
        product_hold(all);
    }

    /* From T and Z to dq, in `out`; psi inv in place of q in the box; inv and h / inv as columns.
     * The sum of the lane's h comes back. */
    __device__ __forceinline__ float finish(int chunk, uint32_t box, float (&t)[8][4],
                                            float (&z)[8][4], const float (&all)[1][4],
                                            uint32_t (&out)[4][4]) const
    {
        const boxes_args &a = p.a;
        const float plus = map_offset(map());
        const float *of_feature = p.floats() + 2 * BOXES_TOKENS;
        uint32_t q[4][4];
        load_rows(q, box, lane, warp);
        float h_sum = 0;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int row = warp * 16 + lane / 4 + 8 * u;
            const int token = p.begin + chunk * BOX_ROWS + row;
            const float t_all = plus * of_row(all, u, lane), z_all = plus * (float)(token + 1);
            float dot = 0, den = 0, psi[8][2];
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const uint32_t pair = q[n / 2][n % 2 * 2 + u];
                psi[n][0] = map_psi(map(), low_of(pair)), psi[n][1] = map_psi(map(), high_of(pair));
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int column = 8 * n + lane % 4 * 2 + e;
                    const float phi = column < a.dim ? psi[n][e] + plus : 0.0f;
                    float &ti = t[n][2 * u + e], &zi = z[n][2 * u + e];
                    ti += t_all, zi += z_all + of_feature[column];
                    dot = fmaf(phi, ti, dot), den = fmaf(phi, zi, den);
                }
            }
            dot = lanes_sum<4>(dot), den = lanes_sum<4>(den) + a.eps;
            const bool in = token < a.length && den != 0;
            const float inverse = in ? 1.0f / den : 0.0f, y = -dot * inverse, h = y * inverse;
#pragma unroll
            for (int n = 0; n < 8; n++) {
                uint32_t &pair = q[n / 2][n % 2 * 2 + u];
                const float x0 = low_of(pair), x1 = high_of(pair);
                out[n / 2][n % 2 * 2 + u] = pack(
                    fmaf(inverse, t[n][2 * u], h * z[n][2 * u]) * map_slope(map(), x0, psi[n][0]),
                    fmaf(inverse, t[n][2 * u + 1], h * z[n][2 * u + 1]) *
                        map_slope(map(), x1, psi[n][1]));
                pair = pack(psi[n][0] * inverse, psi[n][1] * inverse);
            }
            if (lane % 4 == 0) {
                store_column(p.shared + BY_INVERSE, row, inverse);
                store_column(p.shared + BY_SHARE, row, y);
                if (token < a.length) a.rows[p.head * a.length + token] = make_float2(inverse, h);
                h_sum += h;
            }
        }
        store_rows(box, q, lane, warp);
        return h_sum;
    }
};

/* Of the segment so far: inv psi(q) [D, h / inv] and inv D; and of the chunk psi(k). */
struct query_sums {
    float r[8][4], of_feature[1][4], of_column[1][4], of_keys[1][4];

    __device__ __forceinline__ void add(const boxes_block &p, uint32_t box, int c)
    {
        const uint64_t q = box_operand(box), dout = box_operand(box + BOX_BYTES),
                       k = box_operand(p.first(c)), ones = column_operand(p.shared + BY_ONES),
                       inverse = column_operand(p.shared + BY_INVERSE),
                       share = column_operand(p.shared + BY_SHARE);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint64_t qi = operand_on(q, i * BOX_DOWN), di = operand_on(dout, i * BOX_DOWN);
            product_down(r, qi, di, c + i > 0);
            product_down_columns(of_feature, qi, operand_on(share, i * 256), c + i > 0);
            product_down_columns(of_column, di, operand_on(inverse, i * 256), c + i > 0);
            product_down_columns(of_keys, operand_on(k, i * BOX_DOWN), ones, i > 0);
        }
        product_commit();
        product_wait<0>();
        product_hold(r);
        product_hold(of_keys);
        product_hold(of_feature);
        product_hold(of_column);
    }
};

template <int known>
__device__ __forceinline__ void go_over_queries(const boxes_args &a, const char *bytes)
{
    const boxes_block p(a, bytes);
    p.set_up();
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    auto fill = [&](int c) { p.load(&a.q, &a.dout, p.buffer(c % 2), c, FILLED + c % 2); };
    if (thread == 0)
        for (int c = 0; c < p.chunks; c++) {
            p.load(&a.k, &a.v, p.first(c), c, LOADED + c);
            if (c < 2) fill(c);
        }
    const query_item<known> item = { p, lane, warp };
    p.take_state(a.sums, p.floats() + 2 * BOXES_TOKENS, thread);
    query_sums sums;
    float h = 0;
    for (int c = 0; c < p.chunks; c++) {
        barrier_wait(p.barrier(LOADED + c), 0);
        psi_box(p.first(c), a.map, thread);
        __syncthreads();
        if (thread == 0 && c > 0 && c + 1 < p.chunks) {
            box_store_wait();
            fill(c + 1);
        }
        const uint32_t box = p.buffer(c % 2);
        barrier_wait(p.barrier(FILLED + c % 2), c / 2 & 1);
        uint32_t d[4][4], out[4][4];
        load_rows(d, box + BOX_BYTES, lane, warp);
        float t[8][4], z[8][4], all[1][4];
        item.read(c, d, t, z, all);
        h += item.finish(c, box, t, z, all, out);
        product_publish();
        __syncthreads();
        sums.add(p, box, c);
        __syncthreads(); /* all have read the box, and Z before the chunk */
        if (lane % 4 == 0) {
            float *z = p.floats() + 2 * BOXES_TOKENS + warp * 16 + lane / 4;
            z[0] += sums.of_keys[0][0], z[8] += sums.of_keys[0][2];
        }
        store_rows(box, out, lane, warp);
        product_publish();
        __syncthreads();
        if (thread == 0) box_store(box, &a.dq, p.b, p.h, p.begin + c * BOX_ROWS, read_once());
    }
#pragma unroll
    for (int i = 4; i < 32; i *= 2) h += __shfl_xor_sync(~0u, h, i);
    if (lane == 0) p.floats()[warp] = h;
    __syncthreads();
    const float *of = p.floats();
    p.put_sum(a.gradient_sums, sums.r, sums.of_feature, sums.of_column,
              of[0] + of[1] + of[2] + of[3], thread);
    if (thread == 0) box_store_wait(), box_store_finish();
}

#endif

/* ---- the launch ------------------------------------------------------------------------------ */

template <int known>
__global__ void __launch_bounds__(BOXES_THREADS, 2)
    linear_boxes_queries_kernel(const __grid_constant__ boxes_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(1024) char bytes[];
    go_over_queries<known>(a, bytes);
#endif
}

template <int known> static cudaError_t run(const boxes_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)a.segments, (unsigned)a.all_heads);
    return launch_kernel(linear_boxes_queries_kernel<known>, grid, BOXES_THREADS, BOXES_BYTES,
                         stream, a);
}

cudaError_t linear_boxes_queries_run(const boxes_args &a, cudaStream_t stream)
{
    return a.map == LNT_MAP_ELU1 ? run<LNT_MAP_ELU1>(a, stream) : run<-1>(a, stream);
}

} // namespace lnt
