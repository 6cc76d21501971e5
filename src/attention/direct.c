/* attention/direct.c - tiled quadratic attention: never an n x n array.
 *
 * A tile of queries stays; tiles of keys pass by.  Scores are held with one query a column, so that
 * maximum, sum and weights are vector operations without a reduction across lanes:
 *
 *     X [keys, queries] = K Q^T     w = weight(X)     O [queries, m] += w^T V
 *
 * Backward recomputes.  One pass over query tiles gives the statistics and dq, a second over key
 * tiles gives dk and dv; each tile is owned by one thread, so nothing depends on their number.
 * Forward O(n^2 (d + m)), backward 4.5 times that; scratch O(d + m) per thread. */
#include "attention/direct.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/threads.h"

typedef struct scratch {
    size_t D, m, Dp, mp; /* widths and padded widths */
    real *qt;            /* [D, TQ] */
    real *k_own, *v_own; /* [TK, Dp], [TK, mp] */
    const real *k, *v;   /* [TK, ldk], [TK, ldv]: those, or the tensors themselves */
    size_t ldk, ldv;
    real *x, *dx;        /* [TK, TQ] */
    real *o;             /* [TQ, mp] */
    real *max, *sum, *rescale, *delta, *statistic; /* [TQ] */
    real *power;         /* [TQ + TK] decay by distance */
    real *q, *dq, *dy, *dyt; /* backward: [TQ, Dp], [TQ, Dp], [TQ, mp], [m, TQ] */
    real *dk, *dv;           /* backward: [TK, Dp], [TK, mp] */
    real *columns;           /* backward: [D, TQ] */
    lnt_feature_tile feature;
} scratch;

enum { TQ = LNT_TILE_QUERIES, TK = LNT_TILE_KEYS };

static scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_score_width(p), m = (size_t)p->dim_value, back = p->backward != 0;
    scratch s = { .D = D, .m = m, .Dp = pad(D), .mp = pad(m) };
    s.qt = take(arena, D, TQ);
    s.k_own = take(arena, TK, s.Dp);
    s.v_own = take(arena, TK, s.mp);
    s.x = take(arena, TK, TQ);
    s.o = take(arena, TQ, s.mp);
    s.max = take(arena, 5, TQ);
    s.power = take(arena, 1, TQ + TK);
    s.dx = take(arena, back * TK, TQ);
    s.q = take(arena, back * TQ, s.Dp);
    s.dq = take(arena, back * TQ, s.Dp);
    s.dy = take(arena, back * TQ, s.mp);
    s.dyt = take(arena, back * m, TQ);
    s.dk = take(arena, back * TK, s.Dp);
    s.dv = take(arena, back * TK, s.mp);
    s.columns = take(arena, back * D, TQ);
    s.feature = lnt_feature_tile_take(arena, p, TQ);
    if (arena->base) {
        s.sum = s.max + TQ;
        s.rescale = s.sum + TQ;
        s.delta = s.rescale + TQ;
        s.statistic = s.delta + TQ;
    }
    return s;
}

size_t lnt_direct_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p);
    return counting.overflow ? SIZE_MAX : counting.used;
}

/* This thread's scratch, ready for a sequence and kv head. */
static scratch open_scratch(const lnt_direct *kind, const lnt_run *run, const lnt_sequence *seq,
                            int64_t kvh)
{
    lnt_arena arena = { .base = run->scratch + (size_t)omp_get_thread_num() * run->scratch_stride,
                        .capacity = run->scratch_stride };
    scratch s = take_scratch(&arena, run->p);
    if (kind->begin) kind->begin(run, &s.feature, seq, kvh);
    return s;
}

/* A tile of one head's queries against one head's keys. */
typedef struct tile {
    lnt_sequence seq;
    int64_t h, kvh;
    int64_t q0, k0; /* first query and key, within the sequence */
    size_t nq, nk;
    int64_t offset; /* causal: query i stands at key position i + offset */
    bool causal;
    double decay;
} tile;

static tile make_tile(const lnt_run *run, const lnt_sequence *seq, int64_t h)
{
    const int64_t kvh = h * run->p->kv_heads / run->p->heads;
    return (tile){ .seq = *seq,
                   .h = h,
                   .kvh = kvh,
                   .offset = seq->nk - seq->nq,
                   .causal = run->causal,
                   .decay = run->p->decay ? run->p->decay[kvh] : 1 };
}

static size_t smaller(int64_t left, size_t most)
{
    return left < (int64_t)most ? (size_t)left : most;
}

/* Key rows of the tile that query column i does not see start at the row this returns. */
static void mask(const tile *t, real *x, real value)
{
    if (!t->causal) return;
    for (size_t j = 0; j < t->nk; j++) {
        const int64_t first = t->k0 + (int64_t)j - t->offset - t->q0; /* first query that sees j */
        for (int64_t i = 0; i < first && i < (int64_t)t->nq; i++) x[j * TQ + (size_t)i] = value;
    }
}

/* x *= decay^distance, where key j is visible to query i; elsewhere the power is not used. */
static void apply_decay(const tile *t, real *power, real *x)
{
    if (!(t->decay < 1)) return;
    const int64_t base = t->offset + t->q0 - t->k0 - (TK - 1);
    for (int64_t s = 0; s < TQ + TK; s++)
        power[s] = base + s > 0 ? (real)pow(t->decay, (double)(base + s)) : 1;
    for (size_t j = 0; j < t->nk; j++)
        for (size_t i = 0; i < t->nq; i++) x[j * TQ + i] *= power[i + TK - 1 - j];
}

static int64_t visible_keys(const tile *t) /* by any query of the tile */
{
    const int64_t end = t->offset + t->q0 + (int64_t)t->nq;
    return t->causal && end < t->seq.nk ? end : t->seq.nk;
}

static void scores(const lnt_direct *kind, const kernels *ker, const scratch *s, const tile *t)
{
    const size_t lanes = lnt_round_up(t->nq, ker->lanes);
    ker->gemm_nn(s->x, TQ, s->k, s->ldk, s->qt, TQ, t->nk, lanes, s->D, 0);
    apply_decay(t, s->power, s->x);
    if (kind->has_max) mask(t, s->x, -(real)INFINITY); /* e^x is 0 there */
}

/* The scores become weights, added to sum (and max). */
static void fold(const lnt_direct *kind, const lnt_run *run, const kernels *ker, scratch *s,
                 const tile *t)
{
    const size_t lanes = lnt_round_up(t->nq, ker->lanes);
    if (kind->has_max) {
        ker->softmax_fold(s->x, TQ, t->nk, lanes, s->max, s->sum, s->rescale);
        for (size_t i = 0; i < t->nq; i++)
            if (s->rescale[i] != 1) ker->scale(s->o + i * s->mp, s->rescale[i], s->mp);
        return;
    }
    if (kind->weights) kind->weights(run, ker, s->x, TQ, t->nk, lanes);
    mask(t, s->x, 0);
    for (size_t j = 0; j < t->nk; j++) ker->axpy(s->sum, 1, s->x + j * TQ, lanes);
}

static void load_key_tile(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                          const tile *t)
{
    const int64_t row = t->seq.k0 + t->k0;
    s->ldk = s->Dp;
    s->ldv = s->mp;
    s->k = kind->keys(run, &s->feature, t->seq.b, t->kvh, row, t->nk, s->k_own, &s->ldk);
    s->v = read_rows(ker, s->v_own, &s->ldv, &run->io->v, t->seq.b, t->kvh, row, t->nk);
}

/* o, max, sum of the query tile t over all its keys. */
static void attend(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s, tile *t)
{
    const size_t wide = lnt_round_up(s->m, ker->lanes);
    kind->queries(run, &s->feature, t->seq.b, t->h, t->seq.q0 + t->q0, t->nq, s->qt, TQ);
    memset(s->o, 0, t->nq * s->mp * sizeof(real));
    for (size_t i = 0; i < TQ; i++) s->max[i] = -(real)INFINITY, s->sum[i] = 0;
    const int64_t end = visible_keys(t);
    for (t->k0 = 0; t->k0 < end; t->k0 += TK) {
        t->nk = smaller(end - t->k0, TK);
        load_key_tile(kind, run, ker, s, t);
        scores(kind, ker, s, t);
        fold(kind, run, ker, s, t);
        ker->gemm_tn(s->o, s->mp, s->x, TQ, s->v, s->ldv, t->nq, wide, t->nk, 1);
    }
}

static int64_t tiles_of(int64_t n, int64_t width) { return (n + width - 1) / width; }

static int64_t longest(const lnt_run *run, bool keys)
{
    int64_t most = 0;
    for (int64_t s = 0; s < run->sequences; s++) {
        const lnt_sequence q = lnt_io_sequence(run->io, s);
        const int64_t n = keys ? q.nk : q.nq;
        most = n > most ? n : most;
    }
    return most;
}

static int threads_for(const lnt_run *run)
{
    const double flops =
        2 * (double)(lnt_score_width(run->p) + run->p->dim_value) * lnt_run_pairs(run);
    return lnt_threads_for(run->ctx, flops * (double)run->p->heads);
}

void lnt_direct_forward(const lnt_direct *kind, lnt_run *run)
{
    const kernels *ker = run_kernels(run);
    const int64_t H = run->p->heads, tiles = tiles_of(longest(run, false), TQ);
    const int64_t units = run->sequences * H * tiles;
    const int threads = threads_for(run);
    int64_t nonpositive = 0;
    if (!run->partial) lnt_clear_gaps(run, &run->io->out, false);
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < units; unit++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, unit / tiles / H);
        tile t = make_tile(run, &seq, unit / tiles % H);
        t.q0 = (tiles - 1 - unit % tiles) * TQ; /* causal: the long ones first */
        if (t.q0 >= seq.nq) continue;
        t.nq = smaller(seq.nq - t.q0, TQ);
        scratch s = open_scratch(kind, run, &seq, t.kvh);
        attend(kind, run, ker, &s, &t);
        lnt_tile_finish(run, ker, &seq, t.h, t.q0, t.nq, s.o, s.mp, s.sum,
                        kind->has_max ? s.max : NULL, s.rescale, &nonpositive);
    }
    run->nonpositive = nonpositive;
}

/* ---- backward -------------------------------------------------------------------------------- */

static void load_dy(lnt_run *run, const kernels *ker, scratch *s, const tile *t)
{
    const int64_t row = t->seq.q0 + t->q0;
    load_rows(ker, s->dy, s->mp, &run->grads->dout, t->seq.b, t->h, row, t->nq, 1);
    load_columns(ker, s->dyt, TQ, &run->grads->dout, t->seq.b, t->h, row, t->nq, 1);
    for (size_t i = 0; i < t->nq; i++) {
        const real factor = lnt_output_factor(run, &t->seq, t->q0 + (int64_t)i);
        if (factor == 1) continue;
        ker->scale(s->dy + i * s->mp, factor, s->m);
        for (size_t c = 0; c < s->m; c++) s->dyt[c * TQ + i] *= factor;
    }
}

/* x becomes p, dx the gradient of the scores. */
static void weigh(const lnt_direct *kind, const lnt_run *run, const kernels *ker, scratch *s,
                  const tile *t)
{
    const size_t lanes = lnt_round_up(t->nq, ker->lanes);
    scores(kind, ker, s, t);
    ker->gemm_nn(s->dx, TQ, s->v, s->ldv, s->dyt, TQ, t->nk, lanes, s->m, 0);
    kind->weigh(run, ker, s->x, s->dx, TQ, t->nk, lanes, s->statistic, s->delta);
    mask(t, s->x, 0);
    mask(t, s->dx, 0);
    apply_decay(t, s->power, s->dx);
}

/* Statistics and dq of one tile of queries. */
static void grad_queries(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                         tile *t)
{
    attend(kind, run, ker, s, t);
    load_dy(run, ker, s, t);
    real *keep = kept_of(run, t->seq.b, t->h, t->seq.q0 + t->q0);
    const real eps = run->p->mechanism == LNT_LINEAR ? (real)run->p->eps : 0;
    for (size_t i = 0; i < t->nq; i++) {
        const real den = s->sum[i] + eps;
        const real along = ker->dot(s->dy + i * s->mp, s->o + i * s->mp, s->m);
        keep[2 * i] = s->statistic[i] = kind->statistic(run, s->max[i], s->sum[i]);
        keep[2 * i + 1] = s->delta[i] = den == 0 ? 0 : along / den;
    }
    memset(s->dq, 0, t->nq * s->Dp * sizeof(real));
    const size_t wide = lnt_round_up(s->D, ker->lanes);
    const int64_t end = visible_keys(t);
    for (t->k0 = 0; t->k0 < end; t->k0 += TK) {
        t->nk = smaller(end - t->k0, TK);
        load_key_tile(kind, run, ker, s, t);
        weigh(kind, run, ker, s, t);
        ker->gemm_tn(s->dq, s->Dp, s->dx, TQ, s->k, s->ldk, t->nq, wide, t->nk, 1);
    }
    ker->load_columns(s->columns, TQ, s->dq, LNT_REAL_DTYPE, (int64_t)s->Dp, 1, t->nq, s->D, 1);
    kind->store_dq(run, &s->feature, t->seq.b, t->h, t->seq.q0 + t->q0, t->nq, s->columns, TQ);
}

/* Adds what the queries of tile t give to dk, dv of its keys. */
static void add_grad_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                          const tile *t)
{
    kind->queries(run, &s->feature, t->seq.b, t->h, t->seq.q0 + t->q0, t->nq, s->qt, TQ);
    transpose(ker, s->q, s->Dp, s->qt, TQ, t->nq, s->D);
    load_dy(run, ker, s, t);
    const real *kept = kept_of(run, t->seq.b, t->h, t->seq.q0 + t->q0);
    for (size_t i = 0; i < t->nq; i++) s->statistic[i] = kept[2 * i], s->delta[i] = kept[2 * i + 1];
    weigh(kind, run, ker, s, t);
    ker->gemm_nn(s->dk, s->Dp, s->dx, TQ, s->q, s->Dp, t->nk, lnt_round_up(s->D, ker->lanes), t->nq,
                 1);
    ker->gemm_nn(s->dv, s->mp, s->x, TQ, s->dy, s->mp, t->nk, lnt_round_up(s->m, ker->lanes), t->nq,
                 1);
}

static void grad_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                      const lnt_sequence *seq, int64_t kvh, int64_t k0)
{
    const int64_t group = run->p->heads / run->p->kv_heads;
    tile t = make_tile(run, seq, kvh * group);
    t.k0 = k0;
    t.nk = smaller(seq->nk - k0, TK);
    load_key_tile(kind, run, ker, s, &t);
    memset(s->dk, 0, t.nk * s->Dp * sizeof(real));
    memset(s->dv, 0, t.nk * s->mp * sizeof(real));
    for (t.h = kvh * group; t.h < (kvh + 1) * group; t.h++) {
        const int64_t first = t.causal && k0 > t.offset ? k0 - t.offset : 0; /* that sees k0 */
        for (t.q0 = first / TQ * TQ; t.q0 < seq->nq; t.q0 += TQ) {
            t.nq = smaller(seq->nq - t.q0, TQ);
            add_grad_keys(kind, run, ker, s, &t);
        }
    }
    const int64_t row = seq->k0 + k0;
    store_rows(ker, &run->grads->dv, seq->b, kvh, row, t.nk, s->dv, s->mp, NULL);
    ker->load_columns(s->columns, TQ, s->dk, LNT_REAL_DTYPE, (int64_t)s->Dp, 1, t.nk, s->D, 1);
    kind->store_dk(run, &s->feature, seq->b, kvh, row, t.nk, s->columns, TQ);
}

void lnt_direct_backward(const lnt_direct *kind, lnt_run *run)
{
    const kernels *ker = run_kernels(run);
    const lnt_attn_grads *g = run->grads;
    const int64_t H = run->p->heads, KVH = run->p->kv_heads;
    const int64_t q_tiles = tiles_of(longest(run, false), TQ);
    const int64_t k_tiles = tiles_of(longest(run, true), TK);
    const int threads = threads_for(run);
    lnt_clear_gaps(run, &g->dq, false);
    lnt_clear_gaps(run, &g->dk, true);
    lnt_clear_gaps(run, &g->dv, true);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * H * q_tiles; unit++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, unit / q_tiles / H);
        tile t = make_tile(run, &seq, unit / q_tiles % H);
        t.q0 = (q_tiles - 1 - unit % q_tiles) * TQ;
        if (t.q0 >= seq.nq) continue;
        t.nq = smaller(seq.nq - t.q0, TQ);
        scratch s = open_scratch(kind, run, &seq, t.kvh);
        grad_queries(kind, run, ker, &s, &t);
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * KVH * k_tiles; unit++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, unit / k_tiles / KVH);
        const int64_t k0 = unit % k_tiles * TK, kvh = unit / k_tiles % KVH;
        if (k0 >= seq.nk) continue;
        scratch s = open_scratch(kind, run, &seq, kvh);
        grad_keys(kind, run, ker, &s, &seq, kvh, k0);
    }
}
