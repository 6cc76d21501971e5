/* attention/direct/real/direct_backward.c - gradients of tiled quadratic attention.
 *
 *     p = w / den     dv_j = sum_i p_ij dy_i     dp_ij = dy_i.v_j     dx = gradient of p by the scores
 *     dq_i = sum_j dx_ij k_j     dk_j = sum_i dx_ij q_i
 *
 * First what forward knew of each query: its statistic (softmax: the logarithm of the sum of e^x, else
 * 1 / den; hybrid: that and the maximum) and delta = dy.y, kept or found again; as are scores, or weights
 * where those are e^x.  Then, where there are heads enough for the threads, one pass over tiles of keys
 * gives dk and dv, and dq tile by tile as the keys come: 2.5 times forward.  Else one pass over tiles of
 * queries gives dq and one over keys the rest: 3.5 times forward.  Both add up in the same order, and each
 * sum is one thread's, so nothing depends on their number.  Scratch: a few times q of the heads of one
 * group per thread, or, where that would be large, O(d + m). */
#include <math.h>
#include <string.h>

#include "attention/direct/direct_tile.h"
#include "core/threads.h"

/* dout of tile t as rows; then times what y was multiplied by. */
static void load_dy(const lnt_run *run, const kernels *ker, const scratch *s, const query_tile *q,
                    const tile *t)
{
    load_rows(ker, q->dy, s->mp, &run->grads->dout, t->seq.b, t->h, t->seq.q0 + t->q0, t->nq, 1);
}

static void multiply_dy(const lnt_run *run, const kernels *ker, const scratch *s,
                        const query_tile *q, const tile *t)
{
    for (size_t i = 0; i < t->nq; i++) {
        const real factor = lnt_output_factor(run, &t->seq, t->q0 + (int64_t)i);
        if (factor != 1) ker->scale(q->dy + i * s->mp, factor, s->m);
    }
}

/* Where the statistic is 1 / den, and the query has no gradients, both are 0. */
static void leave_out(bool logarithm, real *statistic, real *delta)
{
    if (!logarithm && !has_gradient(*statistic, *delta)) *statistic = *delta = 0;
}

/* The statistic and delta of the queries of a tile, kept for what follows. */
static void find_statistics(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                            tile *t)
{
    const query_tile q = lnt_direct_query_tile(s, s->queries);
    const real eps = run->p->mechanism == LNT_LINEAR ? (real)run->p->linear.eps : 0;
    const bool logarithm = kind->has_max && !kind->least;
    real *carried = carried_of(run, tile_rows(t));
    lnt_direct_attend(kind, run, ker, s, t);
    load_dy(run, ker, s, &q, t);
    multiply_dy(run, ker, s, &q, t);
    for (size_t i = 0; i < t->nq; i++) {
        const real den = s->sum[i] + eps;
        const real along = ker->dot(q.dy + i * s->mp, s->o + i * s->mp, s->m);
        carried[2 * i] = lnt_statistic(run, logarithm ? s->max + i : NULL, s->sum[i]);
        carried[2 * i + 1] = den == 0 ? 0 : along / den;
        leave_out(logarithm, &carried[2 * i], &carried[2 * i + 1]);
    }
    if (kind->least) memcpy(carried_max(run, tile_rows(t)), s->max, t->nq * sizeof(real));
}

/* The same of what forward gave and kept, for the queries whose dy is loaded; hybrid's max in shrink. */
static void recall_statistics(const lnt_direct *kind, const lnt_run *run, const kernels *ker,
                              const scratch *s, const query_tile *q, const tile *t)
{
    const query_rows rows = tile_rows(t);
    const size_t wide = lnt_round_up(s->m, ker->lanes); /* beyond m both are 0 */
    load_rows(ker, s->o, s->mp, &run->io->out, t->seq.b, t->h, first_row(rows), t->nq, 1);
    memcpy(q->statistic, statistics_of(run, 0, rows), t->nq * sizeof(real));
    for (size_t i = 0; i < t->nq; i++) {
        q->delta[i] = ker->dot(q->dy + i * s->mp, s->o + i * s->mp, wide);
        leave_out(kind->has_max && !kind->least, &q->statistic[i], &q->delta[i]);
    }
    if (kind->least) memcpy(q->shrink, statistics_of(run, 1, rows), t->nq * sizeof(real));
}

static void keep_recalled(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                          tile *t)
{
    const query_tile q = lnt_direct_query_tile(s, s->queries);
    real *carried = carried_of(run, tile_rows(t));
    load_dy(run, ker, s, &q, t);
    recall_statistics(kind, run, ker, s, &q, t);
    for (size_t i = 0; i < t->nq; i++) carried[2 * i] = q.statistic[i], carried[2 * i + 1] = q.delta[i];
    if (kind->least) memcpy(carried_max(run, tile_rows(t)), q.shrink, t->nq * sizeof(real));
}

static void reload_statistics(const lnt_direct *kind, const lnt_run *run, const query_tile *q,
                              const tile *t)
{
    const real *carried = carried_of(run, tile_rows(t));
    for (size_t i = 0; i < t->nq; i++) q->statistic[i] = carried[2 * i], q->delta[i] = carried[2 * i + 1];
    if (kind->least) memcpy(q->shrink, carried_max(run, tile_rows(t)), t->nq * sizeof(real));
}

/* Hybrid: p = den times what it was from here on, and dy = dy / den, delta = delta / den, for den may
 * have any sign.  The statistic, that was 1 / den, is the maximum then. */
static void make_relative(const kernels *ker, const scratch *s, const query_tile *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const real inverse = q->statistic[i], max = q->shrink[i];
        ker->scale(q->dy + i * s->mp, inverse, s->m);
        q->delta[i] *= inverse;
        q->statistic[i] = isinf(max) ? 0 : max; /* it sees no key */
    }
    for (size_t i = 0; i < TQ; i++) q->shrink[i] = i < n ? -q->statistic[i] : 0;
    ker->map_exp(q->shrink, q->shrink, TQ);
}

/* dst [width, ldd] = src [n, lds] transposed. */
static void turn(const kernels *ker, real *dst, size_t ldd, const real *src, size_t lds, size_t n,
                 size_t width)
{
    ker->load_columns(dst, ldd, src, LNT_REAL_DTYPE, (int64_t)lds, 1, n, width, 1);
}

static bool is_plain(const lnt_direct *kind, const lnt_run *run, bool query, int64_t h,
                     double *factor)
{
    return kind->plain && kind->plain(run, query, h, factor);
}

/* recall: the statistics are still as forward kept them. */
static void load_queries(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                         const query_tile *q, const tile *t, bool recall)
{
    const int64_t b = t->seq.b, row = t->seq.q0 + t->q0;
    double factor;
    if (is_plain(kind, run, true, t->h, &factor)) {
        load_rows(ker, q->q, s->Dp, &run->io->q, b, t->h, row, t->nq, factor);
        if (!lnt_direct_keeps_all(kind, run, &t->seq))
            turn(ker, q->qt, TQ, q->q, s->Dp, t->nq, s->D);
    } else {
        kind->queries(run, &s->feature, b, t->h, row, t->nq, q->qt, TQ);
        transpose(ker, q->q, s->Dp, q->qt, TQ, t->nq, s->D);
    }
    load_dy(run, ker, s, q, t);
    if (recall) recall_statistics(kind, run, ker, s, q, t);
    else reload_statistics(kind, run, q, t);
    multiply_dy(run, ker, s, q, t);
    if (kind->least) make_relative(ker, s, q, t->nq);
    turn(ker, q->dyt, TQ, q->dy, s->mp, t->nq, s->m);
    memset(q->dq, 0, t->nq * s->Dp * sizeof(real));
}

static void load_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                      const tile *t)
{
    const int64_t row = t->seq.k0 + t->k0;
    double factor;
    if (is_plain(kind, run, false, t->kvh, &factor)) {
        load_rows(ker, s->k, s->Dp, &run->io->k, t->seq.b, t->kvh, row, t->nk, factor);
        if (!lnt_direct_keeps_all(kind, run, &t->seq))
            turn(ker, s->kt_own, TK, s->k, s->Dp, t->nk, s->D);
    } else {
        kind->keys(run, &s->feature, t->seq.b, t->kvh, row, t->nk, s->kt_own, TK);
        transpose(ker, s->k, s->Dp, s->kt_own, TK, t->nk, s->D);
    }
    s->kt = s->kt_own;
    lnt_direct_values(run, ker, s, t);
    turn(ker, s->vt, TK, s->v, s->ldv, t->nk, s->m);
}

/* The same where forward kept the weights, relative to max. */
static void recall_weights(const kernels *ker, const scratch *s, const query_tile *q, const tile *t,
                           const kept_strip *kept)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    for (size_t i = from; i < from + wide; i++) s->rescale[i] = kept->max[i] - q->statistic[i];
    ker->map_exp(s->rescale + from, s->rescale + from, wide);
    ker->softmax_recall(s->x + from, kept->x + from, s->dx + from, TQ, t->rows, wide,
                        s->rescale + from, q->delta + from);
}

/* x of the strip becomes p, dx the gradient of the scores. */
static void weigh(const lnt_direct *kind, const lnt_run *run, const kernels *ker, const scratch *s,
                  const query_tile *q, const tile *t)
{
    const size_t from = t->from, wide = lnt_round_up(t->nq, ker->lanes) - from;
    const kept_strip kept = lnt_direct_kept_strip(kind, run, t);
    if (!kept.x) lnt_direct_scores(kind, run, ker, s, t, q->qt);
    else if (!kept.max) lnt_direct_copy_strip(ker, s->x, kept.x, t);
    ker->gemm_tn(s->dx + from, TQ, s->vt + t->row, TK, q->dyt + from, TQ, t->rows, wide, s->m, 0);
    if (kept.max)
        recall_weights(ker, s, q, t, &kept);
    else if (kind->back)
        kind->back(run, ker, s, q, t);
    else
        kind->weigh(run, ker, s->x + from, s->dx + from, TQ, t->rows, wide, q->statistic + from,
                    q->delta + from);
    if (!kind->has_max) lnt_direct_mask(t, s->x, 0); /* e^-inf is 0 already */
    lnt_direct_mask(t, s->dx, 0);
    if (!kind->back) lnt_direct_decay(t, s->power, s->dx);
    if (kind->adjust_back) kind->adjust_back(run, ker, s, t);
}

/* Which gradients a pass adds to. */
typedef enum grads_of { OF_QUERIES = 1, OF_KEYS = 2, OF_BOTH = 3 } grads_of;

static void add_tile(const lnt_direct *kind, const lnt_run *run, const kernels *ker,
                     const scratch *s, const query_tile *q, tile *t, grads_of which)
{
    const size_t wide = lnt_round_up(s->D, ker->lanes), wide_v = lnt_round_up(s->m, ker->lanes);
    for (t->row = t->rows = 0; lnt_direct_next_strip(t);) {
        const size_t from = t->from, row = t->row, nq = t->nq - from;
        weigh(kind, run, ker, s, q, t);
        if (which & OF_QUERIES)
            ker->gemm_tn(q->dq + from * s->Dp, s->Dp, s->dx + from, TQ, s->k + row * s->Dp, s->Dp,
                         nq, wide, t->rows, 1);
        if (!(which & OF_KEYS)) continue;
        ker->gemm_nn(s->dk + row * s->Dp, s->Dp, s->dx + from, TQ, q->q + from * s->Dp, s->Dp,
                     t->rows, wide, nq, 1);
        ker->gemm_nn(s->dv + row * s->mp, s->mp, s->x + from, TQ, q->dy + from * s->mp, s->mp,
                     t->rows, wide_v, nq, 1);
    }
}

/* n rows of the gradient of a mapped q or k times factor. */
static void store_plain(const kernels *ker, const scratch *s, const lnt_tensor *to, int64_t b,
                        int64_t h, int64_t row, size_t n, const real *rows, double factor)
{
    for (size_t i = 0; i < n; i++) s->rescale[i] = (real)factor;
    store_rows(ker, to, b, h, row, n, rows, s->Dp, s->rescale);
}

static void store_dq(const lnt_direct *kind, const lnt_run *run, const kernels *ker, scratch *s,
                     const query_tile *q, const tile *t)
{
    const int64_t b = t->seq.b, row = t->seq.q0 + t->q0;
    double factor;
    if (is_plain(kind, run, true, t->h, &factor)) {
        store_plain(ker, s, &run->grads->dq, b, t->h, row, t->nq, q->dq, factor);
        return;
    }
    turn(ker, s->columns, TQ, q->dq, s->Dp, t->nq, s->D);
    kind->store_dq(run, &s->feature, b, t->h, row, t->nq, s->columns, TQ);
}

static void store_keys(const lnt_direct *kind, const lnt_run *run, const kernels *ker, scratch *s,
                       const tile *t)
{
    const int64_t b = t->seq.b, row = t->seq.k0 + t->k0;
    double factor;
    store_rows(ker, &run->grads->dv, b, t->kvh, row, t->nk, s->dv, s->mp, NULL);
    if (is_plain(kind, run, false, t->kvh, &factor)) {
        store_plain(ker, s, &run->grads->dk, b, t->kvh, row, t->nk, s->dk, factor);
        return;
    }
    turn(ker, s->columns, TQ, s->dk, s->Dp, t->nk, s->D);
    kind->store_dk(run, &s->feature, b, t->kvh, row, t->nk, s->columns, TQ);
}

/* dq of one tile of queries. */
static void grad_queries(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                         tile *t)
{
    const query_tile q = lnt_direct_query_tile(s, s->queries);
    load_queries(kind, run, ker, s, &q, t, false);
    const int64_t end = lnt_direct_end_key(t);
    for (t->k0 = lnt_direct_first_key(t); t->k0 < end; t->k0 += TK) {
        t->nk = smaller(t->seq.nk - t->k0, TK);
        load_keys(kind, run, ker, s, t);
        add_tile(kind, run, ker, s, &q, t, OF_QUERIES);
    }
    store_dq(kind, run, ker, s, &q, t);
}

/* dk and dv of the tile of keys at k0, from all heads of its group.  kept: the query_tiles of the group
 * are loaded, and their dq is added to. */
static void grad_keys(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                      const lnt_sequence *seq, int64_t kvh, int64_t k0, bool kept)
{
    const int64_t group = run->p->heads / run->p->kv_heads, tiles = tiles_of(seq->nq, TQ);
    const size_t size = lnt_direct_query_size(run->p);
    tile t = lnt_direct_tile(run, seq, kvh * group);
    t.k0 = k0;
    t.nk = smaller(seq->nk - k0, TK);
    load_keys(kind, run, ker, s, &t);
    memset(s->dk, 0, t.nk * s->Dp * sizeof(real));
    memset(s->dv, 0, t.nk * s->mp * sizeof(real));
    const int64_t first = k0 - t.offset - t.ahead > 0 ? k0 - t.offset - t.ahead : 0; /* that sees k0 */
    const int64_t last = k0 + (int64_t)t.nk - 1 - t.offset + t.behind; /* that sees any of them */
    for (int64_t g = 0; g < group; g++) {
        t.h = kvh * group + g;
        for (int64_t i = first / TQ; i < tiles && i * TQ <= last; i++) {
            real *at = s->queries + (kept ? (size_t)(g * tiles + i) * size : 0);
            const query_tile q = lnt_direct_query_tile(s, at);
            t.q0 = i * TQ;
            t.nq = smaller(seq->nq - t.q0, TQ);
            if (!kept) load_queries(kind, run, ker, s, &q, &t, false);
            add_tile(kind, run, ker, s, &q, &t, kept ? OF_BOTH : OF_KEYS);
        }
    }
    store_keys(kind, run, ker, s, &t);
}

/* All gradients of one group of heads. */
static void grad_group(const lnt_direct *kind, lnt_run *run, const kernels *ker, scratch *s,
                       const lnt_sequence *seq, int64_t kvh)
{
    const int64_t group = run->p->heads / run->p->kv_heads, tiles = tiles_of(seq->nq, TQ);
    const size_t size = lnt_direct_query_size(run->p);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t g = 0; g < group; g++)
            for (int64_t i = 0; i < tiles; i++) {
                const query_tile q =
                    lnt_direct_query_tile(s, s->queries + (size_t)(g * tiles + i) * size);
                tile t = lnt_direct_tile(run, seq, kvh * group + g);
                t.q0 = i * TQ;
                t.nq = smaller(seq->nq - t.q0, TQ);
                if (pass == 0) load_queries(kind, run, ker, s, &q, &t, run->statistics != NULL);
                else store_dq(kind, run, ker, s, &q, &t);
            }
        for (int64_t k0 = 0; pass == 0 && k0 < seq->nk; k0 += TK)
            grad_keys(kind, run, ker, s, seq, kvh, k0, true);
    }
}

/* Runs `step` on every tile of queries. */
static void each_query_tile(const lnt_direct *kind, lnt_run *run, int threads,
                            void (*step)(const lnt_direct *kind, lnt_run *run, const kernels *ker,
                                         scratch *s, tile *t))
{
    const kernels *ker = run_kernels(run);
    const int64_t H = run->p->heads;
    const int64_t tiles = tiles_of(lnt_run_longest(run, 0, run->sequences, false), TQ);
#pragma omp parallel num_threads(threads)
    {
        scratch s = lnt_direct_open(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < run->sequences * H * tiles; unit++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, unit / tiles / H);
            tile t = lnt_direct_tile(run, &seq, unit / tiles % H);
            t.q0 = (tiles - 1 - unit % tiles) * TQ;
            if (t.q0 >= seq.nq) continue;
            t.nq = smaller(seq.nq - t.q0, TQ);
            lnt_direct_begin(kind, run, &s, &seq, t.kvh);
            step(kind, run, ker, &s, &t);
        }
    }
}

static void each_key_tile(const lnt_direct *kind, lnt_run *run, int threads)
{
    const kernels *ker = run_kernels(run);
    const int64_t KVH = run->p->kv_heads;
    const int64_t tiles = tiles_of(lnt_run_longest(run, 0, run->sequences, true), TK);
#pragma omp parallel num_threads(threads)
    {
        scratch s = lnt_direct_open(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < run->sequences * KVH * tiles; unit++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, unit / tiles / KVH);
            const int64_t k0 = unit % tiles * TK, kvh = unit / tiles % KVH;
            if (k0 >= seq.nk) continue;
            lnt_direct_begin(kind, run, &s, &seq, kvh);
            grad_keys(kind, run, ker, &s, &seq, kvh, k0, false);
        }
    }
}

static void each_group(const lnt_direct *kind, lnt_run *run, int threads)
{
    const kernels *ker = run_kernels(run);
    const int64_t KVH = run->p->kv_heads;
    const int64_t at_once = lnt_pieces_at_once(run->sequences, KVH, threads);
#pragma omp parallel num_threads(threads)
    {
        scratch s = lnt_direct_open(run);
#pragma omp for schedule(dynamic, at_once)
        for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, unit / KVH);
            if (at_once > 1 && unit % at_once == 0) lnt_prefetch_gradients(run, &seq);
            lnt_direct_begin(kind, run, &s, &seq, unit % KVH);
            grad_group(kind, run, ker, &s, &seq, unit % KVH);
        }
    }
}

/* Whether one pass, a group of heads a thread, is done before two of smaller pieces: 5 products to 7,
 * but the threads that have no group wait. */
static bool takes_one_pass(const lnt_run *run, int threads)
{
    const int64_t groups = run->sequences * run->p->kv_heads;
    return lnt_direct_keeps_queries(run->p) && 5 * tiles_of(groups, threads) * threads <= 7 * groups;
}

void lnt_direct_backward(const lnt_direct *kind, lnt_run *run)
{
    const int threads = lnt_direct_threads(run);
    lnt_clear_gaps(run);
    const bool one_pass = takes_one_pass(run, threads);
    if (!run->statistics) each_query_tile(kind, run, threads, find_statistics);
    else if (!one_pass) each_query_tile(kind, run, threads, keep_recalled);
    if (one_pass) {
        each_group(kind, run, threads);
        return;
    }
    each_query_tile(kind, run, threads, grad_queries);
    each_key_tile(kind, run, threads);
}
