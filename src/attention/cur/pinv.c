/* attention/cur/pinv.c - the pseudo-inverse of the M x M matrix U of CUR attention.
 *
 *     iterate   Z <- Z (13 - A (15 - A (7 - A))) / 4,  A = U Z,  from Z = U^T / c
 *     ridge     Z = (U^T U + r)^-1 U^T,  r = ridge |U|_F^2, by Cholesky
 *     tuned     W = (F^T F + r)^-1 F^T Y, F and Y the rows of U and R V and those of more queries; the ridge
 *               is the one of a few that serves these best while U alone is fitted
 *
 * c is |U|_1 |U|_inf (norms) or |U|_1 (paper1).  An eigenvalue x of A becomes
 * 1 - (1-x)^3 (1 - x/4): from 0 to about 3 it goes to 1, from above 4 it runs away.  So it diverged
 * if an A that is iterated on has |A|_F above 4 sqrt(M), or the last one a trace beyond 4 M.
 * 8 M^3 operations an iteration as it is written, half of that as it is done; ridge 10/3 M^3.  Many
 * iterations, and the way back, are by eigenvectors: attention/cur/spectrum.c.  See docs/math/cur.md */
#include "attention/cur/pinv.h"

#include <math.h>
#include <string.h>

#include "attention/cur/spectrum.h"
#include "attention/cur/square.h"

enum { BLOCK = 8 };

lnt_pinv_work lnt_pinv_take(lnt_arena *arena, const lnt_attn_desc *p, int isa)
{
    const size_t M = (size_t)p->cur.landmarks, ld = lnt_pinv_ld(p);
    lnt_pinv_work w = { .ker = lnt_kernels_get_f64(isa),
                        .M = M,
                        .ld = ld,
                        .kind = p->cur.pinv == LNT_PINV_TUNED ? LNT_PINV_RIDGE : p->cur.pinv,
                        .init = p->cur.pinv_init,
                        .iterations = (size_t)p->cur.pinv_iterations,
                        .ridge = p->cur.ridge };
    for (int i = 0; i < LNT_PINV_TEMPORARIES; i++)
        w.t[i] = lnt_arena_take(arena, M * ld, sizeof *w.t[i]);
    if (p->cur.pinv == LNT_PINV_ITERATE && (p->backward || p->cur.pinv_iterations > LNT_PINV_PRODUCTS))
        w.rows = lnt_arena_take_matrix(arena, lnt_spectrum_rows(p), ld, sizeof *w.rows);
    return w;
}

/* ---- iterations ------------------------------------------------------------------------------ */

/* What is right of the diagonal becomes what is below it, to the last bit: a matrix is read as its
 * transpose, and how they differ would grow. */
static void mirror(const lnt_pinv_work *w, double *c)
{
    const size_t M = w->M, ld = w->ld;
    for (size_t i0 = 0; i0 < M; i0 += BLOCK) {
        const size_t rows = M - i0 < BLOCK ? M - i0 : BLOCK;
        w->ker->store_columns(c + i0, LNT_F64, (int64_t)ld, 1, c + i0 * ld, ld, i0, rows);
        for (size_t i = i0; i < i0 + rows; i++)
            for (size_t j = i0; j < i; j++) c[j * ld + i] = c[i * ld + j];
    }
}

/* c = a b where all three are symmetric: its lower triangle, with whole blocks on the diagonal. */
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

static bool is_bounded(const lnt_pinv_work *w, const double *a)
{
    return inner(w, a, a) <= 16 * (double)w->M; /* false for NaN */
}

/* e = (13 - 15 a + 7 s - t) / 4 */
static void polynomial(const lnt_pinv_work *w, double *e, const double *a, const double *s,
                       const double *t)
{
    const double factors[] = { -15. / 4, 7. / 4, -1. / 4 };
    const double *const powers[] = { a, s, t };
    w->ker->combine(e, factors, powers, 3, w->M * w->ld);
    for (size_t i = 0; i < w->M; i++) e[i * w->ld + i] += 13. / 4;
}

/* x <- x e; t is a spare. */
static void advance(const lnt_pinv_work *w, double **x, const double *e, double **t)
{
    multiply_symmetric(w, *t, *x, e);
    double *kept = *x;
    *x = *t;
    *t = kept;
}

/* Every matrix here but U and Z is a polynomial of the first A = U U^T / c: symmetric, and in a
 * product the order does not matter.  With E = (13 - 15 A + 7 A^2 - A^3) / 4 of each iteration,
 * A <- A E and P <- P E; at the end Z = U^T P / c. */
static lnt_pinv_report iterate_from(const lnt_pinv_work *w, const double *u, bool safe, double *z)
{
    double *a = w->t[0], *p = w->t[1], *e = w->t[2], *s = w->t[3], *t = w->t[4];
    const norms n = norms_of(w, u);
    const double c = start_divisor(&n, safe);
    transpose(w, t, u);
    multiply(w, a, u, t, 0);
    scale(w, a, 1 / c);
    bool bounded = true;
    for (size_t k = 0; k < w->iterations && bounded; k++) {
        if (k > 0) advance(w, &a, e, &t);
        bounded = is_bounded(w, a);
        multiply_symmetric(w, s, a, a);
        multiply_symmetric(w, t, s, a);
        polynomial(w, e, a, s, t);
        if (k > 0) advance(w, &p, e, &s);
        else copy(w, p, e);
    }
    const double rank = inner(w, a, e); /* the trace of what would be the next a */
    multiply_tn(w, z, u, p);
    scale(w, z, 1 / c);
    return (lnt_pinv_report){ .rank = rank,
                              .diverged = !(bounded && fabs(rank) <= 4 * (double)w->M) };
}

static lnt_pinv_report iterate(const lnt_pinv_work *w, const double *u, double *z)
{
    const bool safe = w->init == LNT_PINV_NORMS;
    lnt_pinv_report report = iterate_from(w, u, safe, z);
    if (report.diverged && !safe) {
        report = iterate_from(w, u, true, z);
        report.diverged = true;
    }
    return report;
}

/* ---- ridge ----------------------------------------------------------------------------------- */

/* c = a b^T; t is overwritten */
static void multiply_nt(const lnt_pinv_work *w, double *c, const double *a, const double *b,
                        double *t)
{
    transpose(w, t, b);
    multiply(w, c, a, t, 0);
}

static double trace_of_product(const lnt_pinv_work *w, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < w->M; i++)
        for (size_t j = 0; j < w->M; j++) sum += a[i * w->ld + j] * b[j * w->ld + i];
    return sum;
}

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

/* x [M, ldx] becomes g^-1 x, for lower = -L and upper = -L^T of the factor L of g: row after row by L,
 * then, from the last one on, by L^T.  What blocks of rows that are done give is a product. */
static void solve(const lnt_pinv_work *w, const double *lower, const double *upper, double *x, size_t ldx,
                  size_t columns)
{
    const size_t M = w->M, ld = w->ld, lanes = lnt_round_up(columns, w->ker->lanes);
    for (size_t i0 = 0, end; i0 < M; i0 = end) {
        end = M - i0 < BLOCK ? M : i0 + BLOCK;
        w->ker->gemm_nn(x + i0 * ldx, ldx, lower + i0 * ld, ld, x, ldx, end - i0, lanes, i0, 1);
        for (size_t i = i0; i < end; i++) {
            w->ker->add_rows(x + i * ldx, lower + i * ld + i0, x + i0 * ldx, ldx, i - i0, columns);
            w->ker->scale(x + i * ldx, -1 / lower[i * ld + i], columns);
        }
    }
    for (size_t end = M, i0; end > 0; end = i0) {
        i0 = (end - 1) / BLOCK * BLOCK;
        w->ker->gemm_nn(x + i0 * ldx, ldx, upper + i0 * ld + end, ld, x + end * ldx, ldx, end - i0, lanes,
                        M - end, 1);
        for (size_t i = end; i-- > i0;) {
            w->ker->add_rows(x + i * ldx, upper + i * ld + i + 1, x + (i + 1) * ldx, ldx, end - i - 1,
                             columns);
            w->ker->scale(x + i * ldx, -1 / lower[i * ld + i], columns);
        }
    }
}

/* x = g^-1 x, for the Cholesky factor in the lower triangle of g. */
static void solve_row(const lnt_pinv_work *w, const double *g, double *x)
{
    for (size_t i = 0; i < w->M; i++)
        x[i] = (x[i] - w->ker->dot(g + i * w->ld, x, i)) / g[i * w->ld + i];
    for (size_t i = w->M; i-- > 0;) {
        x[i] /= g[i * w->ld + i];
        w->ker->axpy(x, -x[i], g + i * w->ld, i);
    }
}

static double error_of(const lnt_pinv_work *w, const double *g, const lnt_pinv_probes *probes)
{
    double *x = w->t[2], error = 0;
    for (size_t t = 0; t < probes->count; t++) {
        memcpy(x, probes->c + t * w->ld, w->M * sizeof *x);
        memcpy(probes->row, probes->y + t * probes->ld, probes->width * sizeof *probes->row);
        solve_row(w, g, x);
        for (size_t i = 0; i < w->M; i++)
            w->ker->axpy(probes->row, -x[i], probes->b + i * probes->ld, probes->width);
        error += w->ker->dot(probes->row, probes->row, probes->width);
    }
    return error;
}

/* From the strongest ridge on, which is kept where no other is better, also where nothing is a number. */
double lnt_pinv_tune(const lnt_pinv_work *w, const double *u, const lnt_pinv_probes *probes)
{
    double *g = w->t[0], *gram = w->t[1], least = INFINITY, best = pow(10, LNT_PINV_STRONGEST / 2.0);
    const double square = inner(w, u, u);
    multiply_tn(w, gram, u, u);
    for (int e = LNT_PINV_STRONGEST; e >= LNT_PINV_WEAKEST; e--) {
        const double ridge = pow(10, e / 2.0);
        copy(w, g, gram);
        for (size_t i = 0; i < w->M; i++) g[i * w->ld + i] += ridge * square;
        factorise(w, g);
        const double error = error_of(w, g, probes);
        if (error < least) least = error, best = ridge;
    }
    return best;
}

void lnt_pinv_solve(const lnt_pinv_work *w, double *x, size_t ldx, size_t columns)
{
    solve(w, w->t[0], w->t[1], x, ldx, columns);
}

lnt_pinv_report lnt_pinv_fit(const lnt_pinv_work *w, const double *f, size_t rows, double *x, size_t ldx,
                             size_t columns)
{
    double *g = w->t[0], *upper = w->t[1], *gram = w->t[2], rank = 0;
    const double square = inner(w, f, f);
    w->ker->gemm_tn(gram, w->ld, f, w->ld, f, w->ld, w->M, width(w), rows, 0);
    copy(w, g, gram);
    for (size_t i = 0; i < w->M; i++) g[i * w->ld + i] += square > 0 ? w->ridge * square : 1;
    factorise(w, g);
    scale(w, g, -1);
    transpose(w, upper, g);
    lnt_pinv_solve(w, x, ldx, columns);
    lnt_pinv_solve(w, gram, w->ld, w->M);
    for (size_t i = 0; i < w->M; i++) rank += gram[i * w->ld + i];
    return (lnt_pinv_report){ .rank = rank, .diverged = !isfinite(rank) };
}

static lnt_pinv_report ridge_forward(const lnt_pinv_work *w, const double *u, double *z)
{
    double *g = w->t[0], *upper = w->t[1]; /* both stay there for the way back */
    const double square = inner(w, u, u);
    const double ridge = square > 0 ? w->ridge * square : 1;
    multiply_tn(w, g, u, u);
    for (size_t i = 0; i < w->M; i++) g[i * w->ld + i] += ridge;
    factorise(w, g);
    scale(w, g, -1);
    transpose(w, upper, g);
    transpose(w, z, u);
    solve(w, g, upper, z, w->ld, w->M);
    const double rank = trace_of_product(w, u, z);
    return (lnt_pinv_report){ .rank = rank, .diverged = !isfinite(rank) };
}

static lnt_pinv_report ridge_backward(const lnt_pinv_work *w, const double *u, double *z, double *dz,
                                      double *du)
{
    const lnt_pinv_report report = ridge_forward(w, u, z);
    double *transposed = w->t[2], *dg = w->t[3];
    solve(w, w->t[0], w->t[1], dz, w->ld, w->M);
    transpose(w, du, dz);
    multiply_nt(w, dg, dz, z, transposed);
    scale(w, dg, -1);
    double dridge = 0;
    for (size_t i = 0; i < w->M; i++) dridge += dg[i * w->ld + i];
    transpose(w, transposed, dg);
    add_times(w, dg, 1, transposed);
    multiply(w, du, u, dg, 1);
    add_times(w, du, 2 * w->ridge * dridge, u);
    return report;
}

/* ---- either ---------------------------------------------------------------------------------- */

size_t lnt_pinv_kept(const lnt_attn_desc *p)
{
    return p->cur.pinv == LNT_PINV_ITERATE ? lnt_spectrum_kept(p) : 0;
}

lnt_pinv_report lnt_pinv_forward(const lnt_pinv_work *w, const double *u, double *z, double *kept)
{
    if (w->kind == LNT_PINV_RIDGE) return ridge_forward(w, u, z);
    if (kept || w->iterations > LNT_PINV_PRODUCTS) return lnt_spectrum_forward(w, u, z, kept);
    return iterate(w, u, z);
}

lnt_pinv_report lnt_pinv_backward(const lnt_pinv_work *w, const double *u, const double *kept,
                                  double *z, double *dz, double *du)
{
    return w->kind == LNT_PINV_RIDGE ? ridge_backward(w, u, z, dz, du)
                                     : lnt_spectrum_backward(w, u, kept, z, dz, du);
}
