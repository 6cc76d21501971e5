/* attention/taylor/taylor_gradient.h - the steps of Taylor attention backward on one chunk of tokens,
 * over all
 * monomials or a part of them.  Whole heads (taylor_backward.c) take the steps one after another; parts
 * (taylor_parts_backward.c) add what they have summed in between. */
#ifndef LNT_ATTENTION_TAYLOR_TAYLOR_GRADIENT_H
#define LNT_ATTENTION_TAYLOR_TAYLOR_GRADIENT_H

#include "attention/taylor/taylor_chunk.h"

/* Keys t .. t+n-1 of a sequence; `query` is where their queries begin, -1 if they have none. */
typedef struct key_chunk {
    int64_t t, query;
    size_t n;
} key_chunk;

#define lnt_taylor_read_chunk LNT_REAL_NAME(lnt_taylor_read_chunk)
#define lnt_taylor_quotient LNT_REAL_NAME(lnt_taylor_quotient)
#define lnt_taylor_reload LNT_REAL_NAME(lnt_taylor_reload)
#define lnt_taylor_grad_queries LNT_REAL_NAME(lnt_taylor_grad_queries)
#define lnt_taylor_store_dq LNT_REAL_NAME(lnt_taylor_store_dq)
#define lnt_taylor_key_chunk LNT_REAL_NAME(lnt_taylor_key_chunk)
#define lnt_taylor_grad_keys LNT_REAL_NAME(lnt_taylor_grad_keys)
#define lnt_taylor_store_keys LNT_REAL_NAME(lnt_taylor_store_keys)
#define lnt_taylor_walk_queries LNT_REAL_NAME(lnt_taylor_walk_queries)
#define lnt_taylor_walk_keys LNT_REAL_NAME(lnt_taylor_walk_keys)
#define lnt_taylor_transpose_dn LNT_REAL_NAME(lnt_taylor_transpose_dn)

/* Steps of those below.  dnt of head g from dn; dt += the gradient of n queries through S and z; dt and
 * dv += that of the keys loaded (columns, values and their columns) through the gradient of S and z, to
 * which queries are then added; either may be 0. */
void lnt_taylor_transpose_dn(const kernels *ker, taylor_scratch *s, size_t g, size_t n);
void lnt_taylor_walk_queries(const head_job *job, taylor_scratch *s, size_t n);
void lnt_taylor_walk_keys(const head_job *job, taylor_scratch *s, size_t keys, size_t queries);

/* Forward over the sequence, n queries from query t on.  o and den are summed, unless forward kept what
 * they are for; */
void lnt_taylor_read_chunk(const head_job *job, taylor_scratch *s, int64_t t, size_t n);
/* those of head g of the group, once complete, give dn and dden, which are kept; */
void lnt_taylor_quotient(const head_job *job, taylor_scratch *s, size_t g, int64_t t, size_t n);
/* (a thread that has not taken the steps above loads what they leave) */
void lnt_taylor_reload(const head_job *job, taylor_scratch *s, int64_t t, size_t n);
/* dt is summed, causal the keys of the chunk go into S, else the queries into its gradient; */
void lnt_taylor_grad_queries(const head_job *job, taylor_scratch *s, size_t n);
/* dt of head g, once complete, is stored. */
void lnt_taylor_store_dq(const head_job *job, taylor_scratch *s, size_t g, int64_t t, size_t n);

/* Backward over the sequence.  Chunk i, the last one first; false past them all. */
bool lnt_taylor_key_chunk(const head_job *job, int64_t i, key_chunk *c);
/* dt and dv are summed, and the queries of the chunk go into the gradient of S; */
void lnt_taylor_grad_keys(const head_job *job, taylor_scratch *s, const key_chunk *c);
/* both, once complete, are stored. */
void lnt_taylor_store_keys(const head_job *job, taylor_scratch *s, const key_chunk *c);

#endif
