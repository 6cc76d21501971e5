/* attention/hybrid_direct.c - hybrid attention as a quadratic form: every key one by one, e^x of the
 * score where it is near and the weight of linear or Taylor attention where it is far.
 *
 * O(n^2 (d + m)) time, O(d + m) scratch per thread.  Fewer operations than with S while n is below about
 * its number of rows.  See docs/math/hybrid.md */
#include "attention/hybrid.h"

static int64_t most_chunks(const lnt_run *run)
{
    int64_t most = 0;
    for (int64_t q = 0; q < run->sequences; q++) {
        const int64_t chunks = (lnt_io_sequence(run->io, q).nq + TOKENS - 1) / TOKENS;
        most = chunks > most ? chunks : most;
    }
    return most;
}

static void forward(lnt_run *run)
{
    const int64_t KVH = run->p->kv_heads, chunks = most_chunks(run);
    const int threads = lnt_hybrid_threads(run);
    int64_t nonpositive = 0;
    lnt_clear_gaps(run, &run->io->out, false);
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH * chunks; unit++) {
        const chunk_job job = lnt_chunk_job(run, unit / chunks / KVH, unit / chunks % KVH);
        const int64_t t = (chunks - 1 - unit % chunks) * TOKENS; /* the long ones first */
        const size_t n = chunk_tokens(job.seq.nq - t);
        if (!n) continue;
        hybrid_scratch s = lnt_hybrid_open(&job, false);
        lnt_hybrid_attend(&job, &s, t, n, 0);
        nonpositive += lnt_hybrid_finish(&job, &s, t, n);
    }
    run->nonpositive = nonpositive;
}

static void backward(lnt_run *run) { lnt_hybrid_backward(run, false); }

static const char *refuses(const lnt_attn_desc *p)
{
    return p->causal ? NULL : lnt_hybrid_needs_causal;
}

static double cost(const lnt_attn_desc *p) { return lnt_direct_flops(p); }

const lnt_algo LNT_REAL_NAME(lnt_algo_hybrid_direct) = { .mechanism = LNT_HYBRID,
                                                         .name = "hybrid/direct",
                                                         .rate = 6e-11,
                                                         .cost = cost,
                                                         .refuses = refuses,
                                                         .tile = TOKENS,
                                                         .keeps = true,
                                                         .shared = lnt_hybrid_shared,
                                                         .scratch = lnt_hybrid_scratch,
                                                         .forward = forward,
                                                         .backward = backward };
