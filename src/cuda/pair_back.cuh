/* cuda/pair_back.cuh - what the warpgroups of pair_back.cu have in common: shared memory, the rows
 * they take at a time, barriers, and the parts of states that are fed to those who read them. */
#ifndef LNT_CUDA_PAIR_BACK_CUH
#define LNT_CUDA_PAIR_BACK_CUH

#include "cuda/back_kernel.cuh"
#include "cuda/bulk.cuh"

namespace lnt
{

enum {
    PAIR_SETS = PAIR_SEGMENT / 64, /* of 64 rows in a segment; a block of threads takes two */
    /* Warps: four that meet tokens, then those that read states, then four that feed. */
    PAIR_BACK_STATE_WARPS = 8,
    PAIR_BACK_STATE_FIRST = 4,
    PAIR_BACK_FEEDER = PAIR_BACK_STATE_FIRST + PAIR_BACK_STATE_WARPS,
    PAIR_BACK_THREADS = PAIR_BACK_FEEDER * 32 + 128,
    PAIR_BACK_HALF = PAIR_TILES / 2,
    PAIR_BACK_LINEAR_BYTES = 8 * PAIR_N8 * 4, /* of a part */
    PAIR_BACK_UNIT = (PAIR_PART_BYTES + PAIR_BACK_LINEAR_BYTES + 127) / 128 * 128,
    /* Tiles of slopes come after the parts, in two units as large. */
    PAIR_SLOPE_BYTES = 5 * 256,
    PAIR_SLOPES = 42,     /* of a unit */
    PAIR_BACK_STAGES = 3, /* of tokens: 64 each */
    PAIR_BACK_TOKENS = 2 * (2048 + 2560 + 256),
    PAIR_BACK_HALVES_AT = 0,
    PAIR_BACK_GATHERED_AT = PAIR_BACK_HALVES_AT + 8 * BACK_TOKENS * 8,
    PAIR_BACK_GIVEN_AT = PAIR_BACK_GATHERED_AT + 32 * GATHER_LD * 4,
    PAIR_BACK_GIVEN_ROWS_AT = PAIR_BACK_GIVEN_AT + 2 * 8 * 128 * 16,
    PAIR_BACK_NEAR_AT = PAIR_BACK_GIVEN_ROWS_AT + BACK_TOKENS * 8,
    PAIR_BACK_STATE_AT = PAIR_BACK_NEAR_AT + 3 * 2 * 128 * 16,
    PAIR_BACK_OWN_AT = PAIR_BACK_STATE_AT + 2 * PAIR_BACK_UNIT,
    PAIR_BACK_TOKENS_AT = PAIR_BACK_OWN_AT + 2 * 4096,
    PAIR_BACK_BARRIERS_AT = PAIR_BACK_TOKENS_AT + PAIR_BACK_STAGES * PAIR_BACK_TOKENS,
    PAIR_BACK_SHARED = PAIR_BACK_BARRIERS_AT + (6 + 2 * PAIR_BACK_STAGES) * 8
};
static_assert(PAIR_SLOPES * PAIR_SLOPE_BYTES <= PAIR_BACK_UNIT, "room for slopes");
static_assert(PAIR_BACK_SHARED <= 232448, "shared memory of a multiprocessor");

/* Registers of those who read states, meet tokens and feed; 128 each when they begin.  AHEAD: there
 * are enough to make the scores of tokens while the sums with those before are under way. */
template <int side> struct pair_back_shape {
    static constexpr bool AHEAD = side == BACK_QUERIES;
    static constexpr int STATE = AHEAD ? 184 : 192, TOKENS = AHEAD ? 120 : 104, FEED = 24;
};

#if LNT_WARPGROUPS

/* What a block of threads does at a time: sets j and 15 - j of the rows of a segment, 64 each, so
 * that all meet as many tokens. */
struct pair_back_item {
    int j;
    back_where at;
    int64_t state;
    bool remembers;

    /* Block of 32 tokens of a set. */
    __device__ __forceinline__ int64_t first(int set) const
    {
        return at.segment * (PAIR_SEGMENT / 32) + 2 * (set ? PAIR_SETS - 1 - j : j);
    }
    template <int side> __device__ __forceinline__ bool there(int set) const
    {
        return first(set) * 32 < at.own && (side == BACK_KEYS || (first(set) + 2) * 32 > at.past);
    }
};

template <int side>
__device__ __forceinline__ pair_back_item pair_back_find(const back_args &a, int i)
{
    const unsigned pairs = PAIR_SETS / 2,
                   segments = ((unsigned)a.own_blocks * 32 + PAIR_SEGMENT - 1) / PAIR_SEGMENT,
                   rest = (unsigned)i / pairs, head = rest / segments;
    pair_back_item item;
    item.j = i % pairs, item.at.segment = rest - head * segments;
    item.at.b = head / (unsigned)a.heads, item.at.h = head % (unsigned)a.heads;
    item.at.kv = side == BACK_KEYS ? item.at.h
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
__device__ __forceinline__ int pair_back_next(const back_args &a, int i, int count)
{
#pragma unroll 1
    for (; i < count; i += (int)gridDim.x) {
        const pair_back_item item = pair_back_find<side>(a, i);
        if ((item.there<side>(0) || item.there<side>(1)) && (item.remembers || !with_state))
            return i;
    }
    return count;
}

/* Barriers in shared memory. */
struct pair_back_barriers {
    uint32_t at;
    __device__ __forceinline__ pair_back_barriers(const char *shared)
        : at(shared_address(shared + PAIR_BACK_BARRIERS_AT))
    {
    }
    __device__ __forceinline__ uint32_t come(int place) const { return at + (uint32_t)place * 8; }
    __device__ __forceinline__ uint32_t done(int place) const { return come(2 + place); }
    __device__ __forceinline__ uint32_t given() const { return come(4); }
    __device__ __forceinline__ uint32_t taken() const { return come(5); }
    __device__ __forceinline__ uint32_t tokens(int place) const { return come(6 + place); }
    __device__ __forceinline__ uint32_t met(int place) const
    {
        return come(6 + PAIR_BACK_STAGES + place);
    }
    /* By one thread. */
    __device__ __forceinline__ void begin() const
    {
        for (int i = 0; i < 2; i++) {
            barrier_init(come(i), 1);
            barrier_init(done(i), PAIR_BACK_STATE_WARPS * WARP_ARRIVES);
        }
        barrier_init(given(), PAIR_BACK_STATE_WARPS * 32);
        barrier_init(taken(), 128);
        for (int i = 0; i < PAIR_BACK_STAGES; i++)
            barrier_init(tokens(i), 1), barrier_init(met(i), 4 * WARP_ARRIVES);
        barrier_publish();
    }
};

/* Parts of states, and of queries slopes: units, of which an item has so many, through two places
 * in turns. */
template <int side> struct pair_back_units {
    static constexpr int COUNT = PAIR_GROUPS + (side == BACK_QUERIES ? 2 : 0);
    char *shared;
    pair_back_barriers bar;
    int turn = 0; /* of the places, before this item */

    __device__ __forceinline__ const char *at(int unit) const
    {
        return shared + PAIR_BACK_STATE_AT + (unit & 1) * PAIR_BACK_UNIT;
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
__device__ __forceinline__ void feed_units(const back_args &a, char *shared, int count)
{
    const pair_back_barriers bar(shared);
    int number = 0;
#pragma unroll 1
    for (int i = pair_back_next<side, true>(a, (int)blockIdx.x, count); i < count;
         i = pair_back_next<side, true>(a, i + (int)gridDim.x, count)) {
        const int64_t state = pair_back_find<side>(a, i).state;
        const char *part = a.state + state * PAIR_STATE_BYTES;
        const float *linear = a.linear + state * PAIR_LINEAR;
#pragma unroll 1
        for (int unit = 0; unit < pair_back_units<side>::COUNT; unit++, number++) {
            const int place = number & 1, turn = number >> 1;
            const uint32_t come = bar.come(place),
                           to =
                               shared_address(shared + PAIR_BACK_STATE_AT) + place * PAIR_BACK_UNIT;
            if (turn) barrier_wait(bar.done(place), (turn & 1) ^ 1);
            if (unit < PAIR_GROUPS) {
                barrier_expect(come, PAIR_PART_BYTES + PAIR_BACK_LINEAR_BYTES);
                bulk_load(to, part + unit * PAIR_PART_BYTES, PAIR_PART_BYTES, come);
                bulk_load(to + PAIR_PART_BYTES, linear + unit * 8 * PAIR_N8, PAIR_BACK_LINEAR_BYTES,
                          come);
            } else {
                constexpr int bytes = PAIR_SLOPES * PAIR_SLOPE_BYTES;
                barrier_expect(come, bytes);
                bulk_load(to, a.slopes + state * a.slope_bytes + (unit - PAIR_GROUPS) * bytes,
                          bytes, come);
            }
        }
    }
}

#endif

} // namespace lnt
#endif
