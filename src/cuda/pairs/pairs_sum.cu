/* cuda/pairs/pairs_sum.cu - the states of pairs_basis.h before each segment of the keys.
 *
 * A block of threads has one part c of one head and walks all of its tokens, 128 at a time.  One
 * warpgroup, the maker, leaves x_l v and x_l for the 4 elements l of the group in shared memory;
 * the two others sum: a warp has two tiles of 16 pairs, made in registers from rows of keys, times
 * those 136 columns.  The sums stay in the accumulators, and where a segment ends they are left as
 * bf16, times a_p s^p C: there is no sum of a segment in memory and no scan.  Only after many
 * segments they are put aside, since the tensor cores cut sums off instead of rounding them, and so
 * is a state to begin with.  Degree 0 is summed by the maker, 4 columns a block.
 *
 * Per 16 tokens and block: 4 products of 64 x 136 x 16.  See docs/gpu-kernels.md */
#include "cuda/common/bulk.cuh"
#include "cuda/pairs/pairs.h"

namespace lnt
{

enum {
    PAIRS_STAGES = 4,
    PAIRS_THREADS = 384,
    PAIRS_BLOCK_BYTES = 32 * 64 + 128, /* keys of 32 tokens, then rows of 1 and of 0 */
    PAIRS_KEY_BYTES = 4 * PAIRS_BLOCK_BYTES,
    PAIRS_VALUE_BYTES = 4 * 5 * 512,
    PAIRS_STAGE_BYTES = PAIRS_KEY_BYTES + PAIRS_VALUE_BYTES + 8 * PAIRS_TILE_BYTES,
    PAIRS_SHARED = PAIRS_STAGES * PAIRS_STAGE_BYTES + 3 * PAIRS_STAGES * 8,
    PAIRS_SCALES_AT = (PAIRS_SHARED + 127) / 128 * 128, /* of queries alone */
    PAIRS_SCALE_BYTES = 128 * 8,
    PAIRS_BACKWARD_SHARED = PAIRS_SCALES_AT + PAIRS_STAGES * PAIRS_SCALE_BYTES
};

#if LNT_WARPGROUPS

/* back: queries in place of keys, from the end (pairs_args.scale). */
template <bool back> struct pairs_walk {
    static constexpr bool BACKWARD = back;
    const pairs_args &a;
    char *shared;
    int part, stages, per_segment; /* stages of 128 tokens: all, in a segment */
    int pieces, tail;              /* segments there are; from the end: stages of the last one */
    int64_t head;

    __device__ __forceinline__ pairs_walk(const pairs_args &args, char *memory)
        : a(args), shared(memory), part((int)blockIdx.x), head(blockIdx.y)
    {
        per_segment = (int)(a.segment_blocks / 4);
        stages = (int)min((int64_t)a.segments * per_segment, a.blocks / 4);
        const int all = (int)(a.blocks / 4);
        pieces = (all + per_segment - 1) / per_segment;
        tail = all - (pieces - 1) * per_segment;
        if (back) stages = all > per_segment ? all - per_segment : 0;
    }
    /* Which stage is number i; whether it ends a segment; the state that is complete after s of
     * them. */
    __device__ __forceinline__ int stage(int i) const
    {
        if (!back) return i;
        const int j = i - tail;
        return j < 0 ? (pieces - 1) * per_segment + i
                     : (pieces - 2 - j / per_segment) * per_segment + j % per_segment;
    }
    __device__ __forceinline__ int segment_end(int i) const /* of the segment that begins at i */
    {
        return back && i == 0 ? tail : min(i + per_segment, stages);
    }
    __device__ __forceinline__ int state(int s) const { return back ? pieces - 1 - s : s; }
    /* Of two tokens side by side of block b of number i. */
    __device__ __forceinline__ const float4 *scales(int i, int b) const
    {
        return (const float4 *)(shared + PAIRS_SCALES_AT + i % PAIRS_STAGES * PAIRS_SCALE_BYTES) +
               b * 16;
    }
    __device__ __forceinline__ char *keys(int i) const
    {
        return shared + i % PAIRS_STAGES * PAIRS_STAGE_BYTES;
    }
    __device__ __forceinline__ char *values(int i) const { return keys(i) + PAIRS_KEY_BYTES; }
    __device__ __forceinline__ char *products(int i) const { return values(i) + PAIRS_VALUE_BYTES; }
    __device__ __forceinline__ uint32_t barrier(int which, int i) const
    {
        return shared_address(shared + PAIRS_STAGES * PAIRS_STAGE_BYTES) +
               (uint32_t)(which * PAIRS_STAGES + i % PAIRS_STAGES) * 8;
    }
    /* Keys and values have come; the products are made; the sums have them. */
    __device__ __forceinline__ uint32_t come(int i) const { return barrier(0, i); }
    __device__ __forceinline__ uint32_t made(int i) const { return barrier(1, i); }
    __device__ __forceinline__ uint32_t done(int i) const { return barrier(2, i); }
    static __device__ __forceinline__ int parity(int i) { return i / PAIRS_STAGES & 1; }

    __device__ __forceinline__ void begin() const
    {
        for (int w = (int)threadIdx.x; w < PAIRS_STAGES * 4 * 8; w += PAIRS_THREADS) {
            const uint32_t x = w % 8 < 4 ? 0x3f803f80u : 0;
            *(uint4 *)(keys(w / 32) + w / 8 % 4 * PAIRS_BLOCK_BYTES + 2048 + w % 8 * 16) =
                make_uint4(x, x, x, x);
        }
        if (threadIdx.x == 0) {
            for (int i = 0; i < PAIRS_STAGES; i++) {
                barrier_init(come(i), 1);
                barrier_init(made(i), 128);
                barrier_init(done(i), 256);
            }
            barrier_publish();
        }
        __syncthreads();
    }
    /* By one thread. */
    __device__ __forceinline__ void fetch(int i) const
    {
        if (i >= stages) return;
        if (i >= PAIRS_STAGES) barrier_wait(done(i), parity(i - PAIRS_STAGES));
        const int64_t block = head * a.blocks + (int64_t)stage(i) * 4;
        barrier_expect(come(i), 4 * 2048 + PAIRS_VALUE_BYTES + (back ? PAIRS_SCALE_BYTES : 0));
        if (back)
            bulk_load(shared_address(scales(i, 0)), a.scale + block * 32, PAIRS_SCALE_BYTES,
                      come(i));
        for (int b = 0; b < 4; b++)
            bulk_load(shared_address(keys(i) + b * PAIRS_BLOCK_BYTES), a.rows + (block + b) * 2048,
                      2048, come(i));
        bulk_load(shared_address(values(i)), a.values + block * 2560, PAIRS_VALUE_BYTES, come(i));
    }
};

/* ---- x_l v ----------------------------------------------------------------------------------- */

__device__ __forceinline__ uint4 multiply_eight(const uint4 &x, const uint4 &y)
{
    return make_uint4(multiply(x.x, y.x), multiply(x.y, y.y), multiply(x.z, y.z),
                      multiply(x.w, y.w));
}

/* Eight tokens a thread (group q of block b), columns `column` + 8 k of each of the 4 elements. */
template <class W> __device__ __forceinline__ void make_products(const W &w, int i, int thread)
{
    const int column = thread % 8, q = thread / 8 % 4, b = thread / 32;
    const char *keys = w.keys(i) + b * PAIRS_BLOCK_BYTES;
    auto row = [&](int e) { return *(const uint4 *)(keys + e * 64 + (q ^ (e / 2 % 4)) * 16); };
    const char *values = w.values(i) + b * 2560 + q * 128 + column * 16;
    char *to = w.products(i) + (2 * b + q / 2) * PAIRS_TILE_BYTES + q % 2 * 128 + column * 16;
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = *(const uint4 *)(values + k * 512);
#pragma unroll
    for (int l = 0; l < 4; l++) {
        const uint4 x = row(4 * w.part + l);
#pragma unroll
        for (int k = 0; k < 4; k++) *(uint4 *)(to + (4 * l + k) * 256) = multiply_eight(x, v[k]);
    }
    uint4 one = row(4 * w.part + column % 4);
    if (column >= 4) one = make_uint4(0, 0, 0, 0);
    *(uint4 *)(to + 16 * 256) = one;
}

/* Of queries: times what scales the tokens, rounded once. */
template <class W> __device__ __forceinline__ void make_scaled(const W &w, int i, int thread)
{
    const int column = thread % 8, q = thread / 8 % 4, b = thread / 32;
    const float4 *from = w.scales(i, b) + q;
    const float4 scale[4] = { from[0], from[4], from[8], from[12] };
    const char *keys = w.keys(i) + b * PAIRS_BLOCK_BYTES;
    auto row = [&](int e) { return *(const uint4 *)(keys + e * 64 + (q ^ (e / 2 % 4)) * 16); };
    const char *values = w.values(i) + b * 2560 + q * 128 + column * 16;
    char *to = w.products(i) + (2 * b + q / 2) * PAIRS_TILE_BYTES + q % 2 * 128 + column * 16;
    uint4 x[4];
#pragma unroll
    for (int l = 0; l < 4; l++) x[l] = row(4 * w.part + l);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint4 v = *(const uint4 *)(values + k * 512);
        const uint32_t pair[4] = { v.x, v.y, v.z, v.w };
        float y[8];
#pragma unroll
        for (int p = 0; p < 4; p++)
            y[2 * p] = low_of(pair[p]) * scale[p].x, y[2 * p + 1] = high_of(pair[p]) * scale[p].z;
#pragma unroll
        for (int l = 0; l < 4; l++)
            *(uint4 *)(to + (4 * l + k) * 256) =
                make_uint4(pack(low_of(x[l].x) * y[0], high_of(x[l].x) * y[1]),
                           pack(low_of(x[l].y) * y[2], high_of(x[l].y) * y[3]),
                           pack(low_of(x[l].z) * y[4], high_of(x[l].z) * y[5]),
                           pack(low_of(x[l].w) * y[6], high_of(x[l].w) * y[7]));
    }
    const uint4 z = row(4 * w.part + column % 4);
    uint4 one = make_uint4(pack(low_of(z.x) * scale[0].y, high_of(z.x) * scale[0].w),
                           pack(low_of(z.y) * scale[1].y, high_of(z.y) * scale[1].w),
                           pack(low_of(z.z) * scale[2].y, high_of(z.z) * scale[2].w),
                           pack(low_of(z.w) * scale[3].y, high_of(z.w) * scale[3].w));
    if (column >= 4) one = make_uint4(0, 0, 0, 0);
    *(uint4 *)(to + 16 * 256) = one;
}

/* Of degree 0, by one warp: columns 4 part ... 4 part + 3, one of them a lane, of 4 tokens of each
 * 32. */
template <class W> __device__ __forceinline__ float sum_values(const W &w, int i, int lane)
{
    const int column = 4 * w.part + lane / 2 % 4;
    const char *values = w.values(i) + column / 8 * 512 + lane / 8 * 128 + column % 8 * 16;
    float sum = 0;
#pragma unroll
    for (int b = 0; b < 4; b++) {
        const uint2 x = *(const uint2 *)(values + b * 2560 + lane % 2 * 8);
        if constexpr (W::BACKWARD) {
            const float4 *from = w.scales(i, b) + lane / 8 + lane % 2 * 8;
            const float4 y = from[0], z = from[4];
            sum +=
                (low_of(x.x) * y.x + high_of(x.x) * y.z) + (low_of(x.y) * z.x + high_of(x.y) * z.z);
        } else {
            sum += (low_of(x.x) + high_of(x.x)) + (low_of(x.y) + high_of(x.y));
        }
    }
    return sum;
}

template <class W> __device__ static void keep_mean(const W &w, int prefix, float sum, int lane)
{
    const pairs_args &a = w.a;
    for (int k : { 1, 8, 16 }) sum += __shfl_xor_sync(~0u, sum, k);
    if (lane % 2 || lane >= 8) return;
    const int column = 4 * w.part + lane / 2;
    const int64_t state = w.head * a.count, b = w.head / a.kv_heads;
    const int64_t length = a.lengths ? a.lengths[b] : a.length;
    float seen = (float)min(length, prefix * a.segment_blocks * 32);
    if (a.s_in && column < a.dim_value) sum += a.s_in[state * a.dim_value + column];
    if (a.z_in && column == 0) seen += a.z_in[state];
    if (prefix < a.prefixes) {
        float *mean = a.mean + (w.head * a.prefixes + prefix) * 40;
        mean[column] = sum * a.constant;
        if (column == 0) mean[32] = seen * a.constant;
    }
    if (prefix < a.segments || !a.s_out) return;
    if (column < a.dim_value) a.s_out[state * a.dim_value + column] = sum;
    if (column == 0) a.z_out[state] = seen;
}

template <class W> __device__ __forceinline__ void make(const W &w)
{
    const int thread = (int)threadIdx.x - 256, lane = thread % 32;
    const bool means = thread < 32;
    if (thread == 0)
        for (int i = 0; i < 2; i++) w.fetch(i);
    float sum = 0;
    if (means && (w.a.s_in || !w.a.segments)) keep_mean(w, 0, sum, lane);
    int end = w.segment_end(0);
    for (int i = 0, s = 0; i < w.stages; i++) {
        if (thread == 0) w.fetch(i + 2);
        __syncwarp();
        barrier_wait(w.come(i), w.parity(i));
        if constexpr (W::BACKWARD)
            make_scaled(w, i, thread);
        else
            make_products(w, i, thread);
        product_publish();
        if (means) sum += sum_values(w, i, lane);
        barrier_arrive(w.made(i));
        if (i + 1 == end) {
            s++;
            if (means) keep_mean(w, w.state(s), sum, lane);
            end = w.segment_end(i + 1);
        }
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The tiles of a warp and where in 32 tokens of keys this lane finds the rows that it loads for
 * four matrices at once.  Of the pairs of groups: rows of the first, 2 x 8 tokens; rows of the
 * seconds of both tiles.  Else: rows of the squares; rows of both factors of the second tile. */
template <bool cross> struct pairs_task {
    int tile[2];
    uint32_t first, second, third;

    static __device__ __forceinline__ uint32_t at(int e, int q)
    {
        return (uint32_t)(e * 64 + (q ^ (e / 2 % 4)) * 16);
    }
    __device__ __forceinline__ pairs_task(int c, int warp, int lane)
    {
        const int row = lane % 8, high = lane / 8 % 2, q = lane / 16; /* of matrix lane / 8 */
        if (cross) {
            const int from = 2 * warp - (warp == 3); /* warp 2 has one tile */
            tile[0] = 7 + from, tile[1] = warp == 2 ? PAIRS_PLACES - 1 : tile[0] + 1;
            const int a = (c + (warp == 3 ? 2 : 1)) % 8,
                      b = (c + (warp == 3 ? 4 : 2 + 2 * warp)) % 8;
            const int b2 = warp == 2 ? b : (b + 1) % 8;
            first = at(4 * a + (row + 8 * high) / 4, q);
            second = at(4 * (high ? b2 : b) + row % 4, q);
            third = 0;
        } else {
            tile[0] = warp, tile[1] = warp < 3 ? 4 + warp : PAIRS_TILES;
            const int s = row + 8 * high;
            int i = 16 * warp + s, j = (i & ~3) | ((i + 1) & 3);
            if (warp == 2) { /* the two in this order: 8 rows in 8 places of the banks */
                i = s / 2 * 4 + s % 2 + s / 4 % 2 * 2;
                j = i ^ 2;
            }
            if (warp == 3) i = j = s == 0 ? 32 : 33;
            first = at(8 * warp + row, high); /* two matrices: lanes 0 ... 15 */
            second = at(i, q), third = at(j, q);
        }
    }
    /* The factors of 16 tokens of both tiles, and A of them. */
    __device__ __forceinline__ void load(uint32_t keys, int step, uint32_t (&x)[3][4]) const
    {
        keys += (uint32_t)(step / 2) * PAIRS_BLOCK_BYTES;
        const uint32_t turn = step % 2 * 32; /* the second 16 of 32 tokens */
        if (cross)
            load_matrices(x[0], keys + (first ^ turn));
        else
            load_two(x[0][0], x[0][1], keys + (first ^ turn));
        load_matrices(x[1], keys + (second ^ turn));
        if (!cross) load_matrices(x[2], keys + (third ^ turn));
    }
    __device__ __forceinline__ void make(const uint32_t (&x)[3][4], uint32_t (&a)[2][4]) const
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (cross) {
                a[0][k] = multiply(x[0][k], x[1][k / 2 * 2]);
                a[1][k] = multiply(x[0][k], x[1][k / 2 * 2 + 1]);
            } else {
                const uint32_t y = x[0][k / 2];
                a[0][k] = k % 2 ? y : multiply(y, y);
                a[1][k] = multiply(x[1][k], x[2][k]);
            }
        }
    }
};

/* Rows g and g + 8 of a tile; of columns n the elements l = n / 4. */
struct pairs_tile {
    const pairs_args &a;
    int64_t head;
    int part, tile, lane;

    __device__ __forceinline__ int64_t entry(int row) const
    {
        return ((int64_t)(part * PAIRS_PLACES + tile) * 16 + row + lane / 4) * 4;
    }
    /* f(number, where it stands): every one that the library's state has. */
    template <class F>
    __device__ __forceinline__ void each(float (&x)[PAIRS_N8][4], float *s, float *z, F f) const
    {
        const int t = lane % 4;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const int4 four = *(const int4 *)(a.place + entry(8 * u));
            const int place[4] = { four.x, four.y, four.z, four.w };
#pragma unroll
            for (int l = 0; l < 4; l++) {
                if (place[l] < 0) continue;
                float *row = s + (head * a.count + place[l]) * a.dim_value + 2 * t;
#pragma unroll
                for (int n = 0; n < 8; n++) /* columns 8 (n / 2) + 2 t + n % 2 */
                    if (n / 2 * 8 + 2 * t + n % 2 < a.dim_value)
                        f(x[4 * l + n / 2][2 * u + n % 2], row + n / 2 * 8 + n % 2);
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int at = t ? place[2 + e] : place[e];
                if (t < 2 && at >= 0) f(x[16][2 * u + e], z + head * a.count + at);
            }
        }
    }
    __device__ __forceinline__ void clear(float (&x)[PAIRS_N8][4]) const
    {
#pragma unroll
        for (int n = 0; n < PAIRS_N8; n++) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
    }
    __device__ __forceinline__ void load(float (&x)[PAIRS_N8][4]) const
    {
        each(x, (float *)a.s_in, (float *)a.z_in, [](float &y, float *at) { y = *at; });
    }
    __device__ __forceinline__ void store(float (&x)[PAIRS_N8][4]) const
    {
        each(x, a.s_out, a.z_out, [](float &y, float *at) { *at = y; });
    }
    /* x += what was put aside. */
    __device__ __forceinline__ void take_back(float (&x)[PAIRS_N8][4], const float4 *from) const
    {
#pragma unroll
        for (int n = 0; n < PAIRS_N8; n++) {
            const float4 y = from[n * 32 + lane];
            x[n][0] += y.x, x[n][1] += y.y, x[n][2] += y.z, x[n][3] += y.w;
        }
    }
    __device__ __forceinline__ void put_aside(float (&x)[PAIRS_N8][4], float4 *to) const
    {
#pragma unroll
        for (int n = 0; n < PAIRS_N8; n++)
            to[n * 32 + lane] = make_float4(x[n][0], x[n][1], x[n][2], x[n][3]);
        clear(x);
    }
    __device__ __forceinline__ void keep_linear(int64_t at, const float (&x)[PAIRS_N8][4]) const
    {
        if (lane >= 4) return; /* row 0 alone has a monomial */
        const float *f = a.factor + entry(0);
        float *to = a.linear + (at * PAIRS_GROUPS + part) * 8 * PAIRS_N8 + 2 * lane;
#pragma unroll
        for (int n = 0; n < PAIRS_N8; n++) {
            const float f0 = n < 16 ? f[n / 4] : f[2 * lane % 4],
                        f1 = n < 16 ? f0 : f[2 * lane % 4 + 1];
            *(float2 *)(to + 8 * n) = make_float2(x[n][0] * f0, x[n][1] * f1);
        }
    }
    /* The state before segment `prefix`. */
    __device__ __forceinline__ void keep(int prefix, const float (&x)[PAIRS_N8][4]) const
    {
        const int64_t at = head * a.prefixes + prefix;
        if (tile == PAIRS_TILES) keep_linear(at, x);
        if (tile >= PAIRS_TILES) return;
        const float4 f[2] = { *(const float4 *)(a.factor + entry(0)),
                              *(const float4 *)(a.factor + entry(8)) };
        char *to = a.state + at * PAIRS_STATE_BYTES + part * PAIRS_PART_BYTES +
                   tile * PAIRS_TILE_BYTES + lane * 4;
        auto put = [&](int n, int u, uint32_t two) {
            *(uint32_t *)(to + n * 256 + u * 128) = transpose8(two);
        };
#pragma unroll
        for (int n = 0; n < 16; n++) {
            const float f0 = n < 4    ? f[0].x
                             : n < 8  ? f[0].y
                             : n < 12 ? f[0].z
                                      : f[0].w,
                        f1 = n < 4    ? f[1].x
                             : n < 8  ? f[1].y
                             : n < 12 ? f[1].z
                                      : f[1].w;
            put(n, 0, pack(x[n][0] * f0, x[n][1] * f0));
            put(n, 1, pack(x[n][2] * f1, x[n][3] * f1));
        }
        /* z of the 4 elements, then what rounding left of it */
        const bool odd = lane % 2, left = lane & 2;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float z0 = __shfl_sync(~0u, x[16][2 * u], lane & ~2) * (odd ? f[u].z : f[u].x),
                        z1 =
                            __shfl_sync(~0u, x[16][2 * u + 1], lane & ~2) * (odd ? f[u].w : f[u].y);
            const uint32_t rounded = pack(z0, z1);
            put(16, u, left ? pack(z0 - low_of(rounded), z1 - high_of(rounded)) : rounded);
        }
    }
};

template <bool cross, class W> __device__ __forceinline__ void sum(const W &w)
{
    const int lane = (int)threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32 % 4, 0);
    const pairs_task<cross> task(w.part, warp, lane);
    const pairs_tile tiles[2] = { { w.a, w.head, w.part, task.tile[0], lane },
                                  { w.a, w.head, w.part, task.tile[1], lane } };
    float acc[2][PAIRS_N8][4];
    constexpr int TILE = PAIRS_N8 * 32;
    const int64_t place = (w.head * PAIRS_GROUPS + w.part) * 8 + (cross ? 4 : 0) + warp;
    float4 *aside = (float4 *)w.a.aside + place * 2 * TILE;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        tiles[k].clear(acc[k]);
        if (w.a.s_in) tiles[k].load(acc[k]);
    }
    for (int i = 0, s = 0;; s++) {
        /* A state to begin with, and many segments: those are not for the tensor cores to hold. */
        const bool puts = w.a.s_in || s >= PAIRS_ASIDE, takes = w.a.s_in ? s > 0 : s > PAIRS_ASIDE;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            if (takes) tiles[k].take_back(acc[k], aside + k * TILE);
            if (w.state(s) < w.a.prefixes && (s || w.a.s_in)) tiles[k].keep(w.state(s), acc[k]);
            if (i >= w.stages && w.a.s_out) tiles[k].store(acc[k]);
            if (puts) tiles[k].put_aside(acc[k], aside + k * TILE);
        }
        if (i >= w.stages) break;
        const int end = w.segment_end(i);
#pragma unroll 1
        for (; i < end; i++) {
            barrier_wait(w.come(i), w.parity(i));
            const uint32_t keys = shared_address(w.keys(i));
            uint32_t x[3][4], a[2][2][4];
            task.load(keys, 0, x);
            task.make(x, a[0]);
            barrier_wait(w.made(i), w.parity(i));
            operand b = operand_at(w.products(i), 128, 256);
            operand_pin(b);
#pragma unroll
            for (int step = 0; step < 8; step++) {
                product_begin();
#pragma unroll
                for (int k = 0; k < 2; k++)
                    product<PAIRS_N8>(acc[k], a[step % 2][k],
                                      operand_plus(b, (uint32_t)step * PAIRS_TILE_BYTES));
                product_commit();
                if (step == 7) break;
                task.load(keys, step + 1, x);
                product_wait<1>();
                task.make(x, a[(step + 1) % 2]);
            }
            product_wait<0>();
            product_hold(acc[0]);
            product_hold(acc[1]);
            barrier_arrive(w.done(i)); /* each lane for what it has read */
        }
    }
}

#endif

template <bool back>
__global__ void __launch_bounds__(PAIRS_THREADS, 1)
    pairs_sum_kernel(const __grid_constant__ pairs_args a)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(128) char shared[];
    const pairs_walk<back> w(a, shared);
    w.begin();
    const int role = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
    if (role < 2) {
        registers_up<208>();
        if (role == 0)
            sum<false>(w);
        else
            sum<true>(w);
    } else {
        registers_down<88>();
        make(w);
    }
#endif
}

template <bool back> static cudaError_t launch(const pairs_args &a, cudaStream_t stream)
{
    const int shared = back ? PAIRS_BACKWARD_SHARED : PAIRS_SHARED;
    const dim3 grid(PAIRS_GROUPS, (unsigned)a.heads);
    return launch_kernel(pairs_sum_kernel<back>, grid, PAIRS_THREADS, shared, stream, a);
}

cudaError_t pairs_sum_run(const pairs_args &a, cudaStream_t stream)
{
    return a.scale ? launch<true>(a, stream) : launch<false>(a, stream);
}

} // namespace lnt
