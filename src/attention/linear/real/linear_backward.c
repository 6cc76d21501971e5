/* attention/linear/real/linear_backward.c - gradients of linear attention in linear time, denominator
 * included.
 *
 * With n_i the numerator, den_i the denominator and y = n / den:
 *
 *     dn_i = dy_i / den_i          dden_i = -(dy_i.y_i) / den_i
 *     dphi(q_i) = S_i dn_i + z_i dden_i                 (eq. 13; forward over the sequence)
 *     dphi(k_j) = R_j v_j + r_j,  dv_j = R_j^T phi(k_j) (eq. 14, 15; backward over the sequence)
 *     R_j = sum_{i>=j} decay^(i-j) phi(q_i) dn_i^T,     r_j likewise with dden_i
 *
 * R starts as the gradient of the final state and ends as that of the initial one.  Two states and
 * O(C (D + m)) scratch per thread, and two numbers per query.  See docs/math/linear.md */
#include <math.h>
#include <string.h>

#include "attention/linear/linear_chunk.h"

static void load_queries(const head_job *job, chunk_scratch *c, int64_t h, int64_t t, size_t n)
{
    lnt_feature_columns(job->run, &c->feature, &job->run->io->q, job->seq.b, h, job->seq.q0 + t, n,
                        c->qt, c->Cp);
}

/* dn, dnt and dden of n queries, which are also kept; S is read again if forward has not kept what that
 * is for.  Not causal: the queries are loaded. */
static void gradient_of_quotient(const head_job *job, chunk_scratch *c, int64_t h, int64_t t,
                                 size_t n)
{
    const kernels *ker = job->ker;
    const lnt_run *run = job->run;
    if (!run->statistics) lnt_chunk_read(job, c, h, t, n, run->causal);
    else if (!run->causal) load_queries(job, c, h, t, n);
    memset(c->dden, 0, c->Cp * sizeof(real));
    lnt_quotient_grad(run, (query_rows){ &job->seq, h, t, n }, c->o, c->den, c->dn, c->dden);
    ker->load_columns(c->dnt, c->Cp, c->dn, LNT_REAL_DTYPE, (int64_t)c->mp, 1, n, c->m, 1);
}

/* dphi^T [D, n] = S dn^T + z dden, and inside the chunk the same over its keys; stores dq. */
static void store_dq(const head_job *job, chunk_scratch *c, int64_t h, int64_t t, size_t n,
                     bool within)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    ker->gemm_nn(c->dphi, c->Cp, c->sums.s, c->mp, c->dnt, c->Cp, c->D, lanes, c->m, 0);
    for (size_t d = 0; d < c->D; d++) {
        real *row = c->dphi + d * c->Cp;
        ker->axpy(row, c->sums.z[d], c->dden, lanes);
        if (within && job->decay < 1)
            for (size_t i = 0; i < n; i++) row[i] *= c->power[i + 1];
    }
    if (within) {
        ker->gemm_nn(c->pt, c->Cp, c->v, c->ldv, c->dnt, c->Cp, n, lanes, c->m, 0);
        for (size_t j = 0; j < n; j++) {
            real *row = c->pt + j * c->Cp;
            ker->axpy(row, 1, c->dden, lanes);
            for (size_t i = j; job->decay < 1 && i < n; i++) row[i] *= c->power[i - j];
            memset(row, 0, j * sizeof *row);
        }
        ker->gemm_tn(c->dphi, c->Cp, c->k, c->Dp, c->pt, c->Cp, c->D, lanes, n, 1);
    }
    const lnt_run *run = job->run;
    lnt_feature_store_grad(run, &c->feature, &run->io->q, &run->grads->dq, job->seq.b, h,
                           job->seq.q0 + t, n, c->dphi, c->Cp);
}

/* grad += sum_i decay^(i+1) phi(q_i) [dn_i, dden_i]; overwrites dn, dden where decay < 1. */
static void absorb_queries(const head_job *job, chunk_scratch *c, size_t n, bool within)
{
    const kernels *ker = job->ker;
    if (within && job->decay < 1)
        for (size_t i = 0; i < n; i++) {
            ker->scale(c->dn + i * c->mp, c->power[i + 1], c->m);
            c->dden[i] *= c->power[i + 1];
        }
    ker->gemm_nn(c->grad.s, c->mp, c->qt, c->Cp, c->dn, c->mp, c->D, lnt_round_up(c->m, ker->lanes),
                 n, 1);
    for (size_t d = 0; d < c->D; d++) c->grad.z[d] += ker->dot(c->qt + d * c->Cp, c->dden, n);
}

/* dphi^T [D, n] and dv [n, m] of the keys loaded, as far as later chunks and the final state go. */
static void start_keys(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes), wide = lnt_round_up(c->m, ker->lanes);
    ker->load_columns(c->vt, c->Cp, c->v, LNT_REAL_DTYPE, (int64_t)c->ldv, 1, n, c->m, 1);
    ker->gemm_nn(c->dv, c->mp, c->k, c->Dp, c->grad.s, c->mp, n, wide, c->D, 0);
    ker->gemm_nn(c->dphi, c->Cp, c->grad.s, c->mp, c->vt, c->Cp, c->D, lanes, c->m, 0);
    for (size_t d = 0; d < c->D; d++)
        for (size_t j = 0; j < lanes; j++) c->dphi[d * c->Cp + j] += c->grad.z[d];
    if (!(job->decay < 1)) return;
    for (size_t j = 0; j < n; j++) ker->scale(c->dv + j * c->mp, c->power[n - 1 - j], c->m);
    for (size_t d = 0; d < c->D; d++)
        for (size_t j = 0; j < n; j++) c->dphi[d * c->Cp + j] *= c->power[n - 1 - j];
    const double left = pow(job->decay, (double)n);
    fade_numbers(ker, c->grad.s, left, c->D * c->mp);
    fade_numbers(ker, c->grad.z, left, c->D);
}

/* Adds what the queries of the same chunk give. */
static void add_within(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes), wide = lnt_round_up(c->m, ker->lanes);
    lnt_chunk_weights(job, c, n);
    for (size_t j = 0; j < n; j++) /* the columns before the triangle were not written */
        memset(c->pt + j * c->Cp, 0, j * sizeof(real));
    ker->gemm_nn(c->dv, c->mp, c->pt, c->Cp, c->dn, c->mp, n, wide, n, 1);
    ker->gemm_nn(c->pt, c->Cp, c->dn, c->mp, c->vt, c->Cp, n, lanes, c->m, 0); /* [query, key] */
    for (size_t i = 0; i < n; i++) {
        real *row = c->pt + i * c->Cp;
        const real along = c->dden[i];
        for (size_t j = 0; j <= i; j++) row[j] += along;
        for (size_t j = 0; job->decay < 1 && j <= i; j++) row[j] *= c->power[i - j];
        memset(row + i + 1, 0, (lanes - i - 1) * sizeof *row);
    }
    ker->gemm_nn(c->dphi, c->Cp, c->qt, c->Cp, c->pt, c->Cp, c->D, lanes, n, 1);
}

static void store_keys(const head_job *job, chunk_scratch *c, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    const int64_t row = job->seq.k0 + t;
    store_rows(job->ker, &run->grads->dv, job->seq.b, job->kvh, row, n, c->dv, c->mp, NULL);
    lnt_feature_store_grad(run, &c->feature, &run->io->k, &run->grads->dk, job->seq.b, job->kvh,
                           row, n, c->dphi, c->Cp);
}

/* Forward over the sequence: dq, what backward keeps, and, not causal, the gradient of the state. */
static void pass_over_queries(const head_job *job, chunk_scratch *c)
{
    const lnt_run *run = job->run;
    const lnt_sequence *seq = &job->seq;
    const int64_t alone = keys_alone(job), C = (int64_t)c->C;
    const int64_t group = run->p->heads / run->p->kv_heads;
    lnt_chunk_add_alone(job, c);
    for (int64_t t = 0; t < seq->nq; t += C) {
        const size_t n = smaller(seq->nq - t, c->C);
        if (run->causal) lnt_chunk_load_keys(job, c, alone + t, n);
        for (int64_t h = job->kvh * group; h < (job->kvh + 1) * group; h++) {
            gradient_of_quotient(job, c, h, t, n);
            store_dq(job, c, h, t, n, run->causal);
            if (!run->causal) absorb_queries(job, c, n, false);
        }
        if (run->causal) lnt_chunk_absorb(job, c, n);
    }
}

/* Backward over the sequence: dk, dv. */
static void pass_over_keys(const head_job *job, chunk_scratch *c)
{
    const lnt_run *run = job->run;
    const lnt_sequence *seq = &job->seq;
    const int64_t alone = keys_alone(job), C = (int64_t)c->C;
    const int64_t group = run->p->heads / run->p->kv_heads;
    for (int64_t t = run->causal ? (seq->nq + C - 1) / C * C - C : -1; t >= 0; t -= C) {
        const size_t n = smaller(seq->nq - t, c->C);
        lnt_chunk_load_keys(job, c, alone + t, n);
        start_keys(job, c, n);
        for (int64_t h = job->kvh * group; h < (job->kvh + 1) * group; h++) {
            load_queries(job, c, h, t, n);
            lnt_quotient_reload(run, (query_rows){ seq, h, t, n }, c->dn, c->dden);
            add_within(job, c, n);
            absorb_queries(job, c, n, true);
        }
        store_keys(job, c, alone + t, n);
    }
    for (int64_t t = (alone + C - 1) / C * C - C; t >= 0; t -= C) {
        const size_t n = (size_t)(alone - t < C ? alone - t : C);
        lnt_chunk_load_keys(job, c, t, n);
        start_keys(job, c, n);
        store_keys(job, c, t, n);
    }
}

void lnt_chunk_backward(lnt_run *run)
{
    const lnt_attn_grads *g = run->grads;
    const int64_t KVH = run->p->kv_heads;
    const int threads = head_threads(run);
    lnt_clear_gaps(run);
    const int64_t at_once = lnt_pieces_at_once(run->sequences, KVH, threads);
#pragma omp parallel for schedule(dynamic, at_once) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        chunk_scratch c = lnt_chunk_open(&job);
        if (at_once > 1 && unit % at_once == 0) lnt_prefetch_gradients(run, &job.seq);
        c.sums = lnt_sums_before(&job, c.sums, false);
        lnt_sums_copy(&job, c.grad, lnt_sums_of(&job, g->dstate_out));
        pass_over_queries(&job, &c);
        pass_over_keys(&job, &c);
        if (g->dstate_in) lnt_sums_copy(&job, lnt_sums_of(&job, g->dstate_in), c.grad);
    }
}
