/* attention/cur/eigen.c - eigenvalues and eigenvectors of a symmetric matrix A.
 *
 *     tridiagonal   A = Q T Q^T, T diag(d) with e beside it, Q = H_(n-1) .. H_1 reflections
 *                   H_k = 1 - tau v v^T of the first k coordinates, for row k, from the last on
 *     diagonal      T = S diag(d) S^T by rotations: QL with implicit shifts
 *
 * 2 n^3 operations for T, 4/3 n^3 for Q, and 6 n for each of about 0.8 n^2 rotations.  What is less than
 * rounding is of the whole of A counts as 0. */
#include "attention/cur/eigen.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST_SWEEPS = 60 }; /* for one eigenvalue; two are usual */

typedef struct symmetric {
    const lnt_kernels_f64 *ker;
    size_t n, ld;
    double *d, *e;        /* the diagonal; e[i] beside it, between i and i + 1 */
    double *tau;          /* of the reflections, whose v are the rows of a */
    double *pair, *other; /* [2, ld]; then the cosines and sines of a sweep */
} symmetric;

/* v [k] becomes that of the reflection which leaves of it the last number alone; which is then *last. */
static double reflection(const symmetric *s, double *v, size_t k, double *last)
{
    const double rest = s->ker->dot(v, v, k - 1), end = v[k - 1];
    *last = end;
    if (end * end + rest < DBL_MIN / DBL_EPSILON) return 0; /* squares have lost digits */
    const double norm = sqrt(end * end + rest);
    *last = end > 0 ? -norm : norm;
    s->ker->scale(v, 1 / (end - *last), k - 1);
    v[k - 1] = 1;
    return (*last - end) / *last;
}

/* c [k, k] += the `rows` rows of pair, transposed, times those of other. */
static void add_product(const symmetric *s, double *c, size_t rows, size_t k)
{
    s->ker->gemm_tn(c, s->ld, s->pair, s->ld, s->other, s->ld, k, lnt_round_up(k, s->ker->lanes), rows,
                    1);
}

/* H A H = A - v w^T - w v^T, w = tau (A v - tau/2 (v.A v) v) */
static void make_tridiagonal(const symmetric *s, double *a)
{
    double *w = s->pair + s->ld;
    for (size_t k = s->n - 1; k > 0; k--) {
        double *v = a + k * s->ld;
        s->d[k] = v[k];
        s->tau[k] = reflection(s, v, k, &s->e[k - 1]);
        if (s->tau[k] == 0) continue;
        s->ker->gemv(w, a, s->ld, v, k, k);
        s->ker->axpy(w, -0.5 * s->tau[k] * s->ker->dot(w, v, k), v, k);
        s->ker->scale(w, s->tau[k], k);
        for (size_t i = 0; i < k; i++) {
            s->pair[i] = v[i];
            s->other[i] = -w[i];
            s->other[s->ld + i] = -v[i];
        }
        add_product(s, a, 2, k);
    }
    s->d[0] = a[0];
}

/* x = Q^T: to H_1 .. H_(k-1), which is 1 but for k - 1 rows and columns, H_k from the right. */
static void make_rows(const symmetric *s, const double *a, double *x)
{
    memset(x, 0, s->n * s->ld * sizeof *x);
    memset(s->other, 0, s->ld * sizeof *s->other);
    for (size_t i = 0; i < s->n; i++) x[i * s->ld + i] = 1;
    for (size_t k = 1; k < s->n; k++) {
        const double *v = a + k * s->ld;
        if (s->tau[k] == 0) continue;
        s->ker->gemv(s->pair, x, s->ld, v, k, k);
        for (size_t i = 0; i < k; i++) s->other[i] = -s->tau[k] * v[i];
        add_product(s, x, 1, k);
    }
}

/* Rotations from the last row of l .. m up that take T nearer to diagonal, by a shift from its corner l. */
static void sweep(const symmetric *w, size_t l, size_t m, double *x)
{
    double *d = w->d, *e = w->e, *cosine = w->pair, *sine = w->other;
    const double turn = (d[l + 1] - d[l]) / (2 * e[l]), root = sqrt(turn * turn + 1);
    double g = d[m] - d[l] + e[l] / (turn + (turn < 0 ? -root : root)), c = 1, s = 1, p = 0;
    for (size_t i = m; i-- > l;) {
        const double f = s * e[i], b = c * e[i], r = sqrt(f * f + g * g);
        e[i + 1] = r;
        c = g / r;
        s = f / r;
        g = d[i + 1] - p;
        const double change = (d[i] - g) * s + 2 * c * b;
        p = s * change;
        d[i + 1] = g + p;
        g = c * change - b;
        cosine[i] = c;
        sine[i] = s;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
    w->ker->rotate_rows(x + l * w->ld, w->ld, cosine + l, sine + l, m - l,
                        lnt_round_up(w->n, w->ker->lanes));
}

static bool make_diagonal(const symmetric *s, double *x)
{
    const size_t n = s->n;
    s->e[n - 1] = 0;
    const double square = s->ker->dot(s->d, s->d, n) + 2 * s->ker->dot(s->e, s->e, n);
    const double least = DBL_EPSILON / 2 * sqrt(square);
    for (size_t l = 0; l < n; l++)
        for (int sweeps = 0;; sweeps++) {
            size_t m = l;
            while (m + 1 < n && fabs(s->e[m]) > least) m++;
            if (m == l) break;
            if (sweeps == MOST_SWEEPS) return false;
            sweep(s, l, m, x);
        }
    return isfinite(square);
}

void lnt_eigen(const lnt_kernels_f64 *ker, size_t n, size_t ld, double *a, double *values,
               double *vectors, double *scratch)
{
    const symmetric s = { .ker = ker, .n = n, .ld = ld, .d = values, .e = scratch,
                          .tau = scratch + ld, .pair = scratch + 2 * ld, .other = scratch + 4 * ld };
    make_tridiagonal(&s, a);
    make_rows(&s, a, vectors);
    if (make_diagonal(&s, vectors)) return;
    for (size_t i = 0; i < n; i++) values[i] = (double)NAN;
}
