/* attention/linear/real/linear_chunked.c - linear attention in chunks of C tokens.
 *
 *     y_i = phi(q_i) S_i / (phi(q_i).z_i + eps),   S_i = decay S_{i-1} + phi(k_i) v_i^T
 *
 * O(n (4 D m + C (D + m))) time, one state and O(C (D + m)) scratch per thread, whatever n.
 * See docs/math/linear.md */
#include "attention/linear/linear_chunk.h"

/* Heads of one group, [first, last), over the tokens of one sequence. */
static int64_t run_heads(const head_job *job, chunk_scratch *c, int64_t first, int64_t last)
{
    lnt_run *run = job->run;
    const lnt_sequence *seq = &job->seq;
    const int64_t alone = keys_alone(job);
    const int64_t C = (int64_t)c->C;
    int64_t nonpositive = 0;
    lnt_chunk_add_alone(job, c);
    for (int64_t t = 0; t < seq->nq; t += C) {
        const size_t n = smaller(seq->nq - t, c->C);
        if (run->causal) lnt_chunk_load_keys(job, c, alone + t, n);
        for (int64_t h = first; h < last; h++) {
            lnt_chunk_read(job, c, h, t, n, run->causal);
            nonpositive += lnt_tile_finish(run, (query_rows){ seq, h, t, n }, c->o, c->den, NULL,
                                           c->inverse);
        }
        if (run->causal) lnt_chunk_absorb(job, c, n);
    }
    return nonpositive;
}

/* Into how many parts to cut the heads that share a state, when there are more threads than states.
 * Each part builds the state again; no number depends on it. */
static int64_t parts_of(const lnt_run *run)
{
    const int64_t states = run->sequences * run->p->kv_heads, threads = run->ctx->threads;
    const int64_t group = run->p->heads / run->p->kv_heads;
    if (states >= threads || run->io->state_in) return 1; /* in place: one writer, no other reader */
    const int64_t parts = (threads + states - 1) / states;
    return parts < group ? parts : group;
}

static void forward(lnt_run *run)
{
    lnt_clear_gaps(run);
    const int64_t KVH = run->p->kv_heads;
    if (run->sequences * KVH == 0) return;
    const int64_t group = run->p->heads / KVH, parts = parts_of(run);
    const int threads = head_threads(run);
    const int64_t at_once = lnt_pieces_at_once(run->sequences, KVH * parts, threads);
    int64_t nonpositive = 0;
#pragma omp parallel for schedule(dynamic, at_once) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH * parts; unit++) {
        const int64_t part = unit % parts, kvh = unit / parts % KVH, s = unit / parts / KVH;
        const head_job job = lnt_head_job(run, s, kvh);
        chunk_scratch c = lnt_chunk_open(&job);
        if (at_once > 1 && unit % at_once == 0) lnt_prefetch_inputs(run, &job.seq);
        c.sums = lnt_sums_before(&job, c.sums, part == 0);
        nonpositive += run_heads(&job, &c, kvh * group + group * part / parts,
                                 kvh * group + group * (part + 1) / parts);
    }
    run->nonpositive = nonpositive;
}

/* However few the tokens, the scratch of a chunk is laid out, which takes as long as so many operations. */
static double cost(const lnt_attn_desc *p)
{
    enum { BEGIN = 400 };
    const double D = (double)lnt_problem_width(p), m = (double)p->dim_value;
    const double C = (double)lnt_chunk_length(p), B = (double)p->batch;
    const double within = p->causal ? (C + 8) * (D + m) : 0;
    return B * (double)p->kv_heads * ((double)p->length_k * 2 * D * m + BEGIN * (D + m)) +
           B * (double)p->heads * (double)p->length_q * (2 * D * m + within);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_linear_chunked) = { .mechanism = LNT_LINEAR,
                                                          .name = "linear/chunked",
                                                          .rate = 4e-11,
                                                          .cost = cost,
                                                          .chunk = lnt_chunk_length,
                                                          .keeps = true,
                                                          .takes_state = true,
                                                          .state_runs = LNT_STATE_RUNS_MANY,
                                                          .shared = lnt_two_per_query,
                                                          .scratch = lnt_chunk_scratch,
                                                          .forward = forward,
                                                          .backward = lnt_chunk_backward };
