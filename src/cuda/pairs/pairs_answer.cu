/* cuda/pairs/pairs_answer.cu - the answers of Taylor attention from the states of pairs_basis.h:
 *
 *     y_i = sum over parts c, l of  q_(4 c + l) ( sum over pairs of (q_i q_j) S_c[pair][l] )
 *
 * then the keys of the query's own segment one by one (tiles_answer.cuh).  A warpgroup has 64 queries.  The
 * inner sums of a part are one chain of 14 products of 64 x 136 x 16 into the same accumulators,
 * which begin with what S has of degree 1; the pairs within groups are made once and stay in
 * registers, the others are one product of two bf16 a register.  Then the outer sum, in f32.
 *
 * A block of threads goes from one set of 192 queries to the next.  A fourth warpgroup feeds the
 * three: the state, half a part at a time, and the keys, 64 at a time, by the copy engine through
 * two rings.  The three never wait for each other but through the rings, so that one's products
 * hide what the others do between theirs.  See docs/gpu-kernels.md */
#include "cuda/common/bulk.cuh"
#include "cuda/pairs/pairs.h"
#include "cuda/tiles/tiles_answer.cuh"

namespace lnt
{

enum {
    PAIRS_ANSWER_WARPS = 12,
    PAIRS_ANSWER_ROWS = PAIRS_ANSWER_WARPS * 16,
    PAIRS_ANSWER_THREADS = PAIRS_ANSWER_WARPS * 32 + 128,
    PAIRS_HALF = PAIRS_TILES / 2, /* tiles of a stage */
    PAIRS_HALF_BYTES = PAIRS_HALF * PAIRS_TILE_BYTES,
    PAIRS_LINEAR_BYTES = 8 * PAIRS_N8 * 4, /* of one part, beside its first half */
    PAIRS_HALF_SPACE = PAIRS_HALF_BYTES + 5 * 128,
    PAIRS_STATE_STAGES = 4,
    PAIRS_KEY_STAGES = 7,
    PAIRS_OWN = 64, /* keys of a stage */
    PAIRS_OWN_KEYS = 2 * 2048,
    PAIRS_OWN_BYTES = PAIRS_OWN_KEYS + 2 * 2560,
    PAIRS_QUERY_BYTES = 9 * 64 * 16, /* of a warpgroup */
    PAIRS_STATE_AT = 3 * PAIRS_QUERY_BYTES,
    PAIRS_KEYS_AT = PAIRS_STATE_AT + PAIRS_STATE_STAGES * PAIRS_HALF_SPACE,
    PAIRS_BARRIERS_AT = PAIRS_KEYS_AT + PAIRS_KEY_STAGES * PAIRS_OWN_BYTES,
    PAIRS_ANSWER_SHARED = PAIRS_BARRIERS_AT + 2 * (PAIRS_STATE_STAGES + PAIRS_KEY_STAGES) * 8
};

#if LNT_WARPGROUPS

using pairs_reader = reader<4, 1, 4>; /* with the queries of its warpgroup */

/* 192 queries of one head, and what they read. */
struct pairs_item {
    int64_t b, h, first, nq, nk, past, from, place, block;
    bool remembers;
    int halves, stages; /* of the state's parts; of keys */

    __device__ __forceinline__ pairs_item(const tiles_answer_args &a, int64_t i)
    {
        const int64_t sets = (a.length_q + PAIRS_ANSWER_ROWS - 1) / PAIRS_ANSWER_ROWS;
        first = i % sets * PAIRS_ANSWER_ROWS, h = i / sets % a.heads, b = i / sets / a.heads;
        const int64_t head = b * a.kv_heads + h * a.kv_heads / a.heads;
        nq = a.lengths_q ? a.lengths_q[b] : a.length_q;
        nk = a.lengths_k ? a.lengths_k[b] : a.length_k, past = nk - nq;
        const int64_t prefix =
            min(max((first + past) / a.segment, (int64_t)0), (int64_t)a.prefixes - 1);
        remembers = !(prefix == 0 && a.first_is_empty);
        place = head * a.prefixes + prefix, from = prefix * a.segment;
        block = head * a.blocks + from / 32;
        const int64_t end = min(nk, first + PAIRS_ANSWER_ROWS + past);
        halves = first < nq && remembers ? 2 * PAIRS_GROUPS : 0;
        stages = first < nq && end > from ? (int)((end - from + PAIRS_OWN - 1) / PAIRS_OWN) : 0;
    }
};

/* Stages of a ring, each with a barrier for having come and one for being done with. */
template <int stages, int bytes> struct pairs_ring {
    char *memory, *barriers;

    __device__ __forceinline__ uint32_t come(int i) const
    {
        return shared_address(barriers) + (uint32_t)i % stages * 16;
    }
    __device__ __forceinline__ uint32_t done(int i) const { return come(i) + 8; }
    static __device__ __forceinline__ int parity(int i) { return i / stages & 1; }
    __device__ __forceinline__ char *at(int i) const { return memory + i % stages * bytes; }
    __device__ __forceinline__ void begin() const
    {
        for (int i = 0; i < stages; i++) {
            barrier_init(come(i), 1);
            barrier_init(done(i), PAIRS_ANSWER_WARPS * WARP_ARRIVES);
        }
    }
    /* Until stage i may be written, and then: so many bytes are to come. */
    __device__ __forceinline__ void expect(int i, int count) const
    {
        if (i >= stages) barrier_wait(done(i), parity(i - stages));
        barrier_expect(come(i), count);
    }
    __device__ __forceinline__ void wait(int i) const { barrier_wait(come(i), parity(i)); }
    __device__ __forceinline__ void leave(int i, int lane) const
    {
        if (warp_arrives(lane)) barrier_arrive(done(i));
    }
};

/* Halves of the parts of states, and keys of segments.  Stages are counted from the first of the
 * block of threads on. */
struct pairs_feed {
    pairs_ring<PAIRS_STATE_STAGES, PAIRS_HALF_SPACE> parts;
    pairs_ring<PAIRS_KEY_STAGES, PAIRS_OWN_BYTES> own;

    __device__ __forceinline__ pairs_feed(char *shared)
        : parts{ shared + PAIRS_STATE_AT, shared + PAIRS_BARRIERS_AT }, own{
              shared + PAIRS_KEYS_AT, shared + PAIRS_BARRIERS_AT + PAIRS_STATE_STAGES * 16
          }
    {
    }
    /* By one thread. */
    __device__ __forceinline__ void begin() const
    {
        parts.begin();
        own.begin();
        barrier_publish();
    }
    /* Likewise, for all that the block of threads reads. */
    __device__ __forceinline__ void go(const tiles_answer_args &a, const float *linear,
                                       int64_t count) const
    {
        int part = 0, stage = 0;
        for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
            const pairs_item item(a, i);
            const char *state = a.state + item.place * PAIRS_STATE_BYTES;
            for (int k = 0; k < item.halves; k++, part++) {
                const uint32_t to = shared_address(parts.at(part));
                parts.expect(part, PAIRS_HALF_BYTES + (k % 2 ? 0 : PAIRS_LINEAR_BYTES));
                bulk_load(to, state + (int64_t)k * PAIRS_HALF_BYTES, PAIRS_HALF_BYTES,
                          parts.come(part));
                if (k % 2 == 0)
                    bulk_load(to + PAIRS_HALF_BYTES,
                              linear + item.place * PAIRS_LINEAR + k / 2 * 8 * PAIRS_N8,
                              PAIRS_LINEAR_BYTES, parts.come(part));
            }
            constexpr int VALUE_BYTES = PAIRS_OWN_BYTES - PAIRS_OWN_KEYS;
            for (int k = 0; k < item.stages; k++, stage++) {
                const uint32_t to = shared_address(own.at(stage));
                own.expect(stage, PAIRS_OWN_BYTES);
                bulk_load(to, a.keys + item.block * 2048 + (int64_t)k * PAIRS_OWN_KEYS,
                          PAIRS_OWN_KEYS, own.come(stage));
                bulk_load(to + PAIRS_OWN_KEYS,
                          a.values + item.block * 2560 + (int64_t)k * VALUE_BYTES, VALUE_BYTES,
                          own.come(stage));
            }
        }
    }
};

/* What a lane holds of rows g and g + 8 of its warp's queries. */
struct pairs_fragments {
    uint32_t common[7][4]; /* A of tiles 0 ... 6 */
    uint32_t four[8][2];   /* elements 2 (t % 2), 2 (t % 2) + 1 of group c + k */

    __device__ __forceinline__ void take(const pairs_reader &w, int lane)
    {
        const int t = lane % 4;
        auto word = [&](int i, int u) {
            return (
                (const uint32_t *)(w.twice + i / 4 * pairs_reader::ROWS + w.row + 8 * u))[i % 4];
        };
        auto two = [&](int i, int j, int u) { return __byte_perm(word(i, u), word(j, u), 0x5410); };
#pragma unroll
        for (int u = 0; u < 2; u++) {
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int i = 8 * r + 2 * t, next = i & ~3;
                const uint32_t x = w.x[0][u][r];
                common[r][u] = multiply(x, x), common[r][2 + u] = x;
                common[4 + r / 2][r % 2 * 2 + u] =
                    multiply(x, two(next | ((i + 1) & 3), next | ((i + 2) & 3), u));
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int i = 4 * (4 * h + t);
                common[6][2 * h + u] = multiply(two(i, i + 1, u), two(i + 2, i + 3, u));
            }
#pragma unroll
            for (int k = 0; k < 8; k++)
                four[k][u] = two(4 * k + t % 2 * 2, 4 * k + t % 2 * 2 + 1, u);
        }
    }
    /* From group c to c + 1. */
    __device__ __forceinline__ void turn()
    {
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint32_t first = four[0][u];
#pragma unroll
            for (int k = 0; k < 7; k++) four[k][u] = four[k + 1][u];
            four[7][u] = first;
        }
    }
};

/* Of group `a`: elements t / 2 and 2 + t / 2, each twice. */
__device__ __forceinline__ void take_first(const pairs_reader &w, int a, int t, uint32_t (&x)[4])
{
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const uint32_t *from =
            (const uint32_t *)(w.twice + a % 8 * pairs_reader::ROWS + w.row + 8 * u) + t / 2;
        x[u] = from[0], x[2 + u] = from[2];
    }
}

/* acc += q_l d, l = 0 ... 3 of part c; of the ones every lane has a share. */
__device__ __forceinline__ void add_part(pairs_reader &w, int c, int t,
                                         const float (&d)[PAIRS_N8][4])
{
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const uint4 four = w.twice[c * pairs_reader::ROWS + w.row + 8 * u];
        const float q[4] = { high_of(four.x), high_of(four.y), high_of(four.z), high_of(four.w) };
#pragma unroll
        for (int l = 0; l < 4; l++)
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int e = 2 * u; e < 2 * u + 2; e++)
                    w.acc[0][n][e] = fmaf(q[l], d[4 * l + n][e], w.acc[0][n][e]);
        w.acc[0][4][2 * u] = fmaf(t % 2 ? q[2] : q[0], d[16][2 * u], w.acc[0][4][2 * u]);
        w.acc[0][4][2 * u] = fmaf(t % 2 ? q[3] : q[1], d[16][2 * u + 1], w.acc[0][4][2 * u]);
    }
}

/* part: the stage of the state's first half. */
__device__ __forceinline__ void read_pairs(pairs_reader &w, const pairs_feed &feed, int part,
                                           int lane)
{
    const int t = lane % 4;
    pairs_fragments f;
    f.take(w, lane);
#pragma unroll 1
    for (int c = 0; c < PAIRS_GROUPS; c++, part += 2) {
        float d[PAIRS_N8][4];
        uint32_t first[4], a[2][4];
        take_first(w, c + pairs_first(0), t, first);
        feed.parts.wait(part);
        const float *linear = (const float *)(feed.parts.at(part) + PAIRS_HALF_BYTES) + 2 * t;
#pragma unroll
        for (int n = 0; n < PAIRS_N8; n++) {
            const float2 two = *(const float2 *)(linear + 8 * n);
            d[n][0] = d[n][2] = two.x, d[n][1] = d[n][3] = two.y;
        }
        feed.parts.wait(part + 1);
        operand b = operand_at(feed.parts.at(part), 128, 256),
                b2 = operand_at(feed.parts.at(part + 1), 128, 256);
        operand_pin(b);
        operand_pin(b2);
        product_begin();
#pragma unroll
        for (int k = 0; k < PAIRS_HALF; k++)
            product<PAIRS_N8>(d, f.common[k], operand_plus(b, (uint32_t)k * PAIRS_TILE_BYTES));
        product_commit();
#pragma unroll
        for (int k = 0; k < PAIRS_HALF; k++) {
            if (k == 5) take_first(w, c + pairs_first(5), t, first);
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[k % 2][e] = multiply(first[e], f.four[pairs_second(k)][e % 2]);
            product_begin();
            product<PAIRS_N8>(d, a[k % 2], operand_plus(b2, (uint32_t)k * PAIRS_TILE_BYTES));
            product_commit();
            product_wait<1>();
            if (k == 0) feed.parts.leave(part, lane); /* the products before it are done */
        }
        product_wait<0>();
        product_hold(d);
        feed.parts.leave(part + 1, lane);
        add_part(w, c, t, d);
        f.turn();
    }
#pragma unroll
    for (int e = 0; e < 4; e += 2) { /* the denominator to lane 0 of the quad */
        const float z = lanes_sum<4>(w.acc[0][4][e]);
        w.acc[0][4][e] = t ? 0.0f : z;
    }
}

/* 64 keys that every row sees: each half's products run while the other's weights are made. */
__device__ __forceinline__ void read_all(const tiles_answer_args &a, pairs_reader &w,
                                         const char *keys, const char *values)
{
    float s[2][4][4] = {};
    product_begin();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const operand b = operand_at(keys + half * 2048, 128, 512);
#pragma unroll
        for (int r = 0; r < 4; r += 2) {
            const uint32_t x[4] = { w.x[0][0][r], w.x[0][1][r], w.x[0][0][r + 1],
                                    w.x[0][1][r + 1] };
            product<4>(s[half], x, operand_plus(b, r * 128));
        }
        product_commit();
    }
    uint32_t y[2][2][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        product_wait<1>();
        product_hold(s[half]);
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float *two = &s[half][2 * k + e / 2][e % 2 * 2];
                y[half][k][e] = pack(weight(a, two[0]), weight(a, two[1]));
            }
        const operand b = operand_at(values + half * 2560, 128, 512);
        product_begin();
#pragma unroll
        for (int k = 0; k < 2; k++) product<5>(w.acc[0], y[half][k], operand_plus(b, k * 256));
        product_commit();
    }
    product_wait<0>();
}

/* The keys of the segment from `stage` on, up to the last that a row of the warpgroup sees.  low:
 * the last that the warp's first row sees; there: how many there are; both from the segment's
 * first. */
__device__ __forceinline__ void read_own(const tiles_answer_args &a, pairs_reader &w,
                                         const pairs_feed &feed, int stage, int stages, int low,
                                         int there, int lane)
{
    /* By a shuffle: known to be the same for all lanes. */
    const int group_low = __shfl_sync(~0u, low - (int)threadIdx.x / 32 % 4 * 16, 0);
    float unused[1][2];
#pragma unroll 1
    for (int i = 0; i < stages; i++, stage++) {
        feed.own.wait(stage);
        const char *keys = feed.own.at(stage), *values = keys + PAIRS_OWN_KEYS;
        if ((i + 1) * PAIRS_OWN <= min(group_low + 1, there)) {
            read_all(a, w, keys, values);
        } else {
#pragma unroll 1
            for (int half = 0; half < 2; half++) {
                const int key = i * PAIRS_OWN + 32 * half;
                if (key >= there || key > group_low + 63) continue;
                const visible see = { low + lane / 4 + 1 - key, there - key };
                read_block<4, 1, TILES_TAYLOR, false>(a, w, keys + half * 2048,
                                                      values + half * 2560, see, lane, unused);
            }
        }
        feed.own.leave(stage, lane);
    }
}

__device__ __forceinline__ void read_items(const tiles_answer_args &a, char *shared,
                                           const pairs_feed &feed, int64_t count, int warp,
                                           int lane)
{
    const int group = warp / 4;
    uint32_t *twice = (uint32_t *)(shared + group * PAIRS_QUERY_BYTES);
    auto sync = [&] { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); };
    pairs_reader w;
    w.twice = (const uint4 *)twice;
    w.row = warp % 4 * 16 + lane / 4;
    int part = 0, stage = 0;
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        const pairs_item item(a, i);
        const int64_t first = item.first + group * 64;
        sync(); /* nobody reads the queries before */
        load_queries(a, twice, 64, item.b, item.h, first, item.nq, (int)threadIdx.x % 128, 128,
                     sync);
        sync();
        w.clear();
        if (item.halves) {
            w.take(4, lane);
            read_pairs(w, feed, part, lane);
        }
        w.take(4, lane);
        read_own(a, w, feed, stage, item.stages,
                 (int)(first + warp % 4 * 16 + item.past - item.from), (int)(item.nk - item.from),
                 lane);
        write_rows<4, 1, TILES_TAYLOR>(
            a, w, item.remembers ? a.mean + item.place * 40 : nullptr, item.b, item.h, first,
            item.nq, item.nk, item.past, lane,
            a.center ? a.center + (item.b * a.kv_heads + item.h * a.kv_heads / a.heads) * 32
                     : nullptr);
        part += item.halves, stage += item.stages;
    }
}

#endif

__global__ void __launch_bounds__(PAIRS_ANSWER_THREADS, 1)
    pairs_answer_kernel(const __grid_constant__ tiles_answer_args a, const float *linear,
                        int64_t count)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    const pairs_feed feed(shared);
    const bool feeds = threadIdx.x == PAIRS_ANSWER_WARPS * 32;
    if (feeds) feed.begin();
    __syncthreads();
    if (warp >= PAIRS_ANSWER_WARPS) {
        registers_down<24>();
        if (feeds) feed.go(a, linear, count);
    } else {
        registers_up<160>();
        read_items(a, shared, feed, count, warp, lane);
    }
#endif
}

cudaError_t pairs_answer_run(const tiles_answer_args &a, const float *linear, int processors,
                             cudaStream_t stream)
{
    const int64_t count =
        (a.length_q + PAIRS_ANSWER_ROWS - 1) / PAIRS_ANSWER_ROWS * a.heads * (int64_t)a.batch;
    const unsigned grid = (unsigned)(count < processors ? count : processors);
    return launch_kernel(pairs_answer_kernel, grid, PAIRS_ANSWER_THREADS, PAIRS_ANSWER_SHARED,
                         stream, a, linear, count);
}

} // namespace lnt
