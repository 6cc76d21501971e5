/* attention/hybrid/real/hybrid_direct.c - hybrid attention as a quadratic form: every key one by one,
 * e^x of the
 * score where it is near and the weight of linear or Taylor attention where it is far.
 *
 * O(n^2 (d + m)) time, O(d + m) scratch per thread.  Fewer operations than with S while n is below about
 * its number of rows.  Where Taylor attention is far both are functions of one score, and tiles go as
 * those of softmax and Taylor attention do (direct.c), far weights times e^-max.  Else keys are met in
 * chunks (hybrid_chunk.c).  See docs/math/hybrid.md */
#include <math.h>
#include <string.h>

#include "attention/direct/direct_tile.h"
#include "attention/hybrid/hybrid.h"

/* ---- tiles of one score ---------------------------------------------------------------------- */

static bool has_one_score(const lnt_attn_desc *p) { return p->hybrid.far == LNT_TAYLOR; }

/* First query of the tile for which key j of the strip is far; at least t->from, and nq: none. */
static size_t far_query(const lnt_attn_desc *p, const tile *t, size_t j)
{
    const int64_t key = t->k0 + (int64_t)(t->row + j);
    const int64_t first = key - t->offset - t->q0 + p->hybrid.window;
    if (key < p->hybrid.sink || first >= (int64_t)t->nq) return t->nq;
    return first > (int64_t)t->from ? (size_t)first : t->from;
}

typedef enum reach { NEAR, FAR, MIXED } reach;

static reach reach_of(const lnt_attn_desc *p, const tile *t)
{
    const int64_t key = t->k0 + (int64_t)t->row;
    const size_t past = p->hybrid.sink > key ? (size_t)(p->hybrid.sink - key) : 0; /* sinks */
    if (past >= t->rows || far_query(p, t, past) == t->nq) return NEAR;
    return past == 0 && far_query(p, t, t->rows - 1) == t->from ? FAR : MIXED;
}

static bool is_near(const lnt_run *run, const tile *t) { return reach_of(run->p, t) == NEAR; }

/* Weights of far keys are relative to e^0: where a query has any, the maximum begins there. */
static real least(const lnt_run *run, int64_t token)
{
    return token >= run->p->hybrid.sink + run->p->hybrid.window ? 0 : -(real)INFINITY;
}

/* decay^n, n the tokens between the window of query i of the tile and key j of the strip. */
static real faded(const lnt_attn_desc *p, const tile *t, size_t i, size_t j)
{
    const int64_t key = t->k0 + (int64_t)(t->row + j);
    return (real)pow(t->decay, (double)(t->offset + t->q0 + (int64_t)i - key - p->hybrid.window));
}

/* A strip that is far throughout, times how far its keys have faded. */
static void fade(const lnt_attn_desc *p, const kernels *ker, const scratch *s, const tile *t,
                 real *x)
{
    if (!(t->decay < 1)) return;
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from, last = t->rows - 1;
    const real least_faded = faded(p, t, from, last);
    for (size_t n = 0; n < last + wide; n++) s->power[n] = least_faded * s->fade[n];
    for (size_t j = 0; j <= last; j++) {
        real *row = x + j * TQ + from;
        ker->multiply_rows(row, TQ, row, TQ, s->power + last - j, 1, wide);
    }
}

/* The same of one key, for queries from its first far one on. */
static void fade_row(const lnt_attn_desc *p, const scratch *s, const tile *t, size_t j, size_t far,
                     real *x)
{
    if (!(t->decay < 1) || far == t->nq) return;
    const real least_faded = faded(p, t, far, j);
    for (size_t i = far; i < t->nq; i++) x[i] *= least_faded * s->fade[i - far];
}

/* rescale = e^-max; false where that is 1 for all, as before any near key. */
static bool find_shrink(const kernels *ker, const scratch *s, size_t from, size_t wide)
{
    bool met = false;
    for (size_t i = from; i < from + wide; i++) {
        met |= s->max[i] != 0;
        s->rescale[i] = -s->max[i];
    }
    if (met) ker->map_exp(s->rescale + from, s->rescale + from, wide);
    return met;
}

/* A few queries of a strip, and its keys that are near to one of them, and far from one. */
typedef struct band {
    size_t from, wide; /* queries */
    size_t near, far;  /* keys near .. rows-1, and 0 .. far-1 */
} band;

static size_t row_of(const tile *t, int64_t j) { return j > 0 ? smaller(j, t->rows) : 0; }

static band band_at(const lnt_attn_desc *p, const kernels *ker, const tile *t, size_t from)
{
    const size_t wide = smaller((int64_t)(lnt_round_up(t->nq, ker->lanes) - from), EDGE);
    const int64_t key = t->k0 + (int64_t)t->row;
    const int64_t behind = (int64_t)from + t->offset + t->q0 - key - p->hybrid.window; /* far from `from` */
    return (band){ .from = from,
                   .wide = wide,
                   .near = key < p->hybrid.sink ? 0 : row_of(t, behind + 1),
                   .far = row_of(t, behind + (int64_t)wide) };
}

static void fold_mixed(const lnt_run *run, const kernels *ker, scratch *s, const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    for (size_t c = from; c < t->nq; c += EDGE) {
        const band b = band_at(run->p, ker, t, c);
        lnt_taylor_weights(run, ker, s->y + c, s->x + c, TQ, b.far, b.wide);
    }
    for (size_t j = 0; j < t->rows; j++)
        for (size_t i = far_query(run->p, t, j); i < t->nq; i++) s->x[j * TQ + i] = -(real)INFINITY;
    for (size_t c = from; c < t->nq; c += EDGE) {
        const band b = band_at(run->p, ker, t, c);
        real *x = s->x + b.near * TQ + c;
        ker->softmax_fold(x, x, TQ, t->rows - b.near, b.wide, s->max + c, s->sum + c, s->rescale + c);
    }
    lnt_direct_rescale(ker, s, t);
    if (!find_shrink(ker, s, from, wide))
        for (size_t i = from; i < t->nq; i++) s->rescale[i] = 1;
    for (size_t j = 0; j < t->rows; j++) {
        real *x = s->x + j * TQ, *y = s->y + j * TQ;
        const size_t far = far_query(run->p, t, j);
        fade_row(run->p, s, t, j, far, y);
        for (size_t i = far; i < t->nq; i++) {
            x[i] = y[i] * s->rescale[i];
            s->sum[i] += x[i];
        }
    }
}

static void fold(const lnt_run *run, const kernels *ker, scratch *s, const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    const reach keys = reach_of(run->p, t);
    real *x = s->x + from;
    if (keys == NEAR) {
        lnt_direct_fold_max(ker, s, t);
        return;
    }
    if (keys == MIXED) {
        fold_mixed(run, ker, s, t);
        return;
    }
    lnt_taylor_weights(run, ker, x, x, TQ, t->rows, wide);
    fade(run->p, ker, s, t, s->x);
    if (find_shrink(ker, s, from, wide))
        ker->multiply_rows(x, TQ, x, TQ, s->rescale + from, t->rows, wide);
    ker->add_rows(s->sum + from, s->ones, x, TQ, t->rows, wide);
}

/* x and dx of the strip, of its far keys those in y and dy. */
static void blend(const lnt_attn_desc *p, const scratch *s, const tile *t)
{
    for (size_t j = 0; j < t->rows; j++) {
        const size_t far = far_query(p, t, j), at = j * TQ + far;
        fade_row(p, s, t, j, far, s->y + j * TQ);
        fade_row(p, s, t, j, far, s->dy + j * TQ);
        memcpy(s->x + at, s->y + at, (t->nq - far) * sizeof(real));
        memcpy(s->dx + at, s->dy + at, (t->nq - far) * sizeof(real));
    }
}

/* x and dx of keys that are near, y and dy of those that are far. */
static void back_band(const lnt_run *run, const kernels *ker, const scratch *s, const query_tile *q,
                      const tile *t, const band *b, const real *a)
{
    const size_t from = b->from, near = b->near * TQ + from;
    for (size_t at = from; at < b->far * TQ; at += TQ) {
        memcpy(s->y + at, s->x + at, b->wide * sizeof(real));
        memcpy(s->dy + at, s->dx + at, b->wide * sizeof(real));
    }
    ker->softmax_back(s->x + near, s->dx + near, TQ, t->rows - b->near, b->wide, q->statistic + from,
                      q->delta + from);
    ker->polynomial_back(s->y + from, s->dy + from, TQ, b->far, b->wide, a, (size_t)run->p->taylor.terms,
                         q->shrink + from, q->delta + from);
}

/* x becomes p, dx the gradient of the scores. */
static void back(const lnt_run *run, const kernels *ker, const scratch *s, const query_tile *q,
                 const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    const reach keys = reach_of(run->p, t);
    real a[LNT_MAX_TERMS] = { 0 };
    if (keys == NEAR) {
        ker->softmax_back(s->x + from, s->dx + from, TQ, t->rows, wide, q->statistic + from,
                          q->delta + from);
        return;
    }
    lnt_taylor_coefficients(run->p, a);
    if (keys == MIXED) {
        for (size_t c = from; c < t->nq; c += EDGE) {
            const band b = band_at(run->p, ker, t, c);
            back_band(run, ker, s, q, t, &b, a);
        }
        blend(run->p, s, t);
        return;
    }
    ker->polynomial_back(s->x + from, s->dx + from, TQ, t->rows, wide, a, (size_t)run->p->taylor.terms,
                         q->shrink + from, q->delta + from);
    fade(run->p, ker, s, t, s->x);
    fade(run->p, ker, s, t, s->dx);
}

static lnt_direct kind_of_tiles(void)
{
    lnt_direct kind = lnt_taylor_kind;
    kind.has_max = true;
    kind.least = least;
    kind.fold = fold;
    kind.back = back;
    kind.near = is_near;
    return kind;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void forward(lnt_run *run)
{
    const int64_t KVH = run->p->kv_heads;
    const int64_t chunks = tiles_of(lnt_run_longest(run, 0, run->sequences, false), TOKENS);
    const int threads = lnt_hybrid_threads(run);
    int64_t nonpositive = 0;
    if (has_one_score(run->p)) {
        const lnt_direct kind = kind_of_tiles();
        lnt_direct_forward(&kind, run);
        return;
    }
    lnt_clear_gaps(run);
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH * chunks; unit++) {
        const head_job job = lnt_head_job(run, unit / chunks / KVH, unit / chunks % KVH);
        const int64_t t = (chunks - 1 - unit % chunks) * TOKENS; /* the long ones first */
        const size_t n = chunk_tokens(job.seq.nq - t);
        if (!n) continue;
        hybrid_scratch s = lnt_hybrid_open(&job, false);
        lnt_hybrid_attend(&job, &s, t, n, 0);
        nonpositive += lnt_hybrid_finish(&job, &s, t, n);
    }
    run->nonpositive = nonpositive;
}

static size_t scratch_bytes(const lnt_attn_desc *p)
{
    return has_one_score(p) ? lnt_direct_scratch(p) : lnt_hybrid_scratch(p);
}

static size_t kept_bytes(const lnt_attn_desc *p)
{
    return has_one_score(p) ? lnt_direct_kept(p) : 0;
}

static void backward(lnt_run *run)
{
    const lnt_direct kind = kind_of_tiles();
    if (has_one_score(run->p)) lnt_direct_backward(&kind, run);
    else lnt_hybrid_backward(run, false);
}

static const char *refuses(const lnt_attn_desc *p)
{
    return p->causal ? NULL : lnt_hybrid_needs_causal;
}

static double cost(const lnt_attn_desc *p) { return lnt_direct_flops(p); }

const lnt_algo LNT_REAL_NAME(lnt_algo_hybrid_direct) = { .mechanism = LNT_HYBRID,
                                                         .name = "hybrid/direct",
                                                         .rate = 5e-11,
                                                         .cost = cost,
                                                         .both = 3.4,
                                                         .refuses = refuses,
                                                         .tile = TOKENS,
                                                         .keeps = true,
                                                         .kept = kept_bytes,
                                                         .shared = lnt_hybrid_shared,
                                                         .scratch = scratch_bytes,
                                                         .forward = forward,
                                                         .backward = backward };
