/* cuda/orbits/orbits_answer.cu - the answers of Taylor attention where the monomials are few
 * (orbits_basis.h):
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * Causal: a team of warps walks a segment in chunks (four terms: orbits_walk.cu, orbits_relay.cu). S,
 * the state before the chunk, is in its accumulators (orbits.cuh) and goes to shared memory as bf16,
 * times the coefficients, once a chunk; keys of the chunk are read one by one up to the query's
 * own, and then added to S.  Not causal: S is the state of all keys, and every warp takes queries
 * on its own.  Reads q, k, v and writes y once, whatever their strides; nothing in between goes to
 * memory. See docs/gpu-kernels.md */
#include "cuda/orbits/orbits_answer.cuh"

namespace lnt
{

template <class S> struct answer_memory {
    static constexpr int VALUES = 2 * S::ROWS_BYTES, QUERIES = 2 * VALUES, TURNED = 3 * VALUES,
                         STATE = TURNED + S::TURNED_BYTES, MEAN = STATE + S::STATE_BYTES,
                         BYTES = (MEAN + S::MEAN_BYTES + 127) / 128 * 128;
};

/* ---- causal ---------------------------------------------------------------------------------- */

/* Which 16 queries of a chunk a warp has; the first of a pair early, the second late. */
template <class S> __device__ __forceinline__ void own_tiles(int round, int warp, int (&tile)[S::R])
{
    constexpr int TILES = S::CHUNK / 16;
#pragma unroll
    for (int r = 0; r < S::R; r++) {
        const int k = round * S::R + r;
        tile[r] = S::WARPS == 1 ? k : k % 2 ? TILES - 1 - warp : warp;
    }
}

template <class S>
__device__ __forceinline__ void
answer_chunk(const orbits_args &a, const orbits_sequence &n, const orbits_team<S> &w, int64_t h,
             int64_t first, bool pairs, const char *keys, const char *values, const char *queries,
             const uint32_t *state, const float *mean)
{
#pragma unroll 1
    for (int round = 0; round < S::CHUNK / (16 * S::R * S::WARPS); round++) {
        int tile[S::R];
        own_tiles<S>(round, w.warp, tile);
        orbits_queries<S> q[S::R];
        float out[S::R][S::N8][4] = {};
#pragma unroll
        for (int r = 0; r < S::R; r++) q[r].take(queries + 16 * tile[r] * S::LD, w.lane);
        read_state<S>(state, q, out, w.lane);
        read_keys<S>(a, keys, values, q, tile, out, w.lane);
#pragma unroll
        for (int r = 0; r < S::R; r++)
            write_rows<S>(a, n, h, first + 16 * tile[r], pairs, mean, out[r], w.lane);
    }
}

template <class S>
__global__ void __launch_bounds__(S::TEAMS *S::THREADS, S::WARPS == 8 ? 1 : 2)
    orbits_answer_causal_kernel(const __grid_constant__ orbits_args a)
{
    extern __shared__ __align__(128) char shared[];
    using memory = answer_memory<S>;
    const orbits_team<S> w;
    char *keys = shared + w.number() * memory::BYTES, *values = keys + memory::VALUES,
         *queries = keys + memory::QUERIES, *turned = keys + memory::TURNED;
    uint32_t *state = (uint32_t *)(keys + memory::STATE);
    float *mean = (float *)(keys + memory::MEAN);
    const int64_t segment = (int64_t)blockIdx.x * S::TEAMS + w.number(), head = blockIdx.y;
    if (segment >= a.segments) return;
    const orbits_sequence n(a, head);
    const int group = a.heads / a.kv_heads;
    /* Positions are those of the keys; the query of position p is row p - past. */
    const int64_t begin = segment * a.segment,
                  end = min(begin + a.segment, max(n.keys, a.length_q + n.past));
    const int chunks = end > begin ? (int)((end - begin + S::CHUNK - 1) / S::CHUNK) : 0;
    const orbits_source<S, S::CHUNK, S::THREADS> from_q(a.q, a.dim), from_k(a.k, a.dim),
        from_v(a.v, a.dim_value);
    const bool pairs = writes_pairs(a);
    auto get_keys = [&](int c) {
        const int64_t token = begin + (int64_t)c * S::CHUNK;
        const int at = c % 2 * S::ROWS_BYTES;
        from_k.get(n.b, n.kv, token, 0, n.keys - token, keys + at, w.id);
        from_v.get(n.b, n.kv, token, 0, n.keys - token, values + at, w.id);
    };
    /* item = chunk * group + head of the group.  Rows before 0 are not there. */
    auto get_queries = [&](int item) {
        const int64_t row = begin + (int64_t)(item / group) * S::CHUNK - n.past;
        const int skip = (int)min(max(-row, (int64_t)0), (int64_t)S::CHUNK);
        from_q.get(n.b, n.kv * group + item % group, row, skip, n.queries - row,
                   queries + item % 2 * S::ROWS_BYTES, w.id);
    };
    if (segment == 0 && n.past < 0) clear_rows<S>(a, head, w.id);
    if (chunks) get_keys(0), get_queries(0);
    copy_commit();
    clear_state<S>(state, w.id, S::THREADS);
    orbits_state<S> s;
    s.load(a.sums + (head * a.segments + segment) * S::SUMS, w);
#pragma unroll 1
    for (int c = 0; c < chunks; c++) {
        const int64_t token = begin + (int64_t)c * S::CHUNK;
        const int there = (int)max(min(n.keys - token, (int64_t)S::CHUNK), (int64_t)0);
        char *k = keys + c % 2 * S::ROWS_BYTES, *v = values + c % 2 * S::ROWS_BYTES;
#pragma unroll 1
        for (int g = 0; g < group; g++) {
            const int item = c * group + g;
            const int64_t h = n.kv * group + g;
            char *q = queries + item % 2 * S::ROWS_BYTES;
            copy_wait<0>();
            w.sync();
            if (g == 0 && c + 1 < chunks) get_keys(c + 1);
            if (item + 1 < chunks * group) get_queries(item + 1);
            copy_commit();
            if (a.normalize) {
                const float tau = a.temperature ? a.temperature[h] : 1.0f;
                if (g == 0) normalize_rows<S>(k, there, 1.0f, w.id, S::THREADS);
                normalize_rows<S>(q, S::CHUNK, tau, w.id, S::THREADS);
                w.sync();
            }
            if (g == 0) {
                round_state<S>(a, s, state, mean, w);
                turn_keys<S>(k, turned, w);
                product_publish();
            }
            w.sync();
            answer_chunk<S>(a, n, w, h, token - n.past, pairs, k, v, q, state, mean);
        }
        if (c + 1 < chunks) s.add(turned, v, there, w);
    }
}

/* ---- not causal ------------------------------------------------------------------------------ */

enum { FULL_STAGES = 3, FULL_WARPS = 4, FULL_THREADS = 128 };

template <class S> struct full_memory {
    static constexpr int R = S::WARPS == 1 ? 2 : 1, ROWS = 16 * R, ROWS_BYTES = ROWS * S::LD;
    static constexpr int STATE = FULL_WARPS * FULL_STAGES * ROWS_BYTES,
                         MEAN = STATE + S::STATE_BYTES, BYTES = MEAN + S::MEAN_BYTES;
};

template <class S>
__global__ void __launch_bounds__(FULL_THREADS, S::X == 4 ? 3 : 4)
    orbits_answer_full_kernel(const __grid_constant__ orbits_args a, int64_t rows)
{
    using memory = full_memory<S>;
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    char *queries = shared + warp * FULL_STAGES * memory::ROWS_BYTES;
    uint32_t *state = (uint32_t *)(shared + memory::STATE);
    float *mean = (float *)(shared + memory::MEAN);
    const int64_t b = blockIdx.z, h = blockIdx.y, begin = (int64_t)blockIdx.x * rows;
    const int64_t end = min(begin + rows, a.length_q);
    const int64_t head = b * a.kv_heads + h * a.kv_heads / a.heads;
    const orbits_sequence n(a, head);
    const orbits_source<S, memory::ROWS, 32> from_q(a.q, a.dim);
    const bool pairs = writes_pairs(a);
    const float tau = a.temperature ? a.temperature[h] : 1.0f;
    const int turns = (int)((end - begin + 4 * memory::ROWS - 1) / (4 * memory::ROWS));
    auto row_at = [&](int i) { return begin + ((int64_t)i * 4 + warp) * memory::ROWS; };
    auto get = [&](int i) {
        if (i < turns)
            from_q.get(b, h, row_at(i), 0, n.queries - row_at(i),
                       queries + i % FULL_STAGES * memory::ROWS_BYTES, lane);
        copy_commit();
    };
    for (int i = 0; i < FULL_STAGES - 1; i++) get(i);
    clear_state<S>(state, (int)threadIdx.x, FULL_THREADS);
    __syncthreads();
    take_state<S>(a, a.total + head * S::SUMS, state, mean);
    product_publish();
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
        copy_wait<FULL_STAGES - 2>();
        __syncwarp();
        get(i + FULL_STAGES - 1);
        char *rows_here = queries + i % FULL_STAGES * memory::ROWS_BYTES;
        if (a.normalize) {
            normalize_rows<S>(rows_here, memory::ROWS, tau, lane, 32);
            __syncwarp();
        }
        orbits_queries<S> q[memory::R];
        float out[memory::R][S::N8][4] = {};
#pragma unroll
        for (int r = 0; r < memory::R; r++) q[r].take(rows_here + 16 * r * S::LD, lane);
        read_state<S>(state, q, out, lane);
#pragma unroll
        for (int r = 0; r < memory::R; r++)
            write_rows<S>(a, n, h, row_at(i) + 16 * r, pairs, mean, out[r], lane);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <class S> static cudaError_t walk(const orbits_args &a, cudaStream_t stream)
{
    constexpr int bytes = S::TEAMS * answer_memory<S>::BYTES;
    static_assert(bytes <= orbits_bytes(S::X, S::terms), "choose.cc asks for less");
    const dim3 grid((unsigned)((a.segments + S::TEAMS - 1) / S::TEAMS),
                    (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(orbits_answer_causal_kernel<S>, grid, S::TEAMS * S::THREADS, bytes, stream,
                         a);
}

template <class S> static cudaError_t full(const orbits_args &a, cudaStream_t stream)
{
    constexpr int bytes = full_memory<S>::BYTES;
    static_assert(bytes <= orbits_bytes(S::X, S::terms), "choose.cc asks for less");
    cudaError_t e = cudaFuncSetAttribute((const void *)orbits_answer_full_kernel<S>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    /* About three times as many blocks as run at once: each makes the state anew. */
    int device, processors, blocks;
    e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, orbits_answer_full_kernel<S>,
                                                          FULL_THREADS, (size_t)bytes);
    if (e != cudaSuccess) return e;
    const int64_t each = FULL_WARPS * full_memory<S>::ROWS,
                  want = max((int64_t)1, 3 * (int64_t)processors * blocks / (a.heads * a.batch)),
                  rows = max((int64_t)1, (a.length_q + want * each - 1) / (want * each)) * each;
    const dim3 grid((unsigned)((a.length_q + rows - 1) / rows), (unsigned)a.heads,
                    (unsigned)a.batch);
    orbits_answer_full_kernel<S><<<grid, FULL_THREADS, bytes, stream>>>(a, rows);
    return cudaGetLastError();
}

template <class S> static cudaError_t run(const orbits_args &a, cudaStream_t stream)
{
    if (!a.causal) return full<S>(a, stream);
    if constexpr (S::X == 1)
        return orbits_walk_run(a, stream);
    else if constexpr (S::X == 2 && S::terms == 4)
        return a.relay ? orbits_relay_run(a, stream) : walk<S>(a, stream);
    else
        return walk<S>(a, stream);
}

cudaError_t orbits_answer_run(const orbits_args &a, cudaStream_t stream)
{
    switch (a.width) {
    case 1:
        return a.terms == 4 ? run<orbits_shape<1, 4>>(a, stream)
                            : run<orbits_shape<1, 3>>(a, stream);
    case 2:
        return a.terms == 4 ? run<orbits_shape<2, 4>>(a, stream)
                            : run<orbits_shape<2, 3>>(a, stream);
    default:
        return run<orbits_shape<4, 3>>(a, stream);
    }
}

} // namespace lnt
