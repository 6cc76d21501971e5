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

/* The same, and du = the gradient of u; overwrites dz.  kept: as forward left it, or NULL. */
lnt_pinv_report lnt_pinv_backward(const lnt_pinv_work *w, const double *u, const double *kept,
                                  double *z, double *dz, double *du);

#endif
