/* attention/recurrent.h - token by token: what every such form has, and the form of any mechanism whose
 * weights are phi(q).phi(k), where what differs between mechanisms is a table. */
#ifndef LNT_ATTENTION_RECURRENT_H
#define LNT_ATTENTION_RECURRENT_H

#include "attention/head.h"
#include "attention/linear/linear_feature.h"

/* What is at hand while a head goes token by token. */
typedef struct token {
    head_sums sums;
    real *phi;       /* of a query [Dp] */
    real *o, *part;  /* [mp] */
    real *scalar;    /* [LNT_PAD]: den, and room for what is one number a query */
    lnt_feature_tile feature;
    size_t D, m, Dp, mp;
    lnt_arena rest;  /* for what takes tokens into the sums */
} token;

/* Runs the states from `first` to before `last`; gives the denominators that are not above zero. */
typedef int64_t recurrent_share(const void *kind, lnt_run *run, lnt_arena *arena, int64_t first,
                                int64_t last);

/* phi of row n of head h of q or k into out [width]; or that row as scores see it [score width]. */
typedef void lnt_row_map(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                         int64_t n, bool query, real *out);

typedef struct lnt_recurrent {
    lnt_row_map *phi, *score;
    /* Scores x [padded] become weights; NULL: they are. */
    void (*weights)(const lnt_run *run, const kernels *ker, real *x, size_t padded);
    /* Puts n tokens into sums: k [n, ldk] as scores see them, v [n, ldv], which it may overwrite. */
    void (*absorb)(const head_job *job, lnt_arena *arena, head_sums sums, const real *k, size_t ldk,
                   real *v, size_t ldv, size_t n);
    void (*absorb_take)(lnt_arena *arena, const lnt_attn_desc *p); /* counts what absorb takes */
} lnt_recurrent;

#define lnt_token_take LNT_REAL_NAME(lnt_token_take)
#define lnt_token_pass LNT_REAL_NAME(lnt_token_pass)
#define lnt_recurrent_share LNT_REAL_NAME(lnt_recurrent_share)
#define lnt_recurrent_scratch LNT_REAL_NAME(lnt_recurrent_scratch)
#define lnt_recurrent_cost LNT_REAL_NAME(lnt_recurrent_cost)
#define lnt_recurrent_forward LNT_REAL_NAME(lnt_recurrent_forward)

token lnt_token_take(lnt_arena *arena, const lnt_attn_desc *p);
/* o = phi S, returning phi.z; before that, unless k [Dp] is NULL, S and z take k and v [mp] in. */
real lnt_token_pass(const kernels *ker, token *t, const real *k, const real *v, real decay);
/* A run, its states shared out to threads. */
void lnt_recurrent_share(lnt_run *run, int threads, recurrent_share *share, const void *kind);

size_t lnt_recurrent_scratch(const lnt_recurrent *kind, const lnt_attn_desc *p); /* of forward */
/* However narrow the heads are, a key or a query takes as long as `each` operations. */
double lnt_recurrent_cost(const lnt_attn_desc *p, double each);
void lnt_recurrent_forward(const lnt_recurrent *kind, lnt_run *run);

#endif
