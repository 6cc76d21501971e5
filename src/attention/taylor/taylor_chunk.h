/* attention/taylor/taylor_chunk.h - one head of Taylor attention in chunks of tokens and blocks of
 * monomials: the scratch and the steps that forward (taylor_state.c) and backward
 * (taylor_gradient.h) share. */
#ifndef LNT_ATTENTION_TAYLOR_TAYLOR_CHUNK_H
#define LNT_ATTENTION_TAYLOR_TAYLOR_CHUNK_H

#include "attention/head.h"
#include "attention/taylor/taylor.h"

/* Tokens in a chunk; monomials in a block, and up to one run more. */
enum { TOKENS = LNT_TILE_QUERIES, BLOCK = 64 };

/* Where a walk over the monomials stands: the run to come, and the place of its first monomial. */
typedef struct cursor {
    lnt_basis_run run;
    size_t feature;
} cursor;

typedef struct taylor_scratch {
    cursor first;                  /* a walk is over the monomials from here ... */
    size_t end;                    /* ... to here: all of them, or a part */
    size_t d, m, F, dp, mp, heads; /* heads that share a state */
    size_t terms;
    real a[LNT_MAX_TERMS];
    head_sums sums;
    real *kt, *qt;       /* [d, TOKENS], [heads][d, TOKENS], q times scale */
    real *k_own, *v_own; /* [TOKENS, dp], [TOKENS, mp] */
    const real *k, *v;   /* those, or the tensors themselves */
    size_t ldk, ldv;
    real *x;              /* scores, then weights [keys, TOKENS] */
    real *o, *den;        /* [heads][TOKENS, mp], [heads][TOKENS] */
    real *phi;            /* [BLOCK + d, TOKENS] */
    real *prefix;         /* [terms + 1][TOKENS]: products of the first indices */
    lnt_monomial_step *steps; /* [BLOCK terms]: those of a block of monomials, `steps_listed`; */
    size_t steps_listed;
    bool begins;          /* it begins with the monomial 1, for which there is none */
    real *added_z;        /* [BLOCK + d]: what a chunk adds to z; */
    real *added_s;        /* [BLOCK + d, mp]: and to S, where sums are compensated */
    real *ones, *inverse; /* [TOKENS] */
    double *mean;         /* [d], where keys are centred by it */
    const double *center; /* what is taken from every key: mean, the descriptor's, or NULL */
    /* backward */
    head_sums grad;          /* gradient of the state after this chunk */
    real *dn, *dnt;       /* [heads][TOKENS, mp], [heads][m, TOKENS] */
    real *dden;           /* [heads][TOKENS] */
    real *dx;             /* gradient of the scores [keys, TOKENS] */
    real *dt;             /* of q or k [heads][d, TOKENS] */
    real *vt, *dv;        /* [m, TOKENS], [TOKENS, mp]; dv may be where o is */
    real *q, *dk;         /* [TOKENS, dp] */
    real *up, *next;      /* gradient of a prefix [TOKENS] */
} taylor_scratch;

#define lnt_taylor_take LNT_REAL_NAME(lnt_taylor_take)
#define lnt_taylor_prepare LNT_REAL_NAME(lnt_taylor_prepare)
#define lnt_taylor_open_in LNT_REAL_NAME(lnt_taylor_open_in)
#define lnt_taylor_open LNT_REAL_NAME(lnt_taylor_open)
#define lnt_taylor_part LNT_REAL_NAME(lnt_taylor_part)
#define lnt_taylor_at_end LNT_REAL_NAME(lnt_taylor_at_end)
#define lnt_taylor_skip LNT_REAL_NAME(lnt_taylor_skip)
#define lnt_taylor_list LNT_REAL_NAME(lnt_taylor_list)
#define lnt_taylor_make LNT_REAL_NAME(lnt_taylor_make)
#define lnt_taylor_block_grad LNT_REAL_NAME(lnt_taylor_block_grad)
#define lnt_taylor_load_keys LNT_REAL_NAME(lnt_taylor_load_keys)
#define lnt_taylor_load_queries LNT_REAL_NAME(lnt_taylor_load_queries)
#define lnt_taylor_scores LNT_REAL_NAME(lnt_taylor_scores)
#define lnt_taylor_read_within LNT_REAL_NAME(lnt_taylor_read_within)
#define lnt_taylor_walk LNT_REAL_NAME(lnt_taylor_walk)
#define lnt_taylor_add_alone LNT_REAL_NAME(lnt_taylor_add_alone)
#define lnt_taylor_finish LNT_REAL_NAME(lnt_taylor_finish)
#define lnt_taylor_monomials LNT_REAL_NAME(lnt_taylor_monomials)
#define lnt_taylor_parts LNT_REAL_NAME(lnt_taylor_parts)
#define lnt_taylor_parts_shared LNT_REAL_NAME(lnt_taylor_parts_shared)
#define lnt_taylor_parts_forward LNT_REAL_NAME(lnt_taylor_parts_forward)
#define lnt_taylor_parts_backward LNT_REAL_NAME(lnt_taylor_parts_backward)
#define lnt_taylor_scratch LNT_REAL_NAME(lnt_taylor_scratch)
#define lnt_taylor_backward LNT_REAL_NAME(lnt_taylor_backward)

/* Tokens in a chunk where so many are left; 0: none. */
static inline size_t chunk_tokens(int64_t left)
{
    return left <= 0 ? 0 : left < TOKENS ? (size_t)left : TOKENS;
}

/* Head g of the group that shares the state; n queries of it from query t on. */
static inline int64_t head_of(const head_job *job, const taylor_scratch *s, size_t g)
{
    return job->kvh * (int64_t)s->heads + (int64_t)g;
}

static inline query_rows queries_of(const head_job *job, const taylor_scratch *s, size_t g,
                                    int64_t t, size_t n)
{
    return (query_rows){ &job->seq, head_of(job, s, g), t, n };
}

/* All but sums. */
taylor_scratch lnt_taylor_take(lnt_arena *arena, const lnt_attn_desc *p);
/* For a walk over all monomials. */
void lnt_taylor_prepare(const lnt_attn_desc *p, taylor_scratch *s);
/* What is left of an arena, and this thread's scratch, sums included unless a state is always given:
 * ready for a walk over all monomials of the job.  center is still to be set. */
taylor_scratch lnt_taylor_open_in(lnt_arena *arena, const head_job *job);
taylor_scratch lnt_taylor_open(const head_job *job);
size_t lnt_taylor_scratch(const lnt_attn_desc *p); /* bytes */

/* Where part `part` of `parts` begins, and the one before it ends. */
cursor lnt_taylor_part(const taylor_scratch *s, size_t part, size_t parts);
bool lnt_taylor_at_end(const taylor_scratch *s, const cursor *c);
/* Goes past the next block of monomials; how many they are. */
size_t lnt_taylor_skip(const taylor_scratch *s, cursor *c);
/* ... and lists the steps that make them; */
size_t lnt_taylor_list(taylor_scratch *s, cursor *c);
/* those of xt [d, TOKENS] in phi. */
void lnt_taylor_make(const kernels *ker, taylor_scratch *s, const real *xt, size_t lanes, bool query);
/* dxt [d, TOKENS] += the gradient of xt, given that of the `made` monomials from c on in phi, which
 * it overwrites. */
void lnt_taylor_block_grad(const kernels *ker, taylor_scratch *s, cursor c, size_t made,
                           const real *xt, real *dxt, size_t lanes, bool query);

/* Keys t .. t+n-1 of the sequence; queries t .. t+n-1 of every head, with nothing summed yet. */
void lnt_taylor_load_keys(const head_job *job, taylor_scratch *s, int64_t t, size_t n);
void lnt_taylor_load_queries(const head_job *job, taylor_scratch *s, int64_t t, size_t n);
/* x [key, query] of head g of the group, over the keys and queries loaded. */
void lnt_taylor_scores(const head_job *job, taylor_scratch *s, size_t g, size_t n);
/* The direct form over the keys of the chunk, each query up to its own. */
void lnt_taylor_read_within(const head_job *job, taylor_scratch *s, size_t n);
/* One walk: the queries read S and z, then the keys are added to them. */
void lnt_taylor_walk(const head_job *job, taylor_scratch *s, size_t queries, size_t keys);
/* The keys that no query comes before are added. */
void lnt_taylor_add_alone(const head_job *job, taylor_scratch *s);

/* n queries of every head of the group from query t on are summed: divided and stored. */
int64_t lnt_taylor_finish(const head_job *job, taylor_scratch *s, int64_t t, size_t n);

/* All monomials of one vector x [d], of a query times coefficients a and orderings: out [F]. */
void lnt_taylor_monomials(const lnt_attn_desc *p, const real *a, const real *x, bool query,
                          real *out);

/* The parts that each state of a run is cut into, 1: none; the bytes of lnt_run.shared with what that
 * takes; and the runs. */
size_t lnt_taylor_parts(const lnt_run *run);
size_t lnt_taylor_parts_shared(const lnt_attn_desc *p);
void lnt_taylor_parts_forward(lnt_run *run);
void lnt_taylor_parts_backward(lnt_run *run);

void lnt_taylor_backward(lnt_run *run);

#endif
