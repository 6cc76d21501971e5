/* attention/hybrid/real/hybrid_chunked.c - exact softmax over the last W tokens and the first S, linear
 * or Taylor
 * attention over those between, under one denominator:
 *
 *     y_i = (sum_near e^x v + sum_far w v) / (sum_near e^x + sum_far w),        x = scale q.k
 *
 * in chunks of C queries.  Keys that are far for a whole chunk are in S; the W + C others, and the
 * sinks, are met one by one.  O(n (cost of S + (W + C + S) (d + m))) time; one state and O(C (d + m))
 * scratch per thread, whatever n.  See docs/math/hybrid.md */
#include "attention/hybrid/hybrid.h"

static int64_t run_sequence(const head_job *job, hybrid_scratch *s)
{
    const lnt_run *run = job->run;
    const lnt_sequence *seq = &job->seq;
    const int64_t window = run->p->hybrid.window, tokens = seq->before + seq->nk;
    int64_t nonpositive = 0, summed = seq->before - window; /* tokens before it are in S */
    if (seq->nq && run->causal) {
        const int64_t first = lnt_hybrid_frontier(job, s, token_of(job, 0));
        lnt_hybrid_absorb(job, s, summed > 0 ? summed : 0, first);
        summed = first;
    }
    for (int64_t t = 0; t < seq->nq; t += TOKENS) {
        const size_t n = chunk_tokens(seq->nq - t);
        const bool last = t + TOKENS >= seq->nq;
        int64_t next = lnt_hybrid_frontier(job, s, token_of(job, t + TOKENS));
        if (last || !run->causal) next = summed; /* what comes after goes in below */
        lnt_hybrid_attend(job, s, t, n, next);
        summed = next;
        nonpositive += lnt_hybrid_finish(job, s, t, n);
    }
    if (!run->io->state_out) return nonpositive;
    lnt_hybrid_absorb(job, s, summed > 0 ? summed : 0, tokens - window);
    lnt_hybrid_keep_window(job, tokens - window);
    return nonpositive;
}

static void forward(lnt_run *run)
{
    const int64_t KVH = run->p->kv_heads;
    const int threads = lnt_hybrid_threads(run);
    int64_t nonpositive = 0;
    lnt_clear_gaps(run);
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        hybrid_scratch s = lnt_hybrid_open(&job, true);
        s.t.sums = lnt_sums_before(&job, s.t.sums, true);
        nonpositive += run_sequence(&job, &s);
    }
    run->nonpositive = nonpositive;
}

static void backward(lnt_run *run) { lnt_hybrid_backward(run, true); }

const char *lnt_hybrid_refuses(const lnt_attn_desc *p)
{
    if (!p->causal) return lnt_hybrid_needs_causal;
    return p->backward && p->state ? "has no backward through a state" : NULL;
}

/* The chunk a query stands in is met as well as the window. */
static double cost(const lnt_attn_desc *p)
{
    const double queries = (double)p->batch * (double)p->heads * (double)p->length_q;
    return lnt_state_flops(p) + queries * TOKENS * 2 * (double)(p->dim + p->dim_value);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_hybrid_chunked) = { .mechanism = LNT_HYBRID,
                                                          .name = "hybrid/chunked",
                                                          .rate = 4e-11,
                                                          .cost = cost,
                                                          .both = 4.6,
                                                          .refuses = lnt_hybrid_refuses,
                                                          .tile = TOKENS,
                                                          .takes_state = true,
                                                          .state_runs = LNT_STATE_RUNS_MANY,
                                                          .keeps = true,
                                                          .shared = lnt_hybrid_shared,
                                                          .scratch = lnt_hybrid_scratch,
                                                          .forward = forward,
                                                          .backward = backward };
