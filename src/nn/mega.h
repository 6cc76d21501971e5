/* nn/mega.h - MEGA's gated attention over a moving average, in place of the first branch of a block. */
#ifndef LNT_NN_MEGA_H
#define LNT_NN_MEGA_H

#include "core/arena.h"
#include "nn/attention.h"
#include "nn/full.h"
#include "nn/param.h"
#include "nn/pass.h"

enum {
    LNT_MEGA_VALUE, LNT_MEGA_VALUE_BIAS,
    LNT_MEGA_DELTA, LNT_MEGA_ALPHA, LNT_MEGA_BETA, LNT_MEGA_GAMMA, LNT_MEGA_OMEGA, /* nn/ema.h */
    LNT_MEGA_GATE, LNT_MEGA_GATE_BIAS,     /* u */
    LNT_MEGA_SHARED, LNT_MEGA_SHARED_BIAS, /* z, from which queries and keys are made */
    LNT_MEGA_RESET, LNT_MEGA_RESET_BIAS,   /* r */
    LNT_MEGA_CANDIDATE, LNT_MEGA_CANDIDATE_BIAS, LNT_MEGA_ATTENDED, /* of the token, and of its attention */
    LNT_MEGA_QK_GAIN, LNT_MEGA_QK_BIAS, /* [2,heads dim] */
    LNT_MEGA_DISTANCE, /* [heads,2 reach - 1] */
    LNT_MEGA_PARAMS
};

typedef struct lnt_mega_shape {
    size_t dim, heads, head_dim, values; /* values: of all heads */
    size_t hidden;                       /* averages in a channel, of past and future each */
    lnt_full_shape full;
} lnt_mega_shape;

lnt_param lnt_mega_param(const lnt_mega_shape *shape, int i);

#define lnt_mega LNT_REAL_NAME(lnt_mega)
#define lnt_mega_kept LNT_REAL_NAME(lnt_mega_kept)
#define lnt_mega_scratch LNT_REAL_NAME(lnt_mega_scratch)
#define lnt_mega_take_kept LNT_REAL_NAME(lnt_mega_take_kept)
#define lnt_mega_take_scratch LNT_REAL_NAME(lnt_mega_take_scratch)
#define lnt_mega_forward LNT_REAL_NAME(lnt_mega_forward)
#define lnt_mega_backward LNT_REAL_NAME(lnt_mega_backward)

typedef struct lnt_mega_kept {
    real *value_in, *value;         /* [n,values]: before and after the activation */
    real *average, *smooth;         /* [n,dim]: the same of the moving average */
    real *gate_in, *gate;           /* [n,dim] */
    real *shared_in, *shared;       /* [n,heads head_dim] */
    real *reset_in, *reset;         /* [n,values] */
    real *qk;                       /* [n,2,heads head_dim] */
    real *attended, *passed;        /* [n,values]: before and after the reset */
    real *candidate_in, *candidate; /* [n,dim] */
    void *attention;                /* the block's */
} lnt_mega_kept;

typedef struct lnt_mega_scratch {
    real *dim[3];    /* [n,dim] */
    real *values[3]; /* [n,values] */
    real *qk;        /* [n,2,heads head_dim] */
    real *shared;    /* [n,heads head_dim] */
    real *past;      /* [threads,length,hidden] */
} lnt_mega_scratch;

void lnt_mega_take_kept(lnt_arena *arena, const lnt_mega_shape *shape, size_t n, lnt_mega_kept *out);
void lnt_mega_take_scratch(lnt_arena *arena, const lnt_mega_shape *shape, size_t n, size_t length,
                   size_t threads, lnt_mega_scratch *out);

/* The layer as one pass goes through it: what it is, its parameters, and its memory. */
typedef struct lnt_mega {
    lnt_mega_shape shape;
    const lnt_attention *attention;
    real *const *w; /* [LNT_MEGA_PARAMS] */
    const lnt_mega_kept *kept;
    real *const *g; /* shaped as w, added to; this and scratch are for backward alone */
    const lnt_mega_scratch *scratch;
} lnt_mega;

/* normed = norm(x), y [n,dim].  y = u (h - x), a branch beside x. */
lnt_status lnt_mega_forward(const lnt_pass *pass, const lnt_mega *mega, const real *x,
                            const real *normed, real *y);
/* dy may be dx, which is added to, or dnormed [n,dim], which is overwritten. */
lnt_status lnt_mega_backward(const lnt_pass *pass, const lnt_mega *mega, const real *x,
                             const real *normed, const real *dy, real *dx, real *dnormed);

#endif
