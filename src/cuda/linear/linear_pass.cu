/* cuda/linear/linear_pass.cu - causal linear attention in one pass over q, k and v (sm_90a):
 *
 *     y_i = phi(q_i) S_i / (phi(q_i).z_i + eps)      S_i = sum over j <= i of phi(k_j) v_j^T
 *
 * One block a multiprocessor, all running at once.  A segment is up to 7 chunks of 64 tokens; the
 * blocks take the segments of all heads in turn, and each warp of a block has a task:
 *
 *     load     a thread: k and v into slots of shared memory, q into buffers of each warpgroup
 *     map      three warps: phi(k) in place
 *     keep     a warpgroup: the sum of a segment's phi(k) [v, 1]; when the state before the segment
 *              comes from the block that has the one before, the state after it goes to the next;
 *              then chunk by chunk the state before each, while the next segment is summed
 *     answer   two warpgroups, a chunk of queries each: phi(q) times the state before the chunk,
 *              and times the chunk's own keys up to each query's; then divided by the denominators
 *
 * k and v stay in shared memory from their sum to their answer.  Each number is read and written
 * once; beside them a state a segment goes to the cache and back.  See docs/gpu-kernels.md */
#include "cuda/linear/linear_pass_keep.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* ---- map ------------------------------------------------------------------------------------- */

/* phi of a box in place, 0 past the tokens there and past the width. */
template <int map>
__device__ __forceinline__ void map_box(uint32_t box, int there, int width, int thread)
{
    constexpr int PIECES = BOX_BYTES / 16, TURNS = (PIECES + MAP_THREADS - 1) / MAP_THREADS;
    const int piece = thread % 8;
    uint32_t x[TURNS][4];
#pragma unroll
    for (int i = 0; i < TURNS; i++)
        if (thread + i * MAP_THREADS < PIECES)
            load_piece(x[i], box + box_at(thread / 8 + i * MAP_THREADS / 8, piece));
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        const int row = thread / 8 + i * MAP_THREADS / 8;
#pragma unroll
        for (int e = 0; e < 4; e++) x[i][e] = map_two<map>(x[i][e]);
        if (width < BOX_WIDTH)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int left = width - piece * 8 - 2 * e;
                x[i][e] &= left > 1 ? ~0u : left == 1 ? 0xffffu : 0u;
            }
        if (row >= there) x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0;
        if (row < BOX_ROWS) store_piece(box + box_at(row, piece), x[i]);
    }
}

__device__ __forceinline__ void clear_rows(uint32_t box, int there, int thread)
{
    for (int row = thread / 8; row < BOX_ROWS; row += MAP_THREADS / 8)
        if (row >= there) {
            const uint32_t none[4] = {};
            store_piece(box + box_at(row, thread % 8), none);
        }
}

__device__ __forceinline__ void map_task(const pass_block &p)
{
    const linear_args &l = p.a.l;
    const int thread = (int)threadIdx.x;
    for (chunk_walk at(p, false); at.x.live; at.next()) {
        const int n = at.x.chunk + at.c, slot = slot_of(n), there = at.x.there(at.c);
        barrier_wait(p.barrier(FULL + slot), use_of(n) & 1);
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
        __syncwarp();
        if (WARP_ARRIVES > 1 || thread % 32 == 0) barrier_arrive(p.barrier(MAPPED + slot));
    }
}

/* ---- answer ---------------------------------------------------------------------------------- */

struct answer_task {
    const pass_block &p;
    int which, lane, warp; /* of the warpgroup */

    /* phi(q) phi(k)^T of the chunk of keys, under way. */
    __device__ __forceinline__ void ask(int slot, const uint32_t (&q)[4][4], float (&s)[8][4]) const
    {
        const uint64_t k = box_operand(p.keys(slot));
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            product_box<false>(s, q[i], operand_on(k, i * BOX_ACROSS), i > 0);
        product_commit();
    }
    /* Weights times the values of the chunk and times 1, under way. */
    __device__ __forceinline__ void add(int slot, const uint32_t (&weight)[4][4], float (&o)[8][4],
                                        float (&den)[1][4]) const
    {
        const uint64_t v = box_operand(p.values(slot)), ones = column_operand(p.shared + AT_ONES);
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product_box<true>(o, weight[i], operand_on(v, i * BOX_DOWN), 1);
            product_columns(den, weight[i], ones, 1);
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
    __device__ __forceinline__ void read_state(int buffer, const uint32_t (&q)[4][4],
                                               float (&o)[8][4], float (&den)[1][4]) const
    {
        const uint64_t state = box_operand(p.state(buffer)), z = column_operand(p.z(buffer));
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product_box<true>(o, q[i], operand_on(state, i * BOX_DOWN), i > 0);
            product_columns(den, q[i], operand_on(z, i * 256), i > 0);
        }
        product_commit();
    }
    /* The products of queries with the keys of their chunk n, and with the state before it, which
     * is under way while the scores are rounded.  last: of what the warpgroup asks of the chunk. */
    __device__ __forceinline__ void read(int n, const uint32_t (&q)[4][4], float (&o)[8][4],
                                         float (&den)[1][4], bool last) const
    {
        const int slot = slot_of(n), buffer = buffer_of(n);
        float s[8][4];
        uint32_t weight[4][4];
        barrier_wait(p.barrier(MAPPED + slot), use_of(n) & 1);
        ask(slot, q, s);
        barrier_wait(p.barrier(READY + buffer), turn_of(n) & 1);
        which ? together<4>() : together<3>();
        read_state(buffer, q, o, den);
        product_wait<1>();
        round(weight, s);
        mask(weight);
        add(slot, weight, o, den);
        product_wait<1>();
        if (last && warp_arrives(lane)) barrier_arrive(p.barrier(DONE + buffer));
        product_wait<0>();
        product_hold(o);
        product_hold(den);
        if (last && warp_arrives(lane)) barrier_arrive(p.barrier(EMPTY + slot));
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
    /* o / den to y, by way of the warp's rows of q, which it no longer needs: by the copy engine
     * where all of them are there, else by the lanes. */
    __device__ __forceinline__ void write(const pass_walk &w, int first, int h, uint32_t to,
                                          const float (&o)[8][4], const float (&den)[1][4],
                                          uint64_t policy) const
    {
        const linear_args &l = p.a.l;
        const int row0 = first + warp * 16, row = row0 + lane / 4;
        float factor[2];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float sum = den[0][2 * u] + den[0][2 * u + 1];
            const float all = __shfl_sync(~0u, sum, lane & ~3) + l.eps;
            const bool in = row + 8 * u >= 0 && row + 8 * u < w.queries;
            factor[u] = in && all != 0 ? __fdividef(1.0f, all) : 0.0f;
            if (in && lane % 4 == 0 && !divides(all)) atomicAdd(l.nonpositive, 1ull);
        }
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            uint32_t four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float f = factor[i % 2], *x = &o[n + i / 2][2 * (i % 2)];
                four[i] = f != 0 ? pack(x[0] * f, x[1] * f) : 0;
            }
            store_matrices(to + box_at(warp * 16 + lane % 16, n + lane / 16), four);
        }
        product_publish();
        __syncwarp();
        if (row0 >= 0 && row0 + 16 <= l.length_q && l.dim_value == BOX_WIDTH) {
            if (lane == 0) box_store(to + warp * 2048, &p.a.y, w.b, h, row0, policy);
            return;
        }
        __nv_bfloat16 *out = (__nv_bfloat16 *)l.out.data + row_of(l.out, w.b, h, row0);
        for (int i = lane / 8; i < 16; i += 4) {
            uint32_t x[4];
            load_piece(x, to + box_at(warp * 16 + i, lane % 8));
            if (row0 + i >= 0 && row0 + i < l.length_q && lane % 8 * 8 < l.dim_value)
                *(uint4 *)(out + i * l.out.stride[2] + lane % 8 * 8) =
                    make_uint4(x[0], x[1], x[2], x[3]);
        }
        __syncwarp();
    }

    __device__ __forceinline__ void answer(const pass_walk &w, int c, int h, int item, bool last,
                                           uint64_t policy) const
    {
        const int buffer = item % PASS_QUERIES;
        barrier_wait(p.barrier(QUERIES + buffer), item / PASS_QUERIES & 1);
        uint32_t q[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_matrices(q[i],
                          p.queries(buffer) + box_at(warp * 16 + lane % 16, 2 * i + lane / 16));
        if (lane == 0 && item >= 2) { /* y of the item before has left its buffer */
            box_store_wait();
            barrier_arrive(p.barrier(ASKED + (item - 2) % PASS_QUERIES));
        }
        __syncwarp();
        /* Past the width phi is not 0, but the state and the keys are. */
        if (p.a.l.map == LNT_MAP_ELU1)
            map_pairs<16>(q[0], LNT_MAP_ELU1);
        else
            map_pairs<16>(q[0], p.a.l.map);
        float o[8][4], den[1][4];
        read(w.chunk + c, q, o, den, last);
        write(w, w.row(c), h, p.queries(buffer), o, den, policy);
    }

    __device__ __forceinline__ void run() const
    {
        const int group = p.a.l.heads / p.a.l.kv_heads;
        const uint64_t policy = read_once();
        int item = 0;
        for (chunk_walk at(p, false); at.x.live; at.next()) {
            const int items = at.x.asks(at.c) ? group : 0, first = group_of(item) ^ which;
            for (int g = first; g < items; g += 2)
                answer(at.x, at.c, at.x.kv * group + g, item + g, g + 2 >= items, policy);
            item += items;
            if (first < items) continue;
            const int n = at.x.chunk + at.c; /* not asked, but not missed either */
            barrier_wait(p.barrier(READY + buffer_of(n)), turn_of(n) & 1);
            if (warp_arrives(lane)) barrier_arrive(p.barrier(DONE + buffer_of(n)));
            if (warp_arrives(lane)) barrier_arrive(p.barrier(EMPTY + slot_of(n)));
        }
        if (lane == 0) {
            box_store_wait();
            box_store_finish();
        }
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
            barrier_init(p.barrier(MAPPED + i), MAP_THREADS / 32 * WARP_ARRIVES);
            barrier_init(p.barrier(EMPTY + i), 12 * WARP_ARRIVES);
        }
        for (int i = 0; i < PASS_QUERIES; i++) {
            barrier_init(p.barrier(QUERIES + i), 1);
            barrier_init(p.barrier(ASKED + i), 4);
        }
        for (int i = 0; i < PASS_STATES; i++) {
            barrier_init(p.barrier(READY + i), 4 * WARP_ARRIVES);
            barrier_init(p.barrier(DONE + i), 8 * WARP_ARRIVES);
        }
        barrier_publish();
    }
    __syncthreads();
}
#endif

__global__ void __launch_bounds__(PASS_THREADS, 1)
    linear_pass_kernel(const __grid_constant__ pass_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(1024) char bytes[];
    const pass_block p = { a, shared_address(bytes) };
    if (p.shared % 1024) __trap(); /* boxes would not lie as the copy engine lays them */
    set_up(p);
    const int heads = a.l.batch * a.l.kv_heads, parts = max((int)gridDim.x / heads, 1);
    for (int head = (int)blockIdx.x / parts; head < heads; head += (int)gridDim.x / parts) {
        const linear_sequence n(a.l, head); /* what no chunk of keys stands beside */
        const int part = (int)blockIdx.x % parts;
        clear_rows(a.l, n, 0, min(-n.past, a.l.length_q), part, parts);
        clear_rows(a.l, n, max(n.queries, (int64_t)0), a.l.length_q, part, parts);
    }
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp < 4) {
        registers_down<PASS_MAP_REGISTERS>();
        if (threadIdx.x < MAP_THREADS)
            map_task(p);
        else if (lane == 0)
            load_task{ p }.run();
    } else if (warp < 8) {
        registers_up<PASS_KEEP_REGISTERS>();
        keep_task{ p, (int)threadIdx.x % 128, lane, warp % 4 }.run();
    } else {
        registers_up<PASS_ANSWER_REGISTERS>();
        answer_task{ p, warp / 4 - 2, lane, warp % 4 }.run();
    }
#endif
}

/* ---- the launch ------------------------------------------------------------------------------ */

size_t linear_pass_workspace(int64_t heads) { return (size_t)heads * PASS_BOX_BYTES; }

bool linear_pass_run(const linear_args &l, int blocks, char *workspace, cudaStream_t stream,
                     cudaError_t *error)
{
    pass_args a = {};
    a.l = l;
    if (!bulk_describe(&a.q, l.q, l.batch, l.heads, l.length_q, l.dim) ||
        !bulk_describe(&a.k, l.k, l.batch, l.kv_heads, l.length_k, l.dim) ||
        !bulk_describe(&a.v, l.v, l.batch, l.kv_heads, l.length_k, l.dim_value) ||
        !bulk_describe(&a.y, l.out, l.batch, l.heads, l.length_q, l.dim_value, 16) ||
        !is_wide(l.out, l.dim_value))
        return false;
    const int64_t heads = (int64_t)l.batch * l.kv_heads, tokens = PASS_CHUNKS * BOX_ROWS;
    a.chunks = PASS_CHUNKS, a.segments = (int)((l.length_k + tokens - 1) / tokens);
    if (heads * (a.segments + 1) + blocks > INT32_MAX || blocks > PASS_BLOCKS) return false;
    a.boxes = workspace;
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative, together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks), config.blockDim = dim3(PASS_THREADS);
    config.dynamicSmemBytes = PASS_BYTES, config.stream = stream;
    config.attrs = &together, config.numAttrs = 1;
    cudaError_t e = cudaFuncSetAttribute((const void *)linear_pass_kernel,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, PASS_BYTES);
    if (e == cudaSuccess) /* for segment 0, which does not wait */
        e = cudaMemsetAsync(a.boxes, 0, linear_pass_workspace(heads), stream);
    if (e == cudaSuccess) e = cudaLaunchKernelEx(&config, linear_pass_kernel, a);
    *error = e;
    return true;
}

} // namespace lnt
