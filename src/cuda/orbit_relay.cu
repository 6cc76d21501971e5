/* cuda/orbit_relay.cu - causal Taylor attention of four terms where d is 16 (orbit.h):
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * A block walks a run of tokens in chunks of 128.  Half of its warps keep S, the state before the
 * chunk, in their accumulators, eight orbits each: they leave it in shared memory as bf16, times
 * the coefficients, and add the chunk's keys.  The other half answer meanwhile, 16 queries a warp:
 * S, and the keys of the chunk one by one up to the query's own.  A chunk of the one kind is the
 * other's next, and each waits for the other only where it is two chunks ahead.  See docs/gpu.md */
#include "cuda/orbit_read.cuh"

namespace lnt
{

typedef orbit_shape<2, 4> relay_shape;

enum {
    RELAY_KEEPERS = 256, /* threads; as many answer */
    RELAY_STAGES = 3,    /* chunks of keys and values in shared memory */
    RELAY_OWN = 8,       /* orbits of a warp */
    RELAY_CHUNK = 128
};

/* Barriers: of the keepers alone; a chunk's state is there; it is used up (two each, in turns). */
enum { RELAY_ALONE = 1, RELAY_THERE = 2, RELAY_USED = 4 };

struct relay_memory {
    using S = relay_shape;
    static constexpr int ROWS = RELAY_CHUNK * S::LD, VALUES = RELAY_STAGES * ROWS,
                         TURNED = 2 * VALUES, QUERIES = TURNED + S::TURNED_BYTES,
                         QUERY_ROWS = 16 * S::LD, /* of a warp */
        STATE = QUERIES + 2 * 8 * QUERY_ROWS, MEAN = STATE + 2 * S::STATE_BYTES,
                         FACTOR = MEAN + 2 * S::MEAN_BYTES, BYTES = FACTOR + 64 * 4;
};

__device__ __forceinline__ void relay_wait(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void relay_tell(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* The registers of a keeper and of one who answers: 152 and 104 of a thread's 128. */
__device__ __forceinline__ void relay_keep()
{
#if LNT_WARPGROUPS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
#endif
}
__device__ __forceinline__ void relay_answer()
{
#if LNT_WARPGROUPS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 104;");
#endif
}

struct relay_run {
    int64_t begin, end, segment;
    int chunks, group;
    __device__ __forceinline__ relay_run(const orbit_args &a, const orbit_sequence &n)
    {
        segment = (int64_t)blockIdx.x * a.walk, group = a.heads / a.kv_heads;
        /* Positions are those of the keys; the query of position p is row p - past. */
        begin = segment * a.segment;
        end = min(begin + a.walk * a.segment, max(n.keys, a.length_q + n.past));
        chunks = end > begin ? (int)((end - begin + RELAY_CHUNK - 1) / RELAY_CHUNK) : 0;
    }
};

/* ---- the state ------------------------------------------------------------------------------- */

/* Of orbits 8 part ...: rows g and g + 8 are members g of its two blocks, columns those of v and of
 * z, eight times. */
struct relay_state {
    using S = relay_shape;
    float s[RELAY_OWN][S::N8][4];

    /* f(x, column, member): every number of orbit k of this lane. */
    template <class F> __device__ __forceinline__ void each(int k, int lane, const F &f)
    {
#pragma unroll
        for (int n = 0; n < S::N8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f(s[k][n][e], n < S::X ? 8 * n + lane % 4 * 2 + e % 2 : S::D, e / 2 * 8 + lane / 4);
    }
    __device__ __forceinline__ void load(const float *from, int part, int lane)
    {
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            const int o = part * RELAY_OWN + k;
            each(k, lane, [&](float &x, int column, int member) {
                x = o < S::T
                        ? from[((o * S::X + member / 8) * (S::D + 1) + column) * 8 + member % 8]
                        : 0.0f;
            });
        }
    }
    /* As bf16, row by row: product_turned. */
    __device__ __forceinline__ void leave(const float *factors, uint32_t *state, float *mean,
                                          int part, int lane)
    {
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            const int o = part * RELAY_OWN + k;
            if (o >= S::T) break;
            const float factor = factors[o];
            if (o == 0) {
                if (lane < 4)
#pragma unroll
                    for (int n = 0; n < S::N8; n++) {
                        mean[8 * n + lane * 2] = s[k][n][0] * factor;
                        mean[8 * n + lane * 2 + 1] = s[k][n][1] * factor;
                    }
                continue;
            }
#pragma unroll
            for (int n = 0; n < S::N8; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    state[(((o - 1) * S::N8 + n) * 2 + h) * 32 + lane] =
                        pack(s[k][n][2 * h] * factor, s[k][n][2 * h + 1] * factor);
        }
    }

    /* += 16 tokens. */
    template <int PART>
    __device__ __forceinline__ void add16(const char *turned, const uint32_t (&v)[S::M16][4],
                                          int lane)
    {
        uint2 x[S::D];
#pragma unroll
        for (int i = 0; i < S::D; i++)
            x[i] = *(const uint2 *)(turned + (lane / 4 + i) * 32 + lane % 4 * 8);
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            const int o = PART * RELAY_OWN + k;
            if (o >= S::T) continue;
            uint2 f, g;
            orbit_state<S>::feature(x, o, 0, f);
            orbit_state<S>::feature(x, o, 1, g);
            const uint32_t all[4] = { f.x, g.x, f.y, g.y };
            mma16(s[k][0], all, v[0][0], v[0][2]);
            mma16(s[k][1], all, v[0][1], v[0][3]);
            mma16(s[k][2], all, 0x3f803f80u, 0x3f803f80u);
        }
    }
    /* += `there` tokens of a chunk. */
    template <int PART = 0>
    __device__ __forceinline__ void add(const char *turned, const char *values, int there, int part,
                                        int lane)
    {
        if (part == PART) {
#pragma unroll 1
            for (int k = 0; k < there; k += 16) {
                uint32_t v[S::M16][4];
                take_values<S>(values, k, lane, v);
                add16<PART>(turned + k / 16 * 2 * S::D * 32, v, lane);
            }
            /* Rows past the end are 0, and so is all but degree 0 of them. */
            if (PART == 0)
#pragma unroll
                for (int e = 0; e < 4; e++) s[0][S::X][e] -= (float)((16 - there % 16) % 16);
        } else if constexpr (PART < 7) {
            add<PART + 1>(turned, values, there, part, lane);
        }
    }
};

/* ---- the two kinds of warps ------------------------------------------------------------------ */

__device__ __forceinline__ void keep_state(const orbit_args &a, const orbit_sequence &n,
                                           const relay_run &run, int64_t head, char *shared)
{
    using S = relay_shape;
    using memory = relay_memory;
    const int id = (int)threadIdx.x, lane = id % 32, part = id / 32;
    const float *factors = (const float *)(shared + memory::FACTOR);
    char *turned = shared + memory::TURNED;
    const bool wide_k = is_wide(a.k, a.dim) && a.dim == S::D,
               wide_v = is_wide(a.v, a.dim_value) && a.dim_value == S::D;
    auto get = [&](int c) {
        const int64_t token = run.begin + (int64_t)c * RELAY_CHUNK;
        char *to = shared + c % RELAY_STAGES * memory::ROWS;
        fetch<S, RELAY_CHUNK, RELAY_KEEPERS, false>(a.k, row_of(a.k, n.b, n.kv, token), 0,
                                                    n.keys - token, a.dim, wide_k, to, id);
        fetch<S, RELAY_CHUNK, RELAY_KEEPERS, false>(a.v, row_of(a.v, n.b, n.kv, token), 0,
                                                    n.keys - token, a.dim_value, wide_v,
                                                    to + memory::VALUES, id);
    };
    if (run.chunks) get(0);
    copy_commit();
    relay_state s;
    s.load(a.sums + (head * a.segments + run.segment) * S::SUMS, part, lane);
    const orbit_team<orbit_shape<2, 4, 8>> team;
#pragma unroll 1
    for (int c = 0; c < run.chunks; c++) {
        const int64_t token = run.begin + (int64_t)c * RELAY_CHUNK;
        const int there = (int)max(min(n.keys - token, (int64_t)RELAY_CHUNK), (int64_t)0);
        char *keys = shared + c % RELAY_STAGES * memory::ROWS, *values = keys + memory::VALUES;
        if (c > 1) relay_wait(RELAY_USED + c % 2, 2 * RELAY_KEEPERS);
        copy_wait<0>();
        relay_wait(RELAY_ALONE, RELAY_KEEPERS);
        if (c + 1 < run.chunks) get(c + 1);
        copy_commit();
        if (a.normalize) normalize_rows<S>(keys, there, 1.0f, id, RELAY_KEEPERS);
        s.leave(factors, (uint32_t *)(shared + memory::STATE + c % 2 * S::STATE_BYTES),
                (float *)(shared + memory::MEAN + c % 2 * S::MEAN_BYTES), part, lane);
        product_publish();
        relay_tell(RELAY_THERE + c % 2, 2 * RELAY_KEEPERS);
        if (c + 1 == run.chunks) break;
        if (a.normalize) relay_wait(RELAY_ALONE, RELAY_KEEPERS);
        turn_keys<orbit_shape<2, 4, 8>>(keys, turned, team);
        relay_wait(RELAY_ALONE, RELAY_KEEPERS);
        s.add(turned, values, there, part, lane);
    }
    for (int c = max(run.chunks - 2, 0); c < run.chunks; c++)
        relay_wait(RELAY_USED + c % 2, 2 * RELAY_KEEPERS);
}

/* out += phi(q) x state. */
__device__ __forceinline__ void read_relay(const char *state, const orbit_queries<relay_shape> &q,
                                           float (&out)[relay_shape::N8][4])
{
    using S = relay_shape;
    operand b = operand_at(state, 128, 256);
#pragma unroll
    for (int i = 0; i < S::K16; i++) {
        uint32_t x[4];
        q.features(i, x);
        if (i) b = operand_plus(b, S::N8 * 256);
        operand_pin(b); /* or all 61 are computed before the loop, and kept */
        product_begin();
        product_turned(out, x, b);
        product_commit();
        product_wait<1>();
    }
    product_wait<0>();
}

__device__ __forceinline__ void answer(const orbit_args &a, const orbit_sequence &n,
                                       const relay_run &run, char *shared)
{
    using S = relay_shape;
    using memory = relay_memory;
    const int lane = (int)threadIdx.x % 32, warp = ((int)threadIdx.x - RELAY_KEEPERS) / 32;
    /* The later queries have more keys: two warps of a scheduler have 9 blocks of 16 together. */
    const int tile[1] = { warp < 4 ? warp : 11 - warp };
    char *queries = shared + memory::QUERIES + warp * 2 * memory::QUERY_ROWS;
    const bool wide = is_wide(a.q, a.dim) && a.dim == S::D, pairs = writes_pairs(a);
    auto get = [&](int item) {
        const int64_t row =
            run.begin + (int64_t)(item / run.group) * RELAY_CHUNK + 16 * tile[0] - n.past;
        fetch<S, 16, 32, false>(a.q, row_of(a.q, n.b, n.kv * run.group + item % run.group, row),
                                (int)min(max(-row, (int64_t)0), (int64_t)16), n.queries - row,
                                a.dim, wide, queries + item % 2 * memory::QUERY_ROWS, lane);
    };
    if (run.chunks) get(0);
    copy_commit();
#pragma unroll 1
    for (int c = 0; c < run.chunks; c++) {
        const char *keys = shared + c % RELAY_STAGES * memory::ROWS,
                   *values = keys + memory::VALUES;
        const float *mean = (const float *)(shared + memory::MEAN + c % 2 * S::MEAN_BYTES);
        const int64_t first = run.begin + (int64_t)c * RELAY_CHUNK + 16 * tile[0] - n.past;
        relay_wait(RELAY_THERE + c % 2, 2 * RELAY_KEEPERS);
#pragma unroll 1
        for (int g = 0; g < run.group; g++) {
            const int item = c * run.group + g;
            const int64_t h = n.kv * run.group + g;
            char *rows = queries + item % 2 * memory::QUERY_ROWS;
            copy_wait<0>();
            __syncwarp();
            if (item + 1 < run.chunks * run.group) get(item + 1);
            copy_commit();
            if (a.normalize) {
                normalize_rows<S>(rows, 16, a.temperature ? a.temperature[h] : 1.0f, lane, 32);
                __syncwarp();
            }
            orbit_queries<S> q[1];
            float out[1][S::N8][4] = {};
            q[0].take(rows, lane);
            read_relay(shared + memory::STATE + c % 2 * S::STATE_BYTES, q[0], out[0]);
            read_keys<S, 1>(a, keys, values, q, tile, out, lane);
            write_rows<S>(a, n, h, first, pairs, mean, out[0], lane);
        }
        __syncwarp();
        relay_tell(RELAY_USED + c % 2, 2 * RELAY_KEEPERS);
    }
}

__global__ void __launch_bounds__(2 * RELAY_KEEPERS, 1)
    orbit_relay_kernel(const __grid_constant__ orbit_args a)
{
    using S = relay_shape;
    extern __shared__ __align__(128) char shared[];
    const int64_t head = blockIdx.y;
    const orbit_sequence n(a, head);
    const relay_run run(a, n);
    if (run.segment == 0 && n.past < 0 && threadIdx.x < S::THREADS)
        clear_rows<S>(a, head, (int)threadIdx.x);
    if (threadIdx.x < S::T) {
        const orbit w = orbit_table<S::D, S::terms>.list[threadIdx.x];
        ((float *)(shared + relay_memory::FACTOR))[threadIdx.x] =
            a.coefficient[w.degree] * (float)w.times;
    }
    __syncthreads();
    if (threadIdx.x < RELAY_KEEPERS) {
        relay_keep();
        keep_state(a, n, run, head, shared);
    } else {
        relay_answer();
        answer(a, n, run, shared);
    }
}

int orbit_relay_bytes() { return relay_memory::BYTES; }

cudaError_t orbit_relay_run(const orbit_args &a, cudaStream_t stream)
{
    const cudaError_t e =
        cudaFuncSetAttribute((const void *)orbit_relay_kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, relay_memory::BYTES);
    if (e != cudaSuccess || !a.segments) return e;
    const dim3 grid((unsigned)((a.segments + a.walk - 1) / a.walk),
                    (unsigned)(a.batch * a.kv_heads));
    orbit_relay_kernel<<<grid, 2 * RELAY_KEEPERS, relay_memory::BYTES, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
