/* attention/taylor/real/taylor_direct.c - Taylor attention as a quadratic form: a polynomial of each score.
 *
 *     y_i = sum_j w(x_ij) v_j / sum_j w(x_ij),   w(x) = sum_{p<P} a_p x^p,   x = scale q.k
 *
 * O(n^2 (d + m + P)) time, O(d + m) scratch per thread.  Fewer operations than the state form while n
 * is below about the number of monomials.  See docs/math/taylor.md */
#include "attention/taylor/taylor.h"

static void load_queries(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                         int64_t n0, size_t n, real *columns, size_t ld)
{
    (void)feature;
    lnt_taylor_columns(run, true, NULL, b, h, n0, n, columns, ld);
}

static void load_keys(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                      int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_taylor_columns(run, false, feature->center, b, h, n0, n, columns, ld);
}

static void weights(const lnt_run *run, const kernels *ker, real *x, size_t ld, size_t keys,
                    size_t padded)
{
    lnt_taylor_weights(run, ker, x, x, ld, keys, padded);
}

/* p = w / den, dx = w'(x) (dy.v - delta) / den. */
static void weigh(const lnt_run *run, const kernels *ker, real *x, real *dw, size_t ld, size_t keys,
                  size_t padded, const real *statistic, const real *delta)
{
    real a[LNT_MAX_TERMS] = { 0 };
    lnt_taylor_coefficients(run->p, a);
    ker->polynomial_back(x, dw, ld, keys, padded, a, (size_t)run->p->taylor.terms, statistic, delta);
}

static void store_dq(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_taylor_store_grad(run, true, b, h, n0, n, columns, feature->phi, ld);
}

static void store_dk(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_taylor_store_grad(run, false, b, h, n0, n, columns, feature->phi, ld);
}

static void begin(const lnt_run *run, lnt_feature_tile *feature, const lnt_sequence *seq, int64_t kvh)
{
    feature->center = lnt_taylor_center(run, seq, kvh, feature->mean, feature->phi, feature->ld);
}

const lnt_direct lnt_taylor_kind = { .begin = begin,
                                     .plain = lnt_taylor_plain,
                                     .queries = load_queries,
                                     .keys = load_keys,
                                     .weights = weights,
                                     .weigh = weigh,
                                     .store_dq = store_dq,
                                     .store_dk = store_dk };

static void forward(lnt_run *run) { lnt_direct_forward(&lnt_taylor_kind, run); }

static void backward(lnt_run *run)
{
    lnt_direct_backward(&lnt_taylor_kind, run);
    lnt_taylor_finish_grads(run);
}

static double cost(const lnt_attn_desc *p)
{
    return lnt_pairs(p) * 2 * (double)(p->dim + p->dim_value + p->taylor.terms);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_taylor_direct) = { .mechanism = LNT_TAYLOR,
                                                         .name = "taylor/direct",
                                                         .rate = 4e-11,
                                                         .cost = cost,
                                                         .both = 3.4,
                                                         .tile = LNT_TILE_QUERIES,
                                                         .keeps = true,
                                                         .kept = lnt_direct_kept,
                                                         .shared = lnt_taylor_shared,
                                                         .scratch = lnt_direct_scratch,
                                                         .forward = forward,
                                                         .backward = backward };
