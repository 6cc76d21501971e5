/* attention/linear/real/linear_direct.c - linear attention as a quadratic form: the weights
 * phi(q).phi(k) tile
 * by tile.  Fewer operations than the state form while n is below about dm / (d + m).
 *
 *     y_i = sum_j w_ij v_j / (sum_j w_ij + eps),   w_ij = decay^(i-j) phi(q_i).phi(k_j)
 *
 * O(n^2 (d + m)) time.  See docs/math/linear.md */
#include "attention/direct/direct.h"

static void load_queries(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                         int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_feature_columns(run, feature, &run->io->q, b, h, n0, n, columns, ld);
}

static void load_keys(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                      int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_feature_columns(run, feature, &run->io->k, b, h, n0, n, columns, ld);
}

static void weigh(const lnt_run *run, const kernels *ker, real *x, real *dw, size_t ld, size_t keys,
                  size_t padded, const real *statistic, const real *delta)
{
    (void)run;
    (void)ker;
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < padded; i++) {
            dw[j * ld + i] = (dw[j * ld + i] - delta[i]) * statistic[i];
            x[j * ld + i] *= statistic[i];
        }
}

static void store_dq(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_feature_store_grad(run, feature, &run->io->q, &run->grads->dq, b, h, n0, n, columns, ld);
}

static void store_dk(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h,
                     int64_t n0, size_t n, real *columns, size_t ld)
{
    lnt_feature_store_grad(run, feature, &run->io->k, &run->grads->dk, b, h, n0, n, columns, ld);
}

static const lnt_direct kind = { .queries = load_queries,
                                 .keys = load_keys,
                                 .weigh = weigh,
                                 .store_dq = store_dq,
                                 .store_dk = store_dk };

static void forward(lnt_run *run) { lnt_direct_forward(&kind, run); }
static void backward(lnt_run *run) { lnt_direct_backward(&kind, run); }

/* However few the tokens, a tile of q and one of k are laid out and mapped, which takes as long as so many
 * operations for each number of theirs. */
static double cost(const lnt_attn_desc *p)
{
    enum { EACH = 16 };
    const double D = (double)lnt_problem_width(p), heads = (double)p->batch * (double)p->heads;
    const double least = heads * 2 * LNT_TILE_QUERIES * D * EACH;
    const double pairs = lnt_pairs(p) * 2 * (D + (double)p->dim_value);
    return pairs > least ? pairs : least;
}

const lnt_algo LNT_REAL_NAME(lnt_algo_linear_direct) = { .mechanism = LNT_LINEAR,
                                                         .name = "linear/direct",
                                                         .rate = 4e-11,
                                                         .cost = cost,
                                                         .tile = LNT_TILE_QUERIES,
                                                         .keeps = true,
                                                         .kept = lnt_direct_kept,
                                                         .shared = lnt_two_per_query,
                                                         .scratch = lnt_direct_scratch,
                                                         .forward = forward,
                                                         .backward = backward };
