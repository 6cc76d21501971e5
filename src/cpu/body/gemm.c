/* cpu/body/gemm.c - small dense products on packed tiles, accumulated in registers.
 *
 *     c[m,n] (+)= a b,   a given as [m,k] (nn) or as [k,m] (tn),   b [k,n]
 *
 * A tile of ROWS x COLS vectors of c stays in registers over all of k; each step broadcasts ROWS
 * numbers of a and loads COLS vectors of b.  The order of the sum over k is the same for every
 * element, wherever the tile boundaries fall. */
#include "cpu/body/vec.h"

/* A tile of c, ROWS x COLS vectors; 1 or 2 x WIDE where there are no more rows, and TALL x 1 where there are
 * no more columns: for as many sums in flight.  BROAD x WIDE where both are many, if the registers have room
 * for it: a load of a for WIDE products, and fewer tiles. */
#if LNT_VEC_BYTES == 0
enum { ROWS = 4, COLS = 4, WIDE = 8, TALL = 8, BROAD = 0 };
#elif LNT_VEC_BYTES == 16
enum { ROWS = 8, COLS = 2, WIDE = 8, TALL = 16, BROAD = 0 }; /* 16 sums of 32 registers: latency 4, 4 pipes */
#elif LNT_VEC_BYTES == 32
enum { ROWS = 6, COLS = 2, WIDE = 4, TALL = 12, BROAD = 0 }; /* 12 sums of 16 registers */
#else
enum { ROWS = 8, COLS = 2, WIDE = 4, TALL = 16, BROAD = 6 }; /* 16 or 24 sums of 32 registers */
#endif

enum { TILE_STEP = 64 }; /* of the rows of a tile, as attention has them */

typedef struct sums {
    vec at[TALL][WIDE];
} sums;

/* sum[r][j] += x * b[j] over one row of b; x is a scalar, from memory or from a lane. */
INLINE void add_row(int cols, vec sum[WIDE], real x, const vec b[WIDE])
{
    UNROLL_FULL
    for (int j = 0; j < cols; j++) sum[j] += x * b[j];
}

INLINE void load_b(int cols, vec b[WIDE], const real *from)
{
    UNROLL_FULL
    for (int j = 0; j < cols; j++) b[j] = vload(from + (size_t)(j * LANES));
}

/* One step of k: a[r * row_step] for each row. */
INLINE void step(int rows, int cols, sums *s, const real *a, size_t row_step, const real *b)
{
    vec row_b[WIDE];
    load_b(cols, row_b, b);
    UNROLL_FULL
    for (int r = 0; r < rows; r++) add_row(cols, s->at[r], a[(size_t)r * row_step], row_b);
}

#if BY_LANE
/* The same where the rows of a lie side by side (tn). */
INLINE void step_side_by_side(int rows, int cols, sums *s, const real *a, const real *b)
{
    vec row_b[WIDE], part[TALL / LANES];
    load_b(cols, row_b, b);
    UNROLL_FULL
    for (int r = 0; r < rows; r += LANES) part[r / LANES] = vload(a + r);
    UNROLL_FULL
    for (int r = 0; r < rows; r++)
        add_row(cols, s->at[r], part[r / LANES][r % LANES], row_b);
}
#endif

/* What is added to the sums: rows `step` apart, that of c itself or one for all; NULL: nothing. */
typedef struct base {
    const real *at;
    size_t step;
} base;

INLINE base base_at(base s, size_t i, size_t j)
{
    return (base){ s.at ? s.at + i * s.step + j : NULL, s.step };
}

INLINE void finish(int rows, int cols, const sums *s, real *c, size_t ldc, base from)
{
    UNROLL_FULL
    for (int r = 0; r < rows; r++)
        UNROLL_FULL
        for (int j = 0; j < cols; j++) {
            const size_t at = (size_t)(j * LANES);
            const vec sum = s->at[r][j];
            vstore(c + (size_t)r * ldc + at,
                   from.at ? vload(from.at + (size_t)r * from.step + at) + sum : sum);
        }
}

INLINE void tile(int rows, int cols, real *c, size_t ldc, base from, const real *a, size_t row_step,
                 size_t k_step, const real *b, size_t ldb, size_t k)
{
    sums s;
    UNROLL_FULL
    for (int r = 0; r < rows; r++)
        UNROLL_FULL
        for (int j = 0; j < cols; j++) s.at[r][j] = vsplat(0);
    size_t p = 0;
#if BY_LANE
    if (row_step == 1 && rows % LANES == 0)
        for (; p < k; p++) step_side_by_side(rows, cols, &s, a + p * k_step, b + p * ldb);
#endif
    for (; p < k; p++) step(rows, cols, &s, a + p * k_step, row_step, b + p * ldb);
    finish(rows, cols, &s, c, ldc, from);
}

#if BY_LANE
#ifdef LNT_DOUBLE
#define FMA_BY_LANE(sum, b, a, lane) ((vec)vfmaq_laneq_f64(sum, b, a, lane))
#else
#define FMA_BY_LANE(sum, b, a, lane) ((vec)vfmaq_laneq_f32(sum, b, a, lane))
#endif

/* A step of k by one lane of each row's part of a.  What the next steps read is loaded as soon as what
 * stood in its registers is used, and no sooner, which the barrier sees to.  Two rows of b at a time: with
 * four, which would fit, Neoverse-V1 takes a fifth longer. */
#define STEP_BY_LANE(lane, ahead)                                                       \
    UNROLL_FULL                                                                         \
    for (int r = 0; r < ROWS; r++) {                                                    \
        UNROLL_FULL                                                                     \
        for (int j = 0; j < COLS; j++)                                                  \
            s.at[r][j] = FMA_BY_LANE(s.at[r][j], row_b[(lane) % 2][j], part[r], lane);  \
        if ((ahead) && (lane) == LANES - 1) part[r] = vload(a + (size_t)r * lda + LANES); \
    }                                                                                   \
    if ((ahead) || (lane) + 2 < LANES)                                                  \
        load_b(COLS, row_b[(lane) % 2], b + ((lane) + 2) * ldb);                        \
    __asm__ volatile("" ::: "memory")

#ifdef LNT_DOUBLE
#define STEPS_BY_LANE(ahead) \
    STEP_BY_LANE(0, ahead);  \
    STEP_BY_LANE(1, ahead)
#else
#define STEPS_BY_LANE(ahead) \
    STEP_BY_LANE(0, ahead);  \
    STEP_BY_LANE(1, ahead);  \
    STEP_BY_LANE(2, ahead);  \
    STEP_BY_LANE(3, ahead)
#endif

/* A whole tile where the rows of a are contiguous (nn): LANES numbers of each come with one load; k is
 * at least LANES. */
INLINE void tile_along(real *c, size_t ldc, base from, const real *a, size_t lda, const real *b,
                       size_t ldb, size_t k)
{
    sums s;
    vec row_b[2][WIDE], part[ROWS];
    UNROLL_FULL
    for (int r = 0; r < ROWS; r++) {
        part[r] = vload(a + (size_t)r * lda);
        UNROLL_FULL
        for (int j = 0; j < COLS; j++) s.at[r][j] = vsplat(0);
    }
    UNROLL_FULL
    for (int p = 0; p < 2; p++) load_b(COLS, row_b[p], b + (size_t)p * ldb);
    size_t p = LANES;
    for (; p + LANES <= k; p += LANES, a += LANES, b += LANES * ldb) {
        STEPS_BY_LANE(1);
    }
    STEPS_BY_LANE(0);
    for (size_t i = LANES; p < k; p++, i++) step(ROWS, COLS, &s, a + i, lda, b + i * ldb);
    finish(ROWS, COLS, &s, c, ldc, from);
}

/* m and n are whole tiles.  A function of its own: inlined, its addresses would be computed anew in
 * every step. */
static __attribute__((noinline)) void product_along(real *c, size_t ldc, base from, const real *a,
                                                    size_t lda, const real *b, size_t ldb, size_t m,
                                                    size_t n, size_t k)
{
    for (size_t j = 0; j < n; j += COLS * LANES)
        for (size_t i = 0; i < m; i += ROWS)
            tile_along(c + i * ldc + j, ldc, base_at(from, i, j), a + i * lda, lda, b + j, ldb, k);
}
#endif

/* The last m rows, fewer than ROWS, in one tile: pairs of them would each wait for their few sums. */
INLINE void last_rows(int cols, real *c, size_t ldc, base from, const real *a, size_t row_step,
                      size_t k_step, const real *b, size_t ldb, size_t m, size_t k)
{
#define LAST(rows) \
    case rows: tile(rows, cols, c, ldc, from, a, row_step, k_step, b, ldb, k); return
    switch (m) {
        LAST(1);
        LAST(2);
        LAST(3);
        LAST(4);
        LAST(5);
        LAST(6);
        LAST(7);
    }
#undef LAST
}

INLINE void stripe(int cols, real *c, size_t ldc, base from, const real *a, size_t row_step,
                   size_t k_step, const real *b, size_t ldb, size_t m, size_t k)
{
    size_t i = 0;
    for (; cols == 1 && i + TALL <= m; i += TALL)
        tile(TALL, 1, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b, ldb, k);
    for (; i + ROWS <= m; i += ROWS)
        tile(ROWS, cols, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b,
             ldb, k);
    if (BROAD > 0) {
        last_rows(cols, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b, ldb,
                  m - i, k);
        return;
    }
    for (; i + 2 <= m; i += 2)
        tile(2, cols, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b,
             ldb, k);
    if (i < m)
        tile(1, cols, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b,
             ldb, k);
}

/* m is 1 or 2 (or 0): more columns at once, for enough sums in flight. */
INLINE void pair_of_rows(real *c, size_t ldc, base from, const real *a, size_t row_step,
                         size_t k_step, const real *b, size_t ldb, size_t m, size_t k)
{
    if (m == 2) tile(2, WIDE, c, ldc, from, a, row_step, k_step, b, ldb, k);
    if (m == 1) tile(1, WIDE, c, ldc, from, a, row_step, k_step, b, ldb, k);
}

/* WIDE columns of three rows or more. */
INLINE void broad_stripe(real *c, size_t ldc, base from, const real *a, size_t row_step, size_t k_step,
                         const real *b, size_t ldb, size_t m, size_t k)
{
    size_t i = 0;
    for (; i + BROAD <= m && m - i != 8; i += BROAD) /* of 8, two of 4: 2 would leave the units idle */
        tile(BROAD, WIDE, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b,
             ldb, k);
    for (; i + 4 <= m; i += 4)
        tile(4, WIDE, c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b, ldb,
             k);
    pair_of_rows(c + i * ldc, ldc, base_at(from, i, 0), a + i * row_step, row_step, k_step, b, ldb,
                 m - i < 2 ? m - i : 2, k);
    if (m - i == 3)
        tile(1, WIDE, c + (i + 2) * ldc, ldc, base_at(from, i + 2, 0), a + (i + 2) * row_step, row_step,
             k_step, b, ldb, k);
}

INLINE void product(real *c, size_t ldc, base from, const real *a, size_t row_step, size_t k_step,
                    const real *b, size_t ldb, size_t m, size_t n, size_t k)
{
    size_t j = 0;
    for (; m <= 2 && j + WIDE * LANES <= n; j += WIDE * LANES)
        pair_of_rows(c + j, ldc, base_at(from, 0, j), a, row_step, k_step, b + j, ldb, m, k);
    for (; BROAD > 0 && j + WIDE * LANES <= n; j += WIDE * LANES)
        broad_stripe(c + j, ldc, base_at(from, 0, j), a, row_step, k_step, b + j, ldb, m, k);
    for (; j + COLS * LANES <= n; j += COLS * LANES)
        stripe(COLS, c + j, ldc, base_at(from, 0, j), a, row_step, k_step, b + j, ldb, m, k);
    for (; j < n; j += LANES)
        stripe(1, c + j, ldc, base_at(from, 0, j), a, row_step, k_step, b + j, ldb, m, k);
}

static void product_nn(real *c, size_t ldc, base from, const real *a, size_t lda, const real *b,
                       size_t ldb, size_t m, size_t n, size_t k)
{
#if BY_LANE
    const size_t rows = k < LANES ? 0 : m / ROWS * ROWS, cols = n / (COLS * LANES) * (COLS * LANES);
    product_along(c, ldc, from, a, lda, b, ldb, rows, cols, k);
    product(c + cols, ldc, base_at(from, 0, cols), a, lda, 1, b + cols, ldb, rows, n - cols, k);
    product(c + rows * ldc, ldc, base_at(from, rows, 0), a + rows * lda, lda, 1, b, ldb, m - rows, n,
            k);
#else
    /* With rows a known step apart TALL of them need one address; else they would need more registers than
     * there are, which costs a third of the time. */
    if (n == LANES && lda == TILE_STEP) stripe(1, c, ldc, from, a, TILE_STEP, 1, b, ldb, m, k);
    else product(c, ldc, from, a, lda, 1, b, ldb, m, n, k);
#endif
}

void KERNEL(gemm_nn)(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
                     size_t m, size_t n, size_t k, int accumulate)
{
    product_nn(c, ldc, (base){ accumulate ? c : NULL, ldc }, a, lda, b, ldb, m, n, k);
}

void KERNEL(gemm_nn_from)(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
                          size_t m, size_t n, size_t k, const real *row)
{
    product_nn(c, ldc, (base){ row, 0 }, a, lda, b, ldb, m, n, k);
}

void KERNEL(gemm_tn)(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
                     size_t m, size_t n, size_t k, int accumulate)
{
    product(c, ldc, (base){ accumulate ? c : NULL, ldc }, a, 1, lda, b, ldb, m, n, k);
}

void KERNEL(gemm_tn_from)(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
                          size_t m, size_t n, size_t k, const real *row)
{
    product(c, ldc, (base){ row, 0 }, a, 1, lda, b, ldb, m, n, k);
}
