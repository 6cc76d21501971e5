/* attention/recurrent.h - the recurrent form, token by token, of any mechanism whose weights are
 * phi(q).phi(k): what differs between mechanisms is this table. */
#ifndef LNT_ATTENTION_RECURRENT_H
#define LNT_ATTENTION_RECURRENT_H

#include "attention/head.h"
#include "attention/linear/linear_feature.h"

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

#define lnt_recurrent_scratch LNT_REAL_NAME(lnt_recurrent_scratch)
#define lnt_recurrent_cost LNT_REAL_NAME(lnt_recurrent_cost)
#define lnt_recurrent_forward LNT_REAL_NAME(lnt_recurrent_forward)

size_t lnt_recurrent_scratch(const lnt_recurrent *kind, const lnt_attn_desc *p); /* of forward */
/* However narrow the heads are, a key or a query takes as long as `each` operations. */
double lnt_recurrent_cost(const lnt_attn_desc *p, double each);
void lnt_recurrent_forward(const lnt_recurrent *kind, lnt_run *run);

#endif
