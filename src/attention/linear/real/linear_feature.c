/* attention/linear/real/linear_feature.c - phi of linear attention on tiles, and back through it.
 *
 *     elu1      x > 0 ? x + 1 : e^x               phi' = min(phi, 1)
 *     relu      max(x, 0)                         phi' = phi > 0
 *     exp       e^x                               phi' = phi
 *     fourier   sqrt(2/r) [cos wx, sin wx]        the other half of phi, times -w (cos), w (sin)
 *     positive  e^{wx - |x|^2/2} / sqrt(r)        phi (w - x)
 *
 * Every derivative is a function of phi, so backward needs x only for `positive`. */
#include "attention/linear/linear_feature.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/linear/feature.h"

/* lnt_run.weights: w [rows, d] followed by its transpose [d, rows]. */
static const real *weights_rows(const lnt_run *run) { return run->weights; }

static const real *weights_columns(const lnt_run *run)
{
    return weights_rows(run) + lnt_feature_rows(run->p) * run->p->dim;
}

lnt_feature_tile lnt_feature_tile_take(lnt_arena *arena, const lnt_attn_desc *p, size_t tokens)
{
    const bool linear = lnt_problem_sums(p) == LNT_LINEAR;
    const bool random = linear && lnt_feature_is_random(p->linear.feature_map);
    const size_t d = (size_t)p->dim, D = linear ? (size_t)lnt_problem_width(p) : d, ld = pad(tokens);
    return (lnt_feature_tile){ .x = take(arena, random ? d : 0, ld),
                               .phi = take(arena, D > d ? D : d, ld), /* random_grad: d rows */
                               .sum = take(arena, 1, ld),
                               .mean = lnt_arena_take(arena, p->taylor.center_mean ? d : 0,
                                                      sizeof(double)),
                               .ld = ld };
}

/* y = phi(x), which may be the same place, for the maps where each number stands alone. */
static void map_numbers(const kernels *ker, lnt_feature_map map, real *y, const real *x,
                        size_t padded)
{
    switch (map) {
    case LNT_MAP_ELU1: ker->map_elu1(y, x, padded); break;
    case LNT_MAP_EXP: ker->map_exp(y, x, padded); break;
    case LNT_MAP_RELU:
        for (size_t i = 0; i < padded; i++) y[i] = x[i] > 0 ? x[i] : 0;
        break;
    case LNT_MAP_IDENTITY:
        if (y != x) memcpy(y, x, padded * sizeof *y);
        break;
    case LNT_MAP_FOURIER:
    case LNT_MAP_POSITIVE: break; /* random maps do not come here */
    }
}

/* tile->x [d, n] -> phi [rows or 2 rows, ld]. */
static void random_columns(const lnt_run *run, const kernels *ker, lnt_feature_tile *tile, size_t n,
                           real *phi, size_t ld)
{
    const size_t rows = (size_t)lnt_feature_rows(run->p), d = (size_t)run->p->dim;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    ker->gemm_nn(phi, ld, weights_rows(run), d, tile->x, tile->ld, rows, lanes, d, 0);
    if (run->p->linear.feature_map == LNT_MAP_FOURIER) {
        const real factor = (real)sqrt(2.0 / (double)run->p->linear.features);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = i * ld; j < i * ld + lanes; j++) {
                const real angle = phi[j];
                phi[j] = factor * (real)cos(angle);
                phi[rows * ld + j] = factor * (real)sin(angle);
            }
        return;
    }
    for (size_t j = 0; j < lanes; j++) tile->sum[j] = 0;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < n; j++)
            tile->sum[j] += tile->x[i * tile->ld + j] * tile->x[i * tile->ld + j];
    const real shift = (real)(0.5 * log((double)run->p->linear.features));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < lanes; j++) phi[i * ld + j] -= tile->sum[j] / 2 + shift;
    for (size_t i = 0; i < rows; i++) ker->map_exp(phi + i * ld, phi + i * ld, lanes);
}

void lnt_feature_columns(const lnt_run *run, lnt_feature_tile *tile, const lnt_tensor *x, int64_t b,
                         int64_t h, int64_t n0, size_t n, real *phi, size_t ld)
{
    const kernels *ker = run_kernels(run);
    if (lnt_feature_is_random(run->p->linear.feature_map)) {
        load_columns(ker, tile->x, tile->ld, x, b, h, n0, n, 1);
        random_columns(run, ker, tile, n, phi, ld);
        return;
    }
    load_columns(ker, phi, ld, x, b, h, n0, n, 1);
    const size_t lanes = lnt_round_up(n, ker->lanes), rows = (size_t)x->shape[3];
    if (lanes == ld)
        map_numbers(ker, run->p->linear.feature_map, phi, phi, rows * ld);
    else
        for (size_t i = 0; i < rows; i++)
            map_numbers(ker, run->p->linear.feature_map, phi + i * ld, phi + i * ld, lanes);
}

void lnt_feature_rows_of(const lnt_run *run, lnt_feature_tile *tile, const lnt_tensor *x, int64_t b,
                         int64_t h, int64_t n0, size_t n, real *phi, size_t ld)
{
    const kernels *ker = run_kernels(run);
    if (lnt_feature_is_random(run->p->linear.feature_map)) {
        lnt_feature_columns(run, tile, x, b, h, n0, n, tile->phi, tile->ld);
        transpose(ker, phi, ld, tile->phi, tile->ld, n, (size_t)run->p->linear.features);
        return;
    }
    size_t stride = ld;
    const real *rows = read_rows(ker, phi, &stride, x, b, h, n0, n);
    if (stride == ld) /* rows == phi, or as far apart: of the tensor a whole number of vectors */
        map_numbers(ker, run->p->linear.feature_map, phi, rows, n * ld);
    else
        for (size_t i = 0; i < n; i++)
            map_numbers(ker, run->p->linear.feature_map, phi + i * ld, rows + i * stride,
                        (size_t)x->shape[3]);
}

/* dphi -> dx in place, for the maps where each number stands alone. */
static void elementwise_grad(const kernels *ker, lnt_feature_map map, const real *phi, real *dphi,
                             size_t padded)
{
    switch (map) {
    case LNT_MAP_ELU1: ker->elu1_back(dphi, phi, padded); break;
    case LNT_MAP_RELU:
        for (size_t i = 0; i < padded; i++) dphi[i] *= phi[i] > 0 ? 1 : 0;
        break;
    case LNT_MAP_EXP:
        for (size_t i = 0; i < padded; i++) dphi[i] *= phi[i];
        break;
    case LNT_MAP_IDENTITY:
    case LNT_MAP_FOURIER: /* random maps do not come here */
    case LNT_MAP_POSITIVE: break;
    }
}

/* dphi [D, ld] becomes, in its first rows, the gradient of w x. */
static void random_grad_of_product(const lnt_run *run, const real *phi, real *dphi, size_t ld)
{
    const size_t rows = (size_t)lnt_feature_rows(run->p);
    if (run->p->linear.feature_map == LNT_MAP_FOURIER)
        for (size_t i = 0, half = rows * ld; i < half; i++)
            dphi[i] = dphi[half + i] * phi[i] - dphi[i] * phi[half + i];
    else
        for (size_t i = 0; i < rows * ld; i++) dphi[i] *= phi[i];
}

static void random_grad(const lnt_run *run, const kernels *ker, lnt_feature_tile *tile, size_t n,
                        real *dphi, size_t ld)
{
    const size_t rows = (size_t)lnt_feature_rows(run->p), d = (size_t)run->p->dim;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    random_grad_of_product(run, tile->phi, dphi, ld);
    for (size_t j = 0; j < lanes; j++) tile->sum[j] = 0;
    if (run->p->linear.feature_map == LNT_MAP_POSITIVE)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < lanes; j++) tile->sum[j] += dphi[i * ld + j];
    /* dx = w^T h - x sum(h); phi is done with, its place takes the product. */
    ker->gemm_nn(tile->phi, tile->ld, weights_columns(run), rows, dphi, ld, d, lanes, rows, 0);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < lanes; j++)
            tile->x[i * tile->ld + j] =
                tile->phi[i * tile->ld + j] - tile->x[i * tile->ld + j] * tile->sum[j];
}

void lnt_feature_store_grad(const lnt_run *run, lnt_feature_tile *tile, const lnt_tensor *x,
                            const lnt_tensor *dx, int64_t b, int64_t h, int64_t n0, size_t n,
                            real *dphi, size_t ld)
{
    const kernels *ker = run_kernels(run);
    const size_t width = (size_t)lnt_problem_width(run->p);
    assert(ld == tile->ld);
    lnt_feature_columns(run, tile, x, b, h, n0, n, tile->phi, ld);
    if (lnt_feature_is_random(run->p->linear.feature_map)) {
        random_grad(run, ker, tile, n, dphi, ld);
        store_columns(ker, dx, b, h, n0, n, tile->x, ld);
        return;
    }
    elementwise_grad(ker, run->p->linear.feature_map, tile->phi, dphi, width * ld);
    store_columns(ker, dx, b, h, n0, n, dphi, ld);
}
