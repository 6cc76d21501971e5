/* attention/taylor/real/taylor_state.c - Taylor attention through its state: S and z over the monomials.
 *
 *     Phi(q).Phi(k) = w(scale q.k)         S [F, m] = sum_j Phi(k_j) v_j^T,   z [F] = sum_j Phi(k_j)
 *     y_i = Phi(q_i) S / Phi(q_i).z        F = binomial(d + P - 1, P - 1)
 *
 * Monomials are made a block at a time, one token a column, each from its prefix by one multiply,
 * and multiplied with their rows of S while both are in cache; no array of tokens x F exists.
 * Coefficients and multiplicities are on the side of q.  Causal in chunks: inside a chunk the
 * masked direct form.  Where there are few states, threads share each (taylor_parts.c).
 * O(n (4 m F + C (d + m))) time, one state and O(C (d + m)) scratch for each thread, whatever n.  See
 * docs/math/taylor.md */
#include "attention/taylor/taylor_chunk.h"

static int64_t run_sequence(const head_job *job, taylor_scratch *s)
{
    const bool causal = job->run->causal;
    const int64_t nq = job->seq.nq;
    int64_t nonpositive = 0;
    lnt_taylor_add_alone(job, s);
    for (int64_t t = 0; t < nq; t += TOKENS) {
        const size_t n = chunk_tokens(nq - t);
        lnt_taylor_load_queries(job, s, t, n);
        if (causal) {
            lnt_taylor_load_keys(job, s, keys_alone(job) + t, n);
            lnt_taylor_read_within(job, s, n);
        }
        lnt_taylor_walk(job, s, n, causal ? n : 0);
        nonpositive += lnt_taylor_finish(job, s, t, n);
    }
    return nonpositive;
}

static void forward(lnt_run *run)
{
    const int64_t KVH = run->p->kv_heads;
    const int threads = head_threads(run);
    int64_t nonpositive = 0;
    lnt_clear_gaps(run);
    if (lnt_taylor_parts(run) > 1) {
        lnt_taylor_parts_forward(run);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        taylor_scratch s = lnt_taylor_open(&job);
        s.center = lnt_taylor_center(run, &job.seq, job.kvh, s.mean, s.kt, TOKENS);
        s.sums = lnt_sums_before(&job, s.sums, true);
        nonpositive += run_sequence(&job, &s);
    }
    run->nonpositive = nonpositive;
}

static double cost(const lnt_attn_desc *p)
{
    const double within = p->causal ? 2 * TOKENS * (double)(p->dim + p->dim_value) : 0;
    return lnt_state_flops(p) + (double)p->batch * (double)p->heads * (double)p->length_q * within;
}

const lnt_algo LNT_REAL_NAME(lnt_algo_taylor_state) = { .mechanism = LNT_TAYLOR,
                                                        .name = "taylor/state",
                                                        .rate = 4e-11,
                                                        .cost = cost,
                                                        .both = 4.8,
                                                        .tile = TOKENS,
                                                        .keeps = true,
                                                        .takes_state = true,
                                                        .state_runs = LNT_STATE_RUNS_MANY,
                                                        .shared = lnt_taylor_parts_shared,
                                                        .scratch = lnt_taylor_scratch,
                                                        .forward = forward,
                                                        .backward = lnt_taylor_backward };
