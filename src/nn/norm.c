/* nn/norm.c - y = (x - mean) / sqrt(variance + eps) gain + bias (LayerNorm), and the same without
 * mean and bias (RMSNorm), each over the width of a token.
 *
 * With u = (x - mean) r, r = 1/sqrt(..), g = dy gain:
 *
 *     dx = r (g - mean(g) - u mean(g u)),   dgain += dy u,   dbias += dy
 *
 * where RMSNorm has no mean(g).  O(n width); stat keeps mean and r of each token. */
#include "nn/norm.h"

#include <string.h>

static const real EPS = (real)1e-5;
enum { TOKENS = 32 }; /* whose norms are one piece of work */

void lnt_norm_forward(const lnt_ctx *ctx, lnt_norm kind, const real *x, const real *gain,
                      const real *bias, real *y, real *stat, size_t n, size_t width)
{
    const kernels *ker = nn_kernels(ctx);
    const bool layer = kind == LNT_NORM_LAYER;
    const int threads = lnt_threads_for(ctx, 8 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(n, TOKENS); p++) {
        const size_t first = (size_t)p * TOKENS, at = first * width;
        ker->norm(y + at, x + at, gain, layer ? bias : NULL, stat + 2 * first, layer, EPS,
                  nn_least(n - first, TOKENS), width);
    }
}

enum {
    PARTS = 32,  /* that tokens are cut into, at most, where a sum runs over them */
    ACROSS = 256 /* columns at once */
};

/* What the tokens of one part give to the gradients of gain and bias. */
typedef struct share {
    real gain[ACROSS], bias[ACROSS];
} share;

/* The gradients of gain and, if not NULL, bias, for `count` columns: the shares of parts whose number
 * does not depend on that of the threads, added in their order. */
static void backward_columns(const kernels *ker, const real *x, const real *stat, const real *dy,
                             real *dgain, real *dbias, size_t n, size_t width, size_t count,
                             int threads)
{
    share shares[PARTS];
    const size_t tokens = (n + PARTS - 1) / PARTS;
    const int64_t parts = n ? nn_pieces(n, tokens) : 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < parts; p++) {
            const size_t first = (size_t)p * tokens, at = first * width;
            memset(&shares[p], 0, sizeof shares[p]);
            ker->norm_share(shares[p].gain, shares[p].bias, x + at, dy + at, width, stat + 2 * first,
                            nn_least(n - first, tokens), count);
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
    const bool layer = kind == LNT_NORM_LAYER;
    const int threads = lnt_threads_for(ctx, 8 * (double)n * (double)width);
    for (size_t c = 0; c < width; c += ACROSS)
        backward_columns(ker, x + c, stat, dy + c, dgain + c, layer ? dbias + c : NULL, n, width,
                         nn_least(width - c, ACROSS), threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(n, TOKENS); p++) {
        const size_t first = (size_t)p * TOKENS, at = first * width;
        ker->norm_back(dx + at, x + at, gain, dy + at, stat + 2 * first, layer, add,
                       nn_least(n - first, TOKENS), width);
    }
}
