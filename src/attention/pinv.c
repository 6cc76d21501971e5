/* attention/pinv.c - the pseudo-inverse of the M x M matrix U of CUR attention.
 *
 *     iterate   Z <- Z (13 - A (15 - A (7 - A))) / 4,  A = U Z,  from Z = U^T / c
 *     ridge     Z = (U^T U + r)^-1 U^T,  r = ridge |U|_F^2, by Cholesky
 *
 * c is |U|_1 |U|_inf (norms) or |U|_1 (paper1).  An eigenvalue x of A becomes
 * 1 - (1-x)^3 (1 - x/4): from 0 to about 3 it goes to 1, from above 4 it runs away.  So it diverged
 * if an A that is iterated on has |A|_F above 4 sqrt(M), or the last one a trace beyond 4 M.
 * 8 M^3 operations an iteration as it is written, half of that as it is done, and 4 times as many
 * back; ridge 3 M^3.  See docs/math/cur.md */
#include "attention/pinv.h"

#include <math.h>
#include <string.h>

enum { FORWARD_TEMPORARIES = 5, BLOCK = 8 };

lnt_pinv_work lnt_pinv_take(lnt_arena *arena, const lnt_attn_desc *p, int isa)
{
    const size_t M = (size_t)p->landmarks, ld = lnt_pinv_ld(p);
    lnt_pinv_work w = { .ker = lnt_kernels_get_f64(isa), .M = M, .ld = ld, .kind = p->pinv,
                        .init = p->pinv_init, .iterations = p->pinv_iterations,
                        .ridge = p->ridge };
    const int temporaries = p->backward ? LNT_PINV_TEMPORARIES : FORWARD_TEMPORARIES;
    for (int i = 0; i < temporaries; i++) w.t[i] = lnt_arena_take(arena, M * ld, sizeof *w.t[i]);
    const size_t kept = p->backward && p->pinv == LNT_PINV_ITERATE ? (size_t)p->pinv_iterations : 0;
    w.kept = lnt_arena_take(arena, kept * M * ld, sizeof *w.kept);
    return w;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static size_t width(const lnt_pinv_work *w) { return lnt_round_up(w->M, w->ker->lanes); }

static void clear(const lnt_pinv_work *w, double *x) { memset(x, 0, w->M * w->ld * sizeof *x); }

static void copy(const lnt_pinv_work *w, double *to, const double *from)
{
    memcpy(to, from, w->M * w->ld * sizeof *to);
}

/* c = a b, or added to it */
static void multiply(const lnt_pinv_work *w, double *c, const double *a, const double *b, int add)
{
    w->ker->gemm_nn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, add);
}

/* c = a^T b, or added to it */
static void multiply_tn(const lnt_pinv_work *w, double *c, const double *a, const double *b,
                        int add)
{
    w->ker->gemm_tn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, add);
}

static void transpose(const lnt_pinv_work *w, double *to, const double *from)
{
    if (w->M < w->ld) clear(w, to);
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j < w->M; j++) to[j * w->ld + i] = from[i * w->ld + j];
}

/* The upper triangle of c becomes that of its lower one: left of a block of rows whole lines of it. */
static void mirror(const lnt_pinv_work *w, double *c)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i = 0; i < M; i++)
        for (size_t j = i / BLOCK * BLOCK; j < i; j++) c[j * ld + i] = c[i * ld + j];
    for (size_t i = BLOCK; i + BLOCK <= M; i += BLOCK)
        for (size_t j = 0; j < i; j++)
            for (size_t r = i; r < i + BLOCK; r++) c[j * ld + r] = c[r * ld + j];
    for (size_t i = M / BLOCK * BLOCK; i < M; i++)
        for (size_t j = 0; j < M / BLOCK * BLOCK; j++) c[j * ld + i] = c[i * ld + j];
}

/* c = a^T b where that is symmetric: the lower triangle, in blocks of rows, and its mirror. */
static void multiply_symmetric(const lnt_pinv_work *w, double *c, const double *a, const double *b)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i = 0; i < M; i += BLOCK) {
        const size_t rows = M - i < BLOCK ? M - i : BLOCK;
        w->ker->gemm_tn(c + i * ld, ld, a + i, ld, b, ld, rows,
                        lnt_round_up(i + rows, w->ker->lanes), M, 0);
    }
    mirror(w, c);
}

/* c = a b^T, or added to it; t is overwritten */
static void multiply_nt(const lnt_pinv_work *w, double *c, const double *a, const double *b,
                        double *t, int add)
{
    transpose(w, t, b);
    multiply(w, c, a, t, add);
}

static void scale(const lnt_pinv_work *w, double *x, double factor)
{
    w->ker->scale(x, factor, w->M * w->ld);
}

static void add_times(const lnt_pinv_work *w, double *y, double factor, const double *x)
{
    w->ker->axpy(y, factor, x, w->M * w->ld);
}

/* x = c - x */
static void subtract_from(const lnt_pinv_work *w, double c, double *x)
{
    scale(w, x, -1);
    for (size_t i = 0; i < w->M; i++) x[i * w->ld + i] += c;
}

/* The largest sum of magnitudes of a column (one) and of a row (inf), and which they are. */
typedef struct norms {
    double one, inf;
    size_t column, row;
} norms;

/* Overwrites t[0]. */
static norms norms_of(const lnt_pinv_work *w, const double *u)
{
    norms n = { -1, -1, 0, 0 };
    double *columns = w->t[0];
    for (size_t j = 0; j < w->M; j++) columns[j] = 0;
    for (size_t i = 0; i < w->M; i++) {
        double row = 0;
        for (size_t j = 0; j < w->M; j++) columns[j] += fabs(u[i * w->ld + j]);
        for (size_t j = 0; j < w->M; j++) row += fabs(u[i * w->ld + j]);
        if (row > n.inf) n.inf = row, n.row = i;
    }
    for (size_t j = 0; j < w->M; j++)
        if (columns[j] > n.one) n.one = columns[j], n.column = j;
    return n;
}

/* Adds what the gradients of both norms give to du. */
static void add_norms_back(const lnt_pinv_work *w, const double *u, const norms *n, double done,
                           double dinf, double *du)
{
    for (size_t k = 0; k < w->M; k++) {
        const size_t in_column = k * w->ld + n->column, in_row = n->row * w->ld + k;
        du[in_column] += u[in_column] < 0 ? -done : done;
        du[in_row] += u[in_row] < 0 ? -dinf : dinf;
    }
}

static double trace_of_product(const lnt_pinv_work *w, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j < w->M; j++) sum += a[i * w->ld + j] * b[j * w->ld + i];
    return sum;
}

/* ---- iterations ------------------------------------------------------------------------------ */

static double start_divisor(const lnt_pinv_work *w, const norms *n)
{
    const double c = w->safe ? n->one * n->inf : n->one;
    return c > 0 ? c : 1; /* U = 0: so is Z */
}

static bool is_bounded(const lnt_pinv_work *w, const double *a)
{
    const double square = w->ker->dot(a, a, w->M * w->ld);
    return square <= 16 * (double)w->M; /* false for NaN */
}

/* e = (13 - 15 a + 7 s - t) / 4 */
static void polynomial(const lnt_pinv_work *w, double *e, const double *a, const double *s,
                       const double *t)
{
    for (size_t i = 0; i < w->M * w->ld; i++) e[i] = 0.25 * (7 * s[i] - 15 * a[i] - t[i]);
    for (size_t i = 0; i < w->M; i++) e[i * w->ld + i] += 3.25;
}

static void swap(double **a, double **b)
{
    double *kept = *a;
    *a = *b;
    *b = kept;
}

/* Every matrix here but U and Z is a polynomial of the first A = U U^T / c: symmetric, and in a
 * product the order does not matter.  With E = (13 - 15 A + 7 A^2 - A^3) / 4 of each iteration,
 * A <- A E and P <- P E; at the end Z = U^T P / c.  false: it diverged. */
static bool iterate(lnt_pinv_work *w, const double *u, double *z, double *rank)
{
    const norms n = norms_of(w, u);
    const double c = start_divisor(w, &n);
    double *a = w->t[0], *p = w->t[1], *e = w->t[2], *s = w->t[3], *t = w->t[4];
    for (int i = 0; i < FORWARD_TEMPORARIES && w->M < w->ld; i++) clear(w, w->t[i]);
    transpose(w, t, u);
    multiply_symmetric(w, a, t, t);
    scale(w, a, 1 / c);
    bool bounded = true;
    for (int64_t k = 0; k < w->iterations && bounded; k++) {
        if (k > 0) {
            multiply_symmetric(w, t, a, e);
            swap(&a, &t);
        }
        bounded = is_bounded(w, a);
        multiply_symmetric(w, s, a, a);
        multiply_symmetric(w, t, s, a);
        polynomial(w, e, a, s, t);
        if (k == 0) copy(w, s, e);
        else multiply_symmetric(w, s, p, e);
        swap(&p, &s);
    }
    clear(w, z);
    multiply_tn(w, z, u, p, 0);
    scale(w, z, 1 / c);
    *rank = w->ker->dot(a, e, w->M * w->ld); /* the trace of a e, which would be the next a */
    return bounded && fabs(*rank) <= 4 * (double)w->M;
}

static lnt_pinv_report iterate_forward(lnt_pinv_work *w, const double *u, double *z)
{
    lnt_pinv_report report = { 0, false };
    w->safe = w->init == LNT_PINV_NORMS;
    if (!iterate(w, u, z, &report.rank)) {
        report.diverged = true;
        w->safe = true;
        if (w->init != LNT_PINV_NORMS) iterate(w, u, z, &report.rank);
    }
    return report;
}

/* a = u z, b = 7 - a, d = 15 - a b, e = 13 - a d */
static void expand(const lnt_pinv_work *w, const double *u, const double *z, double *a, double *b,
                   double *d, double *e)
{
    multiply(w, a, u, z, 0);
    copy(w, b, a);
    subtract_from(w, 7, b);
    multiply(w, d, a, b, 0);
    subtract_from(w, 15, d);
    multiply(w, e, a, d, 0);
    subtract_from(w, 13, e);
}

/* Every z that an iteration starts from. */
static void keep_iterates(lnt_pinv_work *w, const double *u, double divisor)
{
    const size_t size = w->M * w->ld;
    transpose(w, w->kept, u);
    scale(w, w->kept, 1 / divisor);
    for (int64_t k = 1; k < w->iterations; k++) {
        const double *z = w->kept + (size_t)(k - 1) * size;
        double *next = w->kept + (size_t)k * size;
        expand(w, u, z, w->t[0], w->t[1], w->t[2], w->t[3]);
        clear(w, next);
        multiply(w, next, z, w->t[3], 0);
        scale(w, next, 0.25);
    }
}

/* One iteration back: dz, that of its result, becomes that of its z; adds to du. */
static void iteration_back(lnt_pinv_work *w, const double *u, const double *z, double *dz,
                           double *du)
{
    double *a = w->t[0], *b = w->t[1], *d = w->t[2], *e = w->t[3], *turned = w->t[4];
    double *de = w->t[5], *dd = w->t[6], *da = w->t[7], *last = w->t[8];
    expand(w, u, z, a, b, d, e);
    copy(w, last, dz);
    scale(w, last, 0.25);
    multiply_tn(w, de, z, last, 0);
    multiply_nt(w, dz, last, e, turned, 0);
    multiply_nt(w, da, de, d, turned, 0); /* minus that, as all of da below */
    multiply_tn(w, dd, a, de, 0);
    scale(w, dd, -1);
    multiply_nt(w, da, dd, b, turned, 1);
    multiply_tn(w, last, a, dd, 0);
    add_times(w, da, -1, last);
    scale(w, da, -1);
    multiply_nt(w, du, da, z, turned, 1);
    multiply_tn(w, dz, u, da, 1);
}

static void iterate_backward(lnt_pinv_work *w, const double *u, double *dz, double *du)
{
    const norms n = norms_of(w, u);
    const double c = start_divisor(w, &n);
    for (int i = 0; i < LNT_PINV_TEMPORARIES; i++) clear(w, w->t[i]);
    keep_iterates(w, u, c);
    for (int64_t k = w->iterations - 1; k >= 0; k--)
        iteration_back(w, u, w->kept + (size_t)k * w->M * w->ld, dz, du);
    transpose(w, w->t[0], dz);
    add_times(w, du, 1 / c, w->t[0]);
    const double dc = -w->ker->dot(dz, w->kept, w->M * w->ld) / c; /* of the first z */
    add_norms_back(w, u, &n, w->safe ? dc * n.inf : dc, w->safe ? dc * n.one : 0, du);
}

/* ---- ridge ----------------------------------------------------------------------------------- */

/* The lower triangle of g becomes its Cholesky factor. */
static void factorise(const lnt_pinv_work *w, double *g)
{
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j <= i; j++) {
            const double *row = g + i * w->ld, *other = g + j * w->ld;
            const double rest = row[j] - w->ker->dot(row, other, j);
            g[i * w->ld + j] = i == j ? sqrt(rest) : rest / other[j];
        }
}

/* x [M, ld] becomes g^-1 x, g given by its factor. */
static void solve(const lnt_pinv_work *w, const double *factor, double *x)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < i; j++)
            w->ker->axpy(x + i * ld, -factor[i * ld + j], x + j * ld, M);
        w->ker->scale(x + i * ld, 1 / factor[i * ld + i], M);
    }
    for (size_t i = M; i-- > 0;) {
        for (size_t j = i + 1; j < M; j++)
            w->ker->axpy(x + i * ld, -factor[j * ld + i], x + j * ld, M);
        w->ker->scale(x + i * ld, 1 / factor[i * ld + i], M);
    }
}

static lnt_pinv_report ridge_forward(lnt_pinv_work *w, const double *u, double *z)
{
    double *g = w->t[0]; /* the factor stays there for the way back */
    const double square = w->ker->dot(u, u, w->M * w->ld);
    const double ridge = square > 0 ? w->ridge * square : 1;
    clear(w, g);
    multiply_tn(w, g, u, u, 0);
    for (size_t i = 0; i < w->M; i++) g[i * w->ld + i] += ridge;
    factorise(w, g);
    transpose(w, z, u);
    solve(w, g, z);
    const double rank = trace_of_product(w, u, z);
    return (lnt_pinv_report){ .rank = rank, .diverged = !isfinite(rank) };
}

static void ridge_backward(lnt_pinv_work *w, const double *u, const double *z, double *dz,
                           double *du)
{
    double *turned = w->t[1], *dg = w->t[2];
    clear(w, dg);
    solve(w, w->t[0], dz);
    transpose(w, turned, dz);
    add_times(w, du, 1, turned);
    multiply_nt(w, dg, dz, z, turned, 0);
    scale(w, dg, -1);
    double dridge = 0;
    for (size_t i = 0; i < w->M; i++) dridge += dg[i * w->ld + i];
    transpose(w, turned, dg);
    add_times(w, dg, 1, turned);
    multiply(w, du, u, dg, 1);
    add_times(w, du, 2 * w->ridge * dridge, u);
}

/* ---- either ---------------------------------------------------------------------------------- */

lnt_pinv_report lnt_pinv_forward(lnt_pinv_work *w, const double *u, double *z)
{
    return w->kind == LNT_PINV_RIDGE ? ridge_forward(w, u, z) : iterate_forward(w, u, z);
}

void lnt_pinv_backward(lnt_pinv_work *w, const double *u, const double *z, double *dz, double *du)
{
    clear(w, du);
    if (w->kind == LNT_PINV_RIDGE) ridge_backward(w, u, z, dz, du);
    else iterate_backward(w, u, dz, du);
}
