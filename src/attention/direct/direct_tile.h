/* attention/direct/direct_tile.h - tiles of the quadratic form: the scratch and the steps that forward
 * (direct.c) and backward (direct_backward.c) share. */
#ifndef LNT_ATTENTION_DIRECT_DIRECT_TILE_H
#define LNT_ATTENTION_DIRECT_DIRECT_TILE_H

#include "attention/direct/direct.h"

/* Queries and keys of a tile; keys of a strip where the diagonal crosses the tile; and how far apart
 * its first queries may stand. */
enum { TQ = LNT_TILE_QUERIES, TK = 64, STRIP = 16, EDGE = 16 };
_Static_assert(EDGE % LNT_PAD == 0, "a strip begins with a whole vector");

/* What backward holds of a tile of queries. */
typedef struct query_tile {
    real *qt, *q;             /* [D, TQ], [TQ, Dp] */
    real *dyt, *dy;           /* [m, TQ], [TQ, mp] */
    real *dq;                 /* [TQ, Dp] */
    real *statistic, *delta;  /* [TQ] */
    real *shrink;             /* [TQ]: hybrid, e^-max */
} query_tile;

typedef struct scratch {
    size_t D, m, Dp, mp; /* widths and padded widths */
    real *qt;            /* [D, TQ] */
    real *kt_own, *v_own; /* [D, TK], [TK, mp] */
    real *packs;          /* forward: kt and v of all tiles of a head's keys; NULL: they do not fit */
    int64_t packed;       /* the first so many of them are there */
    const real *kt;       /* [D, TK]: own, or in packs */
    const real *v;       /* [TK, ldv]: that, or the tensor itself */
    size_t ldv;
    real *x, *dx;        /* [TK, TQ] */
    real *w;             /* weights of the strip in forward: x, or where they are kept */
    real *y, *dy;        /* hybrid, the same of what is far: [TK, TQ] */
    real *fade;          /* hybrid: powers of the decay, from 0 on [TQ + TK] */
    real *o;             /* [TQ, mp] */
    real *max, *sum, *rescale; /* [TQ] */
    real *bias;          /* softmax: a part of its mask [TK, TQ] */
    real *distance;      /* softmax with slopes: |t - j| along a tile [TQ + TK] */
    real *capped;        /* softmax with a cap, backward: the scores once capped [TK, TQ] */
    real *power;         /* [TQ + TK] decay by distance */
    real *ones;          /* [TK] */
    real *k, *vt;        /* backward: [TK, Dp], [m, TK] */
    real *dk, *dv;       /* backward: [TK, Dp], [TK, mp] */
    real *columns;       /* backward: [D, TQ] */
    real *queries;       /* backward: query_tiles, one or all of a group of heads */
    size_t queries_size; /* numbers there */
    lnt_feature_tile feature;
} scratch;

/* A tile of one head's queries against one head's keys, and the strip of it that is next: all of
 * it, or, where not every query sees every key, a few keys and the queries that see one of them. */
typedef struct tile {
    lnt_sequence seq;
    int64_t h, kvh;
    int64_t q0, k0; /* first query and key, within the sequence */
    size_t nq, nk;
    int64_t offset; /* query i stands at key position i + offset, */
    int64_t behind, ahead; /* and sees so many keys about it: see attention/band.h */
    bool causal;
    double decay;
    size_t row, rows; /* the strip: keys row .. row+rows-1 of the tile, */
    size_t from;      /* queries from .. nq-1 */
} tile;

static inline query_rows tile_rows(const tile *t)
{
    return (query_rows){ &t->seq, t->h, t->q0, t->nq };
}

/* x [rows, TQ] of a strip as forward keeps it: where all weights are e^x the weights, relative to max
 * [TQ]; else, max NULL, the scores.  x NULL: nothing. */
typedef struct kept_strip {
    real *x, *max;
} kept_strip;

#define lnt_direct_take LNT_REAL_NAME(lnt_direct_take)
#define lnt_direct_open LNT_REAL_NAME(lnt_direct_open)
#define lnt_direct_begin LNT_REAL_NAME(lnt_direct_begin)
#define lnt_direct_values LNT_REAL_NAME(lnt_direct_values)
#define lnt_direct_next_strip LNT_REAL_NAME(lnt_direct_next_strip)
#define lnt_direct_mask LNT_REAL_NAME(lnt_direct_mask)
#define lnt_direct_first_key LNT_REAL_NAME(lnt_direct_first_key)
#define lnt_direct_end_key LNT_REAL_NAME(lnt_direct_end_key)
#define lnt_direct_decay LNT_REAL_NAME(lnt_direct_decay)
#define lnt_direct_scores LNT_REAL_NAME(lnt_direct_scores)
#define lnt_direct_keeps_all LNT_REAL_NAME(lnt_direct_keeps_all)
#define lnt_direct_kept_strip LNT_REAL_NAME(lnt_direct_kept_strip)
#define lnt_direct_copy_strip LNT_REAL_NAME(lnt_direct_copy_strip)
#define lnt_direct_rescale LNT_REAL_NAME(lnt_direct_rescale)
#define lnt_direct_fold_max LNT_REAL_NAME(lnt_direct_fold_max)
#define lnt_direct_attend LNT_REAL_NAME(lnt_direct_attend)
#define lnt_direct_threads LNT_REAL_NAME(lnt_direct_threads)

tile LNT_REAL_NAME(lnt_direct_tile)(const lnt_run *run, const lnt_sequence *seq, int64_t h);
#define lnt_direct_tile LNT_REAL_NAME(lnt_direct_tile)

/* Numbers in a query_tile; that which begins at `at`. */
size_t LNT_REAL_NAME(lnt_direct_query_size)(const lnt_attn_desc *p);
#define lnt_direct_query_size LNT_REAL_NAME(lnt_direct_query_size)
query_tile LNT_REAL_NAME(lnt_direct_query_tile)(const scratch *s, real *at);
#define lnt_direct_query_tile LNT_REAL_NAME(lnt_direct_query_tile)
/* Whether the query_tiles of all heads of a group, which backward can do with in one pass, are few
 * enough to keep. */
bool LNT_REAL_NAME(lnt_direct_keeps_queries)(const lnt_attn_desc *p);
#define lnt_direct_keeps_queries LNT_REAL_NAME(lnt_direct_keeps_queries)

/* This thread's scratch; and that ready for a sequence and kv head. */
scratch lnt_direct_open(const lnt_run *run);
void lnt_direct_begin(const lnt_direct *kind, const lnt_run *run, scratch *s,
                      const lnt_sequence *seq, int64_t kvh);
/* v of the tile, all its keys: where it lies, or in v_own. */
void lnt_direct_values(const lnt_run *run, const kernels *ker, scratch *s, const tile *t);
/* The next strip of the tile; false past the last.  The tile before its first has rows 0. */
bool lnt_direct_next_strip(tile *t);
/* x [rows, TQ] of the strip: `value` where the key is not seen; times decay^distance; the scores. */
void lnt_direct_mask(const tile *t, real *x, real value);
void lnt_direct_decay(const tile *t, real *power, real *x);
void lnt_direct_scores(const lnt_direct *kind, const lnt_run *run, const kernels *ker, const scratch *s,
                       const tile *t, const real *qt);
/* The keys that some query of the tile sees lie in tiles from that of the first on, and before the end. */
int64_t lnt_direct_first_key(const tile *t);
int64_t lnt_direct_end_key(const tile *t);
/* Whether forward keeps every strip of the sequence for backward; where it keeps this one; and a copy
 * of it there or back. */
bool lnt_direct_keeps_all(const lnt_direct *kind, const lnt_run *run, const lnt_sequence *seq);
kept_strip lnt_direct_kept_strip(const lnt_direct *kind, const lnt_run *run, const tile *t);
void lnt_direct_copy_strip(const kernels *ker, real *to, const real *x, const tile *t);
/* o times rescale; w of the scores, e^(x - max), added to sum and max, to which o is made relative. */
void lnt_direct_rescale(const kernels *ker, const scratch *s, const tile *t);
void lnt_direct_fold_max(const kernels *ker, scratch *s, const tile *t);
/* o, max, sum of the query tile t over all its keys. */
void lnt_direct_attend(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                       tile *t);
int lnt_direct_threads(const lnt_run *run);

#endif
