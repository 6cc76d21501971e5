/* attention/linear/linear_chunk.h - one head of linear attention in chunks: the scratch and the steps that
 * forward (linear_chunked.c) and backward (linear_backward.c) share. */
#ifndef LNT_ATTENTION_LINEAR_LINEAR_CHUNK_H
#define LNT_ATTENTION_LINEAR_LINEAR_CHUNK_H

#include "attention/head.h"
#include "attention/linear/linear_feature.h"

typedef struct chunk_scratch {
    size_t C, Cp;        /* tokens in a chunk, padded */
    size_t D, m, Dp, mp; /* widths, padded */
    head_sums sums;      /* the state before this chunk */
    real *k;             /* phi(k) [C, Dp] */
    real *v_own;         /* [C, mp] */
    const real *v;       /* [C, ldv]: v_own, or the tensor itself */
    size_t ldv;
    real *qt;            /* phi(q)^T [D, Cp] */
    real *pt;            /* weights [C keys, Cp queries] */
    real *o;             /* [C, mp] */
    real *den, *inverse; /* [Cp] */
    real *power;         /* decay^0 .. decay^C */
    real *aging;         /* decay^(C-1) .. decay^0: the last n are those of n tokens */
    real *ones;          /* [C] */
    real *added_s, *added_z; /* [D, mp], [Dp]: what a chunk adds, where sums are compensated */
    lnt_feature_tile feature;
    /* backward */
    head_sums grad;     /* gradient of the state after this chunk */
    real *dn, *dnt;  /* gradient of the numerator [C, mp], and transposed [m, Cp] */
    real *dden;      /* gradient of the denominator [Cp] */
    real *vt;        /* v^T [m, Cp] */
    real *dv;        /* [C, mp] */
    real *dphi;      /* [D, Cp] */
} chunk_scratch;

#define lnt_chunk_length LNT_REAL_NAME(lnt_chunk_length)
#define lnt_chunk_scratch LNT_REAL_NAME(lnt_chunk_scratch)
#define lnt_chunk_take LNT_REAL_NAME(lnt_chunk_take)
#define lnt_chunk_open_in LNT_REAL_NAME(lnt_chunk_open_in)
#define lnt_chunk_open LNT_REAL_NAME(lnt_chunk_open)
#define lnt_chunk_load_keys LNT_REAL_NAME(lnt_chunk_load_keys)
#define lnt_chunk_absorb LNT_REAL_NAME(lnt_chunk_absorb)
#define lnt_chunk_add_alone LNT_REAL_NAME(lnt_chunk_add_alone)
#define lnt_chunk_read LNT_REAL_NAME(lnt_chunk_read)
#define lnt_chunk_weights LNT_REAL_NAME(lnt_chunk_weights)
#define lnt_chunk_backward LNT_REAL_NAME(lnt_chunk_backward)

int64_t lnt_chunk_length(const lnt_attn_desc *p);
size_t lnt_chunk_scratch(const lnt_attn_desc *p);
chunk_scratch lnt_chunk_take(lnt_arena *arena, const lnt_attn_desc *p);
/* What is left of an arena, and this thread's scratch, ready for the job. */
chunk_scratch lnt_chunk_open_in(lnt_arena *arena, const head_job *job);
chunk_scratch lnt_chunk_open(const head_job *job);

/* phi(k) and v of n tokens from position t. */
void lnt_chunk_load_keys(const head_job *job, chunk_scratch *c, int64_t t, size_t n);
/* sums = decay^n sums + sum_j decay^(n-1-j) phi(k_j) [v_j, 1].  Overwrites v where decay < 1. */
void lnt_chunk_absorb(const head_job *job, chunk_scratch *c, size_t n);
/* The keys that no query comes before, in chunks. */
void lnt_chunk_add_alone(const head_job *job, chunk_scratch *c);
/* o = phi(q) S, den = phi(q) z for n queries of head h from query t; `within`: the n keys loaded
 * stand at the same positions, and each query sees those up to its own. */
void lnt_chunk_read(const head_job *job, chunk_scratch *c, int64_t h, int64_t t, size_t n,
                    bool within);
/* pt[j,i] = decay^(i-j) phi(q_i).phi(k_j) for j <= i, else 0 in the columns that are read. */
void lnt_chunk_weights(const head_job *job, chunk_scratch *c, size_t n);

void lnt_chunk_backward(lnt_run *run);

#endif
