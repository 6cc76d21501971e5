/* attention/cur/pinv.h - the pseudo-inverse of a small square matrix, and the way back through it.
 *
 * Always in double: it multiplies rounding errors by the inverse of the smallest singular value it
 * keeps, and it is small beside the rest.  Matrices are [M, ld], ld = M padded; what stands in the margin
 * does not matter. */
#ifndef LNT_ATTENTION_CUR_PINV_H
#define LNT_ATTENTION_CUR_PINV_H

#include "attention/cur/pinv_work.h"
#include "core/arena.h"

/* Cut from an arena, which may be counting; with room for the way back if p plans backward. */
lnt_pinv_work lnt_pinv_take(lnt_arena *arena, const lnt_attn_desc *p, int isa);

/* z = pinv(u).  If it diverges from the start asked for, it starts again from the safe one.  kept, unless
 * NULL, of lnt_pinv_kept numbers (0: none are of use), makes backward shorter, and this longer. */
lnt_pinv_report lnt_pinv_forward(const lnt_pinv_work *w, const double *u, double *z, double *kept);
size_t lnt_pinv_kept(const lnt_attn_desc *p);

/* Queries besides the landmarks whose y is known: count of them. */
typedef struct lnt_pinv_probes {
    size_t count, width, ld; /* width: of values; ld: of arrays of them */
    const double *c; /* [count, w->ld] their rows of C */
    const double *y; /* [count, ld] */
    const double *b; /* [M, ld] U^T R V */
    double *row;     /* [ld] */
} lnt_pinv_probes;

/* The ridge with which c pinv(u) R V is nearest to y; overwrites t[0] to t[2]. */
double lnt_pinv_tune(const lnt_pinv_work *w, const double *u, const lnt_pinv_probes *probes);

/* With f [rows, ld], which are those of u [M, ld] and more: x [M, ldx], which is f^T y, becomes
 * (f^T f + ridge |u|^2)^-1 of it.  After that lnt_pinv_solve does so to others. */
lnt_pinv_report lnt_pinv_fit(const lnt_pinv_work *w, const double *f, size_t rows, double *x, size_t ldx,
                             size_t columns);
void lnt_pinv_solve(const lnt_pinv_work *w, double *x, size_t ldx, size_t columns);

/* The same, and du = the gradient of u; overwrites dz.  kept: as forward left it, or NULL. */
lnt_pinv_report lnt_pinv_backward(const lnt_pinv_work *w, const double *u, const double *kept,
                                  double *z, double *dz, double *du);

#endif
