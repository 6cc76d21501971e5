/* attention/cur_pass.h - what the algorithms of CUR attention share: the landmarks of a head, what
 * it keeps of them between passes, and the passes over tiles of keys and of queries.
 *
 * Sequences are taken `group` at a time (those of a padded batch all at once, packed ones one by
 * one), so that the memory depends on the plan's batch and not on the run.  Sums over the sequence
 * go through as many segments as the problem alone says, and are added in their order. */
#ifndef LNT_ATTENTION_CUR_PASS_H
#define LNT_ATTENTION_CUR_PASS_H

#include <math.h>

#include "attention/cur.h"
#include "attention/mechanism.h"
#include "attention/pinv.h"
#include "attention/tile.h"
#include "core/threads.h"

enum { LNT_CUR_TILE_QUERIES = 64, LNT_CUR_TILE_KEYS = 32 };

/* Sums over one segment. */
typedef struct cur_part {
    real *rows;      /* [M, mp] R V before the division; backward, queries' pass: dW */
    real *max, *sum; /* [Mp] of the rows of R */
    real *land;      /* [M, dp] backward: dk (queries' pass) or dq (keys' pass) of the landmarks */
} cur_part;

/* One head of one sequence.  M is the most landmarks there can be; Mp, dp, mp are padded. */
typedef struct cur_head {
    lnt_sequence seq;
    int64_t h, kvh;
    lnt_cur_mode mode;
    size_t queries, keys;   /* landmarks in use */
    int64_t *i, *j;         /* [M] which tokens they are */
    real *qt;               /* [d, Mp] landmark queries times scale, one a column */
    real *k;                /* [M, dp] landmark keys */
    real *rv, *w;           /* [M, mp] RV, and U^+ RV */
    real *max, *sum, *lse;  /* [Mp] of the rows of R */
    double *u;              /* [M, ld] */
    real *drv, *dw;         /* [M, mp] backward */
    real *dq, *dk;          /* [M, dp] backward, of the landmarks */
    real *c, *r;            /* stored: C in tiles [M, TQ], R [keys, Mp] */
    char *parts;            /* one after the other: lnt_cur_part */
    size_t part_bytes;
} cur_head;

/* One thread's. */
typedef struct cur_scratch {
    size_t d, m, dp, mp, M, Mp;
    real *qt;                          /* [d, TQ] queries, one a column */
    real *k_own, *v_own;               /* [TK, dp], [TK, mp] */
    real *x, *dx, *slope;              /* a tile: scores, then weights; their gradients */
    real *o;                           /* [TQ, mp] */
    real *max, *sum, *rescale, *delta; /* [Mp or TQ] */
    real *q, *dy, *dyt;                /* backward: [TQ, dp], [TQ, mp], [m, TQ] */
    real *dtq, *dtk, *dtv;             /* backward: dq [TQ, dp], dk, dv [TK, dp], [TK, mp] */
    real *rows, *turned;               /* backward: landmark queries [M, dp], drv^T [m, Mp] */
    double *ql, *kl;                   /* [M, dp] landmarks, queries times scale */
    double *qlt, *klt;                 /* [d, ld] the same, one a column */
    double *z, *dz, *du;               /* [M, ld] */
    double *narrow, *wide;             /* [M, mp or dp] */
    double *keys, *near;               /* kmeans: [TK, dp] keys, [TK, ld] their scores */
    double *half, *members;            /* kmeans: [M] |s|^2 / 2 of the starts, keys of each */
    double *choosing;                  /* lnt_landmark_scratch */
    lnt_pinv_work pinv;
} cur_scratch;

#define lnt_cur_head LNT_REAL_NAME(lnt_cur_head)
#define lnt_cur_shared LNT_REAL_NAME(lnt_cur_shared)
#define lnt_cur_scratch LNT_REAL_NAME(lnt_cur_scratch)
#define lnt_cur_thread LNT_REAL_NAME(lnt_cur_thread)
#define lnt_cur_part LNT_REAL_NAME(lnt_cur_part)
#define lnt_cur_prepare LNT_REAL_NAME(lnt_cur_prepare)
#define lnt_cur_load LNT_REAL_NAME(lnt_cur_load)
#define lnt_cur_weigh LNT_REAL_NAME(lnt_cur_weigh)
#define lnt_cur_key_scores LNT_REAL_NAME(lnt_cur_key_scores)
#define lnt_cur_query_weights LNT_REAL_NAME(lnt_cur_query_weights)
#define lnt_cur_cluster_load LNT_REAL_NAME(lnt_cur_cluster_load)
#define lnt_cur_cluster_spread LNT_REAL_NAME(lnt_cur_cluster_spread)
#define lnt_cur_add_row LNT_REAL_NAME(lnt_cur_add_row)
#define lnt_cur_rows LNT_REAL_NAME(lnt_cur_rows)
#define lnt_cur_laplace LNT_REAL_NAME(lnt_cur_laplace)
#define lnt_cur_begin LNT_REAL_NAME(lnt_cur_begin)
#define lnt_cur_forward LNT_REAL_NAME(lnt_cur_forward)
#define lnt_cur_backward LNT_REAL_NAME(lnt_cur_backward)

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The most landmarks a sequence of this plan can have; short ones take all keys or queries. */
static inline size_t cur_most(const lnt_attn_desc *p)
{
    const int64_t longest = p->length_q > p->length_k ? p->length_q : p->length_k;
    return (size_t)(longest < p->landmarks ? longest : p->landmarks);
}

/* Whether a sequence of this plan can be long enough for an inverse. */
static inline bool cur_inverts(const lnt_attn_desc *p)
{
    return p->length_q > p->landmarks && p->length_k > p->landmarks;
}

/* Pieces that a pass over one head is cut into: few heads have more. */
static inline int64_t cur_segments(const lnt_attn_desc *p)
{
    const int64_t heads = p->batch * p->heads;
    return heads >= 16 || heads == 0 ? 1 : (16 + heads - 1) / heads;
}

/* Rows of the n of a pass that belong to segment s; whole tiles. */
static inline int64_t cur_segment_start(const lnt_attn_desc *p, int64_t n, int64_t tile, int64_t s)
{
    const int64_t segments = cur_segments(p), tiles = tiles_of(n, tile);
    const int64_t first = tiles * s / segments * tile;
    return first < n ? first : n;
}

static inline bool cur_is_laplace(const lnt_attn_desc *p)
{
    return p->activation == LNT_ACTIVATION_LAPLACE;
}

/* ---- the parts of a run ---------------------------------------------------------------------- */

/* Bytes a run shares, with C and R if `stored`; and bytes for each thread. */
size_t lnt_cur_shared(const lnt_attn_desc *p, bool stored);
size_t lnt_cur_scratch(const lnt_attn_desc *p);

/* Head h of sequence s, whose place in its group is `slot`. */
cur_head lnt_cur_head(const lnt_run *run, int64_t s, int64_t slot, int64_t h, bool stored);
cur_part lnt_cur_part(const lnt_attn_desc *p, const cur_head *head, int64_t segment);
cur_scratch lnt_cur_thread(const lnt_run *run);

/* Chooses the landmarks and loads them; U. */
void lnt_cur_prepare(const lnt_run *run, cur_scratch *s, cur_head *head);
/* s->ql, s->kl [M, dp]: the landmarks chosen, in double, the queries times scale. */
void lnt_cur_load(const lnt_run *run, cur_scratch *s, const cur_head *head);
/* w = s->z RV, where s->z is U^+. */
void lnt_cur_weigh(cur_scratch *s, cur_head *head);

/* x [nk, Mp]: scores of keys k0 .. of the sequence against the landmark queries; gives the keys. */
const real *lnt_cur_key_scores(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t k0,
                               size_t nk, real *x, size_t *ldk);
/* x [keys, TQ]: the weights of the landmark keys for queries q0 .., which stay in s->qt, still to
 * be divided by s->sum.  slope, for Laplace alone, may be NULL. */
void lnt_cur_query_weights(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t q0,
                           size_t nq, real *x, real *slope);

/* kmeans: to [M, dp] = the landmark keys; and the gradient land [M, dp] of them added to dk. */
void lnt_cur_cluster_load(const lnt_run *run, cur_scratch *s, const cur_head *head, double *to);
void lnt_cur_cluster_spread(const lnt_run *run, cur_scratch *s, const cur_head *head,
                            const real *land);
/* Adds part times x [d] to a row of t, which is a gradient of q or k. */
void lnt_cur_add_row(const lnt_run *run, cur_scratch *s, const lnt_tensor *t, int64_t b, int64_t h,
                     int64_t row, real part, const real *x);

/* rv and the statistics of R for every head of the `count` sequences from `first` on.  Rows of R that no
 * number divides: see cur_divides. */
int64_t lnt_cur_rows(const lnt_run *run, int64_t first, int64_t count, bool stored);

/* x [rows, width] becomes its Laplace activation, slope (unless NULL) its derivative. */
void lnt_cur_laplace(real *x, real *slope, size_t ld, size_t rows, size_t width);

/* Everything before the inverse, for every head of those sequences; gives what lnt_cur_rows does. */
int64_t lnt_cur_begin(const lnt_run *run, int64_t first, int64_t count, bool stored);

void lnt_cur_forward(lnt_run *run, bool stored);
void lnt_cur_backward(lnt_run *run, bool stored);

/* The sequences in memory at once. */
static inline int64_t cur_group(const lnt_run *run)
{
    return run->p->batch < run->sequences ? run->p->batch : run->sequences;
}

/* How many threads a pass over the sequences of a group is worth. */
static inline int cur_threads(const lnt_run *run, int64_t first, int64_t count)
{
    double tokens = 0;
    for (int64_t s = first; s < first + count; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        tokens += (double)(seq.nq + seq.nk);
    }
    const double width = (double)(run->p->dim + run->p->dim_value);
    return lnt_threads_for(run->ctx,
                           tokens * width * (double)cur_most(run->p) * (double)run->p->heads);
}

/* Whether a row of C or R can be divided by its sum; one that cannot is counted. */
static inline bool cur_divides(real sum) { return sum > 0 && isfinite(sum); }

#endif
