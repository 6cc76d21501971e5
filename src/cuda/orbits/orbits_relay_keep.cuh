/* cuda/orbits/orbits_relay_keep.cuh - the warps of orbits_relay.cu that keep the state: they bring keys
 * and values, leave the state as it was before a chunk to those that answer, and add the chunk. */
#ifndef LNT_CUDA_ORBITS_RELAY_KEEP_CUH
#define LNT_CUDA_ORBITS_RELAY_KEEP_CUH

#include "cuda/orbits/orbits_relay.cuh"

namespace lnt
{

/* orbits_fours on the device; the host has to know of it too. */
template <int count> struct relay_table {
    orbits_four list[count];
    constexpr relay_table() : list{}
    {
        for (int i = 0; i < count; i++) list[i] = orbits_fours[i];
    }
};
template <int count> __constant__ const relay_table<count> relay_fours;

#if LNT_WARPGROUPS

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
    __device__ __forceinline__ void begin(const orbits_args &a, const float *from,
                                          const char *turned, int rank, int part, int lane)
    {
        const orbits_four four = relay_fours<ORBITS_FOURS>.list[rank * (ORBITS_FOURS / 2) + part];
        auto place = [&](int i) {
            return shared_address(turned) +
                   (i == ORBITS_ONE
                        ? RELAY_ONES
                        : lane / 16 * RELAY_HALF + (max(i, 0) + lane / 8 % 2 * 8 + lane % 8) * 16);
        };
        first = place(0), second = place(four.s);
#pragma unroll
        for (int k = 0; k < RELAY_OWN; k++) {
            third[k] = place(four.t[k]);
            const int orbit = relay_orbit(rank, part * RELAY_OWN + k), o = min(orbit, S::T - 1);
            const struct orbit w = orbits_table<S::D, S::terms>.list[o];
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

/* Keys and values of a run, chunk after chunk: of each a thread copies 16 bytes. */
struct relay_tokens {
    using S = relay_shape;
    using memory = relay_memory;
    const orbits_args &a;
    const orbits_sequence &n;
    const relay_run &run;
    char *shared;
    const char *next_k, *next_v;
    int last; /* of the keys; positions from the run's first on */
    int id, key_at, value_at;
    bool wide_k, wide_v;
    __device__ __forceinline__ relay_tokens(const orbits_args &a_, const orbits_sequence &n_,
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

__device__ __forceinline__ void keep_state(const orbits_args &a, const orbits_sequence &n,
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
        /* How far the planes are apart comes from the arguments: see answer_relay. */
        s.add(operand_at(values, 128, a.width * (relay_values::PLANE / 2)), RELAY_CHUNK - there,
              part == 0);
    }
    for (int c = max(run.chunks - 2, 0); c < run.chunks; c++)
        for (int g = 0; g < 2; g++) warps_wait(RELAY_USED + 2 * g + c % 2, RELAY_BOTH);
}

#endif

} // namespace lnt

#endif
