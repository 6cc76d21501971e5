/* attention/cur/cur_pass.h - what the algorithms of CUR attention share: the landmarks of a head, what
 * it keeps of them between passes, and the passes over tiles of keys and of queries.
 *
 * Sequences are taken a group at a time (those of a padded batch all at once, packed ones one by
 * one), so that the memory depends on the plan's batch and not on the run.  Sums over the sequence
 * go through as many segments as the problem alone says, and are added in their order. */
#ifndef LNT_ATTENTION_CUR_CUR_PASS_H
#define LNT_ATTENTION_CUR_CUR_PASS_H

#include <math.h>

#include "attention/cur/cur.h"
#include "attention/algorithm.h"
#include "attention/cur/pinv.h"
#include "attention/tile.h"

enum { LNT_CUR_TILE_QUERIES = 64, LNT_CUR_TILE_KEYS = 32 };
_Static_assert(LNT_CUR_TILE_KEYS <= LNT_CUR_TILE_QUERIES,
               "backward keeps a tile of keys where one of queries fits");

/* The sequences in memory at once. */
typedef struct cur_group {
    lnt_run *run;
    int64_t first, count;
    bool stored; /* C and R are in memory too */
} cur_group;

/* Sums over one segment. */
typedef struct cur_part {
    real *rows;      /* [Q, mp] R V before the division; backward, queries' pass: dW */
    real *max, *sum; /* [Mp] of the rows of R */
    real *land;      /* [Q, dp] backward: dk (queries' pass) or dq (keys' pass) of the landmarks */
} cur_part;

/* One head of one sequence.  M is the most landmarks there can be, Q with the probes of tuned, queries whose
 * rows are exact too.  Mp is Q padded; dp, mp are d and m. */
typedef struct cur_head {
    lnt_sequence seq;
    int64_t slot, h, kvh;   /* slot: the place of its sequence in the group */
    int64_t piece;          /* which one of it a step is for: lnt_cur_each */
    bool stored;            /* as its group */
    lnt_cur_mode mode;
    size_t queries, keys;   /* landmarks in use; the probes are the last of the queries */
    int64_t *i, *j;         /* [Q], [M] which tokens they are */
    real *qt;               /* [d, Mp] landmark queries times scale, one a column */
    real *k;                /* [M, dp] landmark keys */
    real *rv, *w;           /* [Q, mp] RV, [M, mp] U^+ RV */
    real *max, *sum, *lse;  /* [Mp] of the rows of R */
    double *u;              /* [Q, ld], the rows of C of the landmark queries */
    real *drv, *dw;         /* [Q, mp], [M, mp] backward */
    real *dq, *dk;          /* [Q, dp], [M, dp] backward, of the landmarks */
    real *c, *r;            /* stored: C in tiles [M, TQ], R [keys, Mp] */
    char *parts;            /* one after the other: lnt_cur_part */
    size_t part_bytes;
} cur_head;

/* One thread's. */
typedef struct cur_scratch {
    size_t d, m, dp, mp, M, Q, Mp, ld; /* ld: of what is double */
    real *qt;                          /* [d, TQ] queries, one a column */
    real *k_own, *v_own;               /* [TK, dp], [TK, mp] */
    real *x, *dx, *slope;              /* a tile: scores, then weights; their gradients */
    real *o;                           /* [TQ, mp] */
    real *max, *sum, *rescale, *delta; /* [Mp or TQ] */
    real *q, *dy, *dyt;                /* backward: [TQ, dp], [TQ, mp], [m, TQ] */
    real *dtq, *dtk, *dtv;             /* backward: dq [TQ, dp], dk, dv [TK, dp], [TK, mp] */
    real *rows, *transposed;               /* backward: landmark queries [Q, dp], drv^T [m, Mp] */
    double *ql, *kl;                   /* [Q, dp], [M, dp] landmarks, queries times scale */
    double *qlt, *klt;                 /* [d, Mp], [d, ld] the same, one a column */
    double *z, *dz, *du;               /* [M, ld], and [Q, ld] dz and du */
    double *narrow, *wide;             /* [Q, mp or dp] */
    double *keys, *near;               /* kmeans: [TK, dp] keys, [TK, ld] their scores */
    double *half, *members;            /* kmeans: [M] |s|^2 / 2 of the starts, keys of each */
    double *choosing;                  /* lnt_landmark_scratch */
    double *row, *dwide;               /* tuned: [mp], and backward [M, mp] */
    lnt_pinv_work pinv;
    int64_t undivided, divergent;      /* found in its steps: rows, see cur_divides; inverses */
    double rank;                       /* the least */
} cur_scratch;

/* What is done with a piece of a head; with the sums of a segment, before its tiles; with a tile, n keys or
 * queries from `first` on. */
typedef void cur_step(const cur_group *group, cur_scratch *s, cur_head *head);
typedef void cur_clear(const cur_scratch *s, const cur_part *part);
typedef void cur_tile(const lnt_run *run, cur_scratch *s, const cur_head *head, const cur_part *part,
                      int64_t first, size_t n);

#define lnt_cur_head LNT_REAL_NAME(lnt_cur_head)
#define lnt_cur_shared LNT_REAL_NAME(lnt_cur_shared)
#define lnt_cur_scratch LNT_REAL_NAME(lnt_cur_scratch)
#define lnt_cur_kept LNT_REAL_NAME(lnt_cur_kept)
#define lnt_cur_kept_of LNT_REAL_NAME(lnt_cur_kept_of)
#define lnt_cur_part LNT_REAL_NAME(lnt_cur_part)
#define lnt_cur_each_group LNT_REAL_NAME(lnt_cur_each_group)
#define lnt_cur_each LNT_REAL_NAME(lnt_cur_each)
#define lnt_cur_each_tile LNT_REAL_NAME(lnt_cur_each_tile)
#define lnt_cur_load LNT_REAL_NAME(lnt_cur_load)
#define lnt_cur_weigh LNT_REAL_NAME(lnt_cur_weigh)
#define lnt_cur_key_scores LNT_REAL_NAME(lnt_cur_key_scores)
#define lnt_cur_query_weights LNT_REAL_NAME(lnt_cur_query_weights)
#define lnt_cur_cluster_load LNT_REAL_NAME(lnt_cur_cluster_load)
#define lnt_cur_cluster_spread LNT_REAL_NAME(lnt_cur_cluster_spread)
#define lnt_cur_add_row LNT_REAL_NAME(lnt_cur_add_row)
#define lnt_cur_rows LNT_REAL_NAME(lnt_cur_rows)
#define lnt_cur_place_probes LNT_REAL_NAME(lnt_cur_place_probes)
#define lnt_cur_fit LNT_REAL_NAME(lnt_cur_fit)
#define lnt_cur_fit_back LNT_REAL_NAME(lnt_cur_fit_back)
#define lnt_cur_laplace LNT_REAL_NAME(lnt_cur_laplace)
#define lnt_cur_begin LNT_REAL_NAME(lnt_cur_begin)
#define lnt_cur_forward LNT_REAL_NAME(lnt_cur_forward)
#define lnt_cur_backward LNT_REAL_NAME(lnt_cur_backward)

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The most landmarks a sequence of this plan can have; short ones take all keys or queries. */
static inline size_t cur_most(const lnt_attn_desc *p)
{
    const int64_t longest = p->length_q > p->length_k ? p->length_q : p->length_k;
    return (size_t)(longest < p->cur.landmarks ? longest : p->cur.landmarks);
}

/* Whether a sequence of this plan can be long enough for an inverse. */
static inline bool cur_inverts(const lnt_attn_desc *p)
{
    return p->length_q > p->cur.landmarks && p->length_k > p->cur.landmarks;
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

/* Queries beside the landmarks whose rows tell which ridge is right, and are fitted too: at most. */
static inline size_t cur_probes(const lnt_attn_desc *p)
{
    const size_t most = lnt_round_up((size_t)p->cur.landmarks, 8);
    return p->cur.pinv != LNT_PINV_TUNED || !cur_inverts(p) ? 0 : most < 16 ? most : 16;
}

static inline bool cur_is_laplace(const lnt_attn_desc *p)
{
    return p->cur.activation == LNT_ACTIVATION_LAPLACE;
}

/* From which of its queries on a head's rows are taken as they are: all that are tokens, or none. */
static inline size_t cur_first_copied(const lnt_attn_desc *p, const cur_head *head)
{
    if (head->mode != LNT_CUR_LANDMARKS || !p->cur.copy_rows) return head->queries;
    return lnt_cur_query_means(p) ? (size_t)p->cur.landmarks : 0;
}

/* ---- the parts of a run ---------------------------------------------------------------------- */

/* Bytes a run shares, with C and R if `stored`; and bytes for each thread. */
size_t lnt_cur_shared(const lnt_attn_desc *p, bool stored);
size_t lnt_cur_scratch(const lnt_attn_desc *p);

/* Bytes that forward keeps for backward: of the inverses.  Those of a head; NULL: none. */
size_t lnt_cur_kept(const lnt_attn_desc *p);
double *lnt_cur_kept_of(const lnt_run *run, const cur_head *head);

/* Head h of the sequence at `slot` of the group. */
cur_head lnt_cur_head(const cur_group *group, int64_t slot, int64_t h);
cur_part lnt_cur_part(const lnt_attn_desc *p, const cur_head *head, int64_t segment);

/* Runs `work` on all sequences, a group after the other. */
void lnt_cur_each_group(lnt_run *run, bool stored, void (*work)(const cur_group *group));
/* Runs `step` on every head, cut into so many pieces; the run is told what steps have found. */
void lnt_cur_each(const cur_group *group, int64_t pieces, cur_step *step);
/* Runs `tile` on every tile of keys, or of queries, a segment after the other in each thread, and `clear`,
 * unless NULL, before each segment; on none where all of them are landmarks. */
void lnt_cur_each_tile(const cur_group *group, bool keys, cur_clear *clear, cur_tile *tile);

/* Everything before the inverse: the landmarks, U, rv and the statistics of R. */
void lnt_cur_begin(const cur_group *group);
/* Of that, rv and the statistics of R. */
void lnt_cur_rows(const cur_group *group);
/* tuned: which tokens are the probes, once the landmarks are chosen. */
void lnt_cur_place_probes(cur_head *head, size_t landmarks);
/* tuned: w, of u and rv; and from dw its drv and, into s->du, the gradient of u. */
lnt_pinv_report lnt_cur_fit(cur_scratch *s, cur_head *head);
lnt_pinv_report lnt_cur_fit_back(cur_scratch *s, cur_head *head);
/* s->ql, s->kl: the landmarks chosen, in double, the queries times scale. */
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

/* x [rows, width] becomes its Laplace activation, slope (unless NULL) its derivative. */
void lnt_cur_laplace(real *x, real *slope, size_t ld, size_t rows, size_t width);

void lnt_cur_forward(lnt_run *run, bool stored);
void lnt_cur_backward(lnt_run *run, bool stored);

/* What came of an inverse is reported. */
static inline void cur_report(cur_scratch *s, lnt_pinv_report report)
{
    s->divergent += report.diverged;
    s->rank = report.rank < s->rank ? report.rank : s->rank;
}

/* Whether a row of C or R can be divided by its sum; one that cannot is counted. */
static inline bool cur_divides(real sum) { return sum > 0 && isfinite(sum); }

#endif
