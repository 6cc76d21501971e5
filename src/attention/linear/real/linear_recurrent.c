/* attention/linear/real/linear_recurrent.c - linear attention token by token, phi a feature map.  Backward is
 * that of the chunked form.  See docs/math/linear.md */
#include "attention/linear/linear_chunk.h"
#include "attention/recurrent.h"

#include <string.h>

static void phi(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h, int64_t n,
                bool query, real *out)
{
    const lnt_tensor *x = query ? &run->io->q : &run->io->k;
    lnt_feature_rows_of(run, feature, x, b, h, n, 1, out, pad((size_t)lnt_problem_width(run->p)));
}

static void absorb_take(lnt_arena *arena, const lnt_attn_desc *p) { lnt_chunk_take(arena, p); }

static void absorb(const head_job *job, lnt_arena *arena, head_sums sums, const real *k, size_t ldk,
                   real *v, size_t ldv, size_t n)
{
    chunk_scratch c = lnt_chunk_open_in(arena, job);
    c.sums = sums;
    for (size_t j = 0; j < n; j++) memcpy(c.k + j * c.Dp, k + j * ldk, c.D * sizeof(real));
    c.v = c.v_own = v;
    c.ldv = ldv;
    lnt_chunk_absorb(job, &c, n);
}

static const lnt_recurrent kind = {
    .phi = phi, .score = phi, .absorb = absorb, .absorb_take = absorb_take
};

static void forward(lnt_run *run) { lnt_recurrent_forward(&kind, run); }

static size_t scratch(const lnt_attn_desc *p)
{
    const size_t own = lnt_recurrent_scratch(&kind, p);
    const size_t back = p->backward ? lnt_chunk_scratch(p) : 0;
    return own > back ? own : back;
}

static double cost(const lnt_attn_desc *p) { return lnt_recurrent_cost(p, 580); }

const lnt_algo LNT_REAL_NAME(lnt_algo_linear_recurrent) = { .mechanism = LNT_LINEAR,
                                                            .name = "linear/recurrent",
                                                            .rate = 5.5e-11,
                                                            .cost = cost,
                                                            .takes_state = true,
                                                            .state_runs = LNT_STATE_RUNS_FEW,
                                                            .shared = lnt_two_per_query,
                                                            .scratch = scratch,
                                                            .forward = forward,
                                                            .backward = lnt_chunk_backward };
