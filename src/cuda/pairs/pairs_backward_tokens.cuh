/* cuda/pairs/pairs_backward_tokens.cuh - the part of pairs_backward.cu that meets the tokens of the rows' own
 * segment one by one, as tiles_backward_tokens.cuh does, with products of warpgroups; and what is written.
 *
 * Packed blocks (tiles_pack.cu) are operands as they lie: keys by token or, turned over, by element;
 * values by column or by token.  Own rows are A, 64 at a time, both as keys are packed. */
#ifndef LNT_CUDA_PAIRS_BACKWARD_TOKENS_CUH
#define LNT_CUDA_PAIRS_BACKWARD_TOKENS_CUH

#include "cuda/pairs/pairs_backward.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

__device__ __forceinline__ uint64_t operand_word(const operand &b)
{
    return (uint64_t)b.high << 32 | b.low;
}

/* d [64][32] (+)= A B, both in shared memory; turned: B's matrices are row by row; on: else d is
 * new. */
template <bool turned>
__device__ __forceinline__ void product_shared(float (&d)[4][4], const operand &a, const operand &b,
                                               int on)
{
    product_shows<8>(a), product_shows<4>(b);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" LNT_NAMES_4
                 "}, %16, %17, p, 1, 1, 0, %19;\n}"
                 : LNT_SUMS_4(d)
                 : "l"(operand_word(a)), "l"(operand_word(b)), "r"(on), "n"(turned ? 1 : 0));
}

/* d += A B, A in registers, B's matrices row by row. */
__device__ __forceinline__ void product_turned(float (&d)[4][4], const uint32_t (&a)[4],
                                               const operand &b)
{
    product_shows<4>(b);
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" LNT_NAMES_4
                 "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 1;"
                 : LNT_SUMS_4(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(operand_word(b)));
}

/* The blocks of 32 tokens that a set of 64 rows meets. */
template <int side>
__device__ __forceinline__ void pairs_backward_span(const pairs_backward_item &item, int set,
                                                    int64_t &from, int64_t &end)
{
    const int64_t length = PAIRS_SEGMENT / 32, last = (item.at.nk + 31) / 32;
    from = side == BACKWARD_KEYS ? item.first(set) : item.at.segment * length;
    end = side == BACKWARD_KEYS ? (item.at.segment + 1) * length : item.first(set) + 2;
    end = end < last ? end : last;
}

/* Stages of 64 tokens, through a ring: of a set first its own rows, then those it meets.  number:
 * from the first of the block of threads on. */
struct pairs_backward_tokens {
    char *shared;
    int number;

    __device__ __forceinline__ int place() const { return number % PAIRS_BACKWARD_STAGES; }
    __device__ __forceinline__ int parity() const { return number / PAIRS_BACKWARD_STAGES & 1; }
    __device__ __forceinline__ char *at() const
    {
        return shared + PAIRS_BACKWARD_TOKENS_AT + place() * PAIRS_BACKWARD_TOKENS;
    }
    /* n blocks from `place` on; rows: of queries, or NULL. */
    __device__ __forceinline__ void feed(const char *keys, const char *values, const float2 *rows,
                                         int64_t first, int n)
    {
        const pairs_backward_barriers bar(shared);
        const uint32_t to = shared_address(at()), come = bar.tokens(place());
        if (number >= PAIRS_BACKWARD_STAGES) barrier_wait(bar.met(place()), parity() ^ 1);
        barrier_expect(come, n * (2048 + 2560 + (rows ? 256 : 0)));
        bulk_load(to, keys + first * 2048, n * 2048, come);
        bulk_load(to + 4096, values + first * 2560, n * 2560, come);
        if (rows) bulk_load(to + 4096 + 5120, rows + first * 32, n * 256, come);
        number++;
    }
    /* Until the next is there. */
    __device__ __forceinline__ void wait()
    {
        barrier_wait(pairs_backward_barriers(shared).tokens(place()), parity());
        number++;
    }
    /* The one `ago` before the next.  By a reduction: so it is known to be the same for all lanes,
     * and what describes operands there stays in uniform registers. */
    __device__ __forceinline__ const char *stage(int ago) const
    {
        const unsigned i = __reduce_max_sync(~0u, (unsigned)(number - ago) % PAIRS_BACKWARD_STAGES);
        return shared + PAIRS_BACKWARD_TOKENS_AT + i * PAIRS_BACKWARD_TOKENS;
    }
    /* The one `ago` before the next is read. */
    __device__ __forceinline__ void leave(int lane, int ago) const
    {
        __syncwarp();
        if (warp_arrives(lane))
            barrier_arrive(
                pairs_backward_barriers(shared).met((number - ago) % PAIRS_BACKWARD_STAGES));
    }
};

/* All of them, by one thread. */
template <int side>
__device__ __forceinline__ void feed_tokens(const tiles_backward_args &a, char *shared, int count)
{
    pairs_backward_tokens tokens = { shared, 0 };
#pragma unroll 1
    for (int i = pairs_backward_next<side, false>(a, (int)blockIdx.x, count); i < count;
         i = pairs_backward_next<side, false>(a, i + (int)gridDim.x, count)) {
        const pairs_backward_item item = pairs_backward_find<side>(a, i);
        const int64_t own = (item.at.b * a.heads + item.at.h) * a.own_blocks,
                      other = (item.at.b * a.kv_heads + item.at.kv) * a.other_blocks;
#pragma unroll 1
        for (int set = 0; set < 2; set++) {
            if (!item.there<side>(set)) continue;
            int64_t from, end;
            pairs_backward_span<side>(item, set, from, end);
            tokens.feed(a.own_keys, a.own_values, nullptr, own + item.first(set), 2);
#pragma unroll 1
            for (; from < end; from += 2)
                tokens.feed(a.other_keys, a.other_values, side == BACKWARD_KEYS ? a.rows : nullptr,
                            other + from, (int)min(end - from, (int64_t)2));
        }
    }
}

/* Begins scores x and g = d.values of 32 tokens. */
__device__ __forceinline__ void begin_scores(const operand &own, const char *keys,
                                             const char *values, float (&x)[4][4], float (&g)[4][4])
{
    const operand k = operand_at(keys, 128, 512), v = operand_at(values, 512, 128);
    product_begin();
#pragma unroll
    for (int r = 0; r < 4; r += 2)
        product_shared<false>(x, operand_plus(own, r * 128), operand_plus(k, r * 128), r > 0);
#pragma unroll
    for (int n = 0; n < 4; n += 2)
        product_shared<true>(g, operand_plus(own, 4096 + n * 128), operand_plus(v, n * 512), n > 0);
    product_commit();
}

/* From those of group c, 8 tokens, to what is summed with the tokens: of queries dout.v w' and w',
 * of keys G w' and weights.  place: where the lane's rows stand; all: every row sees every token.
 */
template <int side, bool all>
__device__ __forceinline__ void weigh_group(const tiles_backward_args &a, const char *rows,
                                            const int (&place)[2], int t, int c, float (&x)[4],
                                            float (&g)[4], backward_sums<1> &sums)
{
    float4 two = make_float4(0, 0, 0, 0);
    if (side == BACKWARD_KEYS) two = *(const float4 *)(rows + (8 * t + 2 * c) * 8);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int token = 8 * t + 2 * c + e % 2, u = e / 2;
        const bool sees = all || (side == BACKWARD_KEYS ? token >= place[u] : token <= place[u]);
        float y, slope;
        weigh<TILES_TAYLOR>(a, x[e], 0, y, slope);
        if (side == BACKWARD_KEYS) {
            const float inverse = e % 2 ? two.z : two.x, h = e % 2 ? two.w : two.y;
            x[e] = sees ? y * inverse : 0.0f;
            g[e] = sees ? fmaf(g[e], inverse, h) * slope : 0.0f;
        } else {
            if (!sees) y = slope = 0;
            sums.weights[0][u] += y;
            sums.dot[0][u] = fmaf(y, g[e], sums.dot[0][u]);
            x[e] = slope, g[e] *= slope;
        }
    }
}

/* Begins those sums, 16 tokens at a time, and the first are done.  G w' and the like are two bf16
 * (tiles_backward_tokens.cuh, give_block).  dz: of queries. */
template <int side, bool all>
__device__ __forceinline__ void
begin_sums(const tiles_backward_args &a, backward_warp<4, side> &w, const char *keys,
           const char *values, const char *rows, const int (&place)[2], float (&x)[4][4],
           float (&g)[4][4], backward_sums<1> &sums, float (&dz)[1][4][4])
{
    const operand turned = operand_at(keys, 512, 128), columns = operand_at(values, 128, 512);
    uint32_t f[4], left[4], y[4], y_left[4];
#pragma unroll
    for (int c = 0; c < 2; c++) {
#pragma unroll
        for (int k = 2 * c; k < 2 * c + 2; k++)
            weigh_group<side, all>(a, rows, place, w.lane % 4, k, x[k], g[k], sums);
        if (c) product_wait<0>();
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int from = 2 * c + e / 2, at = e % 2 * 2;
            f[e] = pack_both(g[from][at], g[from][at + 1], left[e]);
            if constexpr (side == BACKWARD_QUERIES)
                y[e] = pack_both(x[from][at], x[from][at + 1], y_left[e]);
            else
                y[e] = pack(x[from][at], x[from][at + 1]);
        }
        const operand b = operand_plus(turned, c * 1024);
        product_begin();
        product_turned(w.dx[0], f, b);
        product_turned(w.dx[0], left, b);
        if constexpr (side == BACKWARD_QUERIES) {
            product_turned(dz[0], y, b);
            product_turned(dz[0], y_left, b);
        } else {
            product<4>(w.dv[0], y, operand_plus(columns, c * 256));
        }
        product_commit();
    }
}

/* 32 tokens, number k of their stage; next: the stage after it.  With scores ahead theirs are
 * there, and those of the tokens after them are begun. */
template <int side, bool all>
__device__ __forceinline__ void
meet_tokens(const tiles_backward_args &a, backward_warp<4, side> &w, const operand &own,
            const char *stage, int k, const char *next, const int (&place)[2], float (&x)[4][4],
            float (&g)[4][4], backward_sums<1> &sums, float (&dz)[1][4][4])
{
    constexpr bool PIPELINED = pairs_backward_shape<side>::PIPELINED;
    const char *keys = stage + k * 2048, *values = stage + 4096 + k * 2560;
    if (!PIPELINED) {
        begin_scores(own, keys, values, x, g);
        product_wait<0>();
        product_hold(x);
        product_hold(g);
    }
    begin_sums<side, all>(a, w, keys, values, stage + 4096 + 5120 + k * 256, place, x, g, sums, dz);
    if (PIPELINED) begin_scores(own, k ? next : keys + 2048, k ? next + 4096 : values + 2560, x, g);
    product_wait<0>();
    product_hold(w.dx[0]);
    if constexpr (side == BACKWARD_QUERIES)
        product_hold(dz[0]);
    else
        product_hold(w.dv[0]);
    if (PIPELINED) product_hold(x), product_hold(g);
}

/* The rows of a set as operands, from their stage, and what they were given by their state, if they
 * have one, degree 0 included. */
template <int side>
__device__ __forceinline__ void begin_set(const tiles_backward_args &a, char *shared,
                                          const pairs_backward_item &item, int set, int group,
                                          pairs_backward_tokens &tokens, backward_warp<4, side> &w,
                                          backward_sums<1> &sums, float (&dz)[1][4][4])
{
    const int t = w.lane % 4;
    float2 mean[5] = {};
    if (item.remembers) {
        const float *from = a.mean + item.state * 40;
#pragma unroll
        for (int n = 0; n < 4; n++) mean[n] = *(const float2 *)(from + 8 * n + 2 * t);
        mean[4].x = from[32];
    }
    tokens.wait();
    const char *stage = tokens.stage(1);
    w.load(0, stage + group / 2 * 2048, stage + 4096 + group / 2 * 2560, group, 4);
    tokens.leave(w.lane, 1);
#pragma unroll
    for (int u = 0; u < 2; u++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            char *to =
                shared + PAIRS_BACKWARD_OWN_AT + ((2 * group + u) * 4 + r) * 128 + w.lane * 4;
            *(uint32_t *)to = w.x[0][u][r];
            *(uint32_t *)(to + 4096) = w.d[0][u][r];
        }
    if (!item.remembers) return;
    const float4 *given =
        (const float4 *)(shared + PAIRS_BACKWARD_GIVEN_AT) + set * 8 * 128 + threadIdx.x % 128;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        *(float4 *)w.dx[0][r] = given[r * 128];
        *(float4 *)(side == BACKWARD_QUERIES ? dz[0][r] : w.dv[0][r % w.V]) = given[(4 + r) * 128];
    }
    if constexpr (side == BACKWARD_QUERIES) {
        const float2 *rows =
            (const float2 *)(shared + PAIRS_BACKWARD_GIVEN_ROWS_AT) + 64 * set + w.row;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float2 row = t ? make_float2(0, 0) : rows[8 * u];
            sums.weights[0][u] = t ? 0.0f : row.x + mean[4].x, sums.dot[0][u] = row.y;
#pragma unroll
            for (int n = 0; n < 4; n++)
                sums.dot[0][u] = fmaf(low_of(w.d[0][u][n]), mean[n].x,
                                      fmaf(high_of(w.d[0][u][n]), mean[n].y, sums.dot[0][u]));
        }
    } else {
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) w.dv[0][n][e] += e % 2 ? mean[n].y : mean[n].x;
    }
    if (set == (item.there<side>(1) ? 1 : 0))
        barrier_arrive(pairs_backward_barriers(shared).taken());
}

/* This lane's part of a row of 32 bf16, side by side. */
__device__ __forceinline__ void write_plain(const view &x, const backward_where &at, int64_t row,
                                            int u, int t, const float (&y)[4][4])
{
    __nv_bfloat16 *to = (__nv_bfloat16 *)x.data + row_of(x, at.b, at.h, row) + 2 * t;
#pragma unroll
    for (int r = 0; r < 4; r++) *(uint32_t *)(to + 8 * r) = pack(y[r][2 * u], y[r][2 * u + 1]);
}

/* The gradients of a set's rows, once all is summed. */
template <int side>
__device__ __forceinline__ void
end_set(const tiles_backward_args &a, const pairs_backward_item &item, int set, int group,
        backward_warp<4, side> &w, const backward_sums<1> &sums, const float (&dz)[1][4][4])
{
    const int64_t block = item.first(set) + group / 2;
    if constexpr (side == BACKWARD_QUERIES) {
        float2 own[1][2] = {};
        finish_rows<4>(a, item.at, w, nullptr, block, sums, own);
        each_number<4, side>(w, [&](float &y, int r, int e, int i, int u) {
            y = fmaf(y, own[i][u].x, dz[i][r][e] * own[i][u].y);
        });
    }
    const bool plain = !a.gradient && a.dim == 32 && is_wide(a.dx, 8) &&
                       (side == BACKWARD_QUERIES || (a.dim_value == 32 && is_wide(a.dv, 8)));
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t at = 32 * block + token_of(group % 2, u, w.lane);
        const int64_t row = side == BACKWARD_KEYS ? at : at - item.at.past;
        if (row < 0 || row >= (side == BACKWARD_KEYS ? item.at.nk : item.at.nq)) continue;
        if (!plain) {
            write_row<4, side>(a, item.at, w, 0, u, row);
            continue;
        }
        write_plain(a.dx, item.at, row, u, w.lane % 4, w.dx[0]);
        if constexpr (side == BACKWARD_KEYS)
            write_plain(a.dv, item.at, row, u, w.lane % 4, w.dv[0]);
    }
}

/* One set of item number i. */
template <int side>
__device__ __forceinline__ void meet_set(const tiles_backward_args &a, char *shared, int i, int set,
                                         pairs_backward_tokens &tokens, int group, int lane)
{
    auto sync = [] { asm volatile("bar.sync 3, 128;" ::: "memory"); };
    backward_warp<4, side> w;
    w.place(group * 16);
    backward_sums<1> sums = {};
    float dz[1][4][4] = {};
    int first, blocks; /* of the set's rows, from the first of those it meets */
    {
        const pairs_backward_item item = pairs_backward_find<side>(a, i);
        int64_t from, end;
        pairs_backward_span<side>(item, set, from, end);
        /* By a shuffle: known to be the same for all lanes. */
        first = __shfl_sync(~0u, (int)(item.first(set) - from), 0);
        blocks = __shfl_sync(~0u, (int)(end - from), 0);
        begin_set<side>(a, shared, item, set, group, tokens, w, sums, dz);
    }
    product_publish();
    sync();
    const operand own = operand_at(shared + PAIRS_BACKWARD_OWN_AT, 128, 512);
    float x[4][4], g[4][4];
    constexpr bool PIPELINED = pairs_backward_shape<side>::PIPELINED;
    if (PIPELINED && blocks > 0) {
        tokens.wait();
        begin_scores(own, tokens.stage(1), tokens.stage(1) + 4096, x, g);
        product_wait<0>();
        product_hold(x);
        product_hold(g);
    }
#pragma unroll 1
    for (int low = 0; low < blocks; low += 2) {
        const bool more = PIPELINED && low + 2 < blocks;
        if (more || !PIPELINED) tokens.wait();
        const char *stage = tokens.stage(more ? 2 : 1), *next = tokens.stage(1);
        const bool all =
            low + 1 < blocks && (side == BACKWARD_KEYS ? low > first + 1 : low + 1 < first);
#pragma unroll 1
        for (int k = 0; k < 2 && low + k < blocks; k++) {
            int place[2];
#pragma unroll
            for (int u = 0; u < 2; u++)
                place[u] = token_of(group % 2, u, lane) + 32 * (first + group / 2 - low - k);
            if (all)
                meet_tokens<side, true>(a, w, own, stage, k, next, place, x, g, sums, dz);
            else
                meet_tokens<side, false>(a, w, own, stage, k, next, place, x, g, sums, dz);
        }
        tokens.leave(lane, more ? 2 : 1);
    }
    end_set<side>(a, pairs_backward_find<side>(a, i), set, group, w, sums, dz);
    sync(); /* products have read the set's rows */
}

template <int side>
__device__ __forceinline__ void meet_items(const tiles_backward_args &a, char *shared, int warp,
                                           int lane, int count)
{
    pairs_backward_tokens tokens = { shared, 0 };
    int number = 0;
#pragma unroll 1
    for (int i = pairs_backward_next<side, false>(a, (int)blockIdx.x, count); i < count;
         i = pairs_backward_next<side, false>(a, i + (int)gridDim.x, count)) {
        if (pairs_backward_find<side>(a, i).remembers)
            barrier_wait(pairs_backward_barriers(shared).given(), number++ & 1);
#pragma unroll 1
        for (int set = 0; set < 2; set++)
            if (pairs_backward_find<side>(a, i).there<side>(set))
                meet_set<side>(a, shared, i, set, tokens, warp % 4, lane);
    }
}

#endif

} // namespace lnt
#endif
