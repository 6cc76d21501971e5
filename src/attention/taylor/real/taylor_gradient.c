/* attention/taylor/real/taylor_gradient.c - the steps of Taylor attention backward; see taylor_gradient.h.
 *
 * Each walk takes its blocks of monomials back to q and k while they are in cache.  Inside a chunk the
 * gradient of the direct form, by the walk that begins with the first monomial. */
#include "attention/taylor/taylor_gradient.h"

#include <string.h>

/* Whether this walk has the direct form to do too. */
static bool does_within(const head_job *job, const taylor_scratch *s)
{
    return job->run->causal && s->first.feature == 0;
}

void lnt_taylor_transpose_dn(const kernels *ker, taylor_scratch *s, size_t g, size_t n)
{
    ker->load_columns(s->dnt + g * s->m * TOKENS, TOKENS, s->dn + g * TOKENS * s->mp,
                      LNT_REAL_DTYPE, (int64_t)s->mp, 1, n, s->m, 1);
}

/* The scores of head g become weights, dx the gradient of the scores, both 0 above the diagonal. */
static void scores_and_gradient(const head_job *job, taylor_scratch *s, size_t g, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    real slope[LNT_MAX_TERMS] = { 0 }, derivative[TOKENS];
    for (size_t t = 1; t < s->terms; t++) slope[t - 1] = (real)t * s->a[t];
    lnt_taylor_scores(job, s, g, n);
    ker->gemm_nn(s->dx, TOKENS, s->v, s->ldv, s->dnt + g * s->m * TOKENS, TOKENS, n, lanes, s->m,
                 0);
    for (size_t j = 0; j < n; j++) {
        real *weight = s->x + j * TOKENS, *grad = s->dx + j * TOKENS;
        ker->polynomial(derivative, weight, slope, s->terms - 1, lanes);
        ker->polynomial(weight, weight, s->a, s->terms, lanes);
        for (size_t i = 0; i < j; i++) weight[i] = grad[i] = 0;
        for (size_t i = j; i < n; i++)
            grad[i] = derivative[i] * (grad[i] + s->dden[g * TOKENS + i]);
    }
}

/* ---- forward over the sequence: dq ------------------------------------------------------------ */

void lnt_taylor_read_chunk(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    lnt_taylor_load_queries(job, s, t, n);
    if (does_within(job, s)) lnt_taylor_load_keys(job, s, keys_alone(job) + t, n);
    if (job->run->statistics) return;
    if (does_within(job, s)) lnt_taylor_read_within(job, s, n);
    lnt_taylor_walk(job, s, n, 0);
}

void lnt_taylor_quotient(const head_job *job, taylor_scratch *s, size_t g, int64_t t, size_t n)
{
    real *dden = s->dden + g * TOKENS;
    memset(dden, 0, TOKENS * sizeof(real));
    lnt_quotient_grad(job->run, queries_of(job, s, g, t, n), s->o + g * TOKENS * s->mp,
                      s->den + g * TOKENS, s->dn + g * TOKENS * s->mp, dden);
}

/* dn and dden of n queries of every head, as they were kept. */
static void reload_quotients(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    memset(s->dden, 0, s->heads * TOKENS * sizeof(real));
    for (size_t g = 0; g < s->heads; g++)
        lnt_quotient_reload(job->run, queries_of(job, s, g, t, n), s->dn + g * TOKENS * s->mp,
                            s->dden + g * TOKENS);
}

void lnt_taylor_reload(const head_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    lnt_taylor_load_queries(job, s, t, n);
    if (job->run->causal) lnt_taylor_load_keys(job, s, keys_alone(job) + t, n);
    reload_quotients(job, s, t, n);
}

/* The gradient of the state += what the queries of head g give to the `made` monomials from c on. */
static void add_queries(const head_job *job, taylor_scratch *s, size_t g, cursor c, size_t made,
                        size_t n)
{
    const kernels *ker = job->ker;
    const size_t at = c.feature;
    lnt_taylor_list(s, &c);
    lnt_taylor_make(ker, s, s->qt + g * s->d * TOKENS, lnt_round_up(n, ker->lanes), true);
    ker->gemm_nn(s->grad.s + at * s->mp, s->mp, s->phi, TOKENS, s->dn + g * TOKENS * s->mp, s->mp,
                 made, lnt_round_up(s->m, ker->lanes), n, 1);
    ker->gemv(s->added_z, s->phi, TOKENS, s->dden + g * TOKENS, made, n);
    ker->axpy(s->grad.z + at, 1, s->added_z, made);
}

void lnt_taylor_walk_queries(const head_job *job, taylor_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    for (cursor c = s->first, next = c; !lnt_taylor_at_end(s, &c); c = next) {
        const real *rows = s->sums.s + c.feature * s->mp, *z = s->sums.z + c.feature;
        const size_t made = lnt_taylor_skip(s, &next);
        for (size_t g = 0; g < s->heads; g++) {
            /* Not causal: the gradient of the state needs all queries before the first key. */
            if (!job->run->causal) add_queries(job, s, g, c, made, n);
            ker->gemm_nn(s->phi, TOKENS, rows, s->mp, s->dnt + g * s->m * TOKENS, TOKENS, made,
                         lanes, s->m, 0);
            for (size_t f = 0; f < made; f++)
                ker->axpy(s->phi + f * TOKENS, z[f], s->dden + g * TOKENS, lanes);
            lnt_taylor_block_grad(ker, s, c, made, s->qt + g * s->d * TOKENS,
                                  s->dt + g * s->d * TOKENS, lanes, true);
        }
    }
}

void lnt_taylor_grad_queries(const head_job *job, taylor_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    memset(s->dt, 0, s->heads * s->d * TOKENS * sizeof(real));
    for (size_t g = 0; g < s->heads; g++) {
        lnt_taylor_transpose_dn(ker, s, g, n);
        if (!does_within(job, s)) continue;
        scores_and_gradient(job, s, g, n);
        ker->gemm_tn(s->dt + g * s->d * TOKENS, TOKENS, s->k, s->ldk, s->dx, TOKENS, s->d,
                     lnt_round_up(n, ker->lanes), n, 1);
    }
    lnt_taylor_walk_queries(job, s, n);
    if (job->run->causal) lnt_taylor_walk(job, s, 0, n);
}

void lnt_taylor_store_dq(const head_job *job, taylor_scratch *s, size_t g, int64_t t, size_t n)
{
    lnt_taylor_store_grad(job->run, true, job->seq.b, head_of(job, s, g), job->seq.q0 + t, n,
                          s->dt + g * s->d * TOKENS, s->phi, TOKENS);
}

/* ---- backward over the sequence: dk, dv ------------------------------------------------------- */

bool lnt_taylor_key_chunk(const head_job *job, int64_t i, key_chunk *c)
{
    const int64_t alone = keys_alone(job), paired = job->seq.nk - alone;
    const int64_t with = tiles_of(paired, TOKENS), all = with + tiles_of(alone, TOKENS);
    if (i >= all) return false;
    if (i < with) {
        const int64_t t = (with - 1 - i) * TOKENS;
        *c = (key_chunk){ .t = alone + t, .query = t, .n = chunk_tokens(paired - t) };
    } else {
        const int64_t t = (all - 1 - i) * TOKENS;
        *c = (key_chunk){ .t = t, .query = -1, .n = chunk_tokens(alone - t) };
    }
    return true;
}

/* What the queries of the same chunk give to dv and dt. */
static void grad_keys_within(const head_job *job, taylor_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    memset(s->dk, 0, n * s->dp * sizeof(real));
    for (size_t g = 0; g < s->heads; g++) {
        lnt_taylor_transpose_dn(ker, s, g, n);
        scores_and_gradient(job, s, g, n);
        ker->gemm_nn(s->dv, s->mp, s->x, TOKENS, s->dn + g * TOKENS * s->mp, s->mp, n,
                     lnt_round_up(s->m, ker->lanes), n, 1);
        transpose(ker, s->q, s->dp, s->qt + g * s->d * TOKENS, TOKENS, n, s->d);
        ker->gemm_nn(s->dk, s->dp, s->dx, TOKENS, s->q, s->dp, n, lnt_round_up(s->d, ker->lanes), n,
                     1);
    }
    ker->load_columns(s->dt, TOKENS, s->dk, LNT_REAL_DTYPE, (int64_t)s->dp, 1, n, s->d, 1);
}

void lnt_taylor_walk_keys(const head_job *job, taylor_scratch *s, size_t keys, size_t queries)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(keys, ker->lanes), wide = lnt_round_up(s->m, ker->lanes);
    for (cursor c = s->first, next = c; !lnt_taylor_at_end(s, &c); c = next) {
        const real *rows = s->grad.s + c.feature * s->mp, *z = s->grad.z + c.feature;
        const size_t made = lnt_taylor_list(s, &next);
        if (keys) {
            lnt_taylor_make(ker, s, s->kt, lanes, false);
            ker->gemm_tn(s->dv, s->mp, s->phi, TOKENS, rows, s->mp, keys, wide, made, 1);
            ker->gemm_nn(s->phi, TOKENS, rows, s->mp, s->vt, TOKENS, made, lanes, s->m, 0);
            for (size_t f = 0; f < made; f++) ker->axpy(s->phi + f * TOKENS, z[f], s->ones, lanes);
            lnt_taylor_block_grad(ker, s, c, made, s->kt, s->dt, lanes, false);
        }
        for (size_t g = 0; queries && g < s->heads; g++) add_queries(job, s, g, c, made, queries);
    }
}

void lnt_taylor_grad_keys(const head_job *job, taylor_scratch *s, const key_chunk *c)
{
    const bool paired = c->query >= 0;
    lnt_taylor_load_keys(job, s, c->t, c->n);
    job->ker->load_columns(s->vt, TOKENS, s->v, LNT_REAL_DTYPE, (int64_t)s->ldv, 1, c->n, s->m, 1);
    if (paired) {
        lnt_taylor_load_queries(job, s, c->query, c->n);
        reload_quotients(job, s, c->query, c->n);
    }
    memset(s->dv, 0, c->n * s->mp * sizeof(real));
    memset(s->dt, 0, s->d * TOKENS * sizeof(real));
    if (paired && does_within(job, s)) grad_keys_within(job, s, c->n);
    lnt_taylor_walk_keys(job, s, c->n, paired ? c->n : 0);
}

void lnt_taylor_store_keys(const head_job *job, taylor_scratch *s, const key_chunk *c)
{
    const lnt_run *run = job->run;
    const int64_t row = job->seq.k0 + c->t;
    lnt_taylor_store_grad(run, false, job->seq.b, job->kvh, row, c->n, s->dt, s->phi, TOKENS);
    store_rows(job->ker, &run->grads->dv, job->seq.b, job->kvh, row, c->n, s->dv, s->mp, NULL);
}
