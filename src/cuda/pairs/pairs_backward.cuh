/* cuda/pairs/pairs_backward.cuh - what the warpgroups of pairs_backward.cu have in common: shared
 * memory, the rows they take at a time, barriers, and the parts of states that are fed to those who read
 * them. */
#ifndef LNT_CUDA_PAIRS_BACKWARD_CUH
#define LNT_CUDA_PAIRS_BACKWARD_CUH

#include "cuda/common/bulk.cuh"
#include "cuda/pairs/pairs.h"
#include "cuda/tiles/tiles_backward.cuh"

namespace lnt
{

enum {
    PAIRS_SETS = PAIRS_SEGMENT / 64, /* of 64 rows in a segment; a block of threads takes two */
    /* Warps: four that meet tokens, then those that read states, then four that feed. */
    PAIRS_BACKWARD_STATE_WARPS = 8,
    PAIRS_BACKWARD_STATE_FIRST = 4,
    PAIRS_BACKWARD_FEEDER = PAIRS_BACKWARD_STATE_FIRST + PAIRS_BACKWARD_STATE_WARPS,
    PAIRS_BACKWARD_THREADS = PAIRS_BACKWARD_FEEDER * 32 + 128,
    PAIRS_BACKWARD_HALF = PAIRS_TILES / 2,
    PAIRS_BACKWARD_LINEAR_BYTES = 8 * PAIRS_N8 * 4, /* of a part */
    PAIRS_BACKWARD_UNIT = (PAIRS_PART_BYTES + PAIRS_BACKWARD_LINEAR_BYTES + 127) / 128 * 128,
    /* Tiles of slopes come after the parts, in two units as large. */
    PAIRS_SLOPE_BYTES = 5 * 256,
    PAIRS_SLOPES = 42,         /* of a unit */
    PAIRS_BACKWARD_STAGES = 3, /* of tokens: 64 each */
    PAIRS_BACKWARD_TOKENS = 2 * (2048 + 2560 + 256),
    PAIRS_BACKWARD_HALVES_AT = 0,
    PAIRS_BACKWARD_GATHERED_AT = PAIRS_BACKWARD_HALVES_AT + 8 * BACKWARD_TOKENS * 8,
    PAIRS_BACKWARD_GIVEN_AT = PAIRS_BACKWARD_GATHERED_AT + 32 * GATHER_LD * 4,
    PAIRS_BACKWARD_GIVEN_ROWS_AT = PAIRS_BACKWARD_GIVEN_AT + 2 * 8 * 128 * 16,
    PAIRS_BACKWARD_NEAR_AT = PAIRS_BACKWARD_GIVEN_ROWS_AT + BACKWARD_TOKENS * 8,
    PAIRS_BACKWARD_STATE_AT = PAIRS_BACKWARD_NEAR_AT + 3 * 2 * 128 * 16,
    PAIRS_BACKWARD_OWN_AT = PAIRS_BACKWARD_STATE_AT + 2 * PAIRS_BACKWARD_UNIT,
    PAIRS_BACKWARD_TOKENS_AT = PAIRS_BACKWARD_OWN_AT + 2 * 4096,
    PAIRS_BACKWARD_BARRIERS_AT =
        PAIRS_BACKWARD_TOKENS_AT + PAIRS_BACKWARD_STAGES * PAIRS_BACKWARD_TOKENS,
    PAIRS_BACKWARD_SHARED = PAIRS_BACKWARD_BARRIERS_AT + (6 + 2 * PAIRS_BACKWARD_STAGES) * 8
};
static_assert(PAIRS_SLOPES * PAIRS_SLOPE_BYTES <= PAIRS_BACKWARD_UNIT, "room for slopes");
static_assert(PAIRS_BACKWARD_SHARED <= 232448, "shared memory of a multiprocessor");

/* Registers of those who read states, meet tokens and feed; 128 each when they begin.  PIPELINED: there
 * are enough to make the scores of tokens while the sums with those before are under way. */
template <int side> struct pairs_backward_shape {
    static constexpr bool PIPELINED = side == BACKWARD_QUERIES;
    static constexpr int STATE = PIPELINED ? 184 : 192, TOKENS = PIPELINED ? 120 : 104, FEED = 24;
};

#if LNT_WARPGROUPS

/* What a block of threads does at a time: sets j and 15 - j of the rows of a segment, 64 each, so
 * that all meet as many tokens. */
struct pairs_backward_item {
    int j;
    backward_where at;
    int64_t state;
    bool remembers;

    /* Block of 32 tokens of a set. */
    __device__ __forceinline__ int64_t first(int set) const
    {
        return at.segment * (PAIRS_SEGMENT / 32) + 2 * (set ? PAIRS_SETS - 1 - j : j);
    }
    template <int side> __device__ __forceinline__ bool there(int set) const
    {
        return first(set) * 32 < at.own &&
               (side == BACKWARD_KEYS || (first(set) + 2) * 32 > at.past);
    }
};

template <int side>
__device__ __forceinline__ pairs_backward_item pairs_backward_find(const tiles_backward_args &a,
                                                                   int i)
{
    const unsigned pairs = PAIRS_SETS / 2,
                   segments = ((unsigned)a.own_blocks * 32 + PAIRS_SEGMENT - 1) / PAIRS_SEGMENT,
                   rest = (unsigned)i / pairs, head = rest / segments;
    pairs_backward_item item;
    item.j = i % pairs, item.at.segment = rest - head * segments;
    item.at.b = head / (unsigned)a.heads, item.at.h = head % (unsigned)a.heads;
    item.at.kv = side == BACKWARD_KEYS
                     ? item.at.h
                     : (unsigned)item.at.h * (unsigned)a.kv_heads / (unsigned)a.heads;
    item.at.nq = a.lengths_q ? a.lengths_q[item.at.b] : a.length_q;
    item.at.nk = a.lengths_k ? a.lengths_k[item.at.b] : a.length_k;
    item.at.past = item.at.nk - item.at.nq, item.at.own = item.at.nk;
    item.at.first = item.first(0);
    item.remembers = item.at.segment != a.edge;
    item.state = (item.at.b * a.kv_heads + item.at.kv) * a.prefixes + item.at.segment;
    return item;
}

/* Number i or the first after it that has rows, and with_state those that have a state; count:
 * none. */
template <int side, bool with_state>
__device__ __forceinline__ int pairs_backward_next(const tiles_backward_args &a, int i, int count)
{
#pragma unroll 1
    for (; i < count; i += (int)gridDim.x) {
        const pairs_backward_item item = pairs_backward_find<side>(a, i);
        if ((item.there<side>(0) || item.there<side>(1)) && (item.remembers || !with_state))
            return i;
    }
    return count;
}

/* Barriers in shared memory. */
struct pairs_backward_barriers {
    uint32_t at;
    __device__ __forceinline__ pairs_backward_barriers(const char *shared)
        : at(shared_address(shared + PAIRS_BACKWARD_BARRIERS_AT))
    {
    }
    __device__ __forceinline__ uint32_t come(int place) const { return at + (uint32_t)place * 8; }
    __device__ __forceinline__ uint32_t done(int place) const { return come(2 + place); }
    __device__ __forceinline__ uint32_t given() const { return come(4); }
    __device__ __forceinline__ uint32_t taken() const { return come(5); }
    __device__ __forceinline__ uint32_t tokens(int place) const { return come(6 + place); }
    __device__ __forceinline__ uint32_t met(int place) const
    {
        return come(6 + PAIRS_BACKWARD_STAGES + place);
    }
    /* By one thread. */
    __device__ __forceinline__ void begin() const
    {
        for (int i = 0; i < 2; i++) {
            barrier_init(come(i), 1);
            barrier_init(done(i), PAIRS_BACKWARD_STATE_WARPS * WARP_ARRIVES);
        }
        barrier_init(given(), PAIRS_BACKWARD_STATE_WARPS * 32);
        barrier_init(taken(), 128);
        for (int i = 0; i < PAIRS_BACKWARD_STAGES; i++)
            barrier_init(tokens(i), 1), barrier_init(met(i), 4 * WARP_ARRIVES);
        barrier_publish();
    }
};

/* Parts of states, and of queries slopes: units, of which an item has so many, through two places
 * in turns. */
template <int side> struct pairs_backward_units {
    static constexpr int COUNT = PAIRS_GROUPS + (side == BACKWARD_QUERIES ? 2 : 0);
    char *shared;
    pairs_backward_barriers bar;
    int turn = 0; /* of the places, before this item */

    __device__ __forceinline__ const char *at(int unit) const
    {
        return shared + PAIRS_BACKWARD_STATE_AT + (unit & 1) * PAIRS_BACKWARD_UNIT;
    }
    __device__ __forceinline__ void wait(int unit) const
    {
        barrier_wait(bar.come(unit & 1), (turn + unit / 2) & 1);
    }
    __device__ __forceinline__ void leave(int unit, int lane) const
    {
        __syncwarp();
        if (warp_arrives(lane)) barrier_arrive(bar.done(unit & 1));
    }
};

/* All units of the block of threads, by one thread. */
template <int side>
__device__ __forceinline__ void feed_units(const tiles_backward_args &a, char *shared, int count)
{
    const pairs_backward_barriers bar(shared);
    int number = 0;
#pragma unroll 1
    for (int i = pairs_backward_next<side, true>(a, (int)blockIdx.x, count); i < count;
         i = pairs_backward_next<side, true>(a, i + (int)gridDim.x, count)) {
        const int64_t state = pairs_backward_find<side>(a, i).state;
        const char *part = a.state + state * PAIRS_STATE_BYTES;
        const float *linear = a.linear + state * PAIRS_LINEAR;
#pragma unroll 1
        for (int unit = 0; unit < pairs_backward_units<side>::COUNT; unit++, number++) {
            const int place = number & 1, turn = number >> 1;
            const uint32_t come = bar.come(place),
                           to = shared_address(shared + PAIRS_BACKWARD_STATE_AT) +
                                place * PAIRS_BACKWARD_UNIT;
            if (turn) barrier_wait(bar.done(place), (turn & 1) ^ 1);
            if (unit < PAIRS_GROUPS) {
                barrier_expect(come, PAIRS_PART_BYTES + PAIRS_BACKWARD_LINEAR_BYTES);
                bulk_load(to, part + unit * PAIRS_PART_BYTES, PAIRS_PART_BYTES, come);
                bulk_load(to + PAIRS_PART_BYTES, linear + unit * 8 * PAIRS_N8,
                          PAIRS_BACKWARD_LINEAR_BYTES, come);
            } else {
                constexpr int bytes = PAIRS_SLOPES * PAIRS_SLOPE_BYTES;
                barrier_expect(come, bytes);
                bulk_load(to, a.slopes + state * a.slope_bytes + (unit - PAIRS_GROUPS) * bytes,
                          bytes, come);
            }
        }
    }
}

#endif

} // namespace lnt
#endif
