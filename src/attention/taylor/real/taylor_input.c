/* attention/taylor/real/taylor_input.c - q and k as Taylor attention sees them, and back.
 *
 *     plain        q' = scale q                      k' = k - mu
 *     taylorshift  q' = scale tau r q / |q|          k' = r k / |k|      |x| at least 1e-12
 *
 * so that x = q'.k', with taylorshift x = q'.k' / sqrt(d), r = d^(1/4): its coefficients are those of
 * (x sqrt(d))^p then, and no monomial of normalised vectors gets small as d grows.  mu is given, or the
 * mean of the keys; then the gradients of the keys lose their mean as well.  With u = x / |x| and c the
 * factor, dx = c / |x| (g - u (u.g)), and the gradient of a head's temperature tau is the sum of
 * scale u.g over its queries. */
#include <math.h>
#include <string.h>

#include "attention/taylor/taylor.h"

static const double least_norm = 1e-12;

static bool is_normalised(const lnt_run *run)
{
    return run->p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

/* What a vector of head h is multiplied by besides 1 / |x|. */
static double factor_of(const lnt_run *run, bool query, int64_t h)
{
    const double root = sqrt(lnt_taylor_score_factor(run->p));
    if (!query) return root;
    return root * run->p->scale * (run->p->taylor.temperature ? run->p->taylor.temperature[h] : 1);
}

bool lnt_taylor_plain(const lnt_run *run, bool query, int64_t h, double *factor)
{
    *factor = factor_of(run, query, h);
    return !is_normalised(run) && (query || (!run->p->taylor.center && !run->p->taylor.center_mean));
}

/* |x| of d numbers `step` apart, at least 1e-12; square: the sum of their squares, unless it is too
 * large for a number of its type. */
static double norm_of(const real *x, size_t step, size_t d, real square)
{
    double largest = 1, sum = (double)square;
    if (isinf(square)) {
        for (size_t c = 0; c < d; c++) { /* not by fmax: gcc 12 for aarch64 breaks down over it */
            const double size = fabs((double)x[c * step]);
            if (size > largest) largest = size;
        }
        sum = 0;
        for (size_t c = 0; c < d; c++) sum += pow((double)x[c * step] / largest, 2);
    }
    return fmax(largest * sqrt(sum), least_norm);
}

/* norm[i] = |column i of x|, at least 1e-12. */
static void norms(const kernels *ker, const real *x, size_t ld, size_t d, size_t lanes, double *norm)
{
    real square[LNT_TILE_QUERIES];
    memset(square, 0, lanes * sizeof *square);
    ker->columns_dot(square, x, x, ld, d, lanes);
    for (size_t i = 0; i < lanes; i++) norm[i] = norm_of(x + i, ld, d, square[i]);
}

const double *lnt_taylor_center(const lnt_run *run, const lnt_sequence *seq, int64_t kvh,
                                double *own, real *tile, size_t ld)
{
    const kernels *ker = run_kernels(run);
    const size_t d = (size_t)run->p->dim;
    if (run->p->taylor.center) return run->p->taylor.center + kvh * run->p->dim;
    if (!run->p->taylor.center_mean) return NULL;
    real ones[LNT_TILE_QUERIES];
    for (size_t i = 0; i < LNT_TILE_QUERIES; i++) ones[i] = 1;
    memset(own, 0, d * sizeof *own);
    for (int64_t t = 0; t < seq->nk; t += LNT_TILE_QUERIES) {
        const int64_t left = seq->nk - t;
        const size_t n = (size_t)(left < LNT_TILE_QUERIES ? left : LNT_TILE_QUERIES);
        load_columns(ker, tile, ld, &run->io->k, seq->b, kvh, seq->k0 + t, n, 1);
        for (size_t c = 0; c < d; c++)
            own[c] += (double)ker->dot(tile + c * ld, ones, n) / (double)seq->nk;
    }
    return own;
}

void lnt_taylor_columns(const lnt_run *run, bool query, const double *center, int64_t b, int64_t h,
                        int64_t n0, size_t n, real *xt, size_t ld)
{
    const kernels *ker = run_kernels(run);
    const double factor = factor_of(run, query, h);
    const size_t lanes = lnt_round_up(n, ker->lanes), d = (size_t)run->p->dim;
    load_columns(ker, xt, ld, query ? &run->io->q : &run->io->k, b, h, n0, n,
                 is_normalised(run) ? 1 : factor);
    for (size_t c = 0; center && c < d; c++)
        for (size_t i = 0; i < n; i++) xt[c * ld + i] -= (real)center[c];
    if (!is_normalised(run)) return;
    double norm[LNT_TILE_QUERIES];
    real inverse[LNT_TILE_QUERIES];
    norms(ker, xt, ld, d, lanes, norm);
    for (size_t i = 0; i < lanes; i++) inverse[i] = (real)(factor / norm[i]);
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes);
}

const real *lnt_taylor_key_rows(const lnt_run *run, int64_t b, int64_t h, int64_t n0, size_t n,
                                const real *kt, size_t ldt, real *own, size_t *ld)
{
    const kernels *ker = run_kernels(run);
    const bool as_it_is = !is_normalised(run) && !run->p->taylor.center && !run->p->taylor.center_mean;
    if (as_it_is) return read_rows(ker, own, ld, &run->io->k, b, h, n0, n);
    transpose(ker, own, *ld, kt, ldt, n, (size_t)run->p->dim);
    return own;
}

void lnt_taylor_row(const lnt_run *run, bool query, int64_t b, int64_t h, int64_t n, real *x)
{
    const kernels *ker = run_kernels(run);
    const size_t d = (size_t)run->p->dim;
    load_rows(ker, x, d, query ? &run->io->q : &run->io->k, b, h, n, 1, 1);
    double factor = factor_of(run, query, h);
    for (size_t c = 0; c < d && run->p->taylor.center && !query; c++)
        x[c] -= (real)run->p->taylor.center[(size_t)h * d + c];
    if (is_normalised(run)) factor /= norm_of(x, 1, d, ker->dot(x, x, d));
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
    double norm[LNT_TILE_QUERIES];
    real inverse[LNT_TILE_QUERIES];
    load_columns(ker, xt, ld, query ? &run->io->q : &run->io->k, b, h, n0, n, 1);
    norms(ker, xt, ld, d, lanes, norm);
    for (size_t i = 0; i < lanes; i++) inverse[i] = (real)(1 / norm[i]);
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes); /* u */
    memset(share, 0, lanes * sizeof *share);
    ker->columns_dot(share, xt, g, ld, d, lanes);
    for (size_t i = 0; i < lanes; i++) /* below the least norm x / |x| is linear in x */
        inverse[i] = norm[i] > least_norm ? -share[i] : 0;
    ker->multiply_rows(xt, ld, xt, ld, inverse, d, lanes);
    ker->axpy(g, 1, xt, d * ld);
    for (size_t i = 0; i < lanes; i++) inverse[i] = (real)(factor_of(run, query, h) / norm[i]);
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
static void sum_temperature(const lnt_run *run)
{
    double *sum = run->grads->dtemperature;
    for (int64_t h = 0; sum && h < run->p->heads; h++) {
        sum[h] = 0;
        for (int64_t s = 0; s < run->sequences; s++) {
            const lnt_sequence seq = lnt_io_sequence(run->io, s);
            const real *share = kept_share(run, seq.b, h, seq.q0);
            const double root = sqrt(lnt_taylor_score_factor(run->p));
            for (int64_t i = 0; i < seq.nq; i++) sum[h] += root * run->p->scale * (double)share[i];
        }
    }
}

/* k' = k - mean k: dk = dk' - mean dk'. */
static void through_mean(const lnt_run *run, const lnt_sequence *seq, int64_t kvh)
{
    const lnt_tensor *dk = &run->grads->dk;
    for (int64_t c = 0; c < dk->shape[3]; c++) {
        double sum = 0;
        for (int64_t i = 0; i < seq->nk; i++)
            sum += lnt_tensor_get(dk, seq->b, kvh, seq->k0 + i, c);
        for (int64_t i = 0; i < seq->nk; i++) {
            const int64_t n = seq->k0 + i;
            lnt_tensor_set(dk, seq->b, kvh, n, c,
                           lnt_tensor_get(dk, seq->b, kvh, n, c) - sum / (double)seq->nk);
        }
    }
}

void lnt_taylor_finish_grads(const lnt_run *run)
{
    sum_temperature(run);
    for (int64_t s = 0; run->p->taylor.center_mean && s < run->sequences; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        for (int64_t kvh = 0; kvh < run->p->kv_heads; kvh++) through_mean(run, &seq, kvh);
    }
}

size_t lnt_taylor_shared(const lnt_attn_desc *p)
{
    const size_t two = lnt_two_per_query(p); /* and a third, the share of the temperature */
    return p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT || two > SIZE_MAX / 2 ? two : two / 2 * 3;
}

void lnt_taylor_coefficients(const lnt_attn_desc *p, real a[LNT_MAX_TERMS])
{
    const double factor = lnt_taylor_score_factor(p);
    double power = 1;
    for (int64_t t = 0; t < p->taylor.terms; t++, power *= factor)
        a[t] = (real)(lnt_taylor_coefficient(p, t) / power);
}

void lnt_taylor_weights(const lnt_run *run, const kernels *ker, real *y, const real *x, size_t ld,
                        size_t keys, size_t padded)
{
    real a[LNT_MAX_TERMS] = { 0 };
    const size_t terms = (size_t)run->p->taylor.terms;
    lnt_taylor_coefficients(run->p, a);
    if (padded == ld) ker->polynomial(y, x, a, terms, keys * ld);
    else
        for (size_t j = 0; j < keys; j++) ker->polynomial(y + j * ld, x + j * ld, a, terms, padded);
}
