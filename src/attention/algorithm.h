/* attention/algorithm.h - what an algorithm is.
 *
 * An algorithm is one file that exports one const table per number type.  It says what it cannot do,
 * what it costs and how much scratch it needs; it runs forward, stops before the division when asked
 * for a partial, and runs backward.  The registry (attention/algorithms.def) lists the tables. */
#ifndef LNT_ATTENTION_ALGORITHM_H
#define LNT_ATTENTION_ALGORITHM_H

#include "attention/io.h"
#include "attention/problem.h"
#include "core/arena.h"

/* One evaluation.  Pointers are checked; the algorithm can only compute. */
typedef struct lnt_run {
    lnt_ctx *ctx;
    const lnt_attn_desc *p; /* resolved */
    const void *kernels;    /* of the numbers it computes with: run_kernels in tile.h */
    const void *weights;    /* random feature maps: see linear_feature.h; else NULL */
    char *shared;           /* algo->shared bytes, one for the run */
    char *scratch;          /* algo->scratch bytes for each thread, scratch_stride apart */
    size_t scratch_stride;
    const lnt_attn_io *io;
    int64_t sequences;
    bool causal;                 /* p->causal, or what a state operation needs */
    double sign;                 /* of what is added to a state: 1, or -1 to remove it */
    const lnt_partial *partial;  /* forward: write this instead of io->out */
    const lnt_attn_grads *grads; /* backward */
    void *statistics; /* two reals for every query, [2,B,H,N]: forward writes, backward of what it gave
                       * in io->out reads (keeps); NULL: neither */
    void *kept;       /* algo->kept bytes, the same of what else takes long; NULL: backward finds it again */
    lnt_state *recents;          /* whose recent tokens these follow; NULL: none, start with none */
    bool settle;                 /* put all recents into their state at the end */
    int64_t nonpositive;         /* out: rows whose denominator was not above zero, or infinite */
    int64_t divergent;           /* out, cur: pseudo-inverses that diverged at first */
    double rank;                 /* out, cur: the least of them; infinite if there was none */
} lnt_run;

typedef enum lnt_state_runs { LNT_STATE_RUNS_NONE, LNT_STATE_RUNS_FEW, LNT_STATE_RUNS_MANY } lnt_state_runs;

/* Every function is there, but those that say what NULL means. */
typedef struct lnt_algo {
    lnt_mechanism mechanism;
    const char *name;            /* "linear/chunked" */
    double rate;                 /* seconds per FLOP of `cost` where nobody calibrated */
    double (*cost)(const lnt_attn_desc *p); /* FLOPs this algorithm spends on a forward run */
    double both; /* forward runs that one with a backward run takes as long as; 0: as the others' */
    const char *(*refuses)(const lnt_attn_desc *p);   /* why not p, or NULL; NULL: it does any */
    int64_t tile;                /* tokens at a time; 0: one, or what `chunk` says */
    int64_t (*chunk)(const lnt_attn_desc *p);         /* NULL: see `tile` */
    bool takes_state;            /* runs with io->state_in, io->state_out */
    lnt_state_runs state_runs;   /* what a state of its mechanism runs through it */
    bool keeps;                  /* backward is faster with the statistics of forward, */
    size_t (*kept)(const lnt_attn_desc *p); /* bytes: and with its scores, or cur's eigenvectors; NULL or 0:
                                             * it is not */
    size_t (*shared)(const lnt_attn_desc *p);         /* bytes, once per run; may give 0 */
    size_t (*scratch)(const lnt_attn_desc *p);        /* bytes for each thread */
    void (*forward)(lnt_run *run);
    void (*backward)(lnt_run *run);
} lnt_algo;

/* Pairs of a query and a key, and queries plus keys, of one head over all sequences of a run. */
double lnt_run_pairs(const lnt_run *run);
double lnt_run_tokens(const lnt_run *run);

/* The most queries, or keys, that one of the `count` sequences from `first` on has. */
int64_t lnt_run_longest(const lnt_run *run, int64_t first, int64_t count, bool keys);

/* FLOPs of a forward and a backward run by the formulas of docs/math, of the quadratic form and of
 * the form with a state: what a benchmark may count, whatever the algorithm happens to do. */
double lnt_direct_flops(const lnt_attn_desc *p);
double lnt_direct_flops_backward(const lnt_attn_desc *p);
double lnt_state_flops(const lnt_attn_desc *p);
double lnt_state_flops_backward(const lnt_attn_desc *p);
double lnt_cur_flops(const lnt_attn_desc *p); /* of cur, through its landmarks */
double lnt_cur_flops_backward(const lnt_attn_desc *p);
double lnt_pairs(const lnt_attn_desc *p); /* visible (query, key) pairs, all heads and batches */

#endif
