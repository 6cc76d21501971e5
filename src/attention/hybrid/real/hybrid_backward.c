/* attention/hybrid/real/hybrid_backward.c - gradients of hybrid attention.  With dn = dy / den and
 * dden = -(dy.y) / den, all relative to e^max of the query as forward left them:
 *
 *     near   p = e^{x - max}      dx = p (dn.v + dden)
 *     far    p = e^-max w(x)      dx = e^-max w'(x) (dn.v + dden)
 *     dv = sum p dn,  dq = scale sum dx k,  dk = scale sum dx q
 *
 * and through S as Taylor and linear attention do, with e^-max dn and e^-max dden: forward over the
 * sequence for dq, backward for dk and dv.  The keys of a chunk begin and end where frontiers stand,
 * so that a chunk of queries meets all of them directly or none.  See docs/math/hybrid.md */
#include <string.h>

#include "attention/hybrid/hybrid.h"

/* shrink = e^-max of head g; where a query has no far key it is not used. */
static void find_shrink(const head_job *job, hybrid_scratch *s, size_t g, size_t lanes)
{
    real *shrink = s->shrink + g * TOKENS;
    for (size_t i = 0; i < lanes; i++) shrink[i] = -s->max[g * TOKENS + i];
    job->ker->map_exp(shrink, shrink, lanes);
}

/* Near: x, a score or -inf, becomes p, and dx takes its factor; far: both have theirs. */
static void weigh_row(hybrid_scratch *s, size_t g, const hybrid_tile *c, size_t j, size_t far)
{
    const real *shrink = s->shrink + g * TOKENS, *y = s->y + j * TOKENS;
    real *x = s->t.x + j * TOKENS, *dx = s->t.dx + j * TOKENS;
    for (size_t i = c->from; i < far; i++) dx[i] *= x[i];
    for (size_t i = far; i < c->queries; i++) x[i] = y[i] * shrink[i];
}

/* What weigh, below, does where all pairs that are seen are near, or all are far. */
static void weigh_whole(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c,
                        bool far)
{
    taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes), from = c->from;
    real delta[TOKENS];
    for (size_t i = from; i < lanes; i++) delta[i] = -t->dden[g * TOKENS + i];
    if (far) {
        s->far->whole_back(job, s, c, s->shrink + g * TOKENS, delta);
        return;
    }
    lnt_hybrid_mask(job, s, c);
    job->ker->softmax_back(t->x + from, t->dx + from, TOKENS, c->keys, lanes - from,
                           s->max + g * TOKENS + from, delta + from);
}

/* x becomes p of head g over a tile, dx the gradient of the scores. */
static void weigh(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c, bool far)
{
    const kernels *ker = job->ker;
    const lnt_attn_desc *p = job->run->p;
    taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes), from = c->from;
    lnt_hybrid_scores(job, s, g, c);
    ker->gemm_nn(t->dx + from, TOKENS, t->v, t->ldv, t->dnt + g * t->m * TOKENS + from, TOKENS,
                 c->keys, lanes - from, t->m, 0);
    if (!far || is_whole(job, s, c)) {
        weigh_whole(job, s, g, c, far);
        return;
    }
    for (size_t j = 0; j < c->keys; j++)
        ker->axpy(t->dx + j * TOKENS + from, 1, t->dden + g * TOKENS + from, lanes - from);
    s->far->weights(job, s, g, c);
    lnt_hybrid_fade_tile(job, s, c, s->y);
    lnt_hybrid_fade_tile(job, s, c, t->dx);
    for (size_t j = 0; j < c->keys; j++)
        for (size_t i = lnt_hybrid_far_from(p, c, j); i < c->queries; i++)
            t->dx[j * TOKENS + i] *= s->shrink[g * TOKENS + i];
    if (s->far->slope) s->far->slope(job, s, c);
    if (!all_far(p, c)) {
        lnt_hybrid_mask(job, s, c);
        ker->softmax_weights(t->x + from, TOKENS, c->keys, lanes - from,
                             s->max + g * TOKENS + from);
    }
    for (size_t j = 0; j < c->keys; j++)
        weigh_row(s, g, c, j, lnt_hybrid_far_from(p, c, j));
    if (s->far->split) s->far->split(job, s, c);
}

/* dn and dden of every head are multiplied by e^-max, and fade, as keys in S want them. */
static void shrink_quotients(const head_job *job, hybrid_scratch *s, int64_t query, size_t n)
{
    taylor_scratch *t = &s->t;
    lnt_hybrid_fade_queries(job, s, query, n, t->dn, t->dden);
    for (size_t g = 0; g < t->heads; g++)
        for (size_t i = 0; i < n; i++) {
            const real shrink = s->shrink[g * TOKENS + i];
            job->ker->scale(t->dn + (g * TOKENS + i) * t->mp, shrink, t->m);
            t->dden[g * TOKENS + i] *= shrink;
        }
}

/* Queries from query t on of every head, and what was kept of them. */
static void reload_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    memset(s->max, 0, s->t.heads * TOKENS * sizeof(real));
    memset(s->t.dden, 0, s->t.heads * TOKENS * sizeof(real));
    lnt_hybrid_load_queries(job, s, t, n);
    for (size_t g = 0; g < s->t.heads; g++) {
        const query_rows rows = queries_of(job, &s->t, g, t, n);
        lnt_quotient_reload(job->run, rows, s->t.dn + g * TOKENS * s->t.mp, s->t.dden + g * TOKENS);
        lnt_taylor_transpose_dn(job->ker, &s->t, g, n);
        memcpy(s->max + g * TOKENS, carried_max(job->run, rows), n * sizeof(real));
        find_shrink(job, s, g, lnt_round_up(n, job->ker->lanes));
    }
}

/* ---- forward over the sequence: dq ------------------------------------------------------------ */

/* dn, dden and e^-max of every head, kept with max for the way back. */
static void find_quotients(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    for (size_t g = 0; g < s->t.heads; g++) {
        lnt_taylor_quotient(job, &s->t, g, t, n);
        lnt_taylor_transpose_dn(job->ker, &s->t, g, n);
        find_shrink(job, s, g, lnt_round_up(n, job->ker->lanes));
        memcpy(carried_max(job->run, queries_of(job, &s->t, g, t, n)), s->max + g * TOKENS,
               n * sizeof(real));
    }
}

/* The same of what forward gave and kept; queries are loaded. */
static void recall_quotients(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    for (size_t g = 0; g < s->t.heads; g++) {
        const query_rows rows = queries_of(job, &s->t, g, t, n);
        lnt_quotient_recall(run, rows, s->t.o, s->t.dn);
        memcpy(carried_max(run, rows), statistics_of(run, 1, rows), n * sizeof(real));
    }
    reload_queries(job, s, t, n);
}

/* dq of every head is made of dt. */
static void store_dq(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    for (size_t g = 0; g < s->t.heads; g++) {
        real *dt = s->t.dt + g * s->t.d * TOKENS;
        job->ker->scale(dt, (real)run->p->scale, s->t.d * TOKENS);
        if (s->far->finish_queries) s->far->finish_queries(job, s, g, t, n);
        store_columns(job->ker, &run->grads->dq, job->seq.b, head_of(job, &s->t, g), job->seq.q0 + t,
                      n, dt, TOKENS);
    }
}

/* What a tile, whose keys are loaded, gives to dt of every head. */
static void add_tile(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes);
    const bool far = has_far(job->run->p, c);
    if (far && s->far->keys) s->far->keys(job, s, c->keys);
    for (size_t g = 0; g < t->heads; g++) {
        weigh(job, s, g, c, far);
        job->ker->gemm_tn(t->dt + g * t->d * TOKENS + c->from, TOKENS, t->k, t->ldk,
                          t->dx + c->from, TOKENS, t->d, lanes - c->from, c->keys, 1);
        if (far && s->far->grad_queries) s->far->grad_queries(job, s, g, c);
    }
}

/* n queries from query t on are loaded with what forward left of them, their dt set to 0. */
static void begin_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    if (job->run->statistics) {
        recall_quotients(job, s, t, n);
    } else {
        lnt_hybrid_attend(job, s, t, n, lnt_hybrid_frontier(job, s, token_of(job, t)));
        find_quotients(job, s, t, n);
    }
    memset(s->t.dt, 0, s->t.heads * s->t.d * TOKENS * sizeof(real));
}

/* dq of n queries from query t on.  S holds what is before their frontier, and takes in what is before
 * the next. */
static void grad_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n, int64_t next)
{
    const int64_t query = token_of(job, t), frontier = lnt_hybrid_frontier(job, s, query);
    hybrid_tile c = lnt_hybrid_tile_of(job, 0, 0, query, n);
    begin_queries(job, s, t, n);
    while (lnt_hybrid_next_tile(job, s, &c)) {
        lnt_hybrid_load_keys(job, s, c.key, c.keys);
        add_tile(job, s, &c);
    }
    if (frontier > job->run->p->hybrid.sink) {
        shrink_quotients(job, s, query, n);
        for (size_t g = 0; g < s->t.heads; g++) lnt_taylor_transpose_dn(job->ker, &s->t, g, n);
        s->far->walk_queries(job, s, n);
    }
    store_dq(job, s, t, n);
    if (s->summed) lnt_hybrid_absorb(job, s, frontier, next);
}

static void pass_over_queries(const head_job *job, hybrid_scratch *s)
{
    const int64_t nq = job->seq.nq;
    if (nq) lnt_hybrid_absorb(job, s, 0, lnt_hybrid_frontier(job, s, token_of(job, 0)));
    for (int64_t t = 0; t < nq; t += TOKENS) {
        const int64_t after = t + TOKENS < nq ? t + TOKENS : t; /* nothing reads S after the last */
        grad_queries(job, s, t, chunk_tokens(nq - t),
                     lnt_hybrid_frontier(job, s, token_of(job, after)));
    }
}

/* ---- backward over the sequence: dk, dv ------------------------------------------------------- */

/* What the queries loaded, from token `query` on, give to dk, dv of the keys loaded. */
static void add_queries(const head_job *job, hybrid_scratch *s, int64_t key, size_t keys,
                        int64_t query, size_t n)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    const hybrid_tile c = lnt_hybrid_tile_of(job, key, keys, query, n);
    const bool far = has_far(job->run->p, &c);
    for (size_t g = 0; g < t->heads; g++) {
        const real *dn = t->dn + (g * TOKENS + c.from) * t->mp;
        weigh(job, s, g, &c, far);
        ker->gemm_nn(t->dv, t->mp, t->x + c.from, TOKENS, dn, t->mp, keys,
                     lnt_round_up(t->m, ker->lanes), n - c.from, 1);
        transpose(ker, t->q, t->dp, t->qt + g * t->d * TOKENS, TOKENS, n, t->d);
        ker->gemm_nn(t->dk, t->dp, t->dx + c.from, TOKENS, t->q + c.from * t->dp, t->dp, keys,
                     lnt_round_up(t->d, ker->lanes), n - c.from, 1);
        if (far && s->far->grad_keys) s->far->grad_keys(job, s, g, &c);
    }
}

/* Chunks of queries, [first, last), that meet keys from token `key` on directly; and the chunk whose
 * frontier stands at `key`, -1 if there is none. */
static void chunks_meeting(const head_job *job, const hybrid_scratch *s, int64_t key,
                           int64_t *first, int64_t *last, int64_t *leaving)
{
    const lnt_attn_desc *p = job->run->p;
    const int64_t alone = keys_alone(job), behind = key + p->hybrid.window - alone;
    *first = key > alone ? (key - alone) / TOKENS : 0;
    *last = tiles_of(job->seq.nq, TOKENS);
    *leaving = -1;
    if (!s->summed || key < p->hybrid.sink) return;
    if (behind >= 0 && behind % TOKENS == 0 && behind / TOKENS < *last && key > p->hybrid.sink)
        *leaving = behind / TOKENS;
    const int64_t met = behind < 0 ? 0 : behind / TOKENS + 1;
    if (met < *last) *last = met;
}

static void store_keys(const head_job *job, hybrid_scratch *s, int64_t key, size_t n)
{
    const lnt_attn_grads *g = job->run->grads;
    const int64_t row = job->seq.k0 + key;
    if (s->far->finish_keys) s->far->finish_keys(job, s, n);
    store_columns(job->ker, &g->dk, job->seq.b, job->kvh, row, n, s->t.dt, TOKENS);
    store_rows(job->ker, &g->dv, job->seq.b, job->kvh, row, n, s->t.dv, s->t.mp, NULL);
}

/* What the gradient of S gives to the keys loaded, by how much each had faded when S was read; then the
 * gradient ages by them. */
static void walk_faded_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    real *direct = t->o; /* what dv has already; sums of queries are done with */
    memcpy(direct, t->dv, n * t->mp * sizeof(real));
    memset(t->dv, 0, n * t->mp * sizeof(real));
    lnt_hybrid_weigh_keys(job, s, n, NULL, 0);
    for (size_t c = 0; c < t->m; c++)
        for (size_t j = 0; j < n; j++) t->vt[c * TOKENS + j] *= t->ones[j];
    s->far->walk_keys(job, s, n, 0);
    for (size_t j = 0; j < n; j++) {
        ker->scale(t->dv + j * t->mp, t->ones[j], t->m);
        ker->axpy(t->dv + j * t->mp, 1, direct + j * t->mp, t->m);
        t->ones[j] = 1;
    }
    lnt_hybrid_age(job, s, t->grad, n);
}

/* dk, dv of n keys from token `key` on; `later`: chunks are in the gradient of S.  Whether they are
 * then. */
static bool grad_keys(const head_job *job, hybrid_scratch *s, int64_t key, size_t n, bool later)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    int64_t first, last, leaving;
    size_t queries = 0;
    chunks_meeting(job, s, key, &first, &last, &leaving);
    lnt_hybrid_load_keys(job, s, key, n);
    ker->load_columns(t->vt, TOKENS, t->v, LNT_REAL_DTYPE, (int64_t)t->ldv, 1, n, t->m, 1);
    if (s->far->keys) s->far->keys(job, s, n);
    memset(t->dv, 0, n * t->mp * sizeof(real));
    memset(t->dk, 0, n * t->dp * sizeof(real));
    if (s->dphi_k) memset(s->dphi_k, 0, n * s->Dp * sizeof(real));
    for (int64_t c = first; c < last; c++) {
        queries = chunk_tokens(job->seq.nq - c * TOKENS);
        reload_queries(job, s, c * TOKENS, queries);
        add_queries(job, s, key, n, token_of(job, c * TOKENS), queries);
    }
    ker->load_columns(t->dt, TOKENS, t->dk, LNT_REAL_DTYPE, (int64_t)t->dp, 1, n, t->d, 1);
    later = later && key >= job->run->p->hybrid.sink;
    if (leaving >= 0) /* the last of them, still loaded */
        shrink_quotients(job, s, token_of(job, leaving * TOKENS), queries);
    if (later && job->decay < 1) {
        walk_faded_keys(job, s, n);
        if (leaving >= 0) s->far->walk_keys(job, s, 0, queries);
    } else if (later || leaving >= 0) {
        s->far->walk_keys(job, s, later ? n : 0, leaving >= 0 ? queries : 0);
    }
    store_keys(job, s, key, n);
    return later || leaving >= 0;
}

/* Where the chunk of keys begins that ends at `end`. */
static int64_t chunk_begin(const head_job *job, int64_t end)
{
    const int64_t sink = job->run->p->hybrid.sink;
    const int64_t phase = end > sink ? keys_alone(job) - job->run->p->hybrid.window : 0;
    const int64_t past = (end - 1 - phase) % TOKENS;
    const int64_t begin = end - 1 - (past < 0 ? past + TOKENS : past);
    const int64_t least = end > sink ? sink : 0;
    return begin > least ? begin : least;
}

static void pass_over_keys(const head_job *job, hybrid_scratch *s)
{
    bool later = false;
    for (int64_t end = job->seq.nk, begin; end > 0; end = begin) {
        begin = chunk_begin(job, end);
        later = grad_keys(job, s, begin, (size_t)(end - begin), later);
    }
}

void lnt_hybrid_backward(lnt_run *run, bool summed)
{
    const int64_t KVH = run->p->kv_heads;
    const int threads = lnt_hybrid_threads(run);
    lnt_clear_gaps(run);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        hybrid_scratch s = lnt_hybrid_open(&job, summed);
        const head_sums none = { .s = NULL };
        if (summed) {
            lnt_sums_copy(&job, s.t.sums, none);
            lnt_sums_copy(&job, s.t.grad, none);
        }
        pass_over_queries(&job, &s);
        pass_over_keys(&job, &s);
    }
}
