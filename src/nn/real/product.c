/* nn/real/product.c - the matrix product c[m,n] (+)= a[m,k] b[k,n], either factor transposed or not.
 *
 * 2 m n k operations.  c is cut into blocks.  A thread packs what its block needs of b, DEPTH of k at a
 * time, into stripes that the kernels read sequentially.  Then it takes a panel of rows of a, which stays
 * in the nearest cache while all stripes pass by: packed and transposed, or in place if the kernels read it
 * there as fast.  The sum over k of an element has the same order wherever block boundaries fall.  A
 * product of few rows, as when one token is generated, is bound by reading b; b is then not packed, and
 * each thread reads its part sequentially. */
#include "nn/product.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#ifndef LNT_DOUBLE
#include "nn/tiles.h"
#endif

#ifdef LNT_CBLAS
#include <cblas.h>
#endif

enum {
    COLUMNS = 256, /* of c in a block, at most: with DEPTH, what the second cache holds of b */
    DEPTH = 256,   /* of k at once, at most */
    PANEL = 32,    /* rows of a: whole tiles, which are packed in whole lines of the cache, */
    SIXES = 24,    /* or, where kernels have tiles of six rows, whole tiles */
    STRIPE = 32,   /* columns of b: whole tiles, */
    BROAD = 64,    /* or, where four vectors are so many numbers and kernels have tiles as wide */
    EVEN = 8,      /* rows of a block are so many times over: whole tiles of most kernels, and even shares */
    FEW = 4,       /* rows of c that are bound by reading b, once and in its own order */
    STRIP = 64,    /* columns of c at the least, where there are few rows */
    ROWS = 16,     /* of b, for one row of c after another: they stay in the nearest cache */
    PART = 32,     /* rows of b that a thread takes at the least */
    SUMS = 16384   /* numbers in the sums over parts, at most */
};

typedef struct job {
    const lnt_ctx *ctx;
    const kernels *ker;
    real *c;
    size_t ldc;
    lnt_matrix a, b;
    size_t m, n, k;
    bool accumulate;
    const real *bias;     /* [n]: what c begins as, in every row; NULL: not */
    real *sums;           /* [n]: the rows of b are added to it; NULL: not */
    size_t panel;         /* PANEL or SIXES */
    size_t stripe;        /* STRIPE or BROAD */
    size_t rows, columns; /* of a block */
} job;

static size_t divided_up(size_t count, size_t by) { return (count + by - 1) / by; }

/* own [depth, width] from rows that stand `step` apart, which no cache foresees; inlined for a
 * width that the compiler knows, so that a row is a few loads and stores. */
static inline void copy_rows(real *own, const real *from, size_t step, size_t depth, size_t width)
{
    enum { AHEAD = 4, LINE = 64 / sizeof(real) };
    for (size_t p = 0; p < depth; p++) {
        const real *next = from + nn_least(p + AHEAD, depth - 1) * step;
        for (size_t at = 0; at < width; at += LINE) __builtin_prefetch(next + at);
        memcpy(own + p * width, from + p * step, width * sizeof *own);
    }
}

/* [depth, columns] of a matrix whose rows are contiguous, as own [depth, ld]. */
static void pack_rows(const kernels *ker, real *own, size_t ld, const real *from, size_t step,
                      size_t depth, size_t columns)
{
    _Static_assert(PANEL == STRIPE, "one copy does for both");
    if (columns == STRIPE && ld == STRIPE) copy_rows(own, from, step, depth, STRIPE);
    else if (columns == BROAD && ld == BROAD) copy_rows(own, from, step, depth, BROAD);
    else if (columns == SIXES && ld == SIXES) copy_rows(own, from, step, depth, SIXES);
    else ker->load_rows(own, ld, from, LNT_REAL_DTYPE, (int64_t)step, 1, depth, columns, 1);
}

/* Packed weights are of float: the build in double, which is for gradients, is given none. */
static float *as_floats(const real *x)
{
    assert(sizeof *x == sizeof(float));
    return (float *)(uintptr_t)x;
}

/* One stripe of packed weights. */
static void unpack_stripe(const job *t, real *own, size_t k0, size_t depth, size_t j0, size_t columns)
{
    if (columns < t->stripe) memset(own, 0, depth * t->stripe * sizeof *own);
    lnt_weight_unpack(t->ctx, t->b.packed, j0, columns, k0, depth, as_floats(own), t->stripe);
}

/* The columns of b from j0 on, of rows k0 .. k0+depth-1, in stripes [depth, stripe]. */
static void pack_stripes(const job *t, real *own, size_t k0, size_t depth, size_t j0,
                         size_t columns)
{
    for (size_t j = 0; j < columns; j += t->stripe) {
        const size_t count = nn_least(columns - j, t->stripe);
        const real *from = t->b.at ? t->b.at + k0 * t->b.row + (j0 + j) * t->b.col : NULL;
        if (!from)
            unpack_stripe(t, own + j * depth, k0, depth, j0 + j, count);
        else if (t->b.col == 1)
            pack_rows(t->ker, own + j * depth, t->stripe, from, t->b.row, depth, count);
        else
            t->ker->load_columns(own + j * depth, t->stripe, from, LNT_REAL_DTYPE, (int64_t)t->b.col, 1,
                                 count, depth, 1);
    }
}

/* Rows of a as the kernels read them: in place, [rows, depth], or packed and transposed, [depth, rows]. */
typedef struct panel {
    const real *at;
    size_t ld;
    bool transposed;
} panel;

/* Rows i0 .. i0+rows-1 of a, columns k0 .. k0+depth-1; own [depth, panel] holds them if they are packed. */
static panel panel_of(const job *t, real *own, size_t i0, size_t rows, size_t k0, size_t depth)
{
    const real *from = t->a.at + i0 * t->a.row + k0 * t->a.col;
    if (t->a.col == 1 && !t->ker->by_lane) return (panel){ from, t->a.row, false };
    if (t->a.col == 1)
        t->ker->load_columns(own, t->panel, from, LNT_REAL_DTYPE, (int64_t)t->a.row, 1, rows, depth, 1);
    else
        pack_rows(t->ker, own, t->panel, from, t->a.col, depth, rows);
    return (panel){ own, t->panel, true };
}

/* c [rows, columns] (+)= panel stripe, by way of a copy: the kernels write whole vectors only. */
static void multiply_edge(const job *t, real *c, panel a, const real *stripe, size_t rows,
                          size_t columns, size_t depth, bool accumulate, const real *bias)
{
    _Alignas(LNT_ALIGN) real own[PANEL * BROAD];
    const size_t ld = t->stripe;
    (a.transposed ? t->ker->gemm_tn : t->ker->gemm_nn)(own, ld, a.at, a.ld, stripe, ld, rows,
                                                   lnt_round_up(columns, t->ker->lanes), depth, 0);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            c[i * t->ldc + j] =
                own[i * ld + j] + (bias ? bias[j] : accumulate ? c[i * t->ldc + j] : 0);
}

/* c [rows, columns] (+)= panel stripes, or c = bias + panel stripes. */
static void multiply_panel(const job *t, real *c, panel a, const real *stripes, size_t rows,
                           size_t columns, size_t depth, bool accumulate, const real *bias)
{
    for (size_t j = 0; j < columns; j += t->stripe) {
        const size_t width = nn_least(columns - j, t->stripe);
        if (width % t->ker->lanes == 0 && bias)
            (a.transposed ? t->ker->gemm_tn_from : t->ker->gemm_nn_from)(
                c + j, t->ldc, a.at, a.ld, stripes + j * depth, t->stripe, rows, width, depth, bias + j);
        else if (width % t->ker->lanes == 0)
            (a.transposed ? t->ker->gemm_tn : t->ker->gemm_nn)(c + j, t->ldc, a.at, a.ld,
                                                           stripes + j * depth, t->stripe, rows, width,
                                                           depth, accumulate);
        else
            multiply_edge(t, c + j, a, stripes + j * depth, rows, width, depth, accumulate,
                          bias ? bias + j : NULL);
    }
}

/* Adds the rows of b, packed in stripes, to their sums. */
static void add_sums(const job *t, const real *stripes, size_t j0, size_t columns, size_t depth)
{
    real ones[DEPTH];
    for (size_t p = 0; p < depth; p++) ones[p] = 1;
    for (size_t j = 0; j < columns; j += t->stripe)
        t->ker->add_rows(t->sums + j0 + j, ones, stripes + j * depth, t->stripe, depth,
                         nn_least(columns - j, t->stripe));
}

static void block(const job *t, size_t i0, size_t j0)
{
    _Alignas(LNT_ALIGN) real stripes[DEPTH * COLUMNS], own[DEPTH * PANEL];
    const size_t rows = nn_least(t->m - i0, t->rows);
    const size_t columns = nn_least(t->n - j0, t->columns);
    size_t share = t->k ? divided_up(t->k, divided_up(t->k, DEPTH)) : 0; /* even parts */
    if (t->b.packed) share = lnt_round_up(share, LNT_PANEL_BLOCK);
    size_t k0 = 0;
    do {
        const size_t depth = nn_least(t->k - k0, share);
        pack_stripes(t, stripes, k0, depth, j0, columns);
        if (t->sums && i0 == 0) add_sums(t, stripes, j0, columns, depth);
        for (size_t i = i0; i < i0 + rows; i += t->panel) {
            const size_t count = nn_least(i0 + rows - i, t->panel);
            const panel a = panel_of(t, own, i, count, k0, depth);
            multiply_panel(t, t->c + i * t->ldc + j0, a, stripes, count, columns, depth,
                           k0 > 0 || t->accumulate, t->bias && k0 == 0 ? t->bias + j0 : NULL);
        }
        k0 += depth;
    } while (k0 < t->k);
}

/* ---- few rows ------------------------------------------------------------------------------ */

/* sums [m,n] += the product over rows k0 .. k1-1 of b, which are read from end to end; columns j0 .. */
static void add_part(const job *t, real *sums, size_t ld, size_t k0, size_t k1, size_t j0,
                     size_t columns)
{
    const size_t rows = t->m > 1 ? ROWS : k1 - k0;
    for (size_t k = k0; k < k1; k += rows)
        for (size_t i = 0; i < t->m; i++) {
            const size_t at = k * t->b.row + j0, count = nn_least(k1 - k, rows);
            const real *a = t->a.at + i * t->a.row + k;
            real *y = sums + i * ld + j0;
            if (t->b.bf16) t->ker->add_rows_bf16(y, a, t->b.bf16 + at, t->b.row, count, columns);
            else t->ker->add_rows(y, a, t->b.at + at, t->b.row, count, columns);
        }
}

static void clear(real *c, size_t ld, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) memset(c + i * ld, 0, columns * sizeof *c);
}

/* Columns of c to each of so many strips. */
static size_t strip_width(size_t n, size_t strips)
{
    return lnt_round_up(divided_up(n, strips), STRIP);
}

/* Rows of b to each part: a thread reads a part from end to end, as memory likes it.  The sum of the
 * parts is taken in their order, so their number must not depend on that of the threads. */
static void multiply_parts(const job *t, size_t parts, int threads)
{
    _Alignas(LNT_ALIGN) real sums[SUMS];
    const size_t m = t->m, n = t->n, depth = divided_up(t->k, parts);
    const size_t width = strip_width(n, divided_up((size_t)threads, parts));
    const int64_t strips = nn_pieces(n, width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)parts * strips; unit++) {
        const size_t part = (size_t)(unit / strips), j0 = (size_t)(unit % strips) * width;
        const size_t k0 = nn_least(part * depth, t->k), columns = nn_least(n - j0, width);
        real *own = sums + part * m * n;
        clear(own + j0, n, m, columns);
        add_part(t, own, n, k0, nn_least(k0 + depth, t->k), j0, columns);
    }
    if (!t->accumulate) clear(t->c, t->ldc, m, n); /* to share this out would cost more than it takes */
    for (size_t part = 0; part < parts; part++)
        for (size_t i = 0; i < m; i++) t->ker->axpy(t->c + i * t->ldc, 1, sums + (part * m + i) * n, n);
}

/* Where the columns of b are contiguous: dot products. */
static void strip_by_columns(const job *t, size_t j0, size_t columns)
{
    real y[STRIP];
    for (size_t j = j0; j < j0 + columns; j += STRIP) {
        const size_t count = nn_least(j0 + columns - j, STRIP);
        for (size_t i = 0; i < t->m; i++) {
            real *c = t->c + i * t->ldc + j;
            const size_t at = j * t->b.col;
            const real *a = t->a.at + i * t->a.row;
            if (t->b.bf16) t->ker->gemv_bf16(y, t->b.bf16 + at, t->b.col, a, count, t->k);
            else t->ker->gemv(y, t->b.at + at, t->b.col, a, count, t->k);
            for (size_t x = 0; x < count; x++) c[x] = y[x] + (t->accumulate ? c[x] : 0);
        }
    }
}

static void multiply_few(const job *t, int threads)
{
    if (t->b.packed) {
        lnt_weight_multiply(t->ctx, t->b.packed, as_floats(t->a.at), t->a.row,
                            as_floats(t->c), t->ldc, t->m, t->accumulate);
        return;
    }
    const size_t parts = nn_least(SUMS / (t->m * t->n), divided_up(t->k, PART));
    if (t->b.col == 1 && parts > 1) {
        multiply_parts(t, parts, threads);
        return;
    }
    const size_t size = strip_width(t->n, (size_t)threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < nn_pieces(t->n, size); unit++) {
        const size_t j0 = (size_t)unit * size, columns = nn_least(t->n - j0, size);
        if (t->b.col != 1) {
            strip_by_columns(t, j0, columns);
            continue;
        }
        if (!t->accumulate) clear(t->c + j0, t->ldc, t->m, columns);
        add_part(t, t->c, t->ldc, 0, t->k, j0, columns);
    }
}

/* Of blocks that give each thread 1 to TURNS of them, tall to wide, those with which the thread that
 * has most to do is done first.  Counted in multiply-adds; packing a number costs about PACK. */
static void choose_blocks(job *t, int threads)
{
    enum { PACK = 6, TURNS = 4 };
    double least = HUGE_VAL;
    for (size_t units = (size_t)threads; units <= TURNS * (size_t)threads; units += (size_t)threads)
        for (size_t across = divided_up(t->n, COLUMNS), last = across * units; across <= last;
             across *= 2) {
            const size_t down = divided_up(units, across);
            const size_t rows = lnt_round_up(divided_up(t->m, down), EVEN);
            const size_t columns = lnt_round_up(divided_up(t->n, across), t->stripe);
            const size_t blocks = divided_up(t->m, rows) * divided_up(t->n, columns);
            const double cost = (double)divided_up(blocks, (size_t)threads) *
                                ((double)(rows * columns) + PACK * (double)(rows + columns));
            if (!(cost < least)) continue;
            least = cost;
            t->rows = rows;
            t->columns = columns;
        }
}

#ifdef LNT_CBLAS
/* It wants no less than a row's width, even of a single row, whose stride may be anything. */
static int stride(size_t given, size_t width) { return (int)(given > width ? given : width); }

/* By the library that was chosen when this was built, on the threads it has. */
static void multiply_by_blas(const job *t)
{
    const CBLAS_TRANSPOSE a = t->a.col == 1 ? CblasNoTrans : CblasTrans;
    const CBLAS_TRANSPOSE b = t->b.col == 1 ? CblasNoTrans : CblasTrans;
    const int lda = t->a.col == 1 ? stride(t->a.row, t->k) : stride(t->a.col, t->m);
    const int ldb = t->b.col == 1 ? stride(t->b.row, t->n) : stride(t->b.col, t->k);
#ifdef LNT_DOUBLE
    cblas_dgemm(
#else
    cblas_sgemm(
#endif
        CblasRowMajor, a, b, (int)t->m, (int)t->n, (int)t->k, 1, t->a.at, lda, t->b.at, ldb,
        t->accumulate, t->c, (int)t->ldc);
}

static bool fits_blas(const job *t)
{
    return t->m > FEW && t->k > 0 && t->b.at && t->m < INT_MAX && t->n < INT_MAX && t->k < INT_MAX &&
           t->ldc < INT_MAX && t->a.row < INT_MAX && t->a.col < INT_MAX && t->b.row < INT_MAX &&
           t->b.col < INT_MAX;
}
#endif

/* By another way than blocks: what they do beside comes before. */
static void prepare(job *t)
{
    for (size_t i = 0; t->bias && i < t->m; i++)
        memcpy(t->c + i * t->ldc, t->bias, t->n * sizeof *t->c);
    if (t->bias) t->accumulate = true;
    if (t->sums) lnt_columns_sum(t->ctx, t->sums, t->b.at, t->k, t->n);
}

#ifndef LNT_DOUBLE
/* By tiles, if the CPU has them: many rows by packed weights, and what may be rounded to bf16. */
static bool multiply_by_tiles(job *t)
{
    const bool wanted = t->b.packed ? t->m >= lnt_tiles_least(t->b.packed) : t->ctx->bf16;
    const lnt_tile_kernels *tiles = wanted ? lnt_tile_kernels_get(t->ctx->isa) : NULL;
    if (!tiles) return false;
    prepare(t);
    lnt_tiles_multiply(t->ctx, tiles, t->c, t->ldc, t->a, t->b, t->m, t->n, t->k, t->accumulate,
                       t->b.packed != NULL);
    return true;
}
#endif

static void multiply(job t)
{
    const lnt_ctx *ctx = t.ctx;
    if (t.m == 0 || t.n == 0) return;
#ifndef LNT_DOUBLE
    if (multiply_by_tiles(&t)) return;
#endif
#ifdef LNT_CBLAS
    if (fits_blas(&t)) {
        prepare(&t);
        multiply_by_blas(&t);
        return;
    }
#endif
    const int threads = lnt_threads_for(ctx, 2 * (double)t.m * (double)t.n * (double)t.k);
    const bool few = t.a.col == 1 && t.m <= (t.b.packed ? lnt_weight_few(ctx, t.b.packed) : FEW);
    if (few) {
        prepare(&t);
        multiply_few(&t, threads);
        return;
    }
    t.panel = t.ker->lanes * sizeof(real) >= 32 ? SIXES : PANEL; /* AVX2, AVX-512 */
    t.stripe = 4 * t.ker->lanes == BROAD ? BROAD : STRIPE;
    choose_blocks(&t, threads);
    const int64_t down = nn_pieces(t.m, t.rows), across = nn_pieces(t.n, t.columns);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < down * across; unit++)
        block(&t, (size_t)(unit / across) * t.rows, (size_t)(unit % across) * t.columns);
}

void lnt_product(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b, size_t m,
                 size_t n, size_t k, bool accumulate)
{
    multiply((job){ .ctx = ctx, .ker = nn_kernels(ctx), .c = c, .ldc = ldc, .a = a, .b = b, .m = m,
                    .n = n, .k = k, .accumulate = accumulate });
}

void lnt_product_biased(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        const real *bias, size_t m, size_t n, size_t k)
{
    multiply((job){ .ctx = ctx, .ker = nn_kernels(ctx), .c = c, .ldc = ldc, .a = a, .b = b, .m = m,
                    .n = n, .k = k, .bias = bias });
}

void lnt_product_summed(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b,
                        real *sums, size_t m, size_t n, size_t k)
{
    assert(!sums || (b.col == 1 && b.row == n));
    multiply((job){ .ctx = ctx, .ker = nn_kernels(ctx), .c = c, .ldc = ldc, .a = a, .b = b, .m = m,
                    .n = n, .k = k, .accumulate = true, .sums = sums });
}

void lnt_columns_sum(const lnt_ctx *ctx, real *sum, const real *x, size_t n, size_t width)
{
    const int64_t pieces = nn_pieces(width, LNT_NN_COLUMNS);
    const int threads = lnt_threads_for(ctx, (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < pieces; piece++) {
        const size_t c0 = (size_t)piece * LNT_NN_COLUMNS, count = nn_least(width - c0, LNT_NN_COLUMNS);
        for (size_t i = 0; i < n; i++)
            for (size_t c = c0; c < c0 + count; c++) sum[c] += x[i * width + c];
    }
}
