/* attention/cur/spectrum.c - iterations of attention/cur/pinv.c by way of eigenvectors.
 *
 *     U U^T = c V diag(x) V^T,   P = V diag(p) V^T,   Z = U^T P / c
 *
 * with p of x by iterations: x <- x e, p <- p e, e = (13 - 15 x + 7 x^2 - x^3) / 4.  To find the
 * eigenvectors takes as long as eight iterations of matrices, but then there may be any number of them, and
 * the way back is six products: 14 M^3 operations, 22 M^3 with the way back.
 *
 * The derivative of P by A = U U^T / c is its own adjoint, as that of every function of a symmetric matrix:
 * the gradient of A is how P changes if A changes by the gradient of P, and between eigenvectors that is
 * number by number.  See docs/math/cur.md */
#include "attention/cur/spectrum.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "attention/cur/eigen.h"
#include "attention/cur/square.h"

/* x of the start, then V^T. */
size_t lnt_spectrum_kept(const lnt_attn_desc *p)
{
    return ((size_t)p->cur.landmarks + 1) * lnt_pinv_ld(p);
}

/* Rows for making eigenvectors, later for differences; x, p and e of every iteration and of what comes
 * after the last; and what is kept, where nothing was. */
size_t lnt_spectrum_rows(const lnt_attn_desc *p)
{
    return LNT_EIGEN_ROWS + 3 * ((size_t)p->cur.pinv_iterations + 1) + (size_t)p->cur.landmarks + 1;
}

static double *rows_of_iterations(const lnt_pinv_work *w) { return w->rows + LNT_EIGEN_ROWS * w->ld; }

static double *rows_to_keep(const lnt_pinv_work *w)
{
    return rows_of_iterations(w) + 3 * (w->iterations + 1) * w->ld;
}

/* Eigenvalues, by c, and eigenvectors of U U^T; overwrites t[0] and t[1]. */
static void decompose(const lnt_pinv_work *w, const double *u, double *kept)
{
    double *a = w->t[0], *ut = w->t[1], *x = kept;
    const norms n = norms_of(w, u);
    transpose(w, ut, u);
    scale(w, ut, 1 / start_divisor(&n, false));
    multiply(w, a, u, ut, 0);
    scale(w, a, n.inf > 0 ? 1 / n.inf : 1);
    lnt_eigen(w->ker, w->M, w->ld, a, x, kept + w->ld, w->rows);
    const double rounding = DBL_EPSILON * w->ker->largest(x, w->M);
    for (size_t i = 0; i < w->M; i++) x[i] = x[i] < rounding ? rounding : x[i]; /* NaN stays */
}

/* What iterations make of the eigenvalues, and Z of them. */
typedef struct filter {
    norms n;
    bool safe; /* c is the product of both norms */
    double c;
    double *x, *p, *e; /* [iterations + 1, ld] before each iteration and after the last; e its factor */
    const double *last_p;
    const double *vt;     /* V^T */
    const double *yt;     /* V^T U, in t[1], without the rows that are but rounding */
    const double *square; /* [M] of its rows */
    lnt_pinv_report report;
} filter;

/* From x of the safe start; e in 1 - x has no differences. */
static void iterate(const lnt_pinv_work *w, const double *x, bool safe, filter *f)
{
    const size_t M = w->M, ld = w->ld;
    double rank = 0;
    f->safe = safe;
    f->c = start_divisor(&f->n, safe);
    bool bounded = isfinite(1 / f->c);
    for (size_t i = 0; i < M; i++) f->x[i] = safe ? x[i] : x[i] * f->n.inf, f->p[i] = 1;
    for (size_t k = 0; k < w->iterations * ld; k += ld) {
        bounded &= w->ker->dot(f->x + k, f->x + k, M) <= 16 * (double)M; /* false for NaN */
        for (size_t i = k; i < k + M; i++) {
            const double rest = 1 - f->x[i];
            f->e[i] = 1 + rest * (1 + rest * (1 + rest / 4));
            f->x[i + ld] = f->x[i] * f->e[i];
            f->p[i + ld] = f->p[i] * f->e[i];
        }
    }
    for (size_t i = 0; i < M; i++) rank += f->last_p[i] * f->square[i] / f->c; /* the trace of U Z */
    f->report = (lnt_pinv_report){ .rank = rank,
                                   .diverged = !(bounded && fabs(rank) <= 4 * (double)M) };
}

/* square[i] = that of row i of yt.  Clears rows that are but rounding: many iterations would make numbers of
 * them. */
static void drop_rounding(const lnt_pinv_work *w, double *yt, double *square)
{
    const double rounding = DBL_EPSILON * (double)w->M;
    for (size_t i = 0; i < w->M; i++) square[i] = w->ker->dot(yt + i * w->ld, yt + i * w->ld, w->M);
    const double least = rounding * rounding * w->ker->largest(square, w->M);
    for (size_t i = 0; i < w->M; i++)
        if (square[i] <= least) memset(yt + i * w->ld, 0, w->ld * sizeof *yt);
}

/* From the safe start if it diverges from the one asked for.  Overwrites t[0]. */
static filter invert(const lnt_pinv_work *w, const double *u, const double *kept, double *z)
{
    const size_t all = (w->iterations + 1) * w->ld;
    double *rows = rows_of_iterations(w), *weighted = w->t[0], *yt = w->t[1];
    filter f = { .n = norms_of(w, u), .x = rows, .p = rows + all, .e = rows + 2 * all,
                 .last_p = rows + 2 * all - w->ld, .vt = kept + w->ld, .yt = yt, .square = w->rows };
    multiply(w, yt, f.vt, u, 0);
    drop_rounding(w, yt, w->rows);
    iterate(w, kept, w->init == LNT_PINV_NORMS, &f);
    if (f.report.diverged && !f.safe) {
        iterate(w, kept, true, &f);
        f.report.diverged = true;
    }
    copy(w, weighted, yt);
    w->ker->scale_rows(weighted, w->ld, f.last_p, w->M, w->ld);
    multiply_tn(w, z, weighted, f.vt);
    scale(w, z, 1 / f.c);
    return f;
}

lnt_pinv_report lnt_spectrum_forward(const lnt_pinv_work *w, const double *u, double *z, double *kept)
{
    double *found = kept ? kept : rows_to_keep(w);
    decompose(w, u, found);
    return invert(w, u, found, z).report;
}

/* ---- the way back ---------------------------------------------------------------------------- */

/* change[j] = (p_i - p_j) / (x_i - x_j) for j up to i, x those of the start, or the derivative where they
 * are equal: by iterations, without a difference.  slope is the same of the x that are iterated on. */
static void differences(const lnt_pinv_work *w, const filter *f, size_t i, double *restrict change,
                        double *restrict slope)
{
    for (size_t j = 0; j <= i; j++) change[j] = 0, slope[j] = 1;
    for (size_t k = 0; k < w->iterations * w->ld; k += w->ld) {
        const double *restrict x = f->x + k, *restrict e = f->e + k;
        const double rest = 1 - x[i], p = f->p[k + i];
        for (size_t j = 0; j <= i; j++) {
            const double other = 1 - x[j], sum = rest + other, product = rest * other;
            const double three = sum * sum - product; /* both squares and the product */
            change[j] = change[j] * e[j] - p * slope[j] * (1 + sum + three / 4);
            slope[j] *= (3 * three + sum * (three - product)) / 4;
        }
    }
}

/* g = how P changes if A does by the symmetric part of a / c, all between eigenvectors. */
static void through_filter(const lnt_pinv_work *w, const filter *f, double *g, const double *a)
{
    double *change = w->rows, *slope = w->rows + w->ld;
    for (size_t i = 0; i < w->M; i++) {
        differences(w, f, i, change, slope);
        for (size_t j = 0; j <= i; j++) {
            const size_t at = i * w->ld + j, across = j * w->ld + i;
            g[at] = g[across] = change[j] * (a[at] + a[across]) / (2 * f->c);
        }
    }
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

/* du = (P dz^T + 2 dA U) / c = V (diag(p) (dz V)^T + 2 G V^T U) / c, G that of U dz between eigenvectors;
 * and what c gives to the norms it is made of. */
lnt_pinv_report lnt_spectrum_backward(const lnt_pinv_work *w, const double *u, const double *kept,
                                      double *z, const double *dz, double *du)
{
    if (!kept) decompose(w, u, rows_to_keep(w));
    const filter f = invert(w, u, kept ? kept : rows_to_keep(w), z);
    double *a = w->t[0], *v = w->t[2], *dzv = w->t[3];
    transpose(w, v, f.vt);
    multiply(w, dzv, dz, v, 0);
    multiply(w, a, f.yt, dzv, 0);
    double *g = w->t[2], *by_a = w->t[0], *by_p = w->t[2];
    through_filter(w, &f, g, a);
    multiply(w, by_a, g, f.yt, 0);
    transpose(w, by_p, dzv);
    w->ker->scale_rows(by_p, w->ld, f.last_p, w->M, w->ld);
    const double dc = -(inner(w, by_p, f.yt) + inner(w, by_a, f.yt)) / (f.c * f.c);
    add_times(w, by_p, 2, by_a);
    multiply_tn(w, du, f.vt, by_p);
    scale(w, du, 1 / f.c);
    add_norms_back(w, u, &f.n, f.safe ? dc * f.n.inf : dc, f.safe ? dc * f.n.one : 0, du);
    return f.report;
}
