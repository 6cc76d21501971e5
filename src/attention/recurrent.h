/* attention/recurrent.h - the recurrent form, token by token, of any mechanism whose weights are
 * phi(q).phi(k): what differs between mechanisms is phi. */
#ifndef LNT_ATTENTION_RECURRENT_H
#define LNT_ATTENTION_RECURRENT_H

#include "attention/linear_chunk.h"

/* phi of row n of head h into out [width]. */
typedef void lnt_phi(const lnt_run *run, lnt_feature_tile *feature, const lnt_tensor *x, int64_t b,
                     int64_t h, int64_t n, bool query, real *out, size_t ld);

#define lnt_recurrent_scratch LNT_REAL_NAME(lnt_recurrent_scratch)
#define lnt_recurrent_cost LNT_REAL_NAME(lnt_recurrent_cost)
#define lnt_recurrent_forward LNT_REAL_NAME(lnt_recurrent_forward)

size_t lnt_recurrent_scratch(const lnt_attn_desc *p); /* of the forward pass */
double lnt_recurrent_cost(const lnt_attn_desc *p);
void lnt_recurrent_forward(lnt_phi *phi, lnt_run *run);

#endif
