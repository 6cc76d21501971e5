/* nn/real/optimiser.c - with m and v the running means of the gradient and its square, unbiased:
 *
 *     AdamW  w -= rate (m / (sqrt(v) + eps) + decay w)          (Loshchilov, Hutter 2019)
 *     RAdam  the same, times r while v is uncertain; before that m alone (Liu et al. 2020)
 *     LAMB   AdamW's step, scaled to rate |w| per tensor        (You et al. 2020); for matrices
 *
 * O(count).  Norms are summed block by block in a fixed order. */
#include "nn/optimiser.h"

#include <math.h>

enum { SUM_PIECES = 64 }; /* of a sum, whatever the number of threads */

/* What is the same for all numbers of a tensor. */
typedef struct factors {
    real beta1, beta2, mean, root, eps, decay, factor;
    bool adapt; /* divide by the root of v */
} factors;

static factors prepare(const lnt_update *u)
{
    const double t = (double)u->step, power2 = pow(u->beta2, t);
    factors f = { .beta1 = (real)u->beta1, .beta2 = (real)u->beta2, .eps = (real)u->eps,
                  .decay = (real)u->decay, .factor = (real)u->factor, .adapt = true };
    double mean = 1 / (1 - pow(u->beta1, t));
    f.root = (real)(1 / sqrt(1 - power2));
    if (u->kind == LNT_RADAM) {
        const double most = 2 / (1 - u->beta2) - 1, rho = most - 2 * t * power2 / (1 - power2);
        f.adapt = rho > 5;
        if (f.adapt)
            mean *= sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
    }
    f.mean = (real)mean;
    return f;
}

/* Updates m and v of one number and returns the direction to go, without the rate. */
static inline real direction(const factors *f, real w, real g, real *m, real *v)
{
    g *= f->factor;
    *m = f->beta1 * *m + (1 - f->beta1) * g;
    *v = f->beta2 * *v + (1 - f->beta2) * g * g;
    const real d = f->adapt ? f->mean * *m / ((real)sqrt((double)*v) * f->root + f->eps)
                            : f->mean * *m;
    return d + f->decay * w;
}

/* The direction again, once m and v are updated. */
static inline real direction_of(const factors *f, real w, real m, real v)
{
    return f->mean * m / ((real)sqrt((double)v) * f->root + f->eps) + f->decay * w;
}

/* LAMB: |w| / |direction|, 1 where one of them is 0. */
static double trust(const lnt_ctx *ctx, const factors *f, const real *w, const real *m,
                    const real *v, size_t count)
{
    double part[SUM_PIECES] = { 0 }, sum = 0;
    const int threads = lnt_threads_for(ctx, 20 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int p = 0; p < SUM_PIECES; p++) {
        const size_t size = (count + SUM_PIECES - 1) / SUM_PIECES;
        for (size_t i = size * (size_t)p; i < nn_least(size * (size_t)(p + 1), count); i++) {
            const double d = (double)direction_of(f, w[i], m[i], v[i]);
            part[p] += d * d;
        }
    }
    for (int p = 0; p < SUM_PIECES; p++) sum += part[p];
    const double weights = lnt_square_sum(ctx, w, count);
    return weights > 0 && sum > 0 ? sqrt(weights / sum) : 1;
}

/* The ordinary step, in blocks that do not depend on the number of threads. */
static void step_blocks(const lnt_ctx *ctx, const factors *f, real rate, real *w, const real *g,
                        real *m, real *v, size_t count)
{
    enum { BLOCK = 4096 };
    const kernels *ker = nn_kernels(ctx);
    const real all[8] = { rate, f->decay, f->beta1, f->beta2, f->factor, f->mean, f->root, f->eps };
    const int threads = lnt_threads_for(ctx, 20 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < nn_pieces(count, BLOCK); b++) {
        const size_t at = (size_t)b * BLOCK;
        ker->adam(w + at, g + at, m + at, v + at, all, nn_least(count - at, BLOCK));
    }
}

void lnt_optimiser_update(const lnt_ctx *ctx, const lnt_update *u, real *w, const real *g, real *m,
                          real *v, size_t count)
{
    const factors f = prepare(u);
    const bool lamb = u->kind == LNT_LAMB;
    const real rate = (real)u->rate;
    const int threads = lnt_threads_for(ctx, 20 * (double)count);
    if (f.adapt && !lamb) {
        step_blocks(ctx, &f, rate, w, g, m, v, count);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) {
        const real d = direction(&f, w[i], g[i], m + i, v + i);
        if (!lamb) w[i] -= rate * d;
    }
    if (!lamb) return;
    const real scaled = (real)(u->rate * trust(ctx, &f, w, m, v, count));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++)
        w[i] -= scaled * direction_of(&f, w[i], m[i], v[i]);
}

/* In a few lanes, which the compiler makes vectors of. */
static double squares(const real *x, size_t count)
{
    enum { LANES = 8 };
    double lane[LANES] = { 0 }, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < count; i++) sum += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

double lnt_square_sum(const lnt_ctx *ctx, const real *x, size_t count)
{
    double part[SUM_PIECES] = { 0 }, sum = 0;
    const size_t size = (count + SUM_PIECES - 1) / SUM_PIECES;
    const int threads = lnt_threads_for(ctx, 4 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int p = 0; p < SUM_PIECES; p++) {
        const size_t begin = nn_least(size * (size_t)p, count);
        part[p] = squares(x + begin, nn_least(size, count - begin));
    }
    for (int p = 0; p < SUM_PIECES; p++) sum += part[p];
    return sum;
}
