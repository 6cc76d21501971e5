/* attention/pinv.h - the pseudo-inverse of a small square matrix, and the way back through it.
 *
 * Always in double: it multiplies rounding errors by the inverse of the smallest singular value it
 * keeps, and it is small beside the rest.  Matrices are [M, ld], ld = M padded, with a margin of
 * 0. */
#ifndef LNT_ATTENTION_PINV_H
#define LNT_ATTENTION_PINV_H

#include "core/arena.h"
#include "cpu/kernels.h"

enum { LNT_PINV_TEMPORARIES = 8 };

/* Room for one inverse at a time. */
typedef struct lnt_pinv_work {
    const lnt_kernels_f64 *ker;
    size_t M, ld;
    lnt_pinv kind;
    lnt_pinv_init init;
    int64_t iterations;
    double ridge;
    int temporaries; /* forward needs five, backward all */
    double *t[LNT_PINV_TEMPORARIES];
} lnt_pinv_work;

/* What there is to say about an inverse. */
typedef struct lnt_pinv_report {
    double rank; /* trace(u z) */
    bool diverged;
} lnt_pinv_report;

static inline size_t lnt_pinv_ld(const lnt_attn_desc *p)
{
    return lnt_round_up((size_t)p->landmarks, LNT_PAD);
}

/* Cut from an arena, which may be counting; with room for the way back if p plans backward. */
lnt_pinv_work lnt_pinv_take(lnt_arena *arena, const lnt_attn_desc *p, int isa);

/* z = pinv(u).  If it diverges from the start asked for, it starts again from the safe one. */
lnt_pinv_report lnt_pinv_forward(const lnt_pinv_work *w, const double *u, double *z);

/* The same, and du = the gradient of u; overwrites dz. */
lnt_pinv_report lnt_pinv_backward(const lnt_pinv_work *w, const double *u, double *z, double *dz,
                                  double *du);

#endif
