/* cuda/orbit_relay.cu - causal Taylor attention of four terms where d is 16 (orbit.h), on compute
 * capability 9.0:
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * Two blocks, a cluster, walk a run of tokens in chunks of 128, and each has half of the monomials.
 * Eight of a block's warps keep its half of S, the state before the chunk, in their accumulators,
 * four orbits each: they leave it in shared memory as bf16, times the coefficients, and add the
 * chunk's keys.  The other eight answer meanwhile, 16 queries a warp, up to two chunks behind:
 * phi(q) S of the block's half.  Of half of the queries, one warpgroup's, the block gets the other
 * block's part, adds the keys of the chunk one by one up to the query's own, and writes y; those of
 * the other half it sends.  Which half is the one and which the other changes with every chunk. See
 * docs/gpu-kernels.md */
#include "cuda/bulk.cuh"
#include "cuda/orbit_read.cuh"

namespace lnt
{

typedef orbit_shape<2, 4, 8> relay_shape;

/* Keys turned over, 16 tokens at a time: 8 tokens of each element, and again, then the next 8; then
 * ones, where a factor of a monomial is none. */
enum { RELAY_HALF = 2 * 16 * 16, RELAY_ONES = 2 * RELAY_HALF, RELAY_TURNED = RELAY_ONES + 16 };

enum {
    RELAY_BLOCKS = 2,
    RELAY_KEEPERS = 256, /* threads */
    RELAY_READERS = 256, /* threads that answer */
    RELAY_STAGES = 3,    /* chunks of keys and values in shared memory */
    RELAY_OWN = 4,       /* orbits of a warp, one of orbit_fours; a block's first is degree 0 */
    RELAY_SIXTEENS = 31, /* the others, at most */
    RELAY_CHUNK = 128,
    RELAY_PART = 40 * 128 /* bytes: 10 numbers of each thread of a warpgroup */
};

/* Barriers: of the keepers alone; of them and either warpgroup that answers, a chunk's state is
 * there; it is used up (two each, in turns). */
enum {
    RELAY_ALONE = 1,
    RELAY_THERE = 2,
    RELAY_USED = 6,
    RELAY_BOTH = RELAY_KEEPERS + RELAY_READERS / 2
};
enum { RELAY_MAIL = 0, RELAY_BARRIERS = 2 }; /* in shared memory: the other block's part is there */

/* Values, as products take them: 8 columns of all tokens of a chunk, then the next 8, then ones. */
struct relay_values : relay_shape {
    static constexpr int LD = 16, PLANE = RELAY_CHUNK * 16;
};

struct relay_memory {
    using S = relay_shape;
    static constexpr int ROWS = RELAY_CHUNK * S::LD, VALUES = RELAY_STAGES * ROWS,
                         VALUE_ROWS = (S::X + 1) * relay_values::PLANE,
                         TURNED = VALUES + RELAY_STAGES * VALUE_ROWS,
                         QUERIES = TURNED + (RELAY_CHUNK / 16 * RELAY_TURNED + 127) / 128 * 128,
                         QUERY_ROWS = 16 * S::LD, /* of a warp */
        STATE = QUERIES + 2 * 8 * QUERY_ROWS, STATE_BYTES = RELAY_SIXTEENS * S::N8 * 256,
                         PARTS = STATE + 2 * STATE_BYTES, MEAN = PARTS + 2 * RELAY_PART,
                         BARRIERS = MEAN + 2 * S::MEAN_BYTES, BYTES = BARRIERS + 8 * RELAY_BARRIERS;
};

/* orbit_fours on the device. */
template <int count> struct relay_table {
    orbit_four list[count];
    constexpr relay_table() : list{}
    {
        for (int i = 0; i < count; i++) list[i] = orbit_fours[i];
    }
};
template <int count> __constant__ const relay_table<count> relay_fours;

#if LNT_WARPGROUPS

__device__ __forceinline__ uint32_t relay_barrier(const char *shared, int number)
{
    return shared_address(shared + relay_memory::BARRIERS) + 8 * number;
}

struct relay_run {
    int64_t begin, end, segment;
    int chunks, group;
    __device__ __forceinline__ relay_run(const orbit_args &a, const orbit_sequence &n)
    {
        segment = (int64_t)(blockIdx.x / RELAY_BLOCKS) * a.walk, group = a.heads / a.kv_heads;
        /* Positions are those of the keys; the query of position p is row p - past. */
        begin = segment * a.segment;
        end = min(begin + a.walk * a.segment, max(n.keys, a.length_q + n.past));
        chunks = end > begin ? (int)((end - begin + RELAY_CHUNK - 1) / RELAY_CHUNK) : 0;
        chunks = __shfl_sync(~0u, chunks, 0); /* or the compiler thinks that lanes differ */
    }
};

/* ---- the state ------------------------------------------------------------------------------- */

/* Number `slot` of the orbits that block `rank` keeps; T or more: none. */
__device__ __forceinline__ constexpr int relay_orbit(int rank, int slot)
{
    return slot ? rank * RELAY_SIXTEENS + slot : 0;
}

/* Four matrices of 8 x 8, or two, one after the other; lane i gives the address of row i. */
__device__ __forceinline__ void store_four(uint32_t at, uint32_t a, uint32_t b, uint32_t c,
                                           uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}
__device__ __forceinline__ void store_two(uint32_t at, uint32_t a, uint32_t b)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(at), "r"(a), "r"(b)
                 : "memory");
}

/* Of orbits 4 part ... of the block's: rows g and g + 8 are members g of its two blocks, columns
 * those of v and of z, eight times. */
struct relay_state {
    using S = relay_shape;
    float s[RELAY_OWN][S::N8][4], factor[RELAY_OWN];
    /* Where this lane's row of the factors is, of the first 16 tokens. */
    uint32_t first, second, third[RELAY_OWN];

    /* from: all sums, or NULL. */
    __device__ __forceinline__ void begin(const orbit_args &a, const float *from,
                                          const char *turned, int rank, int part, int lane)
    {
        const orbit_four four = relay_fours<ORBIT_FOURS>.list[rank * (ORBIT_FOURS / 2) + part];
        auto place = [&](int i) {
            return shared_address(turned) +
                   (i == ORBIT_ONE
                        ? RELAY_ONES
                        : lane / 16 * RELAY_HALF + (max(i, 0) + lane / 8 % 2 * 8 + lane % 8) * 16);
        };
        first = place(0), second = place(four.s);
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            third[k] = place(four.t[k]);
            const int orbit = relay_orbit(rank, part * RELAY_OWN + k), o = min(orbit, S::T - 1);
            const struct orbit w = orbit_table<S::D, S::terms>.list[o];
            factor[k] = a.coefficient[w.degree] * (float)w.times;
#pragma unroll
            for (int n = 0; n < S::N8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int column = n < S::X ? 8 * n + lane % 4 * 2 + e % 2 : S::D;
                    s[k][n][e] =
                        from && orbit < S::T
                            ? from[((o * S::X + e / 2) * (S::D + 1) + column) * 8 + lane / 4]
                            : 0.0f;
                }
        }
    }

    /* As bf16, row by row: product_turned. */
    __device__ __forceinline__ void leave(char *state, float *mean, int part, int lane)
    {
        const uint32_t four = shared_address(state) + (part * RELAY_OWN - 1) * (S::N8 * 256) +
                              lane * 16,
                       two = four + 512 - lane / 16 * 256;
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            uint32_t x[S::N8][2];
            if (k == 0 && part == 0) {
                if (lane < 4)
#pragma unroll
                    for (int n = 0; n < S::N8; n++) {
                        mean[8 * n + lane * 2] = s[k][n][0] * factor[k];
                        mean[8 * n + lane * 2 + 1] = s[k][n][1] * factor[k];
                    }
                continue;
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float z = s[k][S::X][2 * h] * factor[k];
#pragma unroll
                for (int n = 0; n < S::X; n++)
                    x[n][h] = pack(s[k][n][2 * h] * factor[k], s[k][n][2 * h + 1] * factor[k]);
                x[S::X][h] = pack(z, z);
            }
            store_four(four + k * (S::N8 * 256), x[0][0], x[0][1], x[1][0], x[1][1]);
            store_two(two + k * (S::N8 * 256), x[2][0], x[2][1]);
        }
    }

    /* += a chunk, of which the last `less` tokens are not there, and 0; v: its values. */
    __device__ __forceinline__ void add(operand v, int less, bool has_one)
    {
        constexpr int STEPS = RELAY_CHUNK / 16;
        uint32_t x[4], y[4], z[RELAY_OWN][4], a[2][RELAY_OWN][4];
        auto take = [&](int k) {
            load_matrices(x, first + k * RELAY_TURNED);
            load_matrices(y, second + k * RELAY_TURNED);
#pragma unroll
            for (int i = 0; i < RELAY_OWN; i++) load_matrices(z[i], third[i] + k * RELAY_TURNED);
        };
        take(0);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            product_wait<1>();
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t two = multiply(x[e], y[e]);
#pragma unroll
                for (int i = 0; i < RELAY_OWN; i++) a[k % 2][i][e] = multiply(two, z[i][e]);
                if (has_one) a[k % 2][0][e] = 0x3f803f80u;
            }
            if (k + 1 < STEPS) take(k + 1); /* on their way while the products are */
            product_begin();
#pragma unroll
            for (int i = 0; i < RELAY_OWN; i++) product_turned(s[i], a[k % 2][i], v);
            product_commit();
            v = operand_plus(v, 256);
        }
        product_wait<0>();
        if (has_one)
#pragma unroll
            for (int e = 0; e < 4; e++) s[0][S::X][e] -= (float)less;
    }
};

/* 16 keys of a chunk a warp. */
__device__ __forceinline__ void relay_turn(const char *keys, char *turned, int warp, int lane)
{
    uint32_t r[4];
    load_matrices_transposed(
        r, shared_address(keys + (16 * warp + lane / 16 * 8 + lane % 8) * relay_shape::LD +
                          lane / 8 % 2 * 16));
    const uint32_t to = shared_address(turned) + warp * RELAY_TURNED + lane / 16 * RELAY_HALF +
                        (lane / 8 % 2 * 8 + lane % 8) * 16;
    store_four(to, r[0], r[1], r[2], r[3]);
    store_four(to + 16 * 16, r[0], r[1], r[2], r[3]);
}

/* ---- the two kinds of warps ------------------------------------------------------------------ */

/* Keys and values of a run, chunk after chunk: of each a thread copies 16 bytes. */
struct relay_tokens {
    using S = relay_shape;
    using memory = relay_memory;
    const orbit_args &a;
    const orbit_sequence &n;
    const relay_run &run;
    char *shared;
    const char *next_k, *next_v;
    int last; /* of the keys; positions from the run's first on */
    int id, key_at, value_at;
    bool wide_k, wide_v;
    __device__ __forceinline__ relay_tokens(const orbit_args &a_, const orbit_sequence &n_,
                                            const relay_run &run_, char *shared_)
        : a(a_), n(n_), run(run_), shared(shared_), id((int)threadIdx.x)
    {
        wide_k = is_wide(a.k, a.dim) && a.dim == S::D;
        wide_v = is_wide(a.v, a.dim_value) && a.dim_value == S::D;
        last = near(n.keys - run.begin);
        key_at = id / S::X * S::LD + id % S::X * 16;
        value_at = memory::VALUES + id / S::X * 16 + id % S::X * relay_values::PLANE;
        hide(key_at), hide(value_at);
        next_k = (const char *)a.k.data + id % S::X * 16 +
                 2 * row_of(a.k, n.b, n.kv, run.begin + id / S::X);
        next_v = (const char *)a.v.data + id % S::X * 16 +
                 2 * row_of(a.v, n.b, n.kv, run.begin + id / S::X);
    }
    __device__ __forceinline__ void get(int c, int slot)
    {
        const bool whole = (c + 1) * RELAY_CHUNK <= last;
        int64_t token = run.begin + (int64_t)c * RELAY_CHUNK;
        if (whole && wide_k) {
            copy16(shared_address(shared) + key_at + slot * memory::ROWS, next_k);
        } else {
            hide(token);
            fetch_here<S>(a.k, row_of(a.k, n.b, n.kv, token), RELAY_CHUNK, 0, n.keys - token, a.dim,
                          shared + slot * memory::ROWS, id, RELAY_KEEPERS);
        }
        if (whole && wide_v) {
            copy16(shared_address(shared) + value_at + slot * memory::VALUE_ROWS, next_v);
        } else {
            hide(token);
            fetch_here<relay_values>(
                a.v, row_of(a.v, n.b, n.kv, token), RELAY_CHUNK, 0, n.keys - token, a.dim_value,
                shared + memory::VALUES + slot * memory::VALUE_ROWS, id, RELAY_KEEPERS);
        }
        next_k += 2 * RELAY_CHUNK * a.k.stride[2], next_v += 2 * RELAY_CHUNK * a.v.stride[2];
    }
    /* After the values and the turned keys. */
    __device__ __forceinline__ void lay_ones() const
    {
        const uint4 ones = make_uint4(0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u);
        for (int i = id; i < RELAY_STAGES * RELAY_CHUNK; i += RELAY_KEEPERS)
            *(uint4 *)(shared + memory::VALUES + i / RELAY_CHUNK * memory::VALUE_ROWS +
                       S::X * relay_values::PLANE + i % RELAY_CHUNK * 16) = ones;
        if (id < RELAY_CHUNK / 16)
            *(uint4 *)(shared + memory::TURNED + id * RELAY_TURNED + RELAY_ONES) = ones;
    }
};

__device__ __forceinline__ void keep_state(const orbit_args &a, const orbit_sequence &n,
                                           const relay_run &run, int64_t head, int rank, int part,
                                           char *shared)
{
    using S = relay_shape;
    using memory = relay_memory;
    const int id = (int)threadIdx.x, lane = (int)(threadIdx.x % 32u);
    char *turned = shared + memory::TURNED;
    relay_tokens tokens(a, n, run, shared);
    if (run.chunks) tokens.get(0, 0);
    copy_commit();
    tokens.lay_ones();
    relay_state s;
    s.begin(a, a.summed || a.s_in ? a.sums + (head * a.segments + run.segment) * S::SUMS : nullptr,
            turned, rank, part, lane);
#pragma unroll 1
    for (int c = 0, slot = 0; c < run.chunks; c++) {
        const int there = max(min(tokens.last - c * RELAY_CHUNK, (int)RELAY_CHUNK), 0);
        char *keys = shared + slot * memory::ROWS,
             *values = shared + memory::VALUES + slot * memory::VALUE_ROWS;
        const bool more = c + 1 < run.chunks;
        slot = slot + 1 == RELAY_STAGES ? 0 : slot + 1;
        copy_wait<0>();
        warps_wait(RELAY_ALONE, RELAY_KEEPERS);
        if (a.normalize) {
            normalize_rows<S>(keys, there, 1.0f, id, RELAY_KEEPERS);
            warps_wait(RELAY_ALONE, RELAY_KEEPERS);
        }
        if (more) relay_turn(keys, turned, part, lane);
        for (int g = 0; g < 2 && c > 1; g++) warps_wait(RELAY_USED + 2 * g + c % 2, RELAY_BOTH);
        if (more) tokens.get(c + 1, slot);
        copy_commit();
        s.leave(shared + memory::STATE + c % 2 * memory::STATE_BYTES,
                (float *)(shared + memory::MEAN + c % 2 * S::MEAN_BYTES), part, lane);
        product_publish(); /* the values too */
        for (int g = 0; g < 2; g++) warps_tell(RELAY_THERE + 2 * g + c % 2, RELAY_BOTH);
        if (!more) break;
        warps_wait(RELAY_ALONE, RELAY_KEEPERS);
        /* How far the planes are apart comes from the arguments: see read_relay. */
        s.add(operand_at(values, 128, a.width * (relay_values::PLANE / 2)), RELAY_CHUNK - there,
              part == 0);
    }
    for (int c = max(run.chunks - 2, 0); c < run.chunks; c++)
        for (int g = 0; g < 2; g++) warps_wait(RELAY_USED + 2 * g + c % 2, RELAY_BOTH);
}

/* out += phi(q) x the block's half of the state.  across is 256: were that known, it would be moved
 * to where it is before every product. */
template <int RANK>
__device__ __forceinline__ void read_relay(const char *state, int across,
                                           const orbit_queries<relay_shape> &q,
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
    const orbit_args &a;
    const orbit_sequence &n;
    const relay_run &run;
    char *queries;
    const char *next; /* where the lane's 16 bytes of the next are */
    int first, last;  /* of the sequence; positions from the run's first on */
    int lane;
    bool wide;
    __device__ __forceinline__ relay_queries(const orbit_args &a_, const orbit_sequence &n_,
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
__device__ __forceinline__ void answer(const orbit_args &a, const orbit_sequence &n,
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
            orbit_queries<S> q[1];
            float out[1][S::N8][4] = {};
            q[0].take(rows, lane);
            read_relay<RANK>(shared + memory::STATE + c % 2 * memory::STATE_BYTES, a.width * 128,
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

__global__ void __launch_bounds__(RELAY_KEEPERS + RELAY_READERS, 1)
    orbit_relay_kernel(const __grid_constant__ orbit_args a)
{
#if LNT_WARPGROUPS
    using S = relay_shape;
    extern __shared__ __align__(128) char shared[];
    const int64_t head = blockIdx.y;
    const orbit_sequence n(a, head);
    const relay_run run(a, n);
    const int rank = (int)(blockIdx.x % RELAY_BLOCKS),
              warp = __shfl_sync(~0u, (int)(threadIdx.x / 32u), 0);
    if (rank == 0 && run.segment == 0 && n.past < 0 && threadIdx.x < S::THREADS)
        clear_rows<S>(a, head, (int)threadIdx.x);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) barrier_init(relay_barrier(shared, RELAY_MAIL + i), 1);
        warps_begin(RELAY_ALONE, RELAY_KEEPERS);
        for (int i = 0; i < 4; i++)
            warps_begin(RELAY_THERE + i, RELAY_BOTH), warps_begin(RELAY_USED + i, RELAY_BOTH);
        barrier_publish();
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    if (warp < RELAY_KEEPERS / 32) {
        registers_up<144>();
        keep_state(a, n, run, head, rank, warp, shared);
    } else {
        registers_down<112>();
        if (rank)
            answer<1>(a, n, run, warp - RELAY_KEEPERS / 32, shared);
        else
            answer<0>(a, n, run, warp - RELAY_KEEPERS / 32, shared);
    }
#else
    (void)a;
#endif
}

cudaError_t orbit_relay_run(const orbit_args &a, cudaStream_t stream)
{
    const cudaError_t e =
        cudaFuncSetAttribute((const void *)orbit_relay_kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, relay_memory::BYTES);
    if (e != cudaSuccess || !a.segments) return e;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { RELAY_BLOCKS, 1, 1 };
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)((a.segments + a.walk - 1) / a.walk * RELAY_BLOCKS),
                          (unsigned)(a.batch * a.kv_heads));
    launch.blockDim = dim3(RELAY_KEEPERS + RELAY_READERS);
    launch.dynamicSmemBytes = relay_memory::BYTES, launch.stream = stream;
    launch.attrs = &cluster, launch.numAttrs = 1;
    return cudaLaunchKernelEx(&launch, orbit_relay_kernel, a);
}

} // namespace lnt
