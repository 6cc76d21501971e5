/* nn/attention.h - attention over tokens whose queries, keys and values are side by side. */
#ifndef LNT_NN_ATTENTION_H
#define LNT_NN_ATTENTION_H

#include "nn/pass.h"

#define lnt_attention LNT_REAL_NAME(lnt_attention)

/* Who is told what a layer attended to, and may change it; watch NULL: nobody. */
typedef struct lnt_watcher {
    lnt_status (*watch)(void *user, int64_t layer, const lnt_attn_desc *problem, const lnt_attn_io *io);
    void *user;
    int64_t layer;
} lnt_watcher;

/* The heads of a token are [q of all heads, k of all kv heads, v of all kv heads]. */
typedef struct lnt_attention {
    lnt_plan *plan;   /* whole sequences; or */
    lnt_state *state; /* tokens that follow those remembered */
    size_t heads, kv_heads, dim;
    bool learned;    /* the temperature, a factor of all scores of a head, is a parameter */
    bool normalised; /* by taylorshift: the plan applies it; otherwise it is applied to q before */
    const real *temperature; /* [heads], where it is learned */
    real *dtemperature;
    double *plan_temperature, *plan_dtemperature; /* [heads] of scratch, where the plan is tuned */
    real *tuned;  /* [batch,length,heads dim] of scratch, where queries are */
    size_t kept; /* bytes that the plan keeps for backward */
    real *scores; /* scratch of nn/full.h, where that attends */
    lnt_watcher watcher; /* of a plan */
} lnt_attention;

static inline bool lnt_attention_tunes_plan(const lnt_attention *a)
{
    return a->learned && a->normalised;
}

static inline bool lnt_attention_tunes_queries(const lnt_attention *a)
{
    return a->learned && !a->normalised;
}

static inline size_t lnt_attention_width(const lnt_attention *a)
{
    return (a->heads + 2 * a->kv_heads) * a->dim;
}

#define lnt_attention_forward LNT_REAL_NAME(lnt_attention_forward)
#define lnt_attention_backward LNT_REAL_NAME(lnt_attention_backward)

/* qkv [batch,length,width above], out [batch,length,heads dim]; kept [a->kept bytes] are for
 * backward. */
lnt_status lnt_attention_forward(const lnt_pass *pass, const lnt_attention *a, const real *qkv,
                                 real *out, void *kept);
/* out and kept as forward left them. */
lnt_status lnt_attention_backward(const lnt_pass *pass, const lnt_attention *a, const real *qkv,
                                  const real *out, const void *kept, const real *dout, real *dqkv);

#endif
