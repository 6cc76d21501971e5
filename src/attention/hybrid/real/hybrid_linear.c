/* attention/hybrid/real/hybrid_linear.c - linear attention to the far keys of hybrid: weights
 * phi(q).phi(k), which
 * are products of their own beside the scores. */
#include <string.h>

#include "attention/hybrid/hybrid.h"

static void take_linear(lnt_arena *arena, const lnt_attn_desc *p, hybrid_scratch *s)
{
    const size_t D = s->t.F, heads = s->t.heads, back = p->backward != 0;
    s->Dp = pad(D);
    s->feature = lnt_feature_tile_take(arena, p, TOKENS);
    s->phi_q = take(arena, heads * D, TOKENS);
    s->phi_k = take(arena, TOKENS, s->Dp);
    s->dphi_q = take(arena, back * heads * D, TOKENS);
    s->dphi_k = take(arena, back * TOKENS, s->Dp);
    s->rows = take(arena, back * TOKENS, s->Dp);
    s->back = take(arena, back * s->t.d, TOKENS);
}

/* The keys loaded, as a tensor. */
static lnt_tensor loaded_keys(const taylor_scratch *t, size_t n)
{
    return (lnt_tensor){ .data = (void *)(uintptr_t)t->k,
                         .dtype = (lnt_dtype)LNT_REAL_DTYPE,
                         .shape = { 1, 1, (int64_t)n, (int64_t)t->d },
                         .stride = { 0, 0, (int64_t)t->ldk, 1 } };
}

static void map_queries(const head_job *job, hybrid_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    for (size_t g = 0; g < s->t.heads; g++)
        lnt_feature_columns(run, &s->feature, &run->io->q, job->seq.b,
                            job->kvh * (int64_t)s->t.heads + (int64_t)g, job->seq.q0 + t, n,
                            s->phi_q + g * s->t.F * TOKENS, TOKENS);
    if (run->grads) memset(s->dphi_q, 0, s->t.heads * s->t.F * TOKENS * sizeof(real));
}

static void map_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    const lnt_tensor k = loaded_keys(&s->t, n);
    lnt_feature_rows_of(job->run, &s->feature, &k, 0, 0, 0, n, s->phi_k, s->Dp);
}

static void add_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    const taylor_scratch *t = &s->t;
    map_keys(job, s, n);
    ker->gemm_nn(t->sums.z, s->Dp, t->ones, n, s->phi_k, s->Dp, 1, lnt_round_up(t->F, ker->lanes), n,
                 1);
    ker->gemm_tn(t->sums.s, t->mp, s->phi_k, s->Dp, t->v, t->ldv, t->F,
                 lnt_round_up(t->m, ker->lanes), n, 1);
}

static void walk(const head_job *job, hybrid_scratch *s, size_t queries, size_t keys)
{
    const kernels *ker = job->ker;
    const taylor_scratch *t = &s->t;
    for (size_t g = 0; queries && g < t->heads; g++) {
        const real *phi = s->phi_q + g * t->F * TOKENS;
        ker->gemm_tn(t->o + g * TOKENS * t->mp, t->mp, phi, TOKENS, t->sums.s, t->mp, queries,
                     lnt_round_up(t->m, ker->lanes), t->F, 1);
        ker->gemm_nn(t->den + g * TOKENS, TOKENS, t->sums.z, t->F, phi, TOKENS, 1,
                     lnt_round_up(queries, ker->lanes), t->F, 1);
    }
    if (keys) add_keys(job, s, keys);
}

static void weights(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes);
    ker->gemm_nn(s->y + c->from, TOKENS, s->phi_k, s->Dp, s->phi_q + g * s->t.F * TOKENS + c->from,
                 TOKENS, c->keys, lanes - c->from, s->t.F, 0);
}

static void split(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes);
    for (size_t j = 0; j < c->keys; j++) {
        const size_t far = lnt_hybrid_far_from(job->run->p, c, j);
        real *dx = s->t.dx + j * TOKENS, *y = s->y + j * TOKENS;
        memset(y + c->from, 0, (lanes - c->from) * sizeof(real));
        for (size_t i = far; i < c->queries; i++) y[i] = dx[i], dx[i] = 0;
    }
}

static void grad_queries(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(c->queries, ker->lanes);
    ker->gemm_tn(s->dphi_q + g * s->t.F * TOKENS + c->from, TOKENS, s->phi_k, s->Dp, s->y + c->from,
                 TOKENS, s->t.F, lanes - c->from, c->keys, 1);
}

static void grad_keys(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    transpose(ker, s->rows, s->Dp, s->phi_q + g * s->t.F * TOKENS, TOKENS, c->queries, s->t.F);
    ker->gemm_nn(s->dphi_k, s->Dp, s->y + c->from, TOKENS, s->rows + c->from * s->Dp, s->Dp,
                 c->keys, lnt_round_up(s->t.F, ker->lanes), c->queries - c->from, 1);
}

static void walk_queries(const head_job *job, hybrid_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    const taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    for (size_t g = 0; g < t->heads; g++) {
        real *dphi = s->dphi_q + g * t->F * TOKENS;
        ker->gemm_nn(dphi, TOKENS, t->sums.s, t->mp, t->dnt + g * t->m * TOKENS, TOKENS, t->F, lanes,
                     t->m, 1);
        for (size_t f = 0; f < t->F; f++)
            ker->axpy(dphi + f * TOKENS, t->sums.z[f], t->dden + g * TOKENS, lanes);
    }
}

static void walk_keys(const head_job *job, hybrid_scratch *s, size_t keys, size_t queries)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    const size_t wide = lnt_round_up(t->m, ker->lanes), lanes = lnt_round_up(keys, ker->lanes);
    if (keys) {
        real *transposed = s->feature.phi; /* [D, TOKENS] */
        ker->gemm_nn(t->dv, t->mp, s->phi_k, s->Dp, t->grad.s, t->mp, keys, wide, t->F, 1);
        ker->gemm_nn(transposed, TOKENS, t->grad.s, t->mp, t->vt, TOKENS, t->F, lanes, t->m, 0);
        transpose(ker, s->rows, s->Dp, transposed, TOKENS, keys, t->F);
        for (size_t j = 0; j < keys; j++) {
            ker->axpy(s->dphi_k + j * s->Dp, 1, s->rows + j * s->Dp, t->F);
            ker->axpy(s->dphi_k + j * s->Dp, t->ones[j], t->grad.z, t->F);
        }
    }
    for (size_t g = 0; queries && g < t->heads; g++) {
        const real *phi = s->phi_q + g * t->F * TOKENS;
        ker->gemm_nn(t->grad.s, t->mp, phi, TOKENS, t->dn + g * TOKENS * t->mp, t->mp, t->F, wide,
                     queries, 1);
        for (size_t f = 0; f < t->F; f++)
            t->grad.z[f] += ker->dot(phi + f * TOKENS, t->dden + g * TOKENS, queries);
    }
}

/* dt [d, TOKENS] += dphi [D, TOKENS], which is overwritten, back through phi of the rows of x. */
static void back_through(const head_job *job, hybrid_scratch *s, const lnt_tensor *x, size_t n,
                         real *dphi, real *dt)
{
    const lnt_tensor to = { .data = s->back,
                            .dtype = (lnt_dtype)LNT_REAL_DTYPE,
                            .shape = { 1, 1, (int64_t)n, (int64_t)s->t.d },
                            .stride = { 0, 0, 1, TOKENS } };
    memset(s->back, 0, s->t.d * TOKENS * sizeof(real));
    lnt_feature_store_grad(job->run, &s->feature, x, &to, 0, 0, 0, n, dphi, TOKENS);
    job->ker->axpy(dt, 1, s->back, s->t.d * TOKENS);
}

static void finish_queries(const head_job *job, hybrid_scratch *s, size_t g, int64_t t, size_t n)
{
    const lnt_tensor q = job->run->io->q;
    lnt_tensor rows = q; /* of this chunk alone */
    rows.data = lnt_tensor_row(&q, job->seq.b, job->kvh * (int64_t)s->t.heads + (int64_t)g,
                               job->seq.q0 + t);
    back_through(job, s, &rows, n, s->dphi_q + g * s->t.F * TOKENS,
                 s->t.dt + g * s->t.d * TOKENS);
}

static void finish_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    const lnt_tensor k = loaded_keys(&s->t, n);
    real *dphi = s->dphi_q; /* those of queries are done with */
    job->ker->load_columns(dphi, TOKENS, s->dphi_k, LNT_REAL_DTYPE, (int64_t)s->Dp, 1, n, s->t.F,
                           1);
    back_through(job, s, &k, n, dphi, s->t.dt);
}

const lnt_far lnt_far_linear = { .take = take_linear,
                                 .queries = map_queries,
                                 .keys = map_keys,
                                 .walk = walk,
                                 .weights = weights,
                                 .split = split,
                                 .grad_queries = grad_queries,
                                 .grad_keys = grad_keys,
                                 .walk_queries = walk_queries,
                                 .walk_keys = walk_keys,
                                 .finish_queries = finish_queries,
                                 .finish_keys = finish_keys };
