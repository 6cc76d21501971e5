/* nn/norm.c - y = (x - mean) / sqrt(variance + eps) gain + bias (LayerNorm), and the same without
 * mean and bias (RMSNorm), each over the width of a token.
 *
 * With u = (x - mean) r, r = 1/sqrt(..), g = dy gain:
 *
 *     dx = r (g - mean(g) - u mean(g u)),   dgain += dy u,   dbias += dy
 *
 * where RMSNorm has no mean(g).  O(n width); stat keeps mean and r of each token. */
#include "nn/norm.h"

#include <math.h>
#include <string.h>

static const double EPS = 1e-5;

static real mean_of(const real *x, size_t width)
{
    real part[8] = { 0 }, sum = 0;
    size_t i = 0;
    for (; i + 8 <= width; i += 8)
        for (size_t j = 0; j < 8; j++) part[j] += x[i + j];
    for (size_t j = 0; j < 8; j++) sum += part[j];
    for (; i < width; i++) sum += x[i];
    return sum / (real)width;
}

static void forward_row(const kernels *ker, lnt_norm kind, const real *x, const real *gain,
                        const real *bias, real *y, real *stat, size_t width)
{
    const real mean = kind == LNT_NORM_LAYER ? mean_of(x, width) : 0;
    for (size_t i = 0; i < width; i++) y[i] = x[i] - mean;
    const double square = (double)ker->dot(y, y, width) / (double)width;
    const real r = (real)(1 / sqrt(square + EPS));
    stat[0] = mean;
    stat[1] = r;
    if (kind == LNT_NORM_LAYER)
        for (size_t i = 0; i < width; i++) y[i] = y[i] * r * gain[i] + bias[i];
    else
        for (size_t i = 0; i < width; i++) y[i] = y[i] * r * gain[i];
}

void lnt_norm_forward(const lnt_ctx *ctx, lnt_norm kind, const real *x, const real *gain,
                      const real *bias, real *y, real *stat, size_t n, size_t width)
{
    const kernels *ker = nn_kernels(ctx);
    const int threads = lnt_threads_for(ctx, 8 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const size_t at = (size_t)i * width;
        forward_row(ker, kind, x + at, gain, bias, y + at, stat + 2 * i, width);
    }
}

enum {
    PARTS = 32,  /* that tokens are cut into, at most, where a sum runs over them */
    ACROSS = 256 /* columns at once */
};

/* What the tokens of one part, from first to end, give to the gradients of gain and bias. */
typedef struct share {
    real gain[ACROSS], bias[ACROSS];
} share;

static void add_share(share *to, const real *x, const real *stat, const real *dy, size_t first,
                      size_t end, size_t width, size_t count)
{
    memset(to, 0, sizeof *to);
    for (size_t i = first; i < end; i++) {
        const real mean = stat[2 * i], r = stat[2 * i + 1];
        const real *row = x + i * width, *grad = dy + i * width;
        for (size_t c = 0; c < count; c++) to->gain[c] += grad[c] * (row[c] - mean) * r;
        for (size_t c = 0; c < count; c++) to->bias[c] += grad[c];
    }
}

/* The gradients of gain and, if not NULL, bias, for `count` columns: the shares of parts whose number
 * does not depend on that of the threads, added in their order. */
static void backward_columns(const real *x, const real *stat, const real *dy, real *dgain,
                             real *dbias, size_t n, size_t width, size_t count, int threads)
{
    share shares[PARTS];
    const size_t tokens = (n + PARTS - 1) / PARTS;
    const int64_t parts = n ? nn_pieces(n, tokens) : 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < parts; p++) {
            const size_t first = (size_t)p * tokens;
            add_share(&shares[p], x, stat, dy, first, first + nn_least(n - first, tokens), width,
                      count);
        }
#pragma omp for schedule(static)
        for (int64_t c = 0; c < (int64_t)count; c++)
            for (int64_t p = 0; p < parts; p++) {
                dgain[c] += shares[p].gain[c];
                if (dbias) dbias[c] += shares[p].bias[c];
            }
    }
}

void lnt_norm_backward(const lnt_ctx *ctx, lnt_norm kind, const real *x, const real *gain,
                       const real *stat, const real *dy, real *dx, bool add, real *dgain,
                       real *dbias, size_t n, size_t width)
{
    const kernels *ker = nn_kernels(ctx);
    const int threads = lnt_threads_for(ctx, 8 * (double)n * (double)width);
    for (size_t c = 0; c < width; c += ACROSS)
        backward_columns(x + c, stat, dy + c, dgain + c, kind == LNT_NORM_LAYER ? dbias + c : NULL,
                         n, width, nn_least(width - c, ACROSS), threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const size_t at = (size_t)i * width;
        ker->norm_back(dx + at, x + at, gain, dy + at, stat[2 * i], stat[2 * i + 1],
                       kind == LNT_NORM_LAYER, add, width);
    }
}
