/* attention/taylor/real/taylor_backward.c - gradients of Taylor attention in linear time.
 *
 * As for linear attention (linear_backward.c), with Phi the monomials:
 *
 *     dPhi(q_i) = S_i dn_i + z_i dden_i                    forward over the sequence
 *     dPhi(k_j) = R_j v_j + r_j,   dv_j = R_j^T Phi(k_j)   backward over the sequence
 *
 * by the steps of taylor_gradient.c, a head a thread; where there are few states, threads share each
 * (taylor_parts_backward.c).  O(n 12 m F) time; two states and O(C (d + m)) scratch per thread, and two
 * numbers per query.  See docs/math/taylor.md */
#include "attention/taylor/taylor_gradient.h"

static void pass_over_queries(const head_job *job, taylor_scratch *s)
{
    const int64_t nq = job->seq.nq;
    lnt_taylor_add_alone(job, s);
    for (int64_t t = 0; t < nq; t += TOKENS) {
        const size_t n = chunk_tokens(nq - t);
        lnt_taylor_read_chunk(job, s, t, n);
        for (size_t g = 0; g < s->heads; g++) lnt_taylor_quotient(job, s, g, t, n);
        lnt_taylor_grad_queries(job, s, n);
        for (size_t g = 0; g < s->heads; g++) lnt_taylor_store_dq(job, s, g, t, n);
    }
}

static void pass_over_keys(const head_job *job, taylor_scratch *s)
{
    key_chunk c;
    for (int64_t i = 0; lnt_taylor_key_chunk(job, i, &c); i++) {
        lnt_taylor_grad_keys(job, s, &c);
        lnt_taylor_store_keys(job, s, &c);
    }
}

static void whole_heads(lnt_run *run)
{
    const lnt_attn_grads *g = run->grads;
    const int64_t KVH = run->p->kv_heads;
    const int threads = head_threads(run);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        taylor_scratch s = lnt_taylor_open(&job);
        s.center = lnt_taylor_center(run, &job.seq, job.kvh, s.mean, s.kt, TOKENS);
        s.sums = lnt_sums_before(&job, s.sums, false);
        lnt_sums_copy(&job, s.grad, lnt_sums_of(&job, g->dstate_out));
        pass_over_queries(&job, &s);
        pass_over_keys(&job, &s);
        if (g->dstate_in) lnt_sums_copy(&job, lnt_sums_of(&job, g->dstate_in), s.grad);
    }
}

void lnt_taylor_backward(lnt_run *run)
{
    lnt_clear_gaps(run);
    if (lnt_taylor_parts(run) > 1)
        lnt_taylor_parts_backward(run);
    else
        whole_heads(run);
    lnt_taylor_finish_grads(run);
}
