/* cuda/linear/linear_pass.cuh - the parts of linear_pass.cu: its shared memory, the order in which all
 * warps of a block walk through the tokens, and the thread that loads. */
#ifndef LNT_CUDA_LINEAR_PASS_CUH
#define LNT_CUDA_LINEAR_PASS_CUH

#include "cuda/common/bulk.cuh"
#include "cuda/linear/linear.cuh"

namespace lnt
{

enum {
    PASS_SLOTS = 11,    /* of k and v */
    PASS_CHUNKS = 8,    /* of a segment, at most: fewer than there are slots */
    PASS_BLOCKS = 2048, /* at most: linear_pass_keep.cuh */
    PASS_STATES = 2,    /* buffers of the state before a chunk */
    PASS_QUERIES = 4,   /* buffers of q and then y, two of each warpgroup that answers */
    PASS_THREADS = 512,
    MAP_THREADS = 96, /* the first; then the warp that loads */
    /* Of a thread, by task: 512 together, which is 4 times the 128 of the launch. */
    PASS_MAP_REGISTERS = 72,
    PASS_KEEP_REGISTERS = 152,
    PASS_ANSWER_REGISTERS = 144,
    /* The state that goes from block to block: 64 x 64 in the order of the accumulators, then z,
     * each two of it beside two that are not used. */
    PASS_BOX_BYTES = (64 * 64 + 64 * 2) * 4,
};

/* Shared memory, in bytes. */
enum {
    AT_QUERIES = PASS_SLOTS * 2 * BOX_BYTES,
    AT_STATE = AT_QUERIES + PASS_QUERIES * BOX_BYTES,
    AT_Z = AT_STATE + PASS_STATES * BOX_BYTES, /* 64 k by 8 columns, of which two are z */
    AT_ONES = AT_Z + PASS_STATES * 1024,       /* 16 k by 8 columns, of which one is 1 */
    AT_BARRIERS = AT_ONES + 256,
    /* Barriers, in their number. */
    FULL = 0,                       /* a slot: k and v are there */
    MAPPED = FULL + PASS_SLOTS,     /* k is phi(k) */
    EMPTY = MAPPED + PASS_SLOTS,    /* nobody needs it any more */
    QUERIES = EMPTY + PASS_SLOTS,   /* a buffer: q is there */
    ASKED = QUERIES + PASS_QUERIES, /* and is no longer needed, nor is y in its place */
    READY = ASKED + PASS_QUERIES,   /* a state is there */
    DONE = READY + PASS_STATES,     /* and no longer needed */
    BARRIERS = DONE + PASS_STATES,
    PASS_BYTES = AT_BARRIERS + 8 * BARRIERS,
};

struct pass_args {
    CUtensorMap q, k, v, y; /* y in boxes of 16 rows, those of a warp */
    linear_args l;
    int chunks, segments; /* of a segment; of the longest sequence */
    char *boxes;          /* [B K][PASS_BOX_BYTES] */
};

#if LNT_WARPGROUPS

/* What all warps of a block know. */
struct pass_block {
    const pass_args &a;
    uint32_t shared; /* address of the shared memory */
    __device__ __forceinline__ uint32_t barrier(int which) const
    {
        return shared + AT_BARRIERS + 8 * (uint32_t)which;
    }
    __device__ __forceinline__ uint32_t keys(int slot) const
    {
        return shared + (uint32_t)slot * 2 * BOX_BYTES;
    }
    __device__ __forceinline__ uint32_t values(int slot) const { return keys(slot) + BOX_BYTES; }
    __device__ __forceinline__ uint32_t queries(int buffer) const
    {
        return shared + AT_QUERIES + (uint32_t)buffer * BOX_BYTES;
    }
    __device__ __forceinline__ uint32_t state(int buffer) const
    {
        return shared + AT_STATE + (uint32_t)buffer * BOX_BYTES;
    }
    __device__ __forceinline__ uint32_t z(int buffer) const
    {
        return shared + AT_Z + (uint32_t)buffer * 1024;
    }
};

/* Where chunk n of a block's lies (or its state), and how often that was used before. */
__device__ __forceinline__ int slot_of(int n) { return (int)((unsigned)n % PASS_SLOTS); }
__device__ __forceinline__ int use_of(int n) { return (int)((unsigned)n / PASS_SLOTS); }
__device__ __forceinline__ int buffer_of(int n) { return (int)((unsigned)n % PASS_STATES); }
__device__ __forceinline__ int turn_of(int n) { return (int)((unsigned)n / PASS_STATES); }

/* The segments of a block, one after the other, as every task of it meets them.  They are numbered
 * heads first: a block of n has every n-th.  A sequence without keys has one segment of no chunk,
 * which hands on the state. */
struct pass_walk {
    const pass_block &p;
    int number;
    int head, b, kv, keys, queries, past; /* there are fewer than 2^31 tokens */
    int index, begin, count;              /* of the sequence; its first token; its chunks */
    int chunk;                            /* of the block's, the number of its first */
    bool live, last;

    __device__ __forceinline__ pass_walk(const pass_block &block)
        : p(block), number((int)blockIdx.x), chunk(0)
    {
        find();
    }
    __device__ __forceinline__ void next()
    {
        chunk += count, number += (int)gridDim.x;
        find();
    }
    /* Tokens of a chunk, and the row of its first query. */
    __device__ __forceinline__ int there(int c) const
    {
        return min(keys - begin - c * BOX_ROWS, (int)BOX_ROWS);
    }
    __device__ __forceinline__ int row(int c) const { return begin + c * BOX_ROWS - past; }
    __device__ __forceinline__ bool asks(int c) const
    {
        return row(c) > -BOX_ROWS && row(c) < queries;
    }

  private:
    __device__ __forceinline__ void find()
    {
        const linear_args &l = p.a.l;
        const int heads = l.batch * l.kv_heads, tokens = p.a.chunks * BOX_ROWS;
        for (count = 0;; number += (int)gridDim.x) {
            index = number / heads, head = number % heads, live = index < p.a.segments;
            if (!live) return;
            b = head / l.kv_heads, kv = head % l.kv_heads, begin = index * tokens;
            keys = (int)(l.lengths_k ? l.lengths_k[b] : l.length_k);
            if (index > 0 && begin >= keys) continue;
            queries = (int)(l.lengths_q ? l.lengths_q[b] : l.length_q), past = keys - queries;
            count = (min(keys - begin, tokens) + BOX_ROWS - 1) / BOX_ROWS;
            last = begin + tokens >= keys;
            return;
        }
    }
};

/* ---- load ------------------------------------------------------------------------------------ */

/* A chunk of queries of a head is an item, counted since the kernel began; even and odd ones go to
 * the two warpgroups that answer. */
__device__ __forceinline__ int group_of(int item) { return item & 1; }

/* Chunks in the order they are taken, all or those that queries ask. */
struct chunk_walk {
    pass_walk x;
    bool asks;
    int c;
    __device__ __forceinline__ chunk_walk(const pass_block &p, bool of_queries)
        : x(p), asks(of_queries), c(-1)
    {
        next();
    }
    __device__ __forceinline__ void next()
    {
        do {
            for (c++; x.live && c >= x.count; c = 0) x.next();
        } while (x.live && asks && !x.asks(c));
    }
};

/* One thread fills what is free, be it for keys or for queries. */
struct load_task {
    const pass_block &p;

    __device__ __forceinline__ bool load_keys(const chunk_walk &at, uint64_t policy) const
    {
        const int n = at.x.chunk + at.c, slot = slot_of(n), use = use_of(n);
        if (use > 0 && !barrier_done(p.barrier(EMPTY + slot), (use - 1) & 1)) return false;
        const uint32_t full = p.barrier(FULL + slot);
        barrier_expect(full, 2 * BOX_BYTES);
        const int token = at.x.begin + at.c * BOX_ROWS;
        box_load(p.keys(slot), &p.a.k, at.x.b, at.x.kv, token, full, policy);
        box_load(p.values(slot), &p.a.v, at.x.b, at.x.kv, token, full, policy);
        return true;
    }
    __device__ __forceinline__ void run() const
    {
        const uint64_t policy = read_once();
        const int group = p.a.l.heads / p.a.l.kv_heads;
        chunk_walk keys(p, false), queries(p, true);
        int item = 0, g = 0;
        while (keys.x.live || queries.x.live) {
            if (keys.x.live && load_keys(keys, policy))
                keys.next();
            else
                __nanosleep(20);
            if (!queries.x.live) continue;
            const int buffer = item % PASS_QUERIES, use = item / PASS_QUERIES;
            if (use > 0 && !barrier_done(p.barrier(ASKED + buffer), (use - 1) & 1)) continue;
            const uint32_t full = p.barrier(QUERIES + buffer);
            barrier_expect(full, BOX_BYTES);
            box_load(p.queries(buffer), &p.a.q, queries.x.b, queries.x.kv * group + g,
                     queries.x.row(queries.c), full, policy);
            item++;
            if (++g == group) g = 0, queries.next();
        }
    }
};

#endif

} // namespace lnt
#endif
