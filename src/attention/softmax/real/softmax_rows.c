/* attention/softmax/real/softmax_rows.c - exact softmax attention one query at a time, for decoding.
 *
 *     y = sum_j e^{x_j} v_j / sum_j e^{x_j},   x_j = scale q.k_j
 *
 * Lanes run along d for the scores and along m for the sum, so that a single query wastes none of
 * them; every key and value is read once.  O(n (d + m)) for each query.  Backward is that of the
 * tiles.  See docs/math/softmax.md */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "attention/softmax/softmax.h"
#include "core/threads.h"

enum { KEYS = 128 }; /* at a time */

typedef struct scratch {
    size_t d, m, dp, mp;
    real *q;        /* [dp] */
    real *k, *v;    /* [KEYS, dp], [KEYS, mp]: where the tensors cannot be read as they are */
    real *x;        /* [KEYS] scores, then weights */
    real *bias;     /* [KEYS] of a mask */
    real *o;        /* [mp] */
    real *max, *sum, *rescale; /* one number each */
} scratch;

static scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t d = (size_t)p->dim, m = (size_t)p->dim_value;
    scratch s = { .d = d, .m = m, .dp = pad(d), .mp = pad(m) };
    s.q = take(arena, 1, s.dp);
    s.k = take(arena, KEYS, s.dp);
    s.v = take(arena, KEYS, s.mp);
    s.x = take(arena, 1, KEYS);
    s.bias = take(arena, 1, KEYS);
    s.o = take(arena, 1, s.mp);
    s.max = take(arena, 1, LNT_PAD);
    s.sum = take(arena, 1, LNT_PAD);
    s.rescale = take(arena, 1, LNT_PAD);
    return s;
}

/* Query i of head h over all the keys it sees. */
static void attend(const lnt_run *run, const kernels *ker, scratch *s, const lnt_sequence *seq,
                   int64_t h, int64_t i)
{
    const int64_t kvh = h * run->p->kv_heads / run->p->heads;
    const lnt_band band = lnt_band_of(run->p, run->causal, seq->nq, seq->nk);
    const int64_t end = lnt_band_end(band, i, seq->nk);
    const bool adjusts = lnt_softmax_adjusts(run);
    const size_t wide = lnt_round_up(s->m, ker->lanes);
    load_rows(ker, s->q, s->dp, &run->io->q, seq->b, h, seq->q0 + i, 1, run->p->scale);
    memset(s->o, 0, s->mp * sizeof(real));
    *s->max = -(real)INFINITY;
    *s->sum = 0;
    for (int64_t j = lnt_band_first(band, i); j < end; j += KEYS) {
        const size_t n = end - j < KEYS ? (size_t)(end - j) : KEYS;
        size_t ldk = s->dp, ldv = s->mp;
        const real *k = read_rows(ker, s->k, &ldk, &run->io->k, seq->b, kvh, seq->k0 + j, n);
        const real *v = read_rows(ker, s->v, &ldv, &run->io->v, seq->b, kvh, seq->k0 + j, n);
        const size_t padded = lnt_round_up(n, ker->lanes);
        ker->gemv(s->x, k, ldk, s->q, n, s->d);
        if (adjusts) lnt_softmax_adjust_row(run, ker, seq, h, i, j, n, s->x, s->bias);
        for (size_t c = n; c < padded; c++) s->x[c] = -(real)INFINITY;
        ker->softmax_row(s->x, padded, s->max, s->sum, s->rescale);
        if (*s->rescale != 1) ker->scale(s->o, *s->rescale, s->m);
        ker->gemm_nn(s->o, s->mp, s->x, n, v, ldv, 1, wide, n, 1);
    }
}

static void forward(lnt_run *run)
{
    const kernels *ker = run_kernels(run);
    const int64_t H = run->p->heads, rows = run->io->q.shape[2];
    const double flops = 2 * (double)(run->p->dim + run->p->dim_value) * (double)H;
    const int threads = lnt_threads_for(run->ctx, flops * lnt_run_pairs(run));
    int64_t nonpositive = 0;
    lnt_clear_gaps(run);
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    {
        lnt_arena arena = run_arena(run, omp_get_thread_num());
        scratch s = take_scratch(&arena, run->p);
#pragma omp for schedule(dynamic) nowait
        for (int64_t unit = 0; unit < run->sequences * H * rows; unit++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, unit / rows / H);
            const int64_t h = unit / rows % H, i = unit % rows;
            if (i >= seq.nq) continue;
            attend(run, ker, &s, &seq, h, i);
            nonpositive += lnt_tile_finish(run, (query_rows){ &seq, h, i, 1 }, s.o, s.sum, s.max,
                                           s.rescale);
        }
    }
    run->nonpositive = nonpositive;
}

static size_t scratch_bytes(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p);
    const size_t own = lnt_arena_counted(&counting);
    const size_t back = p->backward ? lnt_direct_scratch(p) : 0;
    return own > back ? own : back;
}

const lnt_algo LNT_REAL_NAME(lnt_algo_softmax_rows) = { .mechanism = LNT_SOFTMAX,
                                                        .name = "softmax/rows",
                                                        .rate = 1.5e-10,
                                                        .cost = lnt_direct_flops,
                                                        .keeps = true,
                                                        .state_runs = LNT_STATE_RUNS_FEW,
                                                        .shared = lnt_two_per_query,
                                                        .scratch = scratch_bytes,
                                                        .forward = forward,
                                                        .backward = lnt_softmax_backward };
