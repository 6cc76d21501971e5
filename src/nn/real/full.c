/* nn/real/full.c - attention with a bias by distance, head by head:
 *
 *     S = scale q k^T + b[j-i],   A = softmax(S) by rows, or laplace(S),   out = A v
 *     dA = dout v^T,  dv = A^T dout,  dS = A (dA - A.dA by rows), or laplace'(S) dA
 *     dq = scale dS k,  dk = scale dS^T q,  db[j-i] += dS
 *
 * n^2 numbers of scratch, twice that backward, whatever batch and heads are; backward computes S
 * again.  2 n^2 (dim + values) operations a head forward, three times that backward. */
#include "nn/full.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/cur/laplace.h"
#include "nn/product.h"

/* One head of one sequence. */
typedef struct head {
    const lnt_ctx *ctx;
    const lnt_full_shape *shape;
    lnt_matrix q, k, v;
    const real *bias; /* bias[j - i]; NULL: none */
    size_t n, row;    /* tokens, and numbers between rows of scores */
} head;

static size_t shared_width(const lnt_full_shape *s) { return s->heads * s->dim; }

/* Head h of sequence b. */
static head head_of(const lnt_pass *pass, const lnt_full *l, const real *qk, const real *v, size_t b,
                    size_t h)
{
    const lnt_full_shape *s = l->shape;
    const size_t length = pass->length, shared = shared_width(s), values = s->heads * s->values;
    const real *q = qk + b * length * 2 * shared + h * s->dim;
    assert(!s->reach || length <= s->reach);
    return (head){ .ctx = pass->ctx, .shape = s,
                   .q = nn_rows(q, 2 * shared), .k = nn_rows(q + shared, 2 * shared),
                   .v = nn_rows(v + b * length * values + h * s->values, values),
                   .bias = s->reach ? l->bias + h * lnt_full_distances(s) + s->reach - 1 : NULL,
                   .n = nn_length(pass, b), .row = lnt_full_row(length) };
}

/* What padding gets. */
static void clear(real *x, size_t row, size_t width, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) memset(x + i * row, 0, width * sizeof *x);
}

/* Products of one row to its scores. */
static void bias_row(const head *h, real *x, size_t i)
{
    const real scale = (real)h->shape->scale;
    if (!h->bias)
        for (size_t j = 0; j < h->n; j++) x[j] *= scale;
    else
        for (size_t j = 0; j < h->n; j++)
            x[j] = scale * x[j] + h->bias[(ptrdiff_t)j - (ptrdiff_t)i];
}

/* Scores of one row to its weights; slope, unless NULL, gets the derivatives of laplace. */
static void weigh_row(const head *h, real *x, real *slope)
{
    if (h->shape->laplace) {
        for (size_t j = 0; j < h->n; j++) {
            const double score = (double)x[j];
            x[j] = (real)laplace(score);
            if (slope) slope[j] = (real)laplace_slope(score);
        }
        return;
    }
    const kernels *ker = nn_kernels(h->ctx);
    const size_t padded = lnt_round_up(h->n, ker->lanes);
    real max = -(real)INFINITY, sum = 0, rescale;
    for (size_t j = h->n; j < padded; j++) x[j] = -(real)INFINITY;
    ker->softmax_row(x, padded, &max, &sum, &rescale);
    ker->scale(x, 1 / sum, h->n);
}

static int threads_for_rows(const head *h)
{
    return lnt_threads_for(h->ctx, 20 * (double)h->n * (double)h->n);
}

/* a [n,row] = the weights of all queries; slope as above. */
static void weigh(const head *h, real *a, real *slope)
{
    const int threads = threads_for_rows(h);
    lnt_product(h->ctx, a, h->row, h->q, nn_transposed(h->k), h->n, h->n, h->shape->dim, false);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)h->n; i++) {
        const size_t at = (size_t)i * h->row;
        bias_row(h, a + at, (size_t)i);
        weigh_row(h, a + at, slope ? slope + at : NULL);
    }
}

void lnt_full_forward(const lnt_pass *pass, const lnt_full *l, const real *qk, const real *v,
                      real *out, real *scores)
{
    const lnt_full_shape *s = l->shape;
    const size_t length = pass->length, values = s->heads * s->values;
    for (size_t unit = 0; unit < pass->batch * s->heads; unit++) {
        const size_t b = unit / s->heads, index = unit % s->heads;
        const head h = head_of(pass, l, qk, v, b, index);
        real *own = out + b * length * values + index * s->values;
        clear(own, values, s->values, h.n, length);
        if (h.n == 0) continue;
        weigh(&h, scores, NULL);
        lnt_product(pass->ctx, own, values, nn_rows(scores, h.row), h.v, h.n, s->values, h.n,
                    false);
    }
}

/* ---- backward ------------------------------------------------------------------------------ */

/* One row of dS in ds: from a, the weights, and ds, their gradient; or, with laplace, from a, the
 * gradient of the weights, and ds, the slopes. */
static void scores_back(const head *h, const real *a, real *ds)
{
    if (h->shape->laplace) {
        for (size_t j = 0; j < h->n; j++) ds[j] *= a[j];
        return;
    }
    const real mean = nn_kernels(h->ctx)->dot(a, ds, h->n);
    for (size_t j = 0; j < h->n; j++) ds[j] = a[j] * (ds[j] - mean);
}

/* Every distance sums over the queries in their order, whatever the threads. */
static void bias_back(const head *h, const real *ds, real *dbias)
{
    const int64_t n = (int64_t)h->n, all = 2 * n - 1;
    const int threads = threads_for_rows(h);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < nn_pieces((size_t)all, LNT_NN_COLUMNS); piece++) {
        const int64_t first = piece * LNT_NN_COLUMNS - (n - 1); /* of j - i */
        const int64_t last = first + LNT_NN_COLUMNS < n ? first + LNT_NN_COLUMNS : n;
        for (int64_t i = 0; i < n; i++) {
            const int64_t j0 = first + i > 0 ? first + i : 0, j1 = last + i < n ? last + i : n;
            const real *x = ds + (size_t)i * h->row;
            for (int64_t j = j0; j < j1; j++) dbias[j - i] += x[j];
        }
    }
}

/* From dout to dv, and to dS in ds; a is scratch of the same size. */
static void weights_back(const head *h, lnt_matrix dout, real *a, real *ds, real *dv)
{
    const bool laplace_weights = h->shape->laplace;
    const size_t values = h->shape->values;
    const int threads = threads_for_rows(h);
    weigh(h, a, laplace_weights ? ds : NULL);
    lnt_product(h->ctx, dv, h->v.row, nn_transposed(nn_rows(a, h->row)), dout, h->n, values, h->n,
                false);
    lnt_product(h->ctx, laplace_weights ? a : ds, h->row, dout, nn_transposed(h->v), h->n, h->n, values,
                false);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)h->n; i++)
        scores_back(h, a + (size_t)i * h->row, ds + (size_t)i * h->row);
}

/* From dS to dq, dk (rows as those of q and k) and dbias [j - i]; ds is scaled on the way. */
static void products_back(const head *h, real *ds, real *dq, real *dk, real *dbias)
{
    const size_t n = h->n, dim = h->shape->dim;
    const int threads = threads_for_rows(h);
    if (dbias) bias_back(h, ds, dbias);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++)
        nn_kernels(h->ctx)->scale(ds + (size_t)i * h->row, (real)h->shape->scale, n);
    lnt_product(h->ctx, dq, h->q.row, nn_rows(ds, h->row), h->k, n, dim, n, false);
    lnt_product(h->ctx, dk, h->k.row, nn_transposed(nn_rows(ds, h->row)), h->q, n, dim, n, false);
}

void lnt_full_backward(const lnt_pass *pass, const lnt_full *l, const real *qk, const real *v,
                       const real *dout, real *dqk, real *dv, real *scores)
{
    const lnt_full_shape *s = l->shape;
    const size_t length = pass->length, shared = shared_width(s), values = s->heads * s->values;
    for (size_t unit = 0; unit < pass->batch * s->heads; unit++) {
        const size_t b = unit / s->heads, index = unit % s->heads, at = index * s->values;
        const head h = head_of(pass, l, qk, v, b, index);
        real *dq = dqk + b * length * 2 * shared + index * s->dim, *dk = dq + shared;
        real *own = dv + b * length * values + at, *ds = scores + length * h.row;
        clear(dq, 2 * shared, s->dim, h.n, length);
        clear(dk, 2 * shared, s->dim, h.n, length);
        clear(own, values, s->values, h.n, length);
        if (h.n == 0) continue;
        const lnt_matrix grad = nn_rows(dout + b * length * values + at, values);
        weights_back(&h, grad, scores, ds, own);
        products_back(&h, ds, dq, dk, h.bias ? l->dbias + (h.bias - l->bias) : NULL);
    }
}
