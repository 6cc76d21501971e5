/* nn/embedding.h - the embedding: a vector for each token. */
#ifndef LNT_NN_EMBEDDING_H
#define LNT_NN_EMBEDDING_H

#include "nn/layer.h"
#include "nn/weight.h"

#define lnt_embedding_forward LNT_REAL_NAME(lnt_embedding_forward)
#define lnt_embedding_unpack LNT_REAL_NAME(lnt_embedding_unpack)
#define lnt_embedding_backward LNT_REAL_NAME(lnt_embedding_backward)

/* y [n,width] = rows of table [vocabulary,width]; every token is below the vocabulary. */
void lnt_embedding_forward(const lnt_ctx *ctx, const int32_t *tokens, const real *table, real *y,
                           size_t n, size_t width);
/* ... of packed weights, which the float build alone takes. */
void lnt_embedding_unpack(const lnt_ctx *ctx, const int32_t *tokens, const lnt_weight *table, real *y,
                          size_t n);
void lnt_embedding_backward(const lnt_ctx *ctx, const int32_t *tokens, const real *dy, real *dtable,
                            size_t n, size_t width);

#endif
