/* attention/taylor_backward.c - gradients of Taylor attention in linear time.
 *
 * As for linear attention (linear_backward.c), with Phi the monomials:
 *
 *     dPhi(q_i) = S_i dn_i + z_i dden_i                    forward over the sequence
 *     dPhi(k_j) = R_j v_j + r_j,   dv_j = R_j^T Phi(k_j)   backward over the sequence
 *
 * and back through each block of monomials to q and k while it is in cache.  Inside a chunk the
 * gradient of the direct form.  O(n 12 m F) time; two states and O(C (d + m)) scratch per thread, and
 * two numbers per query.  See docs/math/taylor.md */
#include <string.h>

#include "attention/taylor_chunk.h"

static int64_t head_of(const chunk_job *job, const taylor_scratch *s, size_t g)
{
    return job->kvh * (int64_t)s->heads + (int64_t)g;
}

static void turn_dn(const kernels *ker, taylor_scratch *s, size_t g, size_t n)
{
    ker->load_columns(s->dnt + g * s->m * TOKENS, TOKENS, s->dn + g * TOKENS * s->mp,
                      LNT_REAL_DTYPE, (int64_t)s->mp, 1, n, s->m, 1);
}

/* The scores of head g become weights, dx the gradient of the scores, both 0 above the diagonal. */
static void scores_and_gradient(const chunk_job *job, taylor_scratch *s, size_t g, size_t n)
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

/* dt += the gradient of q through the state before this chunk. */
static void walk_queries(const chunk_job *job, taylor_scratch *s, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    for (cursor c = s->first, next = c; !lnt_taylor_at_end(s, &c); c = next)
        for (size_t g = 0; g < s->heads; g++) {
            const real *qt = s->qt + g * s->d * TOKENS;
            next = c;
            const size_t made = lnt_taylor_block(ker, s, &next, qt, lanes, true);
            if (!job->run->causal) { /* the gradient of the state needs all queries first */
                ker->gemm_nn(s->grad.s + c.feature * s->mp, s->mp, s->phi, TOKENS,
                             s->dn + g * TOKENS * s->mp, s->mp, made,
                             lnt_round_up(s->m, ker->lanes), n, 1);
                ker->gemv(s->sums, s->phi, TOKENS, s->dden + g * TOKENS, made, n);
                ker->axpy(s->grad.z + c.feature, 1, s->sums, made);
            }
            ker->gemm_nn(s->phi, TOKENS, s->mem.s + c.feature * s->mp, s->mp,
                         s->dnt + g * s->m * TOKENS, TOKENS, made, lanes, s->m, 0);
            for (size_t f = 0; f < made; f++)
                ker->axpy(s->phi + f * TOKENS, s->mem.z[c.feature + f], s->dden + g * TOKENS,
                          lanes);
            lnt_taylor_block_grad(ker, s, c, made, qt, s->dt + g * s->d * TOKENS, lanes, true);
        }
}

static void grad_queries(const chunk_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    const int64_t row = job->seq.q0 + t;
    memset(s->dden, 0, s->heads * TOKENS * sizeof(real));
    memset(s->dt, 0, s->heads * s->d * TOKENS * sizeof(real));
    for (size_t g = 0; g < s->heads; g++) {
        lnt_quotient_grad(run, ker, &job->seq, head_of(job, s, g), t, n, s->o + g * TOKENS * s->mp,
                          s->den + g * TOKENS, s->dn + g * TOKENS * s->mp, s->mp,
                          s->dden + g * TOKENS);
        turn_dn(ker, s, g, n);
        if (!run->causal) continue;
        scores_and_gradient(job, s, g, n);
        ker->gemm_tn(s->dt + g * s->d * TOKENS, TOKENS, s->k, s->ldk, s->dx, TOKENS, s->d, lanes, n,
                     1);
    }
    walk_queries(job, s, n);
    for (size_t g = 0; g < s->heads; g++)
        lnt_taylor_store_grad(run, true, job->seq.b, head_of(job, s, g), row, n,
                              s->dt + g * s->d * TOKENS, s->phi, TOKENS);
}

static void pass_over_queries(const chunk_job *job, taylor_scratch *s)
{
    const lnt_sequence *seq = &job->seq;
    const bool causal = job->run->causal;
    const int64_t alone = causal ? seq->nk - seq->nq : seq->nk;
    for (int64_t t = 0; t < alone; t += TOKENS) {
        const size_t n = (size_t)(alone - t < TOKENS ? alone - t : TOKENS);
        lnt_taylor_load_keys(job, s, t, n);
        lnt_taylor_walk(job, s, 0, n);
    }
    for (int64_t t = 0; t < seq->nq; t += TOKENS) {
        const size_t n = (size_t)(seq->nq - t < TOKENS ? seq->nq - t : TOKENS);
        lnt_taylor_load_queries(job, s, t, n);
        if (causal) {
            lnt_taylor_load_keys(job, s, alone + t, n);
            lnt_taylor_read_within(job, s, n);
        }
        lnt_taylor_walk(job, s, n, 0);
        grad_queries(job, s, t, n);
        if (causal) lnt_taylor_walk(job, s, 0, n);
    }
}

/* ---- backward over the sequence: dk, dv ------------------------------------------------------- */

/* What the queries of the same chunk give to dv and, as rows, to dk. */
static void grad_keys_within(const chunk_job *job, taylor_scratch *s, int64_t t, size_t n)
{
    const kernels *ker = job->ker;
    memset(s->dden, 0, s->heads * TOKENS * sizeof(real));
    for (size_t g = 0; g < s->heads; g++) {
        real *dn = s->dn + g * TOKENS * s->mp;
        lnt_quotient_reload(job->run, ker, &job->seq, head_of(job, s, g), t, n, dn, s->mp,
                            s->dden + g * TOKENS);
        turn_dn(ker, s, g, n);
        scores_and_gradient(job, s, g, n);
        ker->gemm_nn(s->dv, s->mp, s->x, TOKENS, dn, s->mp, n, lnt_round_up(s->m, ker->lanes), n,
                     1);
        transpose(ker, s->q, s->dp, s->qt + g * s->d * TOKENS, TOKENS, n, s->d);
        ker->gemm_nn(s->dk, s->dp, s->dx, TOKENS, s->q, s->dp, n, lnt_round_up(s->d, ker->lanes), n,
                     1);
    }
}

/* Through the gradient of the state after this chunk, to which its queries are then added. */
static void walk_keys(const chunk_job *job, taylor_scratch *s, size_t keys, size_t queries)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(keys, ker->lanes), wide = lnt_round_up(s->m, ker->lanes);
    for (cursor c = s->first, next = c; !lnt_taylor_at_end(s, &c); c = next) {
        real *rows = s->grad.s + c.feature * s->mp, *z = s->grad.z + c.feature;
        next = c;
        const size_t made = lnt_taylor_block(ker, s, &next, s->kt, lanes, false);
        ker->gemm_tn(s->dv, s->mp, s->phi, TOKENS, rows, s->mp, keys, wide, made, 1);
        ker->gemm_nn(s->phi, TOKENS, rows, s->mp, s->vt, TOKENS, made, lanes, s->m, 0);
        for (size_t f = 0; f < made; f++) ker->axpy(s->phi + f * TOKENS, z[f], s->ones, lanes);
        lnt_taylor_block_grad(ker, s, c, made, s->kt, s->dt, lanes, false);
        for (size_t g = 0; queries && g < s->heads; g++) {
            cursor again = c;
            lnt_taylor_block(ker, s, &again, s->qt + g * s->d * TOKENS,
                             lnt_round_up(queries, ker->lanes), true);
            ker->gemm_nn(rows, s->mp, s->phi, TOKENS, s->dn + g * TOKENS * s->mp, s->mp, made, wide,
                         queries, 1);
            ker->gemv(s->sums, s->phi, TOKENS, s->dden + g * TOKENS, made, queries);
            ker->axpy(z, 1, s->sums, made);
        }
    }
}

/* Keys from position t; `query` is where their queries begin, -1 if they have none. */
static void grad_keys(const chunk_job *job, taylor_scratch *s, int64_t t, size_t n, int64_t query)
{
    const lnt_run *run = job->run;
    const kernels *ker = job->ker;
    const int64_t row = job->seq.k0 + t;
    lnt_taylor_load_keys(job, s, t, n);
    ker->load_columns(s->vt, TOKENS, s->v, LNT_REAL_DTYPE, (int64_t)s->ldv, 1, n, s->m, 1);
    memset(s->dv, 0, n * s->mp * sizeof(real));
    memset(s->dk, 0, n * s->dp * sizeof(real));
    memset(s->dt, 0, s->d * TOKENS * sizeof(real));
    if (query >= 0) {
        lnt_taylor_load_queries(job, s, query, n);
        grad_keys_within(job, s, query, n);
    }
    walk_keys(job, s, n, query >= 0 ? n : 0);
    ker->load_columns(s->phi, TOKENS, s->dk, LNT_REAL_DTYPE, (int64_t)s->dp, 1, n, s->d, 1);
    ker->axpy(s->dt, 1, s->phi, s->d * TOKENS);
    lnt_taylor_store_grad(run, false, job->seq.b, job->kvh, row, n, s->dt, s->phi, TOKENS);
    store_rows(ker, &run->grads->dv, job->seq.b, job->kvh, row, n, s->dv, s->mp, NULL);
}

static void pass_over_keys(const chunk_job *job, taylor_scratch *s)
{
    const lnt_sequence *seq = &job->seq;
    const int64_t alone = job->run->causal ? seq->nk - seq->nq : seq->nk;
    const int64_t paired = seq->nk - alone;
    for (int64_t t = (paired + TOKENS - 1) / TOKENS * TOKENS - TOKENS; t >= 0; t -= TOKENS)
        grad_keys(job, s, alone + t, (size_t)(paired - t < TOKENS ? paired - t : TOKENS), t);
    for (int64_t t = (alone + TOKENS - 1) / TOKENS * TOKENS - TOKENS; t >= 0; t -= TOKENS)
        grad_keys(job, s, t, (size_t)(alone - t < TOKENS ? alone - t : TOKENS), -1);
}

void lnt_taylor_backward(lnt_run *run)
{
    const lnt_attn_grads *g = run->grads;
    const int64_t KVH = run->p->kv_heads;
    const int threads = chunk_threads(run);
    lnt_clear_gaps(run, &g->dq, false);
    lnt_clear_gaps(run, &g->dk, true);
    lnt_clear_gaps(run, &g->dv, true);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const int64_t q = unit / KVH, kvh = unit % KVH;
        const chunk_job job = lnt_chunk_job(run, q, kvh);
        taylor_scratch s = lnt_taylor_open(&job);
        s.center = lnt_taylor_center(run, &job.seq, kvh, s.mean, s.kt, TOKENS);
        const size_t s_count = s.F * s.mp, z_count = pad(s.F);
        lnt_memory_copy(s.mem, lnt_memory_of(run->io->state_in, q, kvh), s_count, z_count);
        lnt_memory_copy(s.grad, lnt_memory_of(g->dstate_out, q, kvh), s_count, z_count);
        pass_over_queries(&job, &s);
        pass_over_keys(&job, &s);
        if (g->dstate_in)
            lnt_memory_copy(lnt_memory_of(g->dstate_in, q, kvh), s.grad, s_count, z_count);
    }
    lnt_taylor_finish_grads(run);
}
