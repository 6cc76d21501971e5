/* cpu/body/cache.c - a few queries against many keys of a cache: scores, and sums of values.
 *
 *     s[h,j] = q_h . k_j,   o_h += sum_j w[h,j] v_j
 *
 * Each key and value is read and converted once for MOST queries, those of the heads that share it: as
 * fast as memory gives them while the queries are few.  A score is summed lane by lane; the lanes of as many
 * scores as a vector holds are then added up together. */
#include "cpu/body/narrow.h"

enum { LINE = 64, AHEAD = 2048 }; /* bytes */
enum { MOST = 4 }; /* queries at once: 4 vectors of sums for each of COLS below are all that registers hold */

/* ---- scores ---------------------------------------------------------------------------------- */

/* One number each of `part` [LANES]: the sum of its lanes. */
#if LNT_VEC_BYTES == 64 && !defined(LNT_DOUBLE)
#define QUARTERS(a, b, of_a0, of_a1, of_b0, of_b1) \
    _mm512_shuffle_f32x4((__m512)(a), (__m512)(b), (of_a0) | (of_a1) << 2 | (of_b0) << 4 | (of_b1) << 6)

INLINE vec sums_of(const vec *part)
{
    __m512 half[8], quarter[4];
    UNROLL_FULL
    for (int i = 0; i < 8; i++) { /* i, i + 4, in the second four i + 8, i + 12: in halves */
        const vec *at = part + i + i / 4 * 4;
        half[i] = QUARTERS(at[0], at[4], 0, 1, 0, 1) + QUARTERS(at[0], at[4], 2, 3, 2, 3);
    }
    UNROLL_FULL
    for (int i = 0; i < 4; i++) /* i, i + 4, i + 8, i + 12: in quarters */
        quarter[i] = QUARTERS(half[i], half[i + 4], 0, 2, 0, 2) + QUARTERS(half[i], half[i + 4], 1, 3, 1, 3);
    __m512 pair[2];
    UNROLL_FULL
    for (int i = 0; i < 2; i++)
        pair[i] = _mm512_unpacklo_ps(quarter[2 * i], quarter[2 * i + 1]) +
                  _mm512_unpackhi_ps(quarter[2 * i], quarter[2 * i + 1]);
    return (vec)(_mm512_shuffle_ps(pair[0], pair[1], 0x44) + _mm512_shuffle_ps(pair[0], pair[1], 0xee));
}
#elif LNT_VEC_BYTES == 32 && !defined(LNT_DOUBLE)
INLINE vec sums_of(const vec *part)
{
    __m256 pair[4];
    UNROLL_FULL
    for (int i = 0; i < 4; i++) pair[i] = _mm256_hadd_ps((__m256)part[2 * i], (__m256)part[2 * i + 1]);
    const __m256 low = _mm256_hadd_ps(pair[0], pair[1]), high = _mm256_hadd_ps(pair[2], pair[3]);
    return (vec)(_mm256_permute2f128_ps(low, high, 0x20) + _mm256_permute2f128_ps(low, high, 0x31));
}
#elif LNT_VEC_BYTES == 16 && !defined(LNT_DOUBLE)
INLINE vec sums_of(const vec *part)
{
    return (vec)vpaddq_f32(vpaddq_f32((float32x4_t)part[0], (float32x4_t)part[1]),
                           vpaddq_f32((float32x4_t)part[2], (float32x4_t)part[3]));
}
#else
INLINE vec sums_of(const vec *part)
{
    real sum[LANES];
    for (int i = 0; i < LANES; i++) sum[i] = vsum(part[i]);
    return vload(sum);
}
#endif

typedef struct queries {
    const real *at;
    size_t ld;
} queries;

enum { KEYS = LNT_VEC_BYTES ? 2 : 1 }; /* at once: a vector of q is loaded for both */

/* sum[h][r] += the numbers of q from j on times those of key r, x. */
INLINE void add_products(int heads, int keys, vec sum[MOST][KEYS], queries q, size_t j, const vec *x)
{
    UNROLL_FULL
    for (int h = 0; h < heads; h++) {
        const vec part = vload(q.at + (size_t)h * q.ld + j);
        UNROLL_FULL
        for (int r = 0; r < keys; r++) sum[h][r] += part * x[r];
    }
}

/* The products of `keys` keys, rows `step` bytes apart, lane by lane into part [heads, LANES]. */
INLINE void products(int dtype, int heads, int keys, vec *part, queries q, const char *k, int64_t step,
                     size_t width)
{
    vec sum[MOST][KEYS], x[KEYS];
    UNROLL_FULL
    for (int h = 0; h < heads; h++)
        UNROLL_FULL
        for (int r = 0; r < keys; r++) sum[h][r] = vsplat(0);
    if (dtype == LNT_Q8) {
        for (size_t b = 0; b < q8_blocks(width); b++) {
            const lnt_q8_block *block[KEYS];
            UNROLL_FULL
            for (int r = 0; r < keys; r++) block[r] = (const lnt_q8_block *)(k + r * step) + b;
            UNROLL_FULL
            for (size_t i = 0; i < LNT_Q8_NUMBERS; i += LANES) {
                UNROLL_FULL
                for (int r = 0; r < keys; r++) x[r] = vload_i8(block[r]->number + i) * q8_scale(block[r]);
                add_products(heads, keys, sum, q, b * LNT_Q8_NUMBERS + i, x);
            }
        }
    } else {
        size_t j = 0;
        for (; j + LANES <= width; j += LANES) {
            UNROLL_FULL
            for (int r = 0; r < keys; r++) x[r] = row_vec(dtype, k + r * step, j);
            add_products(heads, keys, sum, q, j, x);
        }
        if (j < width) {
            UNROLL_FULL
            for (int r = 0; r < keys; r++) x[r] = row_part(dtype, k + r * step, j, width - j);
            add_products(heads, keys, sum, q, j, x);
        }
    }
    UNROLL_FULL
    for (int h = 0; h < heads; h++)
        UNROLL_FULL
        for (int r = 0; r < keys; r++) part[h * LANES + r] = sum[h][r];
}

/* Fetches the row AHEAD bytes further on: the hardware does it too, but not across pages, nor soon enough. */
INLINE void prefetch_ahead(const char *row, int64_t step)
{
    const int64_t size = step > 0 && step < AHEAD ? step : 0;
    for (int64_t at = 0; at < size; at += LINE) __builtin_prefetch(row + AHEAD + at);
}

INLINE void few_scores(int dtype, int heads, real *s, size_t lds, queries q, const char *k, int64_t step,
                       size_t keys, size_t width)
{
    vec part[MOST * LANES];
    for (size_t j = 0; j < keys; j += LANES) {
        const size_t end = keys - j < LANES ? keys - j : LANES;
        const char *row = k + (int64_t)j * step;
        size_t r = 0;
        for (; r + KEYS <= end; r += KEYS, row += KEYS * step) {
            for (int i = 0; i < KEYS; i++) prefetch_ahead(row + i * step, step);
            products(dtype, heads, KEYS, part + r, q, row, step, width);
        }
        for (; r < end; r++, row += step) products(dtype, heads, 1, part + r, q, row, step, width);
        for (; r < LANES; r++)
            for (int h = 0; h < heads; h++) part[(size_t)h * LANES + r] = vsplat(0);
        for (int h = 0; h < heads; h++) vstore(s + (size_t)h * lds + j, sums_of(part + h * LANES));
    }
}

#define BY_HEADS(CALL, dtype, heads)           \
    switch (heads) {                           \
    case 1: CALL(dtype, 1); break;             \
    case 2: CALL(dtype, 2); break;             \
    case 3: CALL(dtype, 3); break;             \
    default: CALL(dtype, 4);                   \
    }

#define BY_DTYPE(CALL, dtype, heads)                         \
    switch (dtype) {                                         \
    case LNT_F16: BY_HEADS(CALL, LNT_F16, heads) break;      \
    case LNT_BF16: BY_HEADS(CALL, LNT_BF16, heads) break;    \
    case LNT_Q8: BY_HEADS(CALL, LNT_Q8, heads) break;        \
    default: BY_HEADS(CALL, LNT_REAL_DTYPE, heads)           \
    }

void KERNEL(cache_scores)(real *s, size_t lds, const real *q, size_t ldq, size_t heads, const void *k,
                          int dtype, int64_t stride, size_t keys, size_t width)
{
    const int64_t step = row_bytes(dtype, stride);
    for (size_t h = 0; h < heads; h += MOST) {
        real *to = s + h * lds;
        const queries from = { q + h * ldq, ldq };
#define SCORES(kind, count) few_scores(kind, count, to, lds, from, k, step, keys, width)
        BY_DTYPE(SCORES, dtype, heads - h)
    }
}

/* ---- sums of values -------------------------------------------------------------------------- */

enum { COLS = LNT_VEC_BYTES == 32 ? 2 : 4 }; /* vectors of columns at once */

typedef struct weights {
    const real *at;
    size_t ld;
} weights;

/* The numbers of a value that `cols` columns of vectors take, from j on; `part` below LANES: so many. */
INLINE void load_value(int dtype, int cols, vec *x, const char *row, size_t j, size_t part)
{
    const lnt_q8_block *block = (const lnt_q8_block *)row + j / LNT_Q8_NUMBERS;
    UNROLL_FULL
    for (int c = 0; c < cols; c++) {
        const size_t at = j + (size_t)(c * LANES);
        if (dtype == LNT_Q8)
            x[c] = vload_i8(block->number + j % LNT_Q8_NUMBERS + (size_t)(c * LANES)) * q8_scale(block);
        else
            x[c] = part < LANES ? row_part(dtype, row, at, part) : row_vec(dtype, row, at);
    }
}

INLINE void add_values(int dtype, int heads, int cols, real *o, size_t ldo, weights w, const char *v,
                       int64_t step, size_t keys, size_t j, size_t part)
{
    vec sum[MOST][COLS], x[COLS];
    UNROLL_FULL
    for (int h = 0; h < heads; h++)
        UNROLL_FULL
        for (int c = 0; c < cols; c++) sum[h][c] = vsplat(0);
    for (size_t i = 0; i < keys; i++) {
        if (j == 0) prefetch_ahead(v + (int64_t)i * step, step);
        load_value(dtype, cols, x, v + (int64_t)i * step, j, part);
        UNROLL_FULL
        for (int h = 0; h < heads; h++) {
            const real weight = w.at[(size_t)h * w.ld + i];
            UNROLL_FULL
            for (int c = 0; c < cols; c++) sum[h][c] += weight * x[c];
        }
    }
    UNROLL_FULL
    for (int h = 0; h < heads; h++)
        UNROLL_FULL
        for (int c = 0; c < cols; c++) {
            real *at = o + (size_t)h * ldo + j + (size_t)(c * LANES);
            vstore(at, vload(at) + sum[h][c]);
        }
}

INLINE void few_sums(int dtype, int heads, real *o, size_t ldo, weights w, const char *v, int64_t step,
                     size_t keys, size_t width)
{
    const bool blocks = dtype == LNT_Q8;
    enum { BLOCK = LNT_Q8_NUMBERS / LANES < COLS ? LNT_Q8_NUMBERS / LANES : COLS };
    const size_t cols = blocks ? BLOCK : COLS;
    const size_t end = blocks ? lnt_round_up(width, LANES) : width;
    size_t j = 0;
    for (; j + cols * LANES <= end; j += cols * LANES)
        add_values(dtype, heads, blocks ? BLOCK : COLS, o, ldo, w, v, step, keys, j, LANES);
    for (; j + LANES <= end; j += LANES) add_values(dtype, heads, 1, o, ldo, w, v, step, keys, j, LANES);
    if (j < end) add_values(dtype, heads, 1, o, ldo, w, v, step, keys, j, end - j);
}

void KERNEL(cache_sum)(real *o, size_t ldo, const real *w, size_t ldw, size_t heads, const void *v, int dtype,
                       int64_t stride, size_t keys, size_t width)
{
    const int64_t step = row_bytes(dtype, stride);
    for (size_t h = 0; h < heads; h += MOST) {
        real *to = o + h * ldo;
        const weights from = { w + h * ldw, ldw };
#define SUMS(kind, count) few_sums(kind, count, to, ldo, from, v, step, keys, width)
        BY_DTYPE(SUMS, dtype, heads - h)
    }
}
