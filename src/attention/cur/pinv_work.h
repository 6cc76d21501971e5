/* attention/cur/pinv_work.h - the room for an inverse of pinv.c and spectrum.c, and what it reports. */
#ifndef LNT_ATTENTION_CUR_PINV_WORK_H
#define LNT_ATTENTION_CUR_PINV_WORK_H

#include "cpu/kernels.h"

/* Iterations up to which products are faster than eigenvectors, and as good: 30 or more products invert
 * what is rounding. */
enum { LNT_PINV_PRODUCTS = 8 };

enum { LNT_PINV_TEMPORARIES = 5 };

/* Ridges that tuned tries: powers of the root of 10. */
enum {
    LNT_PINV_STRONGEST = -2,
    LNT_PINV_WEAKEST = -12,
    LNT_PINV_TRIED = LNT_PINV_STRONGEST - LNT_PINV_WEAKEST + 1
};

/* Room for one inverse at a time. */
typedef struct lnt_pinv_work {
    const lnt_kernels_f64 *ker;
    size_t M, ld;
    lnt_pinv kind;
    lnt_pinv_init init;
    size_t iterations;
    double ridge;
    double *t[LNT_PINV_TEMPORARIES];
    double *rows; /* of attention/cur/spectrum.h */
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

#endif
