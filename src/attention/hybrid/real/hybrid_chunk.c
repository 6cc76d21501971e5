/* attention/hybrid/real/hybrid_chunk.c - the steps of hybrid attention in chunks; see hybrid.h.
 *
 * A tile of scores X [keys, queries] is one product.  The key of row j is near for a stretch of columns
 * and far for those behind it: there the weights come from `far`, and e^-max makes them relative to the
 * same running maximum, which is at least 0 where a query has any far key:
 *
 *     num = e^-max Phi(q) S + sum_near e^{x - max} v + sum_far e^-max w v                 den likewise
 *
 * See docs/math/hybrid.md */
#include "attention/hybrid/hybrid.h"

#include <math.h>
#include <omp.h>
#include <string.h>

static hybrid_scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p)
{
    hybrid_scratch s = { .t = lnt_taylor_take(arena, p) };
    s.far = p->hybrid.far == LNT_LINEAR ? &lnt_far_linear : &lnt_far_taylor;
    s.max = take(arena, s.t.heads, TOKENS);
    s.shrink = take(arena, s.t.heads, TOKENS);
    s.rescale = take(arena, 1, TOKENS);
    s.y = take(arena, TOKENS, TOKENS);
    s.fade = take(arena, 1, TOKENS);
    if (s.far->take) s.far->take(arena, p, &s);
    if (p->state != LNT_STATE_ALWAYS) s.t.sums = lnt_sums_take(arena, p);
    return s;
}

size_t lnt_hybrid_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p);
    return lnt_arena_counted(&counting);
}

/* Two numbers a query as elsewhere, and a third, the maximum. */
size_t lnt_hybrid_shared(const lnt_attn_desc *p)
{
    const size_t two = lnt_two_per_query(p);
    return two > SIZE_MAX / 2 ? SIZE_MAX : two / 2 * 3;
}

hybrid_scratch lnt_hybrid_open_in(lnt_arena *arena, const head_job *job, bool summed)
{
    const lnt_run *run = job->run;
    hybrid_scratch s = take_scratch(arena, run->p);
    lnt_taylor_prepare(run->p, &s.t);
    for (size_t i = 0; i < TOKENS && job->decay < 1; i++) s.fade[i] = decay_after(job, (int64_t)i);
    s.t.center = run->p->taylor.center ? run->p->taylor.center + job->kvh * run->p->dim : NULL;
    s.summed = summed;
    return s;
}

hybrid_scratch lnt_hybrid_open(const head_job *job, bool summed)
{
    const lnt_run *run = job->run;
    lnt_arena arena = run_arena(run, omp_get_thread_num());
    return lnt_hybrid_open_in(&arena, job, summed);
}

int lnt_hybrid_threads(const lnt_run *run)
{
    const lnt_attn_desc *p = run->p;
    const double each = 2 * (double)lnt_problem_width(p) * (double)p->dim_value +
                        2 * TOKENS * (double)(p->dim + p->dim_value);
    return lnt_threads_for(run->ctx, each * (double)p->heads * lnt_run_tokens(run));
}

/* ---- queries ------------------------------------------------------------------------------------ */

void lnt_hybrid_load_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    lnt_taylor_load_queries(job, &s->t, t, n);
    if (s->far->queries) s->far->queries(job, s, t, n);
}

/* ---- fading ---------------------------------------------------------------------------------- */

void lnt_hybrid_fade_queries(const head_job *job, hybrid_scratch *s, int64_t query, size_t n,
                             real *rows, real *numbers)
{
    if (!(job->decay < 1)) return;
    const int64_t last = lnt_hybrid_frontier(job, s, query) - 1; /* token in S */
    const real first = decay_after(job, query - job->run->p->hybrid.window - last);
    for (size_t g = 0; g < s->t.heads; g++)
        for (size_t i = 0; i < n; i++) {
            const real factor = job->run->causal ? first * s->fade[i] : first;
            job->ker->scale(rows + (g * TOKENS + i) * s->t.mp, factor, s->t.mp);
            numbers[g * TOKENS + i] *= factor;
        }
}

void lnt_hybrid_fade_tile(const head_job *job, const hybrid_scratch *s, const hybrid_tile *c,
                          real *x)
{
    const lnt_attn_desc *p = job->run->p;
    for (size_t j = 0; j < c->keys && job->decay < 1; j++) {
        const size_t far = lnt_hybrid_far_from(p, c, j);
        if (far == c->queries) continue;
        const int64_t past = c->query + (int64_t)far - c->key - (int64_t)j - p->hybrid.window;
        const real first = decay_after(job, past);
        for (size_t i = far; i < c->queries; i++) x[j * TOKENS + i] *= first * s->fade[i - far];
    }
}

void lnt_hybrid_weigh_keys(const head_job *job, hybrid_scratch *s, size_t n, real *rows, size_t ld)
{
    for (size_t j = 0; j < n; j++) {
        s->t.ones[j] = s->fade[n - 1 - j];
        if (rows) job->ker->scale(rows + j * ld, s->t.ones[j], s->t.m);
    }
}

void lnt_hybrid_age(const head_job *job, const hybrid_scratch *s, head_sums sums, size_t n)
{
    const double left = pow(job->decay, (double)n);
    fade_numbers(job->ker, sums.s, left, s->t.F * s->t.mp);
    fade_numbers(job->ker, sums.z, left, s->t.F);
}

/* S ages by the keys loaded, and their values, in a copy, by those behind each. */
static void fade_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    taylor_scratch *t = &s->t;
    for (size_t j = 0; j < n && t->v != t->v_own; j++)
        memcpy(t->v_own + j * t->mp, t->v + j * t->ldv, t->m * sizeof(real));
    t->v = t->v_own;
    t->ldv = t->mp;
    lnt_hybrid_weigh_keys(job, s, n, t->v_own, t->mp);
    lnt_hybrid_age(job, s, t->sums, n);
}

void lnt_hybrid_absorb(const head_job *job, hybrid_scratch *s, int64_t from, int64_t to)
{
    if (from < job->run->p->hybrid.sink) from = job->run->p->hybrid.sink;
    for (; from < to; from += TOKENS) {
        const size_t n = chunk_tokens(to - from);
        lnt_hybrid_load_keys(job, s, from, n);
        if (job->decay < 1) fade_keys(job, s, n);
        s->far->walk(job, s, 0, n);
        for (size_t j = 0; j < n && job->decay < 1; j++) s->t.ones[j] = 1;
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* x, where it is far, = e^-max y, which den takes in. */
static void add_far(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes);
    real *shrink = s->shrink + g * TOKENS, *den = s->t.den + g * TOKENS;
    for (size_t i = c->from; i < lanes; i++) shrink[i] = -s->max[g * TOKENS + i];
    job->ker->map_exp(shrink + c->from, shrink + c->from, lanes - c->from);
    for (size_t j = 0; j < c->keys; j++) {
        real *x = s->t.x + j * TOKENS, *y = s->y + j * TOKENS;
        for (size_t i = lnt_hybrid_far_from(job->run->p, c, j); i < c->queries; i++) {
            x[i] = y[i] * shrink[i];
            den[i] += x[i];
        }
    }
}

/* The same where all of the tile is far: max is 0, and its weights count in full, until a query has met
 * a near key. */
static void add_whole(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    const size_t from = c->from, wide = lnt_round_up(c->queries, ker->lanes) - from;
    const real *max = s->max + g * TOKENS + from;
    real *x = s->t.x + from, *shrink = s->shrink + g * TOKENS + from;
    bool met = false;
    s->far->whole(job, s, c);
    for (size_t i = 0; i < wide; i++) {
        met |= max[i] != 0;
        shrink[i] = -max[i];
    }
    if (met) {
        ker->map_exp(shrink, shrink, wide);
        ker->multiply_rows(x, TOKENS, x, TOKENS, shrink, c->keys, wide);
    }
    ker->add_rows(s->t.den + g * TOKENS + from, s->t.ones, x, TOKENS, c->keys, wide);
}

/* Scores become weights of head g, which den and max take in, and o is made relative to max. */
static void weigh(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c, bool far)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes), from = c->from;
    real *o = t->o + g * TOKENS * t->mp;
    if (far) {
        s->far->weights(job, s, g, c);
        lnt_hybrid_fade_tile(job, s, c, s->y);
    }
    if (!far || !all_far(job->run->p, c)) {
        lnt_hybrid_mask(job, s, c);
        ker->softmax_fold(t->x + from, t->x + from, TOKENS, c->keys, lanes - from, s->max + g * TOKENS + from,
                          t->den + g * TOKENS + from, s->rescale + from);
        for (size_t i = from; i < c->queries; i++)
            if (s->rescale[i] != 1) ker->scale(o + i * t->mp, s->rescale[i], t->mp);
    }
    if (far) add_far(job, s, g, c);
}

/* The keys of a tile, which are loaded, into o, den and max of head g. */
static void fold(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c, bool far)
{
    taylor_scratch *t = &s->t;
    const size_t from = c->from, row = g * TOKENS + from;
    lnt_hybrid_scores(job, s, g, c);
    if (far && is_whole(job, s, c)) add_whole(job, s, g, c);
    else weigh(job, s, g, c, far);
    job->ker->gemm_tn(t->o + row * t->mp, t->mp, t->x + from, TOKENS, t->v, t->ldv,
                      c->queries - from, lnt_round_up(t->m, job->ker->lanes), c->keys, 1);
}

/* Weights of far keys are relative to e^0: where a query has any, the maximum begins there. */
static void begin_max(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const int64_t first =
        job->run->p->hybrid.sink + job->run->p->hybrid.window; /* query that has a far key */
    for (size_t i = 0; i < TOKENS; i++) {
        const int64_t query = c->still ? c->query : c->query + (int64_t)i;
        s->max[i] = i >= c->queries || query >= first ? 0 : -(real)INFINITY;
    }
    for (size_t g = 1; g < s->t.heads; g++)
        memcpy(s->max + g * TOKENS, s->max, TOKENS * sizeof(real));
}

void lnt_hybrid_attend(const head_job *job, hybrid_scratch *s, int64_t t, size_t n, int64_t next)
{
    const lnt_attn_desc *p = job->run->p;
    /* Where nothing is causal the queries stand at the last token. */
    const int64_t query = job->run->causal ? token_of(job, t) : job->seq.before - 1;
    const int64_t frontier = lnt_hybrid_frontier(job, s, query);
    int64_t first = frontier > p->hybrid.sink ? frontier : p->hybrid.sink; /* key to go into S */
    hybrid_tile c = lnt_hybrid_tile_of(job, 0, 0, query, n);
    lnt_hybrid_load_queries(job, s, t, n);
    begin_max(job, s, &c);
    /* One walk reads S and adds to it, unless it ages between. */
    const size_t add = s->summed && !(job->decay < 1) ? chunk_tokens(next - first) : 0;
    if (add) lnt_hybrid_load_keys(job, s, first, add);
    if (frontier > p->hybrid.sink || add) s->far->walk(job, s, frontier > p->hybrid.sink ? n : 0, add);
    if (frontier > p->hybrid.sink) lnt_hybrid_fade_queries(job, s, query, n, s->t.o, s->t.den);
    if (s->summed) lnt_hybrid_absorb(job, s, first + (int64_t)add, next);
    while (lnt_hybrid_next_tile(job, s, &c)) {
        const bool far = has_far(p, &c);
        lnt_hybrid_load_keys(job, s, c.key, c.keys);
        if (far && s->far->keys) s->far->keys(job, s, c.keys);
        for (size_t g = 0; g < s->t.heads; g++) fold(job, s, g, &c, far);
    }
}

int64_t lnt_hybrid_finish(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    for (size_t g = 0; run->statistics && g < s->t.heads; g++)
        memcpy(statistics_of(run, 1, queries_of(job, &s->t, g, t, n)), s->max + g * TOKENS,
               n * sizeof(real));
    return lnt_taylor_finish(job, &s->t, t, n);
}
