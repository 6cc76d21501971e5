/* nn/qk_norm.h - RMSNorm of every head of queries and keys, before they turn. */
#ifndef LNT_NN_QK_NORM_H
#define LNT_NN_QK_NORM_H

#include "nn/pass.h"

#define lnt_qk_norm LNT_REAL_NAME(lnt_qk_norm)
#define lnt_qk_norm_forward LNT_REAL_NAME(lnt_qk_norm_forward)
#define lnt_qk_norm_backward LNT_REAL_NAME(lnt_qk_norm_backward)

typedef struct lnt_qk_norm {
    size_t heads, kv_heads, dim;
    double epsilon;
    const real *q, *k; /* gains [dim], the same for all heads */
    real *dq, *dk;     /* shaped as they are */
} lnt_qk_norm;

/* The heads of q, then of k, at the start of every row of x, rows ld apart, become their norms.  bare
 * [n,heads + kv_heads,dim] and stat [n,heads + kv_heads,2] are kept for backward; scratch [n,heads,dim]. */
void lnt_qk_norm_forward(const lnt_pass *pass, const lnt_qk_norm *layer, real *x, size_t ld, real *bare,
                         real *stat, real *scratch);
/* dx, as x, comes in as the gradient of the norms and goes out as that of what they were made of. */
void lnt_qk_norm_backward(const lnt_pass *pass, const lnt_qk_norm *layer, real *dx, size_t ld,
                          const real *bare, const real *stat, real *scratch);

#endif
