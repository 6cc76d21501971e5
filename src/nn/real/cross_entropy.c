/* nn/real/cross_entropy.c - loss = log sum_c e^(x_c) - x_target;  dx = softmax(x) - [c = target].
 *
 * O(n classes), an exponential each. */
#include "nn/cross_entropy.h"

#include <math.h>
#include <string.h>

enum { SIDE_BY_SIDE = 16 }; /* sums, which compilers make vectors of */

static double sum_of(const real *x, size_t count)
{
    real part[SIDE_BY_SIDE] = { 0 };
    double sum = 0;
    size_t c = 0;
    for (; c + SIDE_BY_SIDE <= count; c += SIDE_BY_SIDE)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) part[j] += x[c + j];
    for (; c < count; c++) sum += (double)x[c];
    for (size_t j = 0; j < SIDE_BY_SIDE; j++) sum += (double)part[j];
    return sum;
}

/* The sum of e^(x - max); e (NULL: not wanted) [classes] gets the terms, and may be x. */
static double sum_exp(const kernels *ker, const real *x, real max, real *e, size_t classes)
{
    double sum = 0;
    for (size_t c0 = 0; c0 < classes; c0 += LNT_NN_BLOCK) {
        real part[LNT_NN_BLOCK];
        const size_t count = nn_least(classes - c0, LNT_NN_BLOCK), padded = lnt_round_up(count, LNT_PAD);
        for (size_t c = 0; c < count; c++) part[c] = x[c0 + c] - max;
        memset(part + count, 0, (padded - count) * sizeof *part);
        ker->map_exp(part, part, padded);
        sum += sum_of(part, count);
        if (e) memcpy(e + c0, part, count * sizeof *e);
    }
    return sum;
}

/* Of those that equal the largest, the first is what is said. */
static bool is_first(const real *x, size_t at, real largest)
{
    if (x[at] != largest) return false;
    for (size_t c = 0; c < at; c++)
        if (x[c] == largest) return false;
    return true;
}

static void row(const kernels *ker, const real *x, int32_t target, double *loss,
                unsigned char *hit, real *dx, double weight, size_t classes)
{
    *loss = 0;
    if (hit) *hit = 0;
    if (target < 0) {
        if (dx) memset(dx, 0, classes * sizeof *dx);
        return;
    }
    const real max = ker->largest(x, classes);
    const double at_target = (double)x[target];
    if (hit) *hit = is_first(x, (size_t)target, max); /* before dx, which may be x */
    const double sum = sum_exp(ker, x, max, dx, classes);
    *loss = log(sum) + ((double)max - at_target); /* which is 0 or small where it counts */
    if (!dx) return;
    const real factor = (real)(weight / sum);
    for (size_t c = 0; c < classes; c++) dx[c] *= factor;
    dx[target] -= (real)weight;
}

void lnt_cross_entropy(const lnt_ctx *ctx, const real *logits, const int32_t *target, double *loss,
                       unsigned char *hit, real *dlogits, double weight, size_t n, size_t classes)
{
    const kernels *ker = nn_kernels(ctx);
    const int threads = lnt_threads_for(ctx, 20 * (double)n * (double)classes);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++)
        row(ker, logits + (size_t)i * classes, target[i], loss + i, hit ? hit + i : NULL,
            dlogits ? dlogits + (size_t)i * classes : NULL, weight, classes);
}
