/* cuda/orbits/orbits_relay_answer.cuh - the warps of orbits_relay.cu that answer: they bring queries,
 * read the state, and get the other block's half of the sums by mail. */
#ifndef LNT_CUDA_ORBITS_RELAY_ANSWER_CUH
#define LNT_CUDA_ORBITS_RELAY_ANSWER_CUH

#include "cuda/orbits/orbits_relay.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* out += phi(q) x the block's half of the state.  across is 256: were that known, it would be moved
 * to where it is before every product. */
template <int RANK>
__device__ __forceinline__ void answer_relay(const char *state, int across,
                                             const orbits_queries<relay_shape> &q,
                                             float (&out)[relay_shape::N8][4])
{
    using S = relay_shape;
    constexpr int FIRST = RANK * RELAY_SIXTEENS,
                  COUNT = RANK ? S::K16 - RELAY_SIXTEENS : RELAY_SIXTEENS;
    operand b = operand_at(state, 128, across);
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        uint32_t x[2][4];
        q.features(FIRST + i, x[0]);
        if (i + 1 < COUNT) q.features(FIRST + i + 1, x[1]);
        if (i) b = operand_plus(b, 2 * S::N8 * 256);
        operand_pin(b); /* or all are computed before the loop, and kept */
        product_begin();
        product_turned(out, x[0], b);
        if (i + 1 < COUNT) product_turned(out, x[1], operand_plus(b, S::N8 * 256));
        product_commit();
        product_wait<1>();
    }
    product_wait<0>();
}

/* Parts of sums from the other block's warps of the same number: 10 numbers a thread.  A message to
 * this block says that its own one before was taken, so that one place and no answer are enough. */
struct relay_mail {
    uint32_t own, other, barrier, other_barrier; /* places of this thread */
    int parity;
    __device__ __forceinline__ relay_mail(char *shared, int rank, int group)
    {
        using memory = relay_memory;
        own =
            shared_address(shared + memory::PARTS + group * RELAY_PART) + (threadIdx.x % 128u) * 16;
        barrier = relay_barrier(shared, RELAY_MAIL + group), parity = 0;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"(1 - rank));
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(other_barrier)
            : "r"(barrier), "r"(1 - rank));
    }
    __device__ __forceinline__ uint32_t last(uint32_t place) const
    {
        return place + 2 * 128 * 16 - threadIdx.x % 128u * 8;
    }
    __device__ __forceinline__ void send(const float (&out)[3][4]) const
    {
#pragma unroll
        for (int n = 0; n < 2; n++)
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                         "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(other + n * 128 * 16),
                         "f"(out[n][0]), "f"(out[n][1]), "f"(out[n][2]), "f"(out[n][3]),
                         "r"(other_barrier)
                         : "memory");
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                     "[%0], {%1, %2}, [%3];" ::"r"(last(other)),
                     "f"(out[2][0]), "f"(out[2][2]), "r"(other_barrier)
                     : "memory");
    }
    __device__ __forceinline__ void expect() const
    {
        if (threadIdx.x % 128u == 0) barrier_expect(barrier, RELAY_PART);
    }
    __device__ __forceinline__ void receive(float (&out)[3][4])
    {
        uint32_t done;
        do {
            asm volatile("{\n.reg .pred p;\n"
                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done)
                         : "r"(barrier), "r"(parity)
                         : "memory");
        } while (!done);
        parity ^= 1;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float x[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                         : "r"(own + n * 128 * 16)
                         : "memory");
#pragma unroll
            for (int e = 0; e < 4; e++) out[n][e] += x[e];
        }
        float x, y;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(x), "=f"(y)
                     : "r"(last(own))
                     : "memory");
        out[2][0] += x, out[2][2] += y;
    }
};

/* The queries of a warp, 16 of every chunk, head after head of the group. */
struct relay_queries {
    using S = relay_shape;
    using memory = relay_memory;
    const orbits_args &a;
    const orbits_sequence &n;
    const relay_run &run;
    char *queries;
    const char *next; /* where the lane's 16 bytes of the next are */
    int first, last;  /* of the sequence; positions from the run's first on */
    int lane;
    bool wide;
    __device__ __forceinline__ relay_queries(const orbits_args &a_, const orbits_sequence &n_,
                                             const relay_run &run_, char *queries_, int64_t row0,
                                             bool wide_)
        : a(a_), n(n_), run(run_), queries(queries_), lane((int)(threadIdx.x % 32u)), wide(wide_)
    {
        first = near(n.past - run.begin), last = near(n.past + n.queries - run.begin);
        next = (const char *)a.q.data + 2 * row_of(a.q, n.b, n.kv * run.group, row0 + lane / 2) +
               lane % 2 * 16;
    }
    __device__ __forceinline__ char *rows(int item) const
    {
        return queries + item % 2 * memory::QUERY_ROWS;
    }
    /* Whether those from position `at` on are there, all of them. */
    __device__ __forceinline__ bool whole(int at) const { return at >= first && at + 16 <= last; }
    __device__ __forceinline__ void get(int at, int g, int item)
    {
        if (wide && whole(at)) {
            copy16(shared_address(rows(item) + lane / 2 * S::LD + lane % 2 * 16), next);
        } else {
            int64_t row = run.begin + at - n.past;
            hide(row);
            fetch_here<S>(a.q, row_of(a.q, n.b, n.kv * run.group + g, row), 16,
                          (int)min(max(-row, (int64_t)0), (int64_t)16), n.queries - row, a.dim,
                          rows(item), lane, 32);
        }
        next += 2 * a.q.stride[1];
        if (g + 1 == run.group)
            next += 2 * (RELAY_CHUNK * a.q.stride[2] - run.group * a.q.stride[1]);
    }
};

template <int RANK>
__device__ __forceinline__ void answer(const orbits_args &a, const orbits_sequence &n,
                                       const relay_run &run, int warp, char *shared)
{
    using S = relay_shape;
    using memory = relay_memory;
    const int lane = (int)(threadIdx.x % 32u), group = warp / 4;
    /* The later queries have more keys: both warpgroups have as many, and the two warps of a
     * scheduler about as many as those of another. */
    const int tile[1] = { (group ? 0x1256 : 0x7430) >> 4 * (warp % 4) & 15 };
    const bool wide = is_wide(a.q, a.dim) && a.dim == S::D, pairs = writes_pairs(a);
    relay_mail mail(shared, RANK, group);
    int item = 0;          /* c * group + g */
    int at = 16 * tile[0]; /* of the queries; positions from the run's first on */
    const int64_t row0 = run.begin + at - n.past;
    relay_queries queries(a, n, run, shared + memory::QUERIES + warp * 2 * memory::QUERY_ROWS, row0,
                          wide);
    /* Where the lane's first pair of y goes. */
    char *to = (char *)a.out.data + 2 * row_of(a.out, n.b, n.kv * run.group, row0 + lane / 4) +
               lane % 4 * 4;
    if (run.chunks) queries.get(at, 0, 0);
    copy_commit();
#pragma unroll 1
    for (int c = 0, slot = 0; c < run.chunks; c++) {
        const char *keys = shared + slot * memory::ROWS,
                   *values = shared + memory::VALUES + slot * memory::VALUE_ROWS;
        const float *mean = (const float *)(shared + memory::MEAN + c % 2 * S::MEAN_BYTES);
        slot = slot + 1 == RELAY_STAGES ? 0 : slot + 1;
        warps_wait(RELAY_THERE + 2 * group + c % 2, RELAY_BOTH);
#pragma unroll 1
        for (int g = 0; g < run.group; g++, item++) {
            const int64_t h = n.kv * run.group + g;
            char *rows = queries.rows(item);
            const bool own = (item + group + RANK) % 2 == 0;
            if (own) mail.expect();
            copy_wait<0>();
            __syncwarp();
            const bool same = g + 1 < run.group;
            if (same || c + 1 < run.chunks)
                queries.get(same ? at : at + RELAY_CHUNK, same ? g + 1 : 0, item + 1);
            copy_commit();
            if (a.normalize) {
                normalize_rows<S>(rows, 16, a.temperature ? a.temperature[h] : 1.0f, lane, 32);
                __syncwarp();
            }
            orbits_queries<S> q[1];
            float out[1][S::N8][4] = {};
            q[0].take(rows, lane);
            answer_relay<RANK>(shared + memory::STATE + c % 2 * memory::STATE_BYTES, a.width * 128,
                               q[0], out[0]);
            if (own) {
                read_keys<S, 1, relay_values>(a, keys, values, q, tile, out, lane);
                mail.receive(out[0]);
                if (pairs && queries.whole(at))
                    write_plainly<S>(a, (uint32_t *)to, (int)a.out.stride[2], mean, out[0], lane);
                else
                    write_rows<S>(a, n, h, run.begin + at - n.past, false, mean, out[0], lane);
            } else {
                mail.send(out[0]);
            }
            to += 2 * a.out.stride[1];
        }
        at += RELAY_CHUNK;
        to += 2 * (RELAY_CHUNK * a.out.stride[2] - run.group * a.out.stride[1]);
        __syncwarp();
        warps_tell(RELAY_USED + 2 * group + c % 2, RELAY_BOTH);
    }
}

#endif

} // namespace lnt

#endif
