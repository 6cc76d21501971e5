/* attention/softmax/real/softmax_tiled.c - exact softmax attention in tiles with a running maximum.
 *
 *     y_i = sum_j e^{x_ij} v_j / sum_j e^{x_ij},   x = scale q.k
 *
 * O(n^2 (d + m)) time, O(d + m) scratch per thread.  See docs/math/softmax.md */
#include "attention/softmax/softmax.h"

static void load_queries(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                         int64_t n0, size_t n, real *columns, size_t ld)
{
    (void)feature;
    load_columns(run_kernels(run), columns, ld, &run->io->q, b, h, n0, n, run->p->scale);
}

static void load_keys(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                      int64_t n0, size_t n, real *columns, size_t ld)
{
    (void)feature;
    load_columns(run_kernels(run), columns, ld, &run->io->k, b, h, n0, n, 1);
}

static void weigh(const lnt_run *run, const kernels *ker, real *x, real *dw, size_t ld, size_t keys,
                  size_t padded, const real *statistic, const real *delta)
{
    (void)run;
    ker->softmax_back(x, dw, ld, keys, padded, statistic, delta);
}

/* x = (scale q).k */
static bool plain(const lnt_run *run, bool query, int64_t h, double *factor)
{
    (void)h;
    *factor = query ? run->p->scale : 1;
    return true;
}

static const lnt_direct products = { .has_max = true,
                                     .plain = plain,
                                     .queries = load_queries,
                                     .keys = load_keys,
                                     .weigh = weigh };
static const lnt_direct capped = { .has_max = true,
                                   .plain = plain,
                                   .queries = load_queries,
                                   .keys = load_keys,
                                   .weigh = weigh,
                                   .adjust = lnt_softmax_adjust,
                                   .adjust_back = lnt_softmax_adjust_back };
static const lnt_direct biased = { .has_max = true,
                                   .plain = plain,
                                   .queries = load_queries,
                                   .keys = load_keys,
                                   .weigh = weigh,
                                   .adjust = lnt_softmax_adjust };

static const lnt_direct *kind_of(const lnt_run *run)
{
    return !lnt_softmax_adjusts(run) ? &products : run->p->softmax.cap > 0 ? &capped : &biased;
}

static void forward(lnt_run *run) { lnt_direct_forward(kind_of(run), run); }
void lnt_softmax_backward(lnt_run *run) { lnt_direct_backward(kind_of(run), run); }

/* A tile with fewer queries than lanes costs as much as a full vector of them. */
static double cost(const lnt_attn_desc *p)
{
    lnt_attn_desc filled = *p;
    if (filled.length_q > 0 && filled.length_q < 8) filled.length_q = 8;
    if (filled.length_k < filled.length_q && !filled.softmax.align_begin) filled.length_k = filled.length_q;
    return lnt_direct_flops(&filled);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_softmax_tiled) = { .mechanism = LNT_SOFTMAX,
                                                         .name = "softmax/tiled",
                                                         .rate = 5e-11,
                                                         .cost = cost,
                                                         .tile = LNT_TILE_QUERIES,
                                                         .keeps = true,
                                                         .state_runs = LNT_STATE_RUNS_MANY,
                                                         .kept = lnt_direct_kept,
                                                         .shared = lnt_two_per_query,
                                                         .scratch = lnt_direct_scratch,
                                                         .forward = forward,
                                                         .backward = lnt_softmax_backward };
