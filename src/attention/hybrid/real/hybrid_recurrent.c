/* attention/hybrid/real/hybrid_recurrent.c - hybrid attention token by token, for decoding.
 *
 * A query reads S, then the tokens that have left the window and are not in S yet, then the window and
 * the sinks; each is a stretch of rows as they lie in the state.  Where Taylor attention is far, whose S
 * is large, tokens go into S some at a time; linear attention takes each at once.
 * O(n (D m + (W + S) (d + m))) time.  Backward is that of the chunks.  See docs/math/hybrid.md */
#include <math.h>
#include <string.h>

#include "attention/hybrid/hybrid.h"
#include "attention/recurrent.h"

enum { KEYS = 64 }; /* summed at a time: a longer sum would lose digits */

typedef struct steps {
    token t;          /* its scalar: den, max, rescale, inverse */
    int64_t frontier; /* tokens before it, but for the sinks, are in S */
    int64_t room;     /* tokens that may wait before it moves */
    real a[LNT_MAX_TERMS];
    real *q;             /* the query times scale [d] */
    real *k_own, *v_own; /* [KEYS, dp], [KEYS, mp] */
    real *x;             /* scores, then weights [KEYS] */
    real shift;          /* the score of the center */
} steps;

enum { DEN, MAX, RESCALE, INVERSE };

static steps take_steps(lnt_arena *arena, const lnt_attn_desc *p)
{
    steps x = { .t = lnt_token_take(arena, p), .room = lnt_recent_room(p) };
    x.q = take(arena, 1, pad((size_t)p->dim));
    x.k_own = take(arena, KEYS, pad((size_t)p->dim));
    x.v_own = take(arena, KEYS, x.t.mp);
    x.x = take(arena, 1, KEYS);
    return x;
}

/* ---- S --------------------------------------------------------------------------------------- */

/* Tokens from the frontier up to `to` go into S. */
static void absorb(const head_job *job, steps *x, int64_t to)
{
    const int64_t first = x->frontier > job->run->p->hybrid.sink ? x->frontier : job->run->p->hybrid.sink;
    if (first < to) {
        lnt_arena rest = x->t.rest;
        hybrid_scratch s = lnt_hybrid_open_in(&rest, job, true);
        s.t.sums = x->t.sums;
        lnt_hybrid_absorb(job, &s, first, to);
    }
    x->frontier = to;
}

/* o = Phi(q) S and den = Phi(q).z, where S holds anything. */
static void read_state(const head_job *job, steps *x, int64_t h, int64_t query, int64_t at)
{
    const kernels *ker = job->ker;
    const lnt_run *run = job->run;
    memset(x->t.o, 0, x->t.mp * sizeof(real));
    x->t.scalar[DEN] = 0;
    if (x->frontier <= run->p->hybrid.sink) return;
    if (run->p->hybrid.far == LNT_TAYLOR)
        lnt_taylor_monomials(run->p, x->a, x->q, true, x->t.phi);
    else
        lnt_feature_rows_of(run, &x->t.feature, &run->io->q, job->seq.b, h, job->seq.q0 + query, 1,
                            x->t.phi, pad(x->t.D));
    x->t.scalar[DEN] = lnt_token_pass(ker, &x->t, NULL, NULL, 1);
    if (job->decay < 1) { /* by the tokens between the last in S and the window */
        const real aged = decay_after(job, at - run->p->hybrid.window - x->frontier + 1);
        ker->scale(x->t.o, aged, x->t.mp);
        x->t.scalar[DEN] *= aged;
    }
}

/* ---- tokens as they are ---------------------------------------------------------------------- */

/* n keys from token `key` on, near or, relative to a maximum of 0, far; `at`: the query's token. */
static void read_stretch(const head_job *job, steps *x, int64_t key, size_t n, bool near,
                         int64_t at)
{
    const kernels *ker = job->ker;
    const lnt_attn_desc *p = job->run->p;
    const size_t d = (size_t)p->dim, lanes = lnt_round_up(n, ker->lanes);
    size_t ldk = pad(d), ldv = x->t.mp;
    const real *k = lnt_hybrid_rows(job, LNT_STATE_WINDOW_K, key, n, x->k_own, &ldk, false);
    const real *v = lnt_hybrid_rows(job, LNT_STATE_WINDOW_V, key, n, x->v_own, &ldv, false);
    ker->gemv(x->x, k, ldk, x->q, n, d);
    for (size_t j = 0; p->taylor.center && j < n; j++) x->x[j] -= x->shift;
    for (size_t j = n; j < lanes; j++) x->x[j] = near ? -(real)INFINITY : 0;
    if (near) {
        ker->softmax_row(x->x, lanes, &x->t.scalar[MAX], &x->t.scalar[DEN], &x->t.scalar[RESCALE]);
        if (x->t.scalar[RESCALE] != 1) ker->scale(x->t.o, x->t.scalar[RESCALE], x->t.mp);
    } else {
        ker->polynomial(x->x, x->x, x->a, (size_t)p->taylor.terms, lanes);
        for (size_t j = 0; j < n && job->decay < 1; j++)
            x->x[j] *= decay_after(job, at - p->hybrid.window - key - (int64_t)j);
        for (size_t j = 0; j < n; j++) x->t.scalar[DEN] += x->x[j];
    }
    ker->gemm_nn(x->t.o, x->t.mp, x->x, KEYS, v, ldv, 1, lnt_round_up(x->t.m, ker->lanes), n, 1);
}

static void read_tokens(const head_job *job, steps *x, int64_t from, int64_t to, bool near,
                        int64_t at)
{
    for (; from < to; from += KEYS)
        read_stretch(job, x, from, to - from < KEYS ? (size_t)(to - from) : KEYS, near, at);
}

/* One query of head h, at token `at`. */
static void read_query(const head_job *job, steps *x, int64_t h, int64_t query, int64_t at)
{
    const lnt_run *run = job->run;
    const int64_t window = run->p->hybrid.window, sink = run->p->hybrid.sink, far = at - window + 1;
    const int64_t sinks = sink < at + 1 ? sink : at + 1, first = far > sinks ? far : sinks;
    load_rows(job->ker, x->q, pad((size_t)run->p->dim), &run->io->q, job->seq.b, h,
              job->seq.q0 + query, 1, run->p->scale);
    x->shift = 0;
    for (int64_t c = 0; run->p->taylor.center && c < run->p->dim; c++)
        x->shift += x->q[c] * (real)run->p->taylor.center[job->kvh * run->p->dim + c];
    read_state(job, x, h, query, at);
    x->t.scalar[MAX] = at >= sink + window ? 0 : -(real)INFINITY;
    read_tokens(job, x, x->frontier > sink ? x->frontier : sink, far, false, at);
    read_tokens(job, x, 0, sinks, true, at);
    read_tokens(job, x, first, at + 1, true, at);
}

/* Every head of the group, at token `at`. */
static int64_t run_query(const head_job *job, steps *x, int64_t query, int64_t at)
{
    const lnt_run *run = job->run;
    const int64_t group = run->p->heads / run->p->kv_heads, first = job->kvh * group;
    int64_t nonpositive = 0;
    for (int64_t h = first; h < first + group; h++) {
        read_query(job, x, h, query, at);
        nonpositive += lnt_tile_finish(run, (query_rows){ &job->seq, h, query, 1 }, x->t.o,
                                       x->t.scalar + DEN, NULL, x->t.scalar + INVERSE);
    }
    return nonpositive;
}

/* ---- a sequence ------------------------------------------------------------------------------ */

/* The token before `tokens` has come: what has left the window goes into S, where enough has. */
static void move_frontier(const head_job *job, steps *x, int64_t tokens)
{
    const int64_t to = tokens - job->run->p->hybrid.window;
    if (to - x->frontier >= x->room) absorb(job, x, to);
}

static int64_t run_sequence(const head_job *job, steps *x)
{
    lnt_run *run = job->run;
    const lnt_sequence *seq = &job->seq;
    const int64_t window = run->p->hybrid.window, alone = seq->before + keys_alone(job);
    int64_t nonpositive = 0;
    x->frontier = seq->before - window - (run->recents ? lnt_state_recent(run->recents) : 0);
    for (int64_t t = seq->before; t < alone; t++) move_frontier(job, x, t + 1);
    for (int64_t t = 0; t < seq->nq; t++) {
        const int64_t at = run->causal ? alone + t : alone - 1;
        if (!x->room) move_frontier(job, x, at + 1);
        nonpositive += run_query(job, x, t, at);
        if (run->causal) move_frontier(job, x, at + 1);
    }
    if (run->recents ? run->settle : run->io->state_out != NULL)
        absorb(job, x, seq->before + seq->nk - window);
    if (run->io->state_out) lnt_hybrid_keep_window(job, x->frontier);
    return nonpositive;
}

static int64_t run_share(const void *kind, lnt_run *run, lnt_arena *arena, int64_t first, int64_t last)
{
    const int64_t KVH = run->p->kv_heads;
    steps x = take_steps(arena, run->p);
    const head_sums own = x.t.sums;
    int64_t nonpositive = 0;
    (void)kind;
    lnt_taylor_coefficients(run->p, x.a);
    x.t.rest = *arena;
    for (int64_t unit = first; unit < last; unit++) {
        const head_job job = lnt_head_job(run, unit / KVH, unit % KVH);
        x.t.sums = lnt_sums_before(&job, own, true);
        nonpositive += run_sequence(&job, &x);
    }
    return nonpositive;
}

static void forward(lnt_run *run)
{
    lnt_recurrent_share(run, run->settle ? run->ctx->threads : lnt_hybrid_threads(run), run_share, NULL);
}

static void backward(lnt_run *run) { lnt_hybrid_backward(run, true); }

static size_t scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_steps(&counting, p);
    const size_t chunks = lnt_hybrid_scratch(p); /* to absorb, and backward */
    return counting.overflow || chunks > SIZE_MAX - counting.used ? SIZE_MAX
                                                                  : counting.used + chunks;
}

/* Scores of a few tokens more than the window. */
static double cost(const lnt_attn_desc *p)
{
    return lnt_state_flops(p) + (double)p->batch * (double)p->heads * (double)p->length_q *
                                    (double)lnt_recent_room(p) * (double)(p->dim + p->dim_value);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_hybrid_recurrent) = { .mechanism = LNT_HYBRID,
                                                            .name = "hybrid/recurrent",
                                                            .rate = 1.2e-10,
                                                            .cost = cost,
                                                            .both = 4.6,
                                                            .refuses = lnt_hybrid_refuses,
                                                            .takes_state = true,
                                                            .state_runs = LNT_STATE_RUNS_FEW,
                                                            .shared = lnt_hybrid_shared,
                                                            .scratch = scratch,
                                                            .forward = forward,
                                                            .backward = backward };
