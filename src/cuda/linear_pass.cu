/* cuda/linear_pass.cu - causal linear attention in one pass over q, k and v (sm_90a):
 *
 *     y_i = phi(q_i) S_i / (phi(q_i).z_i + eps)      S_i = sum over j <= i of phi(k_j) v_j^T
 *
 * One block a multiprocessor, all running at once; a team of T blocks has a sequence and head.  A
 * segment is up to 6 chunks of 64 tokens.  In wave w block r of the team takes segment w T + r, and
 * its warps each have a task:
 *
 *     sum      a warpgroup: phi(k) in place, the segment's sum of phi(k) [v, 1]
 *     scan     two warps: each block adds up its share of the numbers of all sums of the team, in
 *              the order of the tokens, and gives each block the state before its segment
 *     take     a warp: that state into shared memory
 *     answer   two warpgroups, a chunk of queries each: phi(q) times the state, and times the
 *              segment's own keys up to each query's; then divided by the denominators
 *     load     a thread: k and v into slots of shared memory, q into buffers of each warpgroup
 *
 * Sums run ahead of the answers by what the slots hold, so that the exchange is hidden behind the
 * segment before.  Each number is read and written once; beside them a state goes to the cache and
 * back twice a segment.  Keys and queries of a segment are taken from the last chunk to the first:
 * the last keys are then the first that are no longer needed.  See docs/gpu.md */
#include "cuda/linear_exchange.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* ---- sum ------------------------------------------------------------------------------------- */

/* phi of a box in place, 0 past the tokens there and past the width. */
template <int map>
__device__ __forceinline__ void map_box(uint32_t box, int there, int width, int thread)
{
    const int piece = thread % 8, row = thread / 8;
    const uint32_t at = box + box_at(row, piece);
    uint32_t x[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) load_piece(x[i], at + i * 2048);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) x[i][e] = map_two<map>(x[i][e]);
        if (width < BOX_WIDTH)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int left = width - piece * 8 - 2 * e;
                x[i][e] &= left > 1 ? ~0u : left == 1 ? 0xffffu : 0u;
            }
        if (row + 16 * i >= there) x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0;
        store_piece(at + i * 2048, x[i]);
    }
}

__device__ __forceinline__ void clear_rows(uint32_t box, int there, int thread)
{
    for (int row = thread / 8; row < BOX_ROWS; row += 16)
        if (row >= there) {
            const uint32_t none[4] = {};
            store_piece(box + box_at(row, thread % 8), none);
        }
}

__device__ __forceinline__ void sum_sync() { asm volatile("bar.sync 2, 128;" ::: "memory"); }

__device__ __forceinline__ void sum_task(const pass_block &p)
{
    const linear_args &l = p.a.l;
    const int thread = (int)threadIdx.x % 128, lane = thread % 32;
    const uint64_t ones = column_operand(p.shared + AT_ONES);
    for_waves(p, [&](const pass_wave &w) {
        float s[8][4], z[1][4];
        int under_way = -1; /* the slot of the product that may not be done */
        for (int c = p.a.chunks - 1; c >= 0 && w.present; c--) {
            const int slot = w.slot(p, c), there = w.there(c);
            barrier_wait(p.barrier(FULL + slot), w.use & 1);
            if (there > 0) {
                if (l.map == LNT_MAP_ELU1)
                    map_box<LNT_MAP_ELU1>(p.keys(slot), there, l.dim, thread);
                else if (l.map == LNT_MAP_RELU)
                    map_box<LNT_MAP_RELU>(p.keys(slot), there, l.dim, thread);
                else if (l.map == LNT_MAP_EXP)
                    map_box<LNT_MAP_EXP>(p.keys(slot), there, l.dim, thread);
                else
                    map_box<LNT_MAP_IDENTITY>(p.keys(slot), there, l.dim, thread);
                if (there < BOX_ROWS) clear_rows(p.values(slot), there, thread);
                product_publish();
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(p.barrier(MAPPED + slot));
            barrier_wait(p.barrier(MAPPED + slot), w.use & 1);
            product_wait<0>();
            product_hold(s);
            product_hold(z);
            if (under_way >= 0 && lane == 0) barrier_arrive(p.barrier(EMPTY + under_way));
            const int on = under_way >= 0;
            if (there == 0) { /* these come first */
                if (lane == 0) barrier_arrive(p.barrier(EMPTY + slot));
                continue;
            }
            under_way = slot;
            const uint64_t k = box_operand(p.keys(slot)), v = box_operand(p.values(slot));
            product_begin();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                product_down(s, operand_on(k, i * BOX_DOWN), operand_on(v, i * BOX_DOWN),
                             i > 0 ? 1 : on);
                product_down_columns(z, operand_on(k, i * BOX_DOWN), ones, i > 0 ? 1 : on);
            }
            product_commit();
        }
        product_wait<0>();
        product_hold(s);
        product_hold(z);
        if (under_way >= 0 && lane == 0) barrier_arrive(p.barrier(EMPTY + under_way));
        if (w.wave >= 2) barrier_wait(p.barrier(SCANNED + (w.wave & 1)), (w.wave / 2 - 1) & 1);
        if (w.present) {
            float *to = p.sum(w.wave, p.r);
#pragma unroll
            for (int n = 0; n < 8; n++)
                __stcg((float4 *)to + n * 128 + thread,
                       make_float4(s[n][0], s[n][1], s[n][2], s[n][3]));
            if (lane % 4 == 0) {
                const int feature = thread / 32 * 16 + lane / 4;
                __stcg(to + 64 * 64 + feature, z[0][0]);
                __stcg(to + 64 * 64 + feature + 8, z[0][2]);
            }
        }
        sum_sync();
        if (thread == 0) {
            /* Once all have counted, the states of the wave before last may be written over. */
            if (w.wave >= 2) barrier_wait(p.barrier(TAKEN + (w.wave & 1)), (w.wave / 2 - 1) & 1);
            count_up(p.counter(0, w.wave));
        }
    });
}

/* ---- answer ---------------------------------------------------------------------------------- */

struct answer_task {
    const pass_block &p;
    int which, lane, warp; /* of the warpgroup */

    /* phi(q) phi(k)^T of a chunk of keys, under way. */
    __device__ __forceinline__ void ask(const pass_wave &w, int c, const uint32_t (&q)[4][4],
                                        float (&s)[8][4]) const
    {
        const uint64_t k = box_operand(p.keys(w.slot(p, c)));
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            product_box<false>(s, q[i], operand_on(k, i * BOX_ACROSS), i > 0);
        product_commit();
    }
    /* Weights times the values of a chunk, and where `sums` times 1, under way. */
    template <bool sums>
    __device__ __forceinline__ void add(const pass_wave &w, int c, const uint32_t (&weight)[4][4],
                                        float (&o)[8][4], float (&den)[1][4], int on) const
    {
        const uint64_t v = box_operand(p.values(w.slot(p, c))),
                       ones = column_operand(p.shared + AT_ONES);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product_box<true>(o, weight[i], operand_on(v, i * BOX_DOWN), i > 0 ? 1 : on);
            if (sums) product_columns(den, weight[i], ones, 1);
        }
        product_commit();
    }
    static __device__ __forceinline__ void round(uint32_t (&weight)[4][4], float (&s)[8][4])
    {
        product_hold(s);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int u = 0; u < 2; u++)
                weight[n / 2][n % 2 * 2 + u] = pack(s[n][2 * u], s[n][2 * u + 1]);
    }
    /* The products of a chunk of queries with the keys of its segment up to its own, and with the
     * state, which is under way while the last scores are rounded.  Weights that are not masked are
     * added up by the lanes: products of 8 columns take half as long as those of 64. */
    __device__ __forceinline__ void read(const pass_wave &w, int chunk, const uint32_t (&q)[4][4],
                                         float (&o)[8][4], float (&den)[1][4]) const
    {
        float s[8][4], rows[2] = { 0, 0 };
        uint32_t weight[4][4];
        for (int c = 0; c < chunk; c++) {
            ask(w, c, q, s);
            product_wait<0>();
            round(weight, s);
            add<false>(w, c, weight, o, den, c > 0);
#pragma unroll
            for (int u = 0; u < 2; u++) {
                float two[8];
#pragma unroll
                for (int n = 0; n < 8; n++) two[n] = s[n][2 * u] + s[n][2 * u + 1];
                rows[u] += ((two[0] + two[1]) + (two[2] + two[3])) +
                           ((two[4] + two[5]) + (two[6] + two[7]));
            }
        }
        ask(w, chunk, q, s);
        read_state(w, q, o, den, chunk > 0);
        product_wait<1>();
        round(weight, s);
        mask(weight);
        add<true>(w, chunk, weight, o, den, 1);
        product_wait<0>();
        product_hold(o);
        product_hold(den);
#pragma unroll
        for (int u = 0; u < 2; u++) {
            rows[u] += __shfl_xor_sync(~0u, rows[u], 1);
            den[0][2 * u] += rows[u] + __shfl_xor_sync(~0u, rows[u], 2);
        }
    }
    __device__ __forceinline__ void read_state(const pass_wave &w, const uint32_t (&q)[4][4],
                                               float (&o)[8][4], float (&den)[1][4], int on) const
    {
        barrier_wait(p.barrier(READY), w.segment & 1);
        const uint64_t state = box_operand(p.shared + AT_STATE),
                       z = column_operand(p.shared + AT_Z);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product_box<true>(o, q[i], operand_on(state, i * BOX_DOWN), i > 0 ? 1 : on);
            product_columns(den, q[i], operand_on(z, i * 256), i > 0);
        }
        product_commit();
    }
    /* Keys after the query count nothing. */
    __device__ __forceinline__ void mask(uint32_t (&weight)[4][4]) const
    {
        const int behind = warp * 16 + lane / 4 - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int u = 0; u < 2; u++) {
                const int by = behind + 8 * u - 8 * n;
                weight[n / 2][n % 2 * 2 + u] &= by > 0 ? ~0u : by == 0 ? 0xffffu : 0u;
            }
    }
    /* o / den to y.  Lanes of a quad have two columns of every eight; they exchange them, so that
     * each stores eight columns that lie together. */
    __device__ __forceinline__ void write(const pass_wave &w, int first, int h,
                                          const float (&o)[8][4], const float (&den)[1][4]) const
    {
        const linear_args &l = p.a.l;
        const int row = first + warp * 16 + lane / 4;
        uint32_t x[2][2][4];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float sum = den[0][2 * u] + den[0][2 * u + 1];
            const float all = __shfl_sync(~0u, sum, lane & ~3) + l.eps;
            const bool in = row + 8 * u >= 0 && row + 8 * u < w.queries;
            const float factor = in && all != 0 ? __fdividef(1.0f, all) : 0.0f;
            if (in && lane % 4 == 0 && !(all > 0)) atomicAdd(l.nonpositive, 1ull);
#pragma unroll
            for (int n = 0; n < 8; n++)
                x[u][n / 4][n % 4] =
                    factor != 0 ? pack(o[n][2 * u] * factor, o[n][2 * u + 1] * factor) : 0;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) turn_quad(x[i / 2][i % 2], lane);
        __nv_bfloat16 *to = (__nv_bfloat16 *)l.out.data + row_of(l.out, w.b, h, row);
#pragma unroll
        for (int u = 0; u < 2; u++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int i = row + 8 * u, column = 8 * (4 * e + lane % 4);
                const uint32_t(&y)[4] = x[u][e];
                if (i >= 0 && i < l.length_q && column < l.dim_value)
                    __stcs((uint4 *)(to + 8 * u * l.out.stride[2] + column),
                           make_uint4(y[0], y[1], y[2], y[3]));
            }
    }
    /* Lane t of a quad gets number t of all its lanes. */
    static __device__ __forceinline__ void turn_quad(uint32_t (&x)[4], int lane)
    {
#pragma unroll
        for (int by = 1; by < 4; by *= 2)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (e & by) continue;
                const bool high = lane & by;
                const uint32_t got = __shfl_xor_sync(~0u, high ? x[e] : x[e | by], by);
                (high ? x[e] : x[e | by]) = got;
            }
    }

    __device__ __forceinline__ void answer(const pass_wave &w, int chunk, int h, int &uses) const
    {
        const int buffer = 2 * (uses % PASS_DEPTH) + which;
        barrier_wait(p.barrier(QUERIES + buffer), uses / PASS_DEPTH & 1);
        uses++;
        uint32_t q[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_matrices(q[i],
                          p.queries(buffer) + box_at(warp * 16 + lane % 16, 2 * i + lane / 16));
        __syncwarp();
        if (lane == 0) barrier_arrive(p.barrier(ASKED + buffer));
        /* Past the width phi is not 0, but the state and the keys are. */
        if (p.a.l.map == LNT_MAP_ELU1)
            map_pairs<16>(q[0], LNT_MAP_ELU1);
        else
            map_pairs<16>(q[0], p.a.l.map);
        float o[8][4], den[1][4];
        read(w, chunk, q, o, den);
        write(w, w.row(chunk), h, o, den);
    }

    __device__ __forceinline__ void run() const
    {
        int item = 0, uses = 0;
        for_waves(p, [&](const pass_wave &w) {
            if (!w.present) return;
            for (int c = 0; c < p.a.chunks; c++)
                barrier_wait(p.barrier(MAPPED + w.slot(p, c)), w.use & 1);
            for (int c = p.a.chunks - 1; c >= 0; c--) {
                for_items(p, w, item, c, [&](int h) {
                    if (group_of(item) == which) answer(w, c, h, uses);
                });
                if (lane == 0) barrier_arrive(p.barrier(EMPTY + w.slot(p, c)));
            }
            barrier_wait(p.barrier(READY), w.segment & 1); /* so that none is missed */
            if (lane == 0) barrier_arrive(p.barrier(DONE));
        });
    }
};

/* ---- the block ------------------------------------------------------------------------------- */

__device__ __forceinline__ void set_up(const pass_block &p)
{
    for (int i = (int)threadIdx.x; i < (AT_BARRIERS - AT_Z) / 4; i += PASS_THREADS) {
        const int word = i - (AT_ONES - AT_Z) / 4; /* column 0 of two matrices is 1 */
        const bool one = word >= 0 && word % 32 < 4;
        store_word(p.shared + AT_Z + (uint32_t)i * 4, one ? 0x3f803f80u : 0u);
    }
    product_publish();
    if (threadIdx.x == 0) {
        for (int i = 0; i < PASS_SLOTS; i++) {
            barrier_init(p.barrier(FULL + i), 1);
            barrier_init(p.barrier(MAPPED + i), 4); /* a lane of each warp */
            barrier_init(p.barrier(EMPTY + i), 12);
        }
        for (int i = 0; i < 2 * PASS_DEPTH; i++) {
            barrier_init(p.barrier(QUERIES + i), 1);
            barrier_init(p.barrier(ASKED + i), 4);
        }
        for (int i = 0; i < 2; i++) {
            barrier_init(p.barrier(SCANNED + i), 1);
            barrier_init(p.barrier(TAKEN + i), 1);
        }
        barrier_init(p.barrier(READY), 1);
        barrier_init(p.barrier(DONE), 8);
        barrier_publish();
    }
    __syncthreads();
}
#endif

__global__ void __launch_bounds__(PASS_THREADS, 1) pass_kernel(const __grid_constant__ pass_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(1024) char bytes[];
    const pass_block p = { a, (shared_address(bytes) + 1023) & ~1023u,
                           (int)blockIdx.x / a.team_size, (int)blockIdx.x % a.team_size };
    set_up(p);
    for (int64_t head = p.team; head < (int64_t)a.l.batch * a.l.kv_heads; head += a.teams) {
        const linear_sequence n(a.l, head); /* what no chunk of keys stands beside */
        clear_rows(a.l, n, 0, min(-n.past, a.l.length_q), p.r, a.team_size);
        clear_rows(a.l, n, max(n.queries, (int64_t)0), a.l.length_q, p.r, a.team_size);
    }
    const int warp = (int)threadIdx.x / 32;
    if (warp < 4) {
        registers_down<PASS_SUM_REGISTERS>();
        sum_task(p);
    } else if (warp < 12) {
        registers_up<PASS_ANSWER_REGISTERS>();
        answer_task{ p, warp / 4 - 1, (int)threadIdx.x % 32, warp % 4 }.run();
    } else {
        registers_down<PASS_OTHER_REGISTERS>();
        if (warp < 14)
            scan_task{ p }.run((int)threadIdx.x - 384);
        else if (warp == 14)
            take_task{ p }.run((int)threadIdx.x % 32);
        else if (threadIdx.x % 32 == 0)
            load_task{ p }.run();
    }
#endif
}

/* ---- the launch ------------------------------------------------------------------------------ */

/* The team that has its heads done soonest; of those about as good the smallest, whose exchange is
 * the quickest. */
static void choose_teams(pass_args *a, int blocks, int64_t segments)
{
    const int64_t heads = (int64_t)a->l.batch * a->l.kv_heads;
    auto waves = [&](int64_t size) {
        const int64_t teams = blocks / size, rounds = (heads + teams - 1) / teams;
        return rounds * ((segments + size - 1) / size);
    };
    int64_t least = INT64_MAX;
    for (int64_t size = 1; size <= blocks; size++)
        least = waves(size) < least ? waves(size) : least;
    int64_t size = 1;
    while (waves(size) * 20 > least * 21) size++;
    a->team_size = (int)size, a->teams = (int)(blocks / size < heads ? blocks / size : heads);
}

size_t linear_pass_workspace(int blocks)
{
    const size_t n = (size_t)blocks;
    return n *
           (3 * PASS_SUM * sizeof(float) + 2 * PASS_STATE_BYTES + PASS_COUNTERS * sizeof(unsigned));
}

bool linear_pass_fits(int major, int minor)
{
    cudaFuncAttributes at;
    return major == 9 && minor == 0 &&
           cudaFuncGetAttributes(&at, (const void *)pass_kernel) == cudaSuccess &&
           at.ptxVersion == 90;
}

bool linear_pass_run(const linear_args &l, int blocks, int chunks, char *workspace,
                     cudaStream_t stream, cudaError_t *error)
{
    pass_args a = {};
    a.l = l;
    if (!bulk_describe(&a.q, l.q, l.batch, l.heads, l.length_q, l.dim) ||
        !bulk_describe(&a.k, l.k, l.batch, l.kv_heads, l.length_k, l.dim) ||
        !bulk_describe(&a.v, l.v, l.batch, l.kv_heads, l.length_k, l.dim_value) ||
        !is_wide(l.out, l.dim_value))
        return false;
    a.chunks = chunks, a.groups = PASS_SLOTS / chunks;
    const int64_t tokens = (int64_t)chunks * BOX_ROWS;
    choose_teams(&a, blocks, (l.length_k + tokens - 1) / tokens);
    a.counters = (unsigned *)workspace;
    a.sums = (float *)(a.counters + (size_t)blocks * PASS_COUNTERS);
    a.totals = a.sums + (size_t)blocks * 2 * PASS_SUM;
    a.states = (char *)(a.totals + (size_t)blocks * PASS_SUM);
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative, together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(a.teams * a.team_size)), config.blockDim = dim3(PASS_THREADS);
    config.dynamicSmemBytes = PASS_BYTES, config.stream = stream;
    config.attrs = &together, config.numAttrs = 1;
    cudaError_t e = cudaFuncSetAttribute((const void *)pass_kernel,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, PASS_BYTES);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(a.counters, 0, (size_t)a.teams * PASS_COUNTERS * sizeof(unsigned),
                            stream);
    if (e == cudaSuccess) e = cudaLaunchKernelEx(&config, pass_kernel, a);
    *error = e;
    return true;
}

} // namespace lnt
