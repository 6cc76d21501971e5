/* attention/linear/linear_chunk.h - one head of linear attention in chunks: the scratch and the steps that
 * forward (linear_chunked.c) and backward (linear_backward.c) share. */
#ifndef LNT_ATTENTION_LINEAR_LINEAR_CHUNK_H
#define LNT_ATTENTION_LINEAR_LINEAR_CHUNK_H

#include "attention/linear/linear_feature.h"
#include "attention/state/state.h"
#include "attention/tile.h"
#include "core/threads.h"

/* S [D, mp] and z [D]: a state, or the gradient of one; what their rounding lost, or NULL. */
typedef struct memory {
    real *s, *z;
    real *low_s, *low_z;
} memory;

typedef struct chunk_scratch {
    size_t C, Cp;        /* tokens in a chunk, padded */
    size_t D, m, Dp, mp; /* widths, padded */
    memory mem;          /* the state before this chunk */
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
    memory grad;     /* gradient of the state after this chunk */
    real *dn, *dnt;  /* gradient of the numerator [C, mp], and transposed [m, Cp] */
    real *dden;      /* gradient of the denominator [Cp] */
    real *vt;        /* v^T [m, Cp] */
    real *dv;        /* [C, mp] */
    real *dphi;      /* [D, Cp] */
} chunk_scratch;

/* One kv head of one sequence, whose number in a state is `sequence`. */
typedef struct chunk_job {
    lnt_run *run;
    const kernels *ker;
    lnt_sequence seq;
    int64_t sequence, kvh;
    double decay; /* as it was given: f32 has too few digits of one near 1 */
} chunk_job;

#define lnt_chunk_length LNT_REAL_NAME(lnt_chunk_length)
#define lnt_chunk_scratch LNT_REAL_NAME(lnt_chunk_scratch)
#define lnt_chunk_take LNT_REAL_NAME(lnt_chunk_take)
#define lnt_chunk_open_in LNT_REAL_NAME(lnt_chunk_open_in)
#define lnt_chunk_open LNT_REAL_NAME(lnt_chunk_open)
#define lnt_chunk_job LNT_REAL_NAME(lnt_chunk_job)
#define lnt_chunk_load_keys LNT_REAL_NAME(lnt_chunk_load_keys)
#define lnt_chunk_absorb LNT_REAL_NAME(lnt_chunk_absorb)
#define lnt_chunk_read LNT_REAL_NAME(lnt_chunk_read)
#define lnt_chunk_weights LNT_REAL_NAME(lnt_chunk_weights)
#define lnt_chunk_backward LNT_REAL_NAME(lnt_chunk_backward)
#define lnt_memory_take LNT_REAL_NAME(lnt_memory_take)
#define lnt_memory_of LNT_REAL_NAME(lnt_memory_of)
#define lnt_memory_copy LNT_REAL_NAME(lnt_memory_copy)

int64_t lnt_chunk_length(const lnt_attn_desc *p);
size_t lnt_chunk_scratch(const lnt_attn_desc *p);
chunk_scratch lnt_chunk_take(lnt_arena *arena, const lnt_attn_desc *p);
chunk_job lnt_chunk_job(lnt_run *run, int64_t sequence, int64_t kvh);
/* What is left of an arena, and this thread's scratch, ready for the job. */
chunk_scratch lnt_chunk_open_in(lnt_arena *arena, const chunk_job *job);
chunk_scratch lnt_chunk_open(const chunk_job *job);

/* phi(k) and v of n tokens from position t. */
void lnt_chunk_load_keys(const chunk_job *job, chunk_scratch *c, int64_t t, size_t n);
/* mem = decay^n mem + sum_j decay^(n-1-j) phi(k_j) [v_j, 1].  Overwrites v where decay < 1. */
void lnt_chunk_absorb(const chunk_job *job, chunk_scratch *c, size_t n);
/* o = phi(q) S, den = phi(q) z for n queries of head h from query t; `within`: the n keys loaded
 * stand at the same positions, and each query sees those up to its own. */
void lnt_chunk_read(const chunk_job *job, chunk_scratch *c, int64_t h, int64_t t, size_t n,
                    bool within);
/* pt[j,i] = decay^(i-j) phi(q_i).phi(k_j) for j <= i, else 0 in the columns that are read. */
void lnt_chunk_weights(const chunk_job *job, chunk_scratch *c, size_t n);

void lnt_chunk_backward(lnt_run *run);

/* Whether what is left of a number is had by taking away what is lost: a product with a factor near 1,
 * which is rounded to few digits of 1 - left, would be wrong by more with each chunk. */
static inline bool is_nearly_all(double left) { return left > 0.5; }

/* x [n] times `left`, a power of the decay. */
static inline void fade_numbers(const kernels *ker, real *x, double left, size_t n)
{
    if (is_nearly_all(left)) ker->axpy(x, (real)(left - 1), x, n);
    else ker->scale(x, (real)left, n);
}

/* Threads this run is worth. */
static inline int chunk_threads(const lnt_run *run)
{
    const double flops = 2 * (double)(lnt_problem_width(run->p) * run->p->dim_value);
    return lnt_threads_for(run->ctx, flops * (double)run->p->heads * lnt_run_tokens(run));
}

/* Room for a state of p; where sequence b, head h of a state lives; dst = src, zeros if src is none. */
memory lnt_memory_take(lnt_arena *arena, const lnt_attn_desc *p);
memory lnt_memory_of(const lnt_state *state, int64_t b, int64_t h);
void lnt_memory_copy(memory dst, memory src, size_t s_count, size_t z_count);

#endif
