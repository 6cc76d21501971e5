/* cuda/linear/linear_boxes_keys.cu - of the gradients upon boxes (linear_boxes.cu) those of the keys
 * and values. */
#include "cuda/linear/linear_boxes.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

template <int known> struct key_item {
    const boxes_block &p;
    int lane, warp;
    __device__ __forceinline__ int map() const { return known < 0 ? p.a.map : known; }

    /* (score times slope plus offset) of a chunk of queries as weights; own: those from the key's
     * own on. */
    template <class F>
    __device__ __forceinline__ void weigh(uint32_t (&w)[4][4], const float (&g)[8][4], int chunk,
                                          bool own, const F &of) const
    {
        const float *inverse = p.floats() + chunk * BOX_ROWS + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const float2 inv = *(const float2 *)(inverse + 8 * n),
                         h = *(const float2 *)(inverse + BOXES_TOKENS + 8 * n);
#pragma unroll
            for (int u = 0; u < 2; u++)
                w[n / 2][n % 2 * 2 + u] =
                    pack(of(g[n][2 * u], u, inv.x, h.x), of(g[n][2 * u + 1], u, inv.y, h.y));
        }
        if (own) keep_own<false>(w, lane, warp);
    }

    /* dk and dv of a chunk of keys, k and v in the boxes, in their place. */
    __device__ __forceinline__ void run(int chunk, uint32_t box) const
    {
        const boxes_args &a = p.a;
        const float plus = map_offset(map());
        uint32_t v[4][4], phi[4][4];
        load_rows(v, box + BOX_BYTES, lane, warp);
        load_rows(phi, box, lane, warp);
        float mass[2] = {}; /* the sum of phi(k) over the features */
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                uint32_t &pair = phi[n / 2][n % 2 * 2 + u];
                const float p0 = map_psi(map(), low_of(pair)) + plus,
                            p1 = map_psi(map(), high_of(pair)) + plus;
                const int column = 8 * n + lane % 4 * 2;
                mass[u] += (column < a.dim ? p0 : 0.0f) + (column + 1 < a.dim ? p1 : 0.0f);
                pair = pack(p0, p1);
            }
#pragma unroll
        for (int u = 0; u < 2; u++) mass[u] = plus * lanes_sum<4>(mass[u]);
        float dk[8][4], dv[8][4], all[1][4], g[8][4], f[8][4];
        const uint64_t state = box_operand(p.shared + BY_STATE);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            product_box<false>(dk, v[i], operand_on(state, i * BOX_ACROSS), i > 0);
        add_columns(all, v, p.shared + BY_COLUMNS, 256, false);
        add_box(dv, phi, p.shared + BY_STATE, false);
        product_commit();
        for (int c = p.chunks - 1; c >= chunk; c--) {
            uint32_t w[4][4], x[4][4];
            scores(g, v, p.second(c));
            scores(f, phi, p.first(c)); /* under way while the others are weighed */
            product_wait<1>();
            product_hold(g);
            weigh(w, g, c, c == chunk,
                  [&](float of, int, float inv, float h) { return fmaf(of, inv, h); });
            product_begin();
            add_box(dk, w, p.first(c), true);
            add_columns(all, w, p.shared + BY_ONES, 0, true);
            product_commit();
            product_wait<1>();
            product_hold(f);
            weigh(x, f, c, c == chunk,
                  [&](float of, int u, float inv, float) { return (of + mass[u]) * inv; });
            product_begin();
            add_box(dv, x, p.second(c), true);
            product_commit();
            if (p.begin + c > 0 && p.begin + (c + 1) * BOX_ROWS < a.length) continue;
            /* The first queries' weights are large, and the last keys have few: what was rounded
             * off. */
            product_wait<0>();
            product_hold(dk);
            product_hold(dv);
            product_hold(all);
            weigh(w, g, c, c == chunk,
                  [&](float of, int, float inv, float h) { return rest_of(fmaf(of, inv, h)); });
            product_begin();
            add_box(dk, w, p.first(c), true);
            add_columns(all, w, p.shared + BY_ONES, 0, true);
            product_commit();
        }
        product_wait<0>();
        product_hold(dk);
        product_hold(dv);
        product_hold(all);
        put(box, dk, dv, all, mass);
    }
    __device__ __forceinline__ void put(uint32_t box, const float (&dk)[8][4],
                                        const float (&dv)[8][4], const float (&all)[1][4],
                                        const float (&mass)[2]) const
    {
        const float *of_feature = p.floats() + 2 * BOXES_TOKENS, *of_column = of_feature + 64;
        const float plus = map_offset(map()), later = of_feature[128];
        uint32_t k[4][4], x[4][4];
        load_rows(k, box, lane, warp);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float rest = plus * (of_row(all, u, lane) + later);
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const float2 of = *(const float2 *)(of_feature + 8 * n + lane % 4 * 2),
                             at = *(const float2 *)(of_column + 8 * n + lane % 4 * 2);
                uint32_t &pair = k[n / 2][n % 2 * 2 + u];
                const float x0 = low_of(pair), x1 = high_of(pair);
                pair = pack((dk[n][2 * u] + of.x + rest) * map_slope(map(), x0, map_psi(map(), x0)),
                            (dk[n][2 * u + 1] + of.y + rest) *
                                map_slope(map(), x1, map_psi(map(), x1)));
                x[n / 2][n % 2 * 2 + u] =
                    pack(fmaf(mass[u], at.x, dv[n][2 * u]), fmaf(mass[u], at.y, dv[n][2 * u + 1]));
            }
        }
        __syncwarp();
        store_rows(box, k, lane, warp);
        store_rows(box + BOX_BYTES, x, lane, warp);
        product_publish();
    }
};

template <int known>
__device__ __forceinline__ void go_over_keys(const boxes_args &a, const char *bytes)
{
    const boxes_block p(a, bytes);
    p.set_up();
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    /* From the last chunk to the first: a key meets the queries from its own on. */
    auto fill = [&](int i) {
        p.load(&a.k, &a.v, p.buffer(i % 2), p.chunks - 1 - i, FILLED + i % 2);
    };
    if (thread == 0)
        for (int i = 0; i < p.chunks; i++) {
            p.load(&a.q, &a.dout, p.first(p.chunks - 1 - i), p.chunks - 1 - i,
                   LOADED + p.chunks - 1 - i);
            if (i < 2) fill(i);
        }
    float *floats = p.floats();
    float2 of[BOXES_TOKENS / BOXES_THREADS];
#pragma unroll
    for (int i = 0; i < BOXES_TOKENS / BOXES_THREADS; i++) {
        const int token = p.begin + i * BOXES_THREADS + thread;
        of[i] = token < a.length ? a.rows[p.head * a.length + token] : make_float2(0.0f, 0.0f);
    }
    p.take_state(a.gradient_sums, floats + 2 * BOXES_TOKENS, thread);
#pragma unroll
    for (int i = 0; i < BOXES_TOKENS / BOXES_THREADS; i++) {
        floats[i * BOXES_THREADS + thread] = of[i].x;
        floats[BOXES_TOKENS + i * BOXES_THREADS + thread] = of[i].y;
    }
    const key_item<known> item = { p, lane, warp };
    for (int i = 0; i < p.chunks; i++) {
        const int c = p.chunks - 1 - i;
        barrier_wait(p.barrier(LOADED + c), 0);
        psi_box(p.first(c), a.map, thread);
        __syncthreads();
        if (thread == 0 && i > 0 && i + 1 < p.chunks) {
            box_store_wait();
            fill(i + 1);
        }
        const uint32_t box = p.buffer(i % 2);
        barrier_wait(p.barrier(FILLED + i % 2), i / 2 & 1);
        item.run(c, box);
        __syncthreads();
        if (thread == 0) {
            box_store(box, &a.dk, p.b, p.h, p.begin + c * BOX_ROWS, read_once());
            box_store(box + BOX_BYTES, &a.dv, p.b, p.h, p.begin + c * BOX_ROWS, read_once());
        }
    }
    if (thread == 0) box_store_wait(), box_store_finish();
}
#endif

/* ---- the launch ------------------------------------------------------------------------------ */

template <int known>
__global__ void __launch_bounds__(BOXES_THREADS, 2)
    linear_boxes_keys_kernel(const __grid_constant__ boxes_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(1024) char bytes[];
    go_over_keys<known>(a, bytes);
#endif
}

template <int known> static cudaError_t run(const boxes_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)a.segments, (unsigned)a.all_heads);
    return launch_kernel(linear_boxes_keys_kernel<known>, grid, BOXES_THREADS, BOXES_BYTES, stream,
                         a);
}

cudaError_t linear_boxes_keys_run(const boxes_args &a, cudaStream_t stream)
{
    return a.map == LNT_MAP_ELU1 ? run<LNT_MAP_ELU1>(a, stream) : run<-1>(a, stream);
}

} // namespace lnt
