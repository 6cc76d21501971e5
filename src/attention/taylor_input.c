/* attention/taylor_input.c - q and k as Taylor attention sees them, and back.
 *
 *     plain        q' = scale q                      k' = k
 *     taylorshift  q' = scale tau q / |q|            k' = k / |k|        |x| at least 1e-12
 *
 * so that x = q'.k'.  With u = x / |x| and c the factor, dx = c / |x| (g - u (u.g)), and the gradient
 * of a head's temperature tau is the sum of scale u.g over its queries. */
#include <math.h>
#include <string.h>

#include "attention/taylor.h"

static const double least_norm = 1e-12;

/* What a vector of head h is multiplied by besides 1 / |x|. */
static double factor_of(const lnt_run *run, bool query, int64_t h)
{
    if (!query) return 1;
    return run->p->scale * (run->p->temperature ? run->p->temperature[h] : 1);
}

static bool is_normalised(const lnt_run *run)
{
    return run->p->normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

/* norm[i] = |column i of x|, at least 1e-12. */
static void norms(const kernels *ker, const real *x, size_t ld, size_t d, size_t lanes, real *norm)
{
    memset(norm, 0, lanes * sizeof *norm);
    ker->columns_dot(norm, x, x, ld, d, lanes);
    for (size_t i = 0; i < lanes; i++) {
        const double length = sqrt((double)norm[i]);
        norm[i] = (real)(length > least_norm ? length : least_norm);
    }
}

void lnt_taylor_columns(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n0, size_t n,
                        real *xt, size_t ld)
{
    const kernels *ker = run_kernels(run);
    const double factor = factor_of(run, query, h);
    const size_t lanes = lnt_round_up(n, ker->lanes), d = (size_t)run->p->dim;
    load_columns(ker, xt, ld, query ? &run->io->q : &run->io->k, b, h, n0, n,
                 is_normalised(run) ? 1 : factor);
    if (!is_normalised(run)) return;
    real inverse[LNT_TILE_QUERIES];
    norms(ker, xt, ld, d, lanes, inverse);
    for (size_t i = 0; i < lanes; i++) inverse[i] = (real)factor / inverse[i];
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes);
}

const real *lnt_taylor_key_rows(const lnt_run *run, int64_t b, int64_t h, int64_t n0, size_t n,
                                const real *kt, size_t ldt, real *own, size_t *ld)
{
    const kernels *ker = run_kernels(run);
    if (!is_normalised(run)) return read_rows(ker, own, ld, &run->io->k, b, h, n0, n);
    transpose(ker, own, *ld, kt, ldt, n, (size_t)run->p->dim);
    return own;
}

void lnt_taylor_row(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n, real *x)
{
    const kernels *ker = run_kernels(run);
    const size_t d = (size_t)run->p->dim;
    load_rows(ker, x, d, query ? &run->io->q : &run->io->k, b, h, n, 1, 1);
    double factor = factor_of(run, query, h);
    if (is_normalised(run)) {
        const double length = sqrt((double)ker->dot(x, x, d));
        factor /= length > least_norm ? length : least_norm;
    }
    ker->scale(x, (real)factor, d);
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Where what a query gives to the gradient of its head's temperature is kept. */
static real *kept_share(const lnt_run *run, int64_t b, int64_t h, int64_t n0)
{
    const lnt_tensor *q = &run->io->q;
    real *shares = (real *)run->shared + 2 * q->shape[0] * run->p->heads * q->shape[2];
    return shares + (b * run->p->heads + h) * q->shape[2] + n0;
}

/* g becomes c / |x| (g - u (u.g)); xt [d, ld] is overwritten.  share [n] = u.g. */
static void through_norm(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n0, size_t n,
                         real *g, real *xt, size_t ld, real *share)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(n, ker->lanes), d = (size_t)run->p->dim;
    real norm[LNT_TILE_QUERIES], inverse[LNT_TILE_QUERIES];
    load_columns(ker, xt, ld, query ? &run->io->q : &run->io->k, b, h, n0, n, 1);
    norms(ker, xt, ld, d, lanes, norm);
    for (size_t i = 0; i < lanes; i++) inverse[i] = 1 / norm[i];
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes); /* u */
    memset(share, 0, lanes * sizeof *share);
    ker->columns_dot(share, xt, g, ld, d, lanes);
    for (size_t i = 0; i < lanes; i++) /* below the least norm x / |x| is linear in x */
        inverse[i] = (double)norm[i] > least_norm ? -share[i] : 0;
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes);
    ker->axpy(g, 1, xt, d * ld);
    for (size_t i = 0; i < lanes; i++) inverse[i] = (real)factor_of(run, query, h) / norm[i];
    ker->multiply_rows(g, ld, g, ld, inverse, d, lanes);
}

void lnt_taylor_store_grad(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n0,
                           size_t n, real *g, real *xt, size_t ld)
{
    const kernels *ker = run_kernels(run);
    const lnt_tensor *to = query ? &run->grads->dq : &run->grads->dk;
    if (is_normalised(run)) {
        real share[LNT_TILE_QUERIES];
        through_norm(run, query, b, h, n0, n, g, xt, ld, share);
        if (query) memcpy(kept_share(run, b, h, n0), share, n * sizeof *share);
    } else {
        ker->scale(g, (real)factor_of(run, query, h), (size_t)run->p->dim * ld);
    }
    store_columns(ker, to, b, h, n0, n, g, ld);
}

/* In a fixed order, and in double: the same bits for any number of threads. */
void lnt_taylor_sum_temperature(const lnt_run *run)
{
    double *sum = run->grads->dtemperature;
    for (int64_t h = 0; sum && h < run->p->heads; h++) {
        sum[h] = 0;
        for (int64_t s = 0; s < run->sequences; s++) {
            const lnt_sequence q = lnt_io_sequence(run->io, s);
            const real *share = kept_share(run, q.b, h, q.q0);
            for (int64_t i = 0; i < q.nq; i++) sum[h] += run->p->scale * (double)share[i];
        }
    }
}

size_t lnt_taylor_shared(const lnt_attn_desc *p)
{
    const size_t two = lnt_two_per_query(p); /* and a third, the share of the temperature */
    return p->normalize != LNT_NORMALIZE_TAYLORSHIFT || two > SIZE_MAX / 2 ? two : two / 2 * 3;
}
