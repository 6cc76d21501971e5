/* cuda/linear_pass.cuh - the parts of linear_pass.cu: its shared memory, the order in which all
 * warps of a block walk through the tokens, and the thread that loads. */
#ifndef LNT_CUDA_LINEAR_PASS_CUH
#define LNT_CUDA_LINEAR_PASS_CUH

#include "cuda/bulk.cuh"
#include "cuda/linear.cuh"

namespace lnt
{

enum {
    PASS_SLOTS = 12, /* of k and v */
    PASS_DEPTH = 1,  /* buffers of q, of each answering warpgroup */
    PASS_THREADS = 512,
    PASS_SCAN_THREADS = 64,
    /* Of a thread, by task: 512 together, which is 4 times the 128 of the launch. */
    PASS_SUM_REGISTERS = 88,
    PASS_ANSWER_REGISTERS = 152,
    PASS_OTHER_REGISTERS = 120,
    /* A sum: 64 x 64 in the order of the accumulators, then z.  A state: the same as bf16, z as the
     * sum of two. */
    PASS_SUM = 64 * 64 + 64,
    PASS_STATE_BYTES = 64 * 64 * 2 + 64 * 4,
    PASS_COUNTERS = 128, /* four, each in a line of its own */
};

/* Shared memory, in bytes. */
enum {
    AT_QUERIES = PASS_SLOTS * 2 * BOX_BYTES,
    AT_STATE = AT_QUERIES + 2 * PASS_DEPTH * BOX_BYTES,
    AT_Z = AT_STATE + BOX_BYTES, /* 64 k by 8 columns, of which two are z */
    AT_ONES = AT_Z + 1024,       /* 16 k by 8 columns, of which one is 1 */
    AT_BARRIERS = AT_ONES + 256,
    /* Barriers, in their number. */
    FULL = 0,                         /* a slot: k and v are there */
    MAPPED = FULL + PASS_SLOTS,       /* k is phi(k) */
    EMPTY = MAPPED + PASS_SLOTS,      /* nobody needs it any more */
    QUERIES = EMPTY + PASS_SLOTS,     /* a buffer: q is there */
    ASKED = QUERIES + 2 * PASS_DEPTH, /* and in registers */
    SCANNED = ASKED + 2 * PASS_DEPTH, /* one of two sums in global memory may be written again */
    TAKEN = SCANNED + 2,              /* one of two states is read from global memory */
    READY = TAKEN + 2,                /* the state is there */
    DONE = READY + 1,                 /* and no longer needed */
    BARRIERS = DONE + 1,
    PASS_BYTES = AT_BARRIERS + 8 * BARRIERS + 1024, /* the last to begin at a multiple of 1024 */
};

struct pass_args {
    CUtensorMap q, k, v;
    linear_args l;
    int team_size, teams;
    int chunks, groups; /* a segment's; and segments that the slots hold */
    unsigned *counters; /* [teams][PASS_COUNTERS]: sums made, sums scanned */
    float *sums;        /* [teams][2][team_size][PASS_SUM] */
    float *totals;      /* [teams][PASS_SUM] */
    char *states;       /* [teams][2][team_size][PASS_STATE_BYTES] */
};

#if LNT_WARPGROUPS

/* What all warps of a block know. */
struct pass_block {
    const pass_args &a;
    uint32_t shared; /* address of the shared memory */
    int team, r;     /* block r of the team */
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
    __device__ __forceinline__ float *sum(unsigned wave, int member) const
    {
        return a.sums + (int64_t)((team * 2 + (int)(wave & 1)) * a.team_size + member) * PASS_SUM;
    }
    __device__ __forceinline__ char *state(unsigned wave, int member) const
    {
        return a.states +
               (int64_t)((team * 2 + (int)(wave & 1)) * a.team_size + member) * PASS_STATE_BYTES;
    }
    /* Sums made, sums scanned; one for even and one for odd waves, as a block may be one ahead. */
    __device__ __forceinline__ unsigned *counter(int which, unsigned wave) const
    {
        return a.counters + team * PASS_COUNTERS + (2 * which + (int)(wave & 1)) * 32;
    }
};

/* A wave of a sequence and head, as every task of the block meets it. */
struct pass_wave {
    int b, kv, head, keys, queries, past; /* of the sequence; there are fewer than 2^31 tokens */
    int begin;                            /* the segment's first token */
    int members;                          /* segments of this wave */
    bool first, last, present;
    unsigned wave;  /* since the kernel began */
    int group, use; /* where the segment's slots are, and how often they were used before */
    int segment;    /* of this block since the kernel began */
    __device__ __forceinline__ int slot(const pass_block &p, int chunk) const
    {
        return group * p.a.chunks + chunk;
    }
    /* Tokens of a chunk, and the row of its first query. */
    __device__ __forceinline__ int there(int chunk) const
    {
        return max(min(keys - begin - chunk * BOX_ROWS, (int)BOX_ROWS), 0);
    }
    __device__ __forceinline__ int row(int chunk) const { return begin + chunk * BOX_ROWS - past; }
    __device__ __forceinline__ bool asks(int chunk) const
    {
        const int i = row(chunk);
        return there(chunk) > 0 && i > -BOX_ROWS && i < queries;
    }
};

/* All waves of the block's heads, one after the other. */
struct wave_walk {
    const pass_block &p;
    pass_wave w;
    int index, waves, segments; /* of the head */
    bool live;

    __device__ __forceinline__ wave_walk(const pass_block &block) : p(block)
    {
        w.wave = 0, w.segment = 0;
        begin(p.team);
    }
    __device__ __forceinline__ void next()
    {
        w.wave++, w.segment += w.present;
        if (++index < waves)
            place();
        else
            begin(w.head + p.a.teams);
    }

  private:
    __device__ __forceinline__ void begin(int head)
    {
        const pass_args &a = p.a;
        live = head < a.l.batch * a.l.kv_heads;
        if (!live) return;
        const linear_sequence n(a.l, head);
        w.head = head, w.b = (int)n.b, w.kv = (int)n.kv;
        w.keys = (int)n.keys, w.queries = (int)n.queries, w.past = (int)n.past;
        const int tokens = a.chunks * BOX_ROWS;
        segments = (w.keys + tokens - 1) / tokens;
        waves = max((segments + a.team_size - 1) / a.team_size, 1), index = 0;
        place();
    }
    __device__ __forceinline__ void place()
    {
        const pass_args &a = p.a;
        w.begin = (index * a.team_size + p.r) * a.chunks * BOX_ROWS;
        w.members = min(segments - index * a.team_size, a.team_size);
        w.first = index == 0, w.last = index + 1 == waves, w.present = p.r < w.members;
        w.group = w.segment % a.groups, w.use = w.segment / a.groups;
    }
};

template <class F> __device__ __forceinline__ void for_waves(const pass_block &p, const F &task)
{
    for (wave_walk x(p); x.live; x.next()) task(x.w);
}

/* ---- load ------------------------------------------------------------------------------------ */

/* Chunks of queries are items, counted since the kernel began.  Of four that follow each other a
 * warpgroup has the outer two, the other those between: they meet as many keys. */
__device__ __forceinline__ int group_of(int item) { return (item ^ item >> 1) & 1; }

template <class F>
__device__ __forceinline__ void for_items(const pass_block &p, const pass_wave &w, int &item,
                                          int chunk, const F &task)
{
    if (!w.asks(chunk)) return;
    const int group = p.a.l.heads / p.a.l.kv_heads;
    for (int g = 0; g < group; g++, item++) task(w.kv * group + g);
}

/* Chunks of the block's segments in the order they are taken, keys or those that queries ask. */
struct chunk_walk {
    wave_walk x;
    bool asks;
    int chunk;
    __device__ __forceinline__ chunk_walk(const pass_block &p, bool of_queries)
        : x(p), asks(of_queries), chunk(p.a.chunks)
    {
        next();
    }
    __device__ __forceinline__ void next()
    {
        do {
            if (chunk > 0 && x.live && x.w.present) {
                chunk--;
            } else if (x.live) {
                if (chunk < x.p.a.chunks || !x.w.present) x.next();
                chunk = x.p.a.chunks;
            }
        } while (x.live && (chunk == x.p.a.chunks || (asks && !x.w.asks(chunk))));
    }
};

/* One thread fills what is free, be it for keys or for queries. */
struct load_task {
    const pass_block &p;

    __device__ __forceinline__ bool load_keys(const pass_wave &w, int chunk, uint64_t policy) const
    {
        const int slot = w.slot(p, chunk);
        if (w.use > 0 && !barrier_done(p.barrier(EMPTY + slot), (w.use - 1) & 1)) return false;
        const uint32_t full = p.barrier(FULL + slot);
        if (w.there(chunk) == 0) {
            barrier_arrive(full);
            return true;
        }
        barrier_expect(full, 2 * BOX_BYTES);
        const int token = w.begin + chunk * BOX_ROWS;
        box_load(p.keys(slot), &p.a.k, w.b, w.kv, token, full, policy);
        box_load(p.values(slot), &p.a.v, w.b, w.kv, token, full, policy);
        return true;
    }
    __device__ __forceinline__ void run() const
    {
        const uint64_t policy = read_once();
        const int group = p.a.l.heads / p.a.l.kv_heads;
        chunk_walk keys(p, false), queries(p, true);
        int item = 0, g = 0, uses[2] = { 0, 0 };
        while (keys.x.live || queries.x.live) {
            if (keys.x.live && load_keys(keys.x.w, keys.chunk, policy))
                keys.next();
            else
                __nanosleep(20);
            if (!queries.x.live) continue;
            const pass_wave &w = queries.x.w;
            const int which = group_of(item), use = which ? uses[1] : uses[0];
            const int buffer = 2 * (use % PASS_DEPTH) + which;
            if (use >= PASS_DEPTH &&
                !barrier_done(p.barrier(ASKED + buffer), (use / PASS_DEPTH - 1) & 1))
                continue;
            const uint32_t full = p.barrier(QUERIES + buffer);
            barrier_expect(full, BOX_BYTES);
            box_load(p.queries(buffer), &p.a.q, w.b, w.kv * group + g, w.row(queries.chunk), full,
                     policy);
            item++, which ? uses[1]++ : uses[0]++;
            if (++g == group) g = 0, queries.next();
        }
    }
};

#endif

} // namespace lnt
#endif
