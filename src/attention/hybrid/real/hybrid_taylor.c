/* attention/hybrid/real/hybrid_taylor.c - Taylor attention to the far keys of hybrid: w(x) = sum_p a_p
 * x^p of the
 * same scores, through the monomials where they are in S. */
#include "attention/hybrid/hybrid.h"

static void walk(const head_job *job, hybrid_scratch *s, size_t queries, size_t keys)
{
    if (keys) lnt_hybrid_transpose_keys(job, s, keys);
    lnt_taylor_walk(job, &s->t, queries, keys);
}

static size_t first_lane(const kernels *ker, size_t column) { return column / ker->lanes * ker->lanes; }

static void weights(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    (void)g;
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes);
    for (size_t j = 0; j < c->keys; j++) {
        const size_t far = lnt_hybrid_far_from(job->run->p, c, j), from = first_lane(ker, far);
        if (far == c->queries) continue;
        ker->polynomial(s->y + j * TOKENS + from, s->t.x + j * TOKENS + from, s->t.a, s->t.terms,
                        lanes - from);
    }
}

static void slope(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes), terms = s->t.terms;
    real a[LNT_MAX_TERMS] = { 0 }, derivative[TOKENS];
    for (size_t t = 1; t < terms; t++) a[t - 1] = (real)t * s->t.a[t];
    for (size_t j = 0; j < c->keys; j++) {
        const size_t far = lnt_hybrid_far_from(job->run->p, c, j), from = first_lane(ker, far);
        if (far == c->queries) continue;
        ker->polynomial(derivative + from, s->t.x + j * TOKENS + from, a, terms - 1, lanes - from);
        for (size_t i = far; i < c->queries; i++) s->t.dx[j * TOKENS + i] *= derivative[i];
    }
}

static void whole(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes), from = c->from;
    real *x = s->t.x;
    if (lanes - from == TOKENS) ker->polynomial(x, x, s->t.a, s->t.terms, c->keys * TOKENS);
    else
        for (size_t j = 0; j < c->keys; j++, x += TOKENS)
            ker->polynomial(x + from, x + from, s->t.a, s->t.terms, lanes - from);
}

static void whole_back(const head_job *job, hybrid_scratch *s, const hybrid_tile *c, const real *f,
                       const real *delta)
{
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes), from = c->from;
    job->ker->polynomial_back(s->t.x + from, s->t.dx + from, TOKENS, c->keys, lanes - from, s->t.a,
                              s->t.terms, f + from, delta + from);
}

static void walk_queries(const head_job *job, hybrid_scratch *s, size_t n)
{
    lnt_taylor_walk_queries(job, &s->t, n);
}

static void walk_keys(const head_job *job, hybrid_scratch *s, size_t keys, size_t queries)
{
    if (keys) lnt_hybrid_transpose_keys(job, s, keys);
    lnt_taylor_walk_keys(job, &s->t, keys, queries);
}

const lnt_far lnt_far_taylor = { .walk = walk,
                                 .weights = weights,
                                 .slope = slope,
                                 .whole = whole,
                                 .whole_back = whole_back,
                                 .walk_queries = walk_queries,
                                 .walk_keys = walk_keys };
