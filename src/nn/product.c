/* nn/product.c - c[m,n] (+)= a[m,k] b[k,n], either factor as it stands or transposed.
 *
 * 2 m n k operations.  c is cut into blocks; a thread packs the parts of a and b that its block
 * needs, KB of k at a time, a transposed in panels, and calls the tile kernels on them.  The sum over
 * k of an element is in the same order wherever the block boundaries fall.  Few rows, as when one
 * token is generated, are bound by reading b, which is then not packed. */
#include "nn/product.h"

#include <limits.h>
#include <string.h>

#ifdef LNT_CBLAS
#include <cblas.h>
#endif

enum {
    MB = 192, /* rows of c in a block, at most */
    NB = 192, /* columns; no power of two, which would put the rows of b into few places of the cache */
    KB = 192, /* of k at once */
    PANEL = 48, /* rows of a in a panel: whole tiles of any kernel; the smallest block */
    FEW = 4,    /* rows of c that are bound by reading b, once and in its own order */
    STRIP = 64  /* columns of c at the least, where there are few rows */
};

typedef struct job {
    const kernels *ker;
    real *c;
    size_t ldc;
    lnt_matrix a, b;
    size_t m, n, k;
    bool accumulate;
    size_t rows, columns; /* of a block */
} job;

/* The columns of b from j0 on, of rows k0 .. k0+depth-1, as own [depth, width]. */
static void pack(const job *t, real *own, size_t k0, size_t depth, size_t j0, size_t columns,
                 size_t width)
{
    const real *from = t->b.at + k0 * t->b.row + j0 * t->b.col;
    if (t->b.col == 1)
        t->ker->load_rows(own, width, from, LNT_NN_DTYPE, (int64_t)t->b.row, 1, depth, columns, 1);
    else
        t->ker->load_columns(own, width, from, LNT_NN_DTYPE, (int64_t)t->b.col, (int64_t)t->b.row,
                             columns, depth, 1);
}

/* Rows i0 .. of a, columns k0 .. k0+depth-1, in panels [depth, PANEL] that stand KB apart. */
static void pack_panels(const job *t, real *own, size_t i0, size_t rows, size_t k0, size_t depth)
{
    const real *from = t->a.at + i0 * t->a.row + k0 * t->a.col;
    for (size_t i = 0; i < rows; i += PANEL, from += PANEL * t->a.row) {
        const size_t count = nn_least(rows - i, PANEL);
        if (t->a.col == 1)
            t->ker->load_columns(own + i * KB, PANEL, from, LNT_NN_DTYPE, (int64_t)t->a.row, 1,
                                 count, depth, 1);
        else
            t->ker->load_rows(own + i * KB, PANEL, from, LNT_NN_DTYPE, (int64_t)t->a.col, 1, depth,
                              count, 1);
    }
}

/* Rows i0 .. of c [rows, width] (+)= a b over `depth` of k from k0 on. */
static void multiply(const job *t, real *c, size_t ldc, size_t i0, size_t rows, size_t k0,
                     size_t depth, const real *b, size_t width, bool accumulate)
{
    _Alignas(LNT_ALIGN) real panels[KB * MB];
    pack_panels(t, panels, i0, rows, k0, depth);
    for (size_t i = 0; i < rows; i += PANEL)
        t->ker->gemm_tn(c + i * ldc, ldc, panels + i * KB, PANEL, b, width,
                        nn_least(rows - i, PANEL), width, depth, accumulate);
}

/* Columns that are no whole number of vectors go through a copy: into own if `in`, else back. */
static void copy_edge(const job *t, real *own, size_t width, size_t i0, size_t rows, size_t j0,
                      size_t columns, bool in)
{
    for (size_t i = 0; i < rows; i++) {
        real *c = t->c + (i0 + i) * t->ldc + j0, *copy = own + i * width;
        memcpy(in ? copy : c, in ? c : copy, columns * sizeof *c);
        if (in) memset(copy + columns, 0, (width - columns) * sizeof *c);
    }
}

static void block(const job *t, size_t i0, size_t j0)
{
    _Alignas(LNT_ALIGN) real packed[KB * NB], edge[MB * NB];
    const size_t rows = nn_least(t->m - i0, t->rows);
    const size_t columns = nn_least(t->n - j0, t->columns);
    const bool whole = columns % t->ker->lanes == 0;
    const size_t width = whole ? columns : lnt_round_up(columns, LNT_PAD);
    real *c = whole ? t->c + i0 * t->ldc + j0 : edge;
    const size_t ldc = whole ? t->ldc : width;
    size_t k0 = 0;
    if (!whole && t->accumulate) copy_edge(t, edge, width, i0, rows, j0, columns, true);
    do {
        const size_t depth = nn_least(t->k - k0, KB);
        pack(t, packed, k0, depth, j0, columns, width);
        multiply(t, c, ldc, i0, rows, k0, depth, packed, width, k0 > 0 || t->accumulate);
        k0 += depth;
    } while (k0 < t->k);
    if (!whole) copy_edge(t, edge, width, i0, rows, j0, columns, false);
}

/* ---- few rows ------------------------------------------------------------------------------ */

/* Columns j0 .. of c, b row by row: every row of it is read from its start to its end. */
static void strip_by_rows(const job *t, size_t j0, size_t columns)
{
    for (size_t i = 0; i < t->m && !t->accumulate; i++)
        memset(t->c + i * t->ldc + j0, 0, columns * sizeof *t->c);
    for (size_t k = 0; k < t->k; k++)
        for (size_t i = 0; i < t->m; i++)
            t->ker->axpy(t->c + i * t->ldc + j0, t->a.at[i * t->a.row + k],
                         t->b.at + k * t->b.row + j0, columns);
}

/* The same where the columns of b are contiguous: dot products. */
static void strip_by_columns(const job *t, size_t j0, size_t columns)
{
    real y[STRIP];
    for (size_t j = j0; j < j0 + columns; j += STRIP) {
        const size_t count = nn_least(j0 + columns - j, STRIP);
        for (size_t i = 0; i < t->m; i++) {
            real *c = t->c + i * t->ldc + j;
            t->ker->gemv(y, t->b.at + j * t->b.col, t->b.col, t->a.at + i * t->a.row, count, t->k);
            for (size_t x = 0; x < count; x++) c[x] = y[x] + (t->accumulate ? c[x] : 0);
        }
    }
}

static void multiply_few(const job *t, int threads)
{
    const size_t share = (t->n + (size_t)threads - 1) / (size_t)threads;
    const size_t size = lnt_round_up(share ? share : 1, STRIP);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < nn_pieces(t->n, size); unit++) {
        const size_t j0 = (size_t)unit * size, columns = nn_least(t->n - j0, size);
        if (t->b.col == 1) strip_by_rows(t, j0, columns);
        else strip_by_columns(t, j0, columns);
    }
}

/* Smaller blocks where there would be too few for the threads. */
static void choose_blocks(job *t, int threads)
{
    t->rows = MB;
    t->columns = NB;
    while (nn_pieces(t->m, t->rows) * nn_pieces(t->n, t->columns) < 4 * (int64_t)threads &&
           (t->rows > PANEL || t->columns > PANEL)) {
        if (t->rows > t->columns) t->rows /= 2;
        else t->columns /= 2;
    }
}

#ifdef LNT_CBLAS
/* By the library that was chosen when this was built, on the threads it has. */
static void multiply_by_blas(const job *t)
{
    const CBLAS_TRANSPOSE a = t->a.col == 1 ? CblasNoTrans : CblasTrans;
    const CBLAS_TRANSPOSE b = t->b.col == 1 ? CblasNoTrans : CblasTrans;
    const int lda = (int)(t->a.col == 1 ? t->a.row : t->a.col);
    const int ldb = (int)(t->b.col == 1 ? t->b.row : t->b.col);
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
    return t->m > FEW && t->k > 0 && t->m < INT_MAX && t->n < INT_MAX && t->k < INT_MAX &&
           t->ldc < INT_MAX && t->a.row < INT_MAX && t->b.row < INT_MAX;
}
#endif

void lnt_product(const lnt_ctx *ctx, real *c, size_t ldc, lnt_matrix a, lnt_matrix b, size_t m,
                 size_t n, size_t k, bool accumulate)
{
    job t = { nn_kernels(ctx), c, ldc, a, b, m, n, k, accumulate, 0, 0 };
#ifdef LNT_CBLAS
    if (fits_blas(&t)) {
        multiply_by_blas(&t);
        return;
    }
#endif
    const int threads = lnt_threads_for(ctx, 2 * (double)m * (double)n * (double)k);
    if (m <= FEW && a.col == 1) {
        multiply_few(&t, threads);
        return;
    }
    choose_blocks(&t, threads);
    const int64_t down = nn_pieces(m, t.rows), across = nn_pieces(n, t.columns);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < down * across; unit++)
        block(&t, (size_t)(unit / across) * t.rows, (size_t)(unit % across) * t.columns);
}
