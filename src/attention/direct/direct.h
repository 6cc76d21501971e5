/* attention/direct/direct.h - the quadratic form of any mechanism y_i = sum_j w(x_ij) v_j / sum_j w(x_ij),
 * x = q.k on mapped q and k, in tiles: what differs between mechanisms is this table. */
#ifndef LNT_ATTENTION_DIRECT_DIRECT_H
#define LNT_ATTENTION_DIRECT_DIRECT_H

#include "attention/linear/linear_feature.h"
#include "attention/algorithm.h"
#include "attention/tile.h"

struct scratch;
struct tile;
struct query_tile;

typedef struct lnt_direct {
    bool has_max; /* w = e^x, relative to a running maximum */
    /* Hybrid: w may be another function of x where a key is far.  What the maximum of the query at a
     * token begins as; a strip of masked scores becomes weights, added to sum and max; and back, as
     * weigh below.  NULL, all four: nothing is far. */
    real (*least)(const lnt_run *run, int64_t token);
    void (*fold)(const lnt_run *run, const kernels *ker, struct scratch *s, const struct tile *t);
    void (*back)(const lnt_run *run, const kernels *ker, const struct scratch *s,
                 const struct query_tile *q, const struct tile *t);
    bool (*near)(const lnt_run *run, const struct tile *t); /* the strip, throughout */
    /* Softmax: what becomes of the scores of a strip before any is hidden; and, given the gradient dx of what
     * they became, that of the scores.  NULL: nothing. */
    void (*adjust)(const lnt_run *run, const kernels *ker, const struct scratch *s, const struct tile *t);
    void (*adjust_back)(const lnt_run *run, const kernels *ker, const struct scratch *s,
                        const struct tile *t);
    /* Before the first tile of a sequence and kv head; NULL: nothing to prepare. */
    void (*begin)(const lnt_run *run, lnt_feature_tile *feature, const lnt_sequence *seq,
                  int64_t kvh);
    /* Whether the mapped q of head h, or its k, is the tensor's times a factor; NULL: it never is. */
    bool (*plain)(const lnt_run *run, bool query, int64_t h, double *factor);
    /* Mapped q and k as columns [D, ld]; x = q.k. */
    void (*queries)(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h, int64_t n0,
                    size_t n, real *columns, size_t ld);
    void (*keys)(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h, int64_t n0,
                 size_t n, real *columns, size_t ld);
    /* Without a maximum: x [keys, ld] becomes w.  NULL: the score is the weight. */
    void (*weights)(const lnt_run *run, const kernels *ker, real *x, size_t ld, size_t keys,
                    size_t padded);
    /* x becomes p = w / den, dw (= dy.v) becomes dx; statistic as lnt_statistic gives it. */
    void (*weigh)(const lnt_run *run, const kernels *ker, real *x, real *dw, size_t ld, size_t keys,
                  size_t padded, const real *statistic, const real *delta);
    /* dq, dk from the gradients of mapped q, k, as columns [D, ld]; not asked where these are plain. */
    void (*store_dq)(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld);
    void (*store_dk)(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld);
} lnt_direct;

#define lnt_direct_scratch LNT_REAL_NAME(lnt_direct_scratch)
#define lnt_direct_kept LNT_REAL_NAME(lnt_direct_kept)
#define lnt_direct_forward LNT_REAL_NAME(lnt_direct_forward)
#define lnt_direct_backward LNT_REAL_NAME(lnt_direct_backward)

enum { LNT_TILE_QUERIES = 64, LNT_TILE_KEYS = 32 };

size_t lnt_direct_scratch(const lnt_attn_desc *p);
/* Bytes of the scores that forward keeps for backward: none of sequences so long that they would take
 * more room than all else that a layer of a network keeps. */
size_t lnt_direct_kept(const lnt_attn_desc *p);
void lnt_direct_forward(const lnt_direct *kind, lnt_run *run);
void lnt_direct_backward(const lnt_direct *kind, lnt_run *run);

#endif
