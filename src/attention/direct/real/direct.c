/* attention/direct/real/direct.c - tiled quadratic attention.
 *
 * A tile of queries stays; tiles of keys pass by.  Scores are held with one query a column, so that
 * maximum, sum and weights are vector operations without a reduction across lanes:
 *
 *     X [keys, queries] = K Q^T     w = weight(X)     O [queries, m] += w^T V
 *
 * A tile that the diagonal crosses is cut into strips of keys, each with the queries that see one of
 * them; tiles that no query sees, outside a sliding window, are left out.  Forward O(n^2 (d + m)), with a
 * window O(n window (d + m)); scratch O(d + m) per thread.  There is an n x n array only where a network
 * asks for what its backward can do with, and n is small: lnt_direct_kept. */
#include "attention/direct/direct_tile.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/threads.h"

size_t lnt_direct_query_size(const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_score_width(p), m = (size_t)p->dim_value;
    return TQ * (D + 2 * pad(D) + m + pad(m) + 3);
}

query_tile lnt_direct_query_tile(const scratch *s, real *at)
{
    query_tile q = { .qt = at };
    q.q = q.qt + s->D * TQ;
    q.dq = q.q + TQ * s->Dp;
    q.dyt = q.dq + TQ * s->Dp;
    q.dy = q.dyt + s->m * TQ;
    q.statistic = q.dy + TQ * s->mp;
    q.delta = q.statistic + TQ;
    q.shrink = q.delta + TQ;
    return q;
}

static size_t group_tiles(const lnt_attn_desc *p)
{
    return lnt_problem_group(p) * (size_t)tiles_of(p->length_q, TQ);
}

bool lnt_direct_keeps_queries(const lnt_attn_desc *p)
{
    enum { MOST = 1 << 21 }; /* what the last cache holds for a few threads */
    size_t count;
    return lnt_size_product(group_tiles(p), lnt_direct_query_size(p), 1, &count) && count <= MOST;
}

static scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_score_width(p), m = (size_t)p->dim_value, back = p->backward != 0;
    const size_t mixed = p->mechanism == LNT_HYBRID, plain = p->mechanism == LNT_SOFTMAX;
    scratch s = { .D = D, .m = m, .Dp = pad(D), .mp = pad(m) };
    s.qt = take(arena, D, TQ);
    s.kt_own = take(arena, D, TK);
    s.v_own = take(arena, TK, s.mp);
    s.x = take(arena, TK, TQ);
    s.y = take(arena, mixed * TK, TQ);
    s.dy = take(arena, mixed * back * TK, TQ);
    s.fade = take(arena, mixed, TQ + TK);
    s.bias = take(arena, plain * TK, TQ);
    s.distance = take(arena, plain, TQ + TK);
    s.capped = take(arena, p->softmax.cap > 0 ? back * TK : 0, TQ);
    s.o = take(arena, TQ, s.mp);
    s.max = take(arena, 3, TQ);
    s.power = take(arena, 1, TQ + TK);
    s.ones = take(arena, 1, TK);
    s.dx = take(arena, back * TK, TQ);
    s.k = take(arena, back * TK, s.Dp);
    s.vt = take(arena, back * m, TK);
    s.dk = take(arena, back * TK, s.Dp);
    s.dv = take(arena, back * TK, s.mp);
    s.columns = take(arena, back * D, TQ);
    const size_t kept = back * (lnt_direct_keeps_queries(p) ? group_tiles(p) : 1);
    s.queries = take(arena, kept, lnt_direct_query_size(p));
    s.queries_size = kept * lnt_direct_query_size(p);
    s.feature = lnt_feature_tile_take(arena, p, TQ);
    if (arena->base) {
        s.sum = s.max + TQ;
        s.rescale = s.sum + TQ;
    }
    return s;
}

size_t lnt_direct_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p);
    return lnt_arena_counted(&counting);
}

/* ---- what is kept of the scores -------------------------------------------------------------- */

enum { KEPT_TILE = TK * TQ + TK / STRIP * TQ }; /* x, and for each strip the maxima */
_Static_assert(TQ == TK, "of causal sequences the tiles on and below the diagonal are kept");

static size_t kept_tiles(bool causal, int64_t length) /* of a head */
{
    const size_t tiles = (size_t)tiles_of(length, TQ);
    return causal ? tiles * (tiles + 1) / 2 : tiles * tiles;
}

/* Scores of narrow heads are computed as fast as they are read; where vectors are wide, those of most heads,
 * and e^x too where sequences are long.  Elsewhere a layer keeps no more of them than of all else, 16 numbers
 * for each of q. */
#ifdef __aarch64__
enum { SCORES_FROM = 32, KEYS = 16, KEYS_CAUSAL = 32 }; /* keys for each number of a query, at most */
#else
enum { SCORES_FROM = 128, KEYS = 8, KEYS_CAUSAL = 8 };
#endif

static bool keeps_scores(const lnt_attn_desc *p) { return p->dim >= SCORES_FROM; }

size_t lnt_direct_kept(const lnt_attn_desc *p)
{
    const bool exponential = p->mechanism == LNT_SOFTMAX || p->mechanism == LNT_HYBRID;
    const int64_t most = p->causal ? KEYS_CAUSAL : KEYS;
    size_t heads, bytes;
    if (!p->backward || p->length_q != p->length_k || (p->length_k - 1) / most >= p->dim) return 0;
    if (!exponential && !keeps_scores(p)) return 0;
    /* A cap has to be undone; of a window there is little to keep. */
    if (p->softmax.cap > 0 || p->softmax.window) return 0;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, KEPT_TILE * sizeof(real), &heads) ||
        !lnt_size_product(heads, kept_tiles(p->causal != 0, p->length_q), 1, &bytes))
        return SIZE_MAX;
    return bytes;
}

static bool keeps(const lnt_run *run, const lnt_sequence *seq, bool exponential)
{
    return run->kept && !run->io->sequences && seq->nq == seq->nk &&
           (exponential || keeps_scores(run->p));
}

bool lnt_direct_keeps_all(const lnt_direct *kind, const lnt_run *run, const lnt_sequence *seq)
{
    return keeps(run, seq, kind->has_max && !kind->near);
}

kept_strip lnt_direct_kept_strip(const lnt_direct *kind, const lnt_run *run, const tile *t)
{
    const bool exponential = kind->near ? kind->near(run, t) : kind->has_max;
    if (!keeps(run, &t->seq, exponential)) return (kept_strip){ .x = NULL };
    const int64_t length = run->io->q.shape[2], i = t->q0 / TQ, j = t->k0 / TK;
    const size_t head = (size_t)(t->seq.b * run->p->heads + t->h) * kept_tiles(t->causal, length);
    const size_t at = (size_t)(t->causal ? i * (i + 1) / 2 + j : i * tiles_of(length, TQ) + j);
    real *x = (real *)run->kept + (head + at) * KEPT_TILE;
    return (kept_strip){ .x = x + t->row * TQ,
                         .max = exponential ? x + TK * TQ + t->row / STRIP * TQ : NULL };
}

/* ---- forward --------------------------------------------------------------------------------- */

scratch lnt_direct_open(const lnt_run *run)
{
    lnt_arena arena = run_arena(run, omp_get_thread_num());
    const scratch s = take_scratch(&arena, run->p);
    for (size_t j = 0; j < TK; j++) s.ones[j] = 1;
    return s;
}

void lnt_direct_begin(const lnt_direct *kind, const lnt_run *run, scratch *s,
                      const lnt_sequence *seq, int64_t kvh)
{
    s->packs = NULL;
    s->packed = 0;
    if (kind->begin) kind->begin(run, &s->feature, seq, kvh);
    for (size_t i = 0; kind->fold && run->p->decay && i < TQ + TK; i++)
        s->fade[i] = (real)pow(run->p->decay[kvh], (double)i);
}

tile lnt_direct_tile(const lnt_run *run, const lnt_sequence *seq, int64_t h)
{
    const int64_t kvh = h * run->p->kv_heads / run->p->heads;
    const lnt_band band = lnt_band_of(run->p, run->causal, seq->nq, seq->nk);
    return (tile){ .seq = *seq,
                   .h = h,
                   .kvh = kvh,
                   .offset = band.offset,
                   .behind = band.behind,
                   .ahead = band.ahead,
                   .causal = run->causal,
                   .decay = run->p->decay ? run->p->decay[kvh] : 1 };
}

/* The end of the keys that query i of the tile sees, and their first, from the tile's first on; may be
 * negative, or beyond the tile. */
static int64_t seen_by(const tile *t, int64_t i) { return t->offset + t->q0 + i + t->ahead + 1 - t->k0; }

static int64_t seen_from(const tile *t, int64_t i) { return t->offset + t->q0 + i - t->behind - t->k0; }

static bool is_whole(const tile *t)
{
    return seen_by(t, 0) >= (int64_t)t->nk && seen_from(t, (int64_t)t->nq - 1) <= 0;
}

int64_t lnt_direct_first_key(const tile *t)
{
    const int64_t first = t->offset + t->q0 - t->behind;
    return first > 0 ? first / TK * TK : 0;
}

int64_t lnt_direct_end_key(const tile *t)
{
    const int64_t end = t->offset + t->q0 + (int64_t)t->nq + t->ahead;
    return end < t->seq.nk ? end : t->seq.nk;
}

bool lnt_direct_next_strip(tile *t)
{
    t->row += t->rows;
    t->from = 0;
    if (is_whole(t)) {
        t->rows = t->nk - t->row;
        return t->rows > 0;
    }
    const int64_t last = seen_by(t, (int64_t)t->nq - 1), begin = seen_from(t, 0) / STRIP * STRIP;
    const int64_t end = last < (int64_t)t->nk ? last : (int64_t)t->nk;
    const int64_t row = begin > (int64_t)t->row ? begin : (int64_t)t->row;
    if (row >= end) return false;
    const int64_t first = row + 1 - seen_by(t, 0); /* query that sees the strip's first key */
    t->row = (size_t)row;
    t->rows = smaller(end - row, STRIP);
    t->from = first > 0 ? (size_t)first / EDGE * EDGE : 0;
    return true;
}

void lnt_direct_mask(const tile *t, real *x, real value)
{
    if (is_whole(t)) return;
    for (size_t j = 0; j < t->rows; j++) {
        const int64_t key = (int64_t)(t->row + j);
        const int64_t first = key + 1 - seen_by(t, 0), last = key - seen_from(t, 0); /* that see it */
        const size_t begin = first > 0 ? smaller(first, t->nq) : 0;
        const size_t end = last + 1 > 0 ? smaller(last + 1, t->nq) : 0;
        for (size_t i = t->from; i < begin; i++) x[j * TQ + i] = value;
        for (size_t i = end > t->from ? end : t->from; i < t->nq; i++) x[j * TQ + i] = value;
    }
}

/* Where the key is not seen the power is not used. */
void lnt_direct_decay(const tile *t, real *power, real *x)
{
    if (!(t->decay < 1)) return;
    const int64_t base = t->offset + t->q0 - t->k0 - (int64_t)t->row - (TK - 1);
    for (int64_t s = 0; s < TQ + TK; s++)
        power[s] = base + s > 0 ? (real)pow(t->decay, (double)(base + s)) : 1;
    for (size_t j = 0; j < t->rows; j++)
        for (size_t i = t->from; i < t->nq; i++) x[j * TQ + i] *= power[i + TK - 1 - j];
}

void lnt_direct_scores(const lnt_direct *kind, const lnt_run *run, const kernels *ker, const scratch *s,
                       const tile *t, const real *qt)
{
    const size_t wide = lnt_round_up(t->nq, ker->lanes) - t->from;
    ker->gemm_tn(s->x + t->from, TQ, s->kt + t->row, TK, qt + t->from, TQ, t->rows, wide, s->D, 0);
    if (!kind->fold) lnt_direct_decay(t, s->power, s->x);
    if (kind->adjust) kind->adjust(run, ker, s, t);
    if (kind->has_max) lnt_direct_mask(t, s->x, -(real)INFINITY); /* e^x is 0 there */
}

void lnt_direct_rescale(const kernels *ker, const scratch *s, const tile *t)
{
    if (t->k0 == 0 && t->row == 0) return; /* o is 0 */
    ker->scale_rows(s->o + t->from * s->mp, s->mp, s->rescale + t->from, t->nq - t->from, s->mp);
}

void lnt_direct_fold_max(const kernels *ker, scratch *s, const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    ker->softmax_fold(s->w + from, s->x + from, TQ, t->rows, wide, s->max + from, s->sum + from,
                      s->rescale + from);
    lnt_direct_rescale(ker, s, t);
}

void lnt_direct_copy_strip(const kernels *ker, real *to, const real *x, const tile *t)
{
    const size_t wide = lnt_round_up(t->nq, ker->lanes) - t->from;
    if (wide == TQ) memcpy(to, x, t->rows * TQ * sizeof(real));
    else
        for (size_t at = t->from; at < t->rows * TQ; at += TQ)
            memcpy(to + at, x + at, wide * sizeof(real));
}

/* The scores become weights, added to sum (and max). */
static void fold(const lnt_direct *kind, const lnt_run *run, const kernels *ker, scratch *s,
                 const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    if (kind->fold || kind->has_max) {
        if (kind->fold) kind->fold(run, ker, s, t);
        else lnt_direct_fold_max(ker, s, t);
        return;
    }
    if (kind->weights) kind->weights(run, ker, s->x + from, TQ, t->rows, wide);
    lnt_direct_mask(t, s->x, 0);
    ker->add_rows(s->sum + from, s->ones, s->x + from, TQ, t->rows, wide);
}

void lnt_direct_values(const lnt_run *run, const kernels *ker, scratch *s, const tile *t)
{
    s->ldv = s->mp;
    s->v = read_rows(ker, s->v_own, &s->ldv, &run->io->v, t->seq.b, t->kvh, t->seq.k0 + t->k0,
                     t->nk);
}

/* kt and v of the tile, all its keys, into kt_own and v_own. */
static void load_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                      const tile *t)
{
    kind->keys(run, &s->feature, t->seq.b, t->kvh, t->seq.k0 + t->k0, t->nk, s->kt_own, TK);
    s->kt = s->kt_own;
    lnt_direct_values(run, ker, s, t);
}

static size_t pack_size(const scratch *s) { return TK * (s->D + s->mp); }

/* kt and v of the tile from packs; all its keys, for other queries may see more, are loaded when their
 * turn comes. */
static void recall_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                        const tile *t)
{
    const int64_t i = t->k0 / TK, row = t->seq.k0 + t->k0;
    real *kt = s->packs + (size_t)i * pack_size(s), *v = kt + s->D * TK;
    s->kt = kt;
    s->v = v;
    s->ldv = s->mp;
    if (i < s->packed) return;
    const size_t nk = smaller(t->seq.nk - t->k0, TK);
    kind->keys(run, &s->feature, t->seq.b, t->kvh, row, nk, kt, TK);
    load_rows(ker, v, s->mp, &run->io->v, t->seq.b, t->kvh, row, nk, 1);
    s->packed = i + 1;
}

void lnt_direct_attend(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                       tile *t)
{
    const size_t wide = lnt_round_up(s->m, ker->lanes);
    kind->queries(run, &s->feature, t->seq.b, t->h, t->seq.q0 + t->q0, t->nq, s->qt, TQ);
    memset(s->o, 0, t->nq * s->mp * sizeof(real));
    for (size_t i = 0; i < TQ; i++) {
        s->max[i] = kind->least ? kind->least(run, t->offset + t->q0 + (int64_t)i) : -(real)INFINITY;
        s->sum[i] = 0;
    }
    const int64_t end = lnt_direct_end_key(t);
    for (t->k0 = lnt_direct_first_key(t); t->k0 < end; t->k0 += TK) {
        t->nk = smaller(end - t->k0, TK);
        (s->packs ? recall_keys : load_keys)(kind, run, ker, s, t);
        for (t->row = t->rows = 0; lnt_direct_next_strip(t);) {
            const kept_strip kept = lnt_direct_kept_strip(kind, run, t);
            s->w = kept.max ? kept.x : s->x;
            lnt_direct_scores(kind, run, ker, s, t, s->qt);
            if (kept.x && !kept.max) lnt_direct_copy_strip(ker, kept.x, s->x, t);
            fold(kind, run, ker, s, t);
            if (kept.max) memcpy(kept.max, s->max, TQ * sizeof(real));
            ker->gemm_tn(s->o + t->from * s->mp, s->mp, s->w + t->from, TQ, s->v + t->row * s->ldv,
                         s->ldv, t->nq - t->from, wide, t->rows, 1);
        }
    }
}

int lnt_direct_threads(const lnt_run *run)
{
    const double flops =
        2 * (double)(lnt_score_width(run->p) + run->p->dim_value) * lnt_run_pairs(run);
    return lnt_threads_for(run->ctx, flops * (double)run->p->heads);
}

void lnt_direct_forward(const lnt_direct *kind, lnt_run *run)
{
    const kernels *ker = run_kernels(run);
    const int64_t H = run->p->heads;
    const int64_t tiles = tiles_of(lnt_run_longest(run, 0, run->sequences, false), TQ);
    const int64_t units = run->sequences * H * tiles;
    const int threads = lnt_direct_threads(run);
    const int64_t at_once = lnt_pieces_at_once(run->sequences, H * tiles, threads);
    int64_t nonpositive = 0;
    lnt_clear_gaps(run);
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    {
        scratch s = lnt_direct_open(run);
        int64_t begun = -1; /* sequence and kv head */
#pragma omp for schedule(dynamic, at_once)
        for (int64_t unit = 0; unit < units; unit++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, unit / tiles / H);
            tile t = lnt_direct_tile(run, &seq, unit / tiles % H);
            t.q0 = (tiles - 1 - unit % tiles) * TQ; /* causal: the long ones first */
            if (at_once > 1 && unit % at_once == 0) lnt_prefetch_inputs(run, &seq);
            if (t.q0 >= seq.nq) continue;
            t.nq = smaller(seq.nq - t.q0, TQ);
            if (begun != unit / tiles / H * run->p->kv_heads + t.kvh) {
                lnt_direct_begin(kind, run, &s, &seq, t.kvh);
                if ((size_t)tiles_of(seq.nk, TK) <= s.queries_size / pack_size(&s) &&
                    t.behind == LNT_BAND_ALL)
                    s.packs = s.queries; /* packed from the first key on */
                begun = unit / tiles / H * run->p->kv_heads + t.kvh;
            }
            lnt_direct_attend(kind, run, ker, &s, &t);
            nonpositive += lnt_tile_finish(run, tile_rows(&t), s.o, s.sum,
                                           kind->has_max && !kind->least ? s.max : NULL, s.rescale);
            if (kind->least && run->statistics)
                memcpy(statistics_of(run, 1, tile_rows(&t)), s.max, t.nq * sizeof(real));
        }
    }
    run->nonpositive = nonpositive;
}
