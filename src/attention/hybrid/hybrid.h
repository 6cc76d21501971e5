/* attention/hybrid/hybrid.h - one head of hybrid attention in chunks of queries: the scratch and the
 * steps that
 * forward (hybrid_chunked.c) and backward (hybrid_backward.c) share.
 *
 * Tokens are counted from the first of the sequence, those of a state included.  A chunk whose first
 * query stands at token p meets the keys from its frontier on directly, and the sinks; those before the
 * frontier are in S. */
#ifndef LNT_ATTENTION_HYBRID_HYBRID_H
#define LNT_ATTENTION_HYBRID_HYBRID_H

#include <math.h>

#include "attention/taylor/taylor_gradient.h"

typedef struct lnt_far lnt_far;

typedef struct hybrid_scratch {
    taylor_scratch t;    /* queries, keys, sums, gradients; monomials where taylor is far */
    const lnt_far *far;
    bool summed;         /* keys before the frontier are in S; else there is no frontier */
    real *max, *shrink;  /* [heads][TOKENS]: of the scores so far, and e^-max */
    real *rescale;       /* [TOKENS] */
    real *y;             /* far weights of a tile, or their gradient [keys, TOKENS] */
    real *fade;          /* [TOKENS]: powers of the decay, from 0 on */
    /* where linear is far */
    lnt_feature_tile feature;
    size_t Dp;
    real *phi_q, *dphi_q; /* [heads][D, TOKENS] */
    real *phi_k, *rows;   /* [TOKENS, Dp]: of keys, and of the queries of one head */
    real *dphi_k;         /* [TOKENS, Dp] */
    real *back;           /* [d, TOKENS] */
} hybrid_scratch;

/* Some keys against the queries of a chunk, those from column `from` on, a whole number of vectors. */
typedef struct hybrid_tile {
    int64_t key;   /* the first, as a token */
    int64_t query; /* token of column 0 */
    size_t keys, queries, from;
    bool still;    /* every query stands at the same token, after all keys */
} hybrid_tile;

/* What differs between the mechanisms that may be far. */
struct lnt_far {
    void (*take)(lnt_arena *arena, const lnt_attn_desc *p, hybrid_scratch *s); /* NULL: nothing */
    /* The queries of every head, the keys, that were loaded are mapped; NULL: as they are. */
    void (*queries)(const head_job *job, hybrid_scratch *s, int64_t t, size_t n);
    void (*keys)(const head_job *job, hybrid_scratch *s, size_t n);
    /* Queries read S and z into o and den, then the keys loaded are added to them. */
    void (*walk)(const head_job *job, hybrid_scratch *s, size_t queries, size_t keys);
    /* y = the weights of a tile of head g, given its scores in x; only where they are far. */
    void (*weights)(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c);
    /* Where they are far, dx holds the gradient of the weights and becomes that of the scores, which
     * are in x; or it becomes 0, and y is the gradient of phi(q).phi(k), 0 where they are near.  Of
     * these two each mechanism has one. */
    void (*slope)(const head_job *job, hybrid_scratch *s, const hybrid_tile *c);
    void (*split)(const head_job *job, hybrid_scratch *s, const hybrid_tile *c);
    /* A tile that is far throughout and does not fade: x becomes the weights; and back, where x becomes
     * f w(x) and dx w'(x) f (dx - delta), f and delta by query.  NULL: as any other. */
    void (*whole)(const head_job *job, hybrid_scratch *s, const hybrid_tile *c);
    void (*whole_back)(const head_job *job, hybrid_scratch *s, const hybrid_tile *c, const real *f,
                       const real *delta);
    /* What y gives to the gradients of phi(q), phi(k); NULL: there are none. */
    void (*grad_queries)(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c);
    void (*grad_keys)(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c);
    /* As those of Taylor attention (taylor_gradient.h). */
    void (*walk_queries)(const head_job *job, hybrid_scratch *s, size_t n);
    void (*walk_keys)(const head_job *job, hybrid_scratch *s, size_t keys, size_t queries);
    /* dt of head g, or of the keys, += the gradients of phi, back through it; NULL: nothing. */
    void (*finish_queries)(const head_job *job, hybrid_scratch *s, size_t g, int64_t t, size_t n);
    void (*finish_keys)(const head_job *job, hybrid_scratch *s, size_t n);
};

#define lnt_far_taylor LNT_REAL_NAME(lnt_far_taylor)
#define lnt_far_linear LNT_REAL_NAME(lnt_far_linear)
#define lnt_hybrid_open_in LNT_REAL_NAME(lnt_hybrid_open_in)
#define lnt_hybrid_open LNT_REAL_NAME(lnt_hybrid_open)
#define lnt_hybrid_refuses LNT_REAL_NAME(lnt_hybrid_refuses)
#define lnt_hybrid_rows LNT_REAL_NAME(lnt_hybrid_rows)
#define lnt_hybrid_keep_window LNT_REAL_NAME(lnt_hybrid_keep_window)
#define lnt_hybrid_scratch LNT_REAL_NAME(lnt_hybrid_scratch)
#define lnt_hybrid_shared LNT_REAL_NAME(lnt_hybrid_shared)
#define lnt_hybrid_threads LNT_REAL_NAME(lnt_hybrid_threads)
#define lnt_hybrid_frontier LNT_REAL_NAME(lnt_hybrid_frontier)
#define lnt_hybrid_load_keys LNT_REAL_NAME(lnt_hybrid_load_keys)
#define lnt_hybrid_transpose_keys LNT_REAL_NAME(lnt_hybrid_transpose_keys)
#define lnt_hybrid_load_queries LNT_REAL_NAME(lnt_hybrid_load_queries)
#define lnt_hybrid_tile_of LNT_REAL_NAME(lnt_hybrid_tile_of)
#define lnt_hybrid_next_tile LNT_REAL_NAME(lnt_hybrid_next_tile)
#define lnt_hybrid_far_from LNT_REAL_NAME(lnt_hybrid_far_from)
#define lnt_hybrid_scores LNT_REAL_NAME(lnt_hybrid_scores)
#define lnt_hybrid_mask LNT_REAL_NAME(lnt_hybrid_mask)
#define lnt_hybrid_attend LNT_REAL_NAME(lnt_hybrid_attend)
#define lnt_hybrid_fade_queries LNT_REAL_NAME(lnt_hybrid_fade_queries)
#define lnt_hybrid_fade_tile LNT_REAL_NAME(lnt_hybrid_fade_tile)
#define lnt_hybrid_weigh_keys LNT_REAL_NAME(lnt_hybrid_weigh_keys)
#define lnt_hybrid_age LNT_REAL_NAME(lnt_hybrid_age)
#define lnt_hybrid_finish LNT_REAL_NAME(lnt_hybrid_finish)
#define lnt_hybrid_absorb LNT_REAL_NAME(lnt_hybrid_absorb)
#define lnt_hybrid_backward LNT_REAL_NAME(lnt_hybrid_backward)

extern const lnt_far lnt_far_taylor, lnt_far_linear;

/* Why an algorithm with S cannot do p, or NULL. */
const char *lnt_hybrid_refuses(const lnt_attn_desc *p);
/* What is left of an arena, and this thread's scratch; bytes of scratch, for each thread and once a run;
 * the threads a run is worth. */
hybrid_scratch lnt_hybrid_open_in(lnt_arena *arena, const head_job *job, bool summed);
hybrid_scratch lnt_hybrid_open(const head_job *job, bool summed);
size_t lnt_hybrid_scratch(const lnt_attn_desc *p);
size_t lnt_hybrid_shared(const lnt_attn_desc *p);
int lnt_hybrid_threads(const lnt_run *run);

/* Token of query t of the sequence. */
static inline int64_t token_of(const head_job *job, int64_t t)
{
    return job->seq.before + keys_alone(job) + t;
}

/* What a far key counts after n tokens more. */
static inline real decay_after(const head_job *job, int64_t n)
{
    return (real)pow(job->decay, (double)n);
}

/* Keys before it that are no sinks are in S for the chunk that begins at token p. */
int64_t lnt_hybrid_frontier(const head_job *job, const hybrid_scratch *s, int64_t p);

/* Tokens from `key` on of the state or of the run, keys (LNT_STATE_WINDOW_K) or values as they are: rows
 * [n, *ld] in own or, unless a copy is wanted, where they lie if that is in one piece. */
const real *lnt_hybrid_rows(const head_job *job, int i, int64_t key, size_t n, real *own,
                            size_t *ld, bool copy);
/* The sinks, and the tokens from `first` on, into the state that comes out. */
void lnt_hybrid_keep_window(const head_job *job, int64_t first);

/* Keys from token `key` on as rows, centred: k and v; their columns in kt. */
void lnt_hybrid_load_keys(const head_job *job, hybrid_scratch *s, int64_t key, size_t n);
void lnt_hybrid_transpose_keys(const head_job *job, hybrid_scratch *s, size_t n);
void lnt_hybrid_load_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n);

/* Tile of `keys` keys from token `key` on, against n queries from token `query` on. */
hybrid_tile lnt_hybrid_tile_of(const head_job *job, int64_t key, size_t keys, int64_t query,
                               size_t n);
/* The next tile that the chunk of c meets, the first where c->keys is 0; false past the last. */
bool lnt_hybrid_next_tile(const head_job *job, const hybrid_scratch *s, hybrid_tile *c);
/* First column for which key j of the tile is far; at least c->from, and queries: none. */
size_t lnt_hybrid_far_from(const lnt_attn_desc *p, const hybrid_tile *c, size_t j);
/* x = the scores of head g; then -inf where a key is not near, or not seen. */
void lnt_hybrid_scores(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c);
void lnt_hybrid_mask(const head_job *job, hybrid_scratch *s, const hybrid_tile *c);
/* Whether any pair of the tile is far: the first key that is no sink is so soonest. */
static inline bool has_far(const lnt_attn_desc *p, const hybrid_tile *c)
{
    const int64_t past = p->hybrid.sink - c->key;
    const size_t first = past > 0 ? (size_t)past : 0;
    return first < c->keys && lnt_hybrid_far_from(p, c, first) < c->queries;
}

/* Whether every pair is. */
static inline bool all_far(const lnt_attn_desc *p, const hybrid_tile *c)
{
    return c->key >= p->hybrid.sink && lnt_hybrid_far_from(p, c, c->keys - 1) == c->from;
}

/* Whether far->whole, whole_back are for the tile, some pair of which is far. */
static inline bool is_whole(const head_job *job, const hybrid_scratch *s, const hybrid_tile *c)
{
    return s->far->whole && !(job->decay < 1) && all_far(job->run->p, c);
}

/* Far keys fade: a key counts decay^t, t the tokens between it and the window.  S holds them as they
 * count at its last token, so that a run of n tokens first ages it, and each of them by those behind it.
 *
 * What the n queries from token `query` on read of S, rows [TOKENS, ld] and a number each, by their
 * distance from it, for every head; x, where a tile is far; rows of n keys [n, ld], NULL for none, and
 * `ones`, by what stands behind each; S and z, or their gradient, by n tokens. */
void lnt_hybrid_fade_queries(const head_job *job, hybrid_scratch *s, int64_t query, size_t n,
                             real *rows, real *numbers);
void lnt_hybrid_fade_tile(const head_job *job, const hybrid_scratch *s, const hybrid_tile *c,
                          real *x);
void lnt_hybrid_weigh_keys(const head_job *job, hybrid_scratch *s, size_t n, real *rows, size_t ld);
void lnt_hybrid_age(const head_job *job, const hybrid_scratch *s, head_sums sums, size_t n);

/* o, den and max of n queries from query t on, over every key they see; then S takes in what the chunk
 * that comes after them needs, up to token `next`. */
void lnt_hybrid_attend(const head_job *job, hybrid_scratch *s, int64_t t, size_t n, int64_t next);
/* These are then divided, stored, and their statistics kept. */
int64_t lnt_hybrid_finish(const head_job *job, hybrid_scratch *s, int64_t t, size_t n);
/* Keys from token `from` up to `to` go into S, the sinks not. */
void lnt_hybrid_absorb(const head_job *job, hybrid_scratch *s, int64_t from, int64_t to);

/* Gradients: forward over the sequence for dq, backward for dk and dv. */
void lnt_hybrid_backward(lnt_run *run, bool summed);

#endif
