/* attention/cur/pinv.h - the pseudo-inverse of a small square matrix, and the way back through it.
 *
 * Always in double: it multiplies rounding errors by the inverse of the smallest singular value it
 * keeps, and it is small beside the rest.  Matrices are [M, ld], ld = M padded; what stands in the margin
 * does not matter. */
#ifndef LNT_ATTENTION_CUR_PINV_H
#define LNT_ATTENTION_CUR_PINV_H

#include "core/arena.h"
#include "cpu/kernels.h"

/* Iterations up to which products are faster than eigenvectors, and as good: 30 or more products invert
 * what is rounding. */
enum { LNT_PINV_PRODUCTS = 8 };

enum { LNT_PINV_TEMPORARIES = 5 };

/* Room for one inverse at a time. */
typedef struct lnt_pinv_work {
    const lnt_kernels_f64 *ker;
    size_t M, ld;
    lnt_pinv kind;
    lnt_pinv_init init;
    size_t iterations;
    double ridge;
    double *t[LNT_PINV_TEMPORARIES];
    double *rows; /* of attention/spectrum.h */
} lnt_pinv_work;

/* What there is to say about an inverse. */
typedef struct lnt_pinv_report {
    double rank; /* trace(u z) */
    bool diverged;
} lnt_pinv_report;

/* Not a multiple of 64: numbers below each other would all go to the same few places of the cache. */
static inline size_t lnt_pinv_ld(const lnt_attn_desc *p)
{
    const size_t ld = lnt_round_up((size_t)p->cur.landmarks, LNT_PAD);
    return ld % 64 ? ld : ld + LNT_PAD;
}

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
