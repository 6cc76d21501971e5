/* nn/real/norm.c - y = (x - mean) / sqrt(variance + eps) gain + bias (LayerNorm), and the same without
 * mean and bias (RMSNorm), each over the width of a token.
 *
 * With u = (x - mean) r, r = 1/sqrt(..), g = dy gain:
 *
 *     dx = r (g - mean(g) - u mean(g u)),   dgain += dy u,   dbias += dy
 *
 * where RMSNorm has no mean(g).  O(n width); stat keeps mean and r of each token. */
#include "nn/norm.h"

#include <string.h>

enum { TOKENS = 32 }; /* whose norms are one piece of work */

static bool is_layer(const lnt_norm *l) { return l->kind == LNT_NORM_LAYER; }

static int threads_for(const lnt_ctx *ctx, const lnt_norm *l, size_t n)
{
    return lnt_threads_for(ctx, 8 * (double)n * (double)l->width);
}

void lnt_norm_forward(const lnt_ctx *ctx, const lnt_norm *l, const real *x, real *y, real *stat,
                      size_t n)
{
    const kernels *ker = nn_kernels(ctx);
    const real *bias = is_layer(l) ? l->bias : NULL;
    const int threads = threads_for(ctx, l, n);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(n, TOKENS); p++) {
        const size_t first = (size_t)p * TOKENS, at = first * l->width;
        ker->norm(y + at, x + at, l->gain, bias, stat + 2 * first, is_layer(l),
                  (real)l->epsilon, nn_least(n - first, TOKENS), l->width);
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

/* A norm on its way back, as lnt_norm_backward has it. */
typedef struct back {
    const kernels *ker;
    const lnt_norm *norm;
    const real *x, *stat, *dy;
    real *dx;
    size_t n;
    bool add;
} back;

/* Tokens first .. end-1: their share in `count` columns from c on and, if these are the last, dx, which
 * may be dy: a few tokens at a time, so that both find them in the nearest cache. */
static void backward_part(const back *t, share *out, size_t first, size_t end, size_t c, size_t count)
{
    const size_t width = t->norm->width;
    memset(out, 0, sizeof *out);
    for (size_t i = first; i < end; i += TOKENS) {
        const size_t at = i * width, tokens = nn_least(end - i, TOKENS);
        t->ker->norm_share(out->gain, out->bias, t->x + at + c, t->dy + at + c, width, t->stat + 2 * i,
                           tokens, count);
        if (c + count == width)
            t->ker->norm_back(t->dx + at, t->x + at, t->norm->gain, t->dy + at, t->stat + 2 * i,
                              is_layer(t->norm), t->add, tokens, width);
    }
}

/* The gradients of gain and bias for `count` columns from c on: the shares of parts whose number does
 * not depend on that of the threads, added in their order. */
static void backward_columns(const back *t, size_t c, size_t count, int threads)
{
    const bool biased = is_layer(t->norm) && t->norm->dbias;
    real *dgain = t->norm->dgain + c, *dbias = biased ? t->norm->dbias + c : NULL;
    share shares[PARTS];
    const size_t tokens = (t->n + PARTS - 1) / PARTS;
    const int64_t parts = t->n ? nn_pieces(t->n, tokens) : 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < parts; p++) {
            const size_t first = (size_t)p * tokens;
            backward_part(t, &shares[p], first, nn_least(t->n, first + tokens), c, count);
        }
#pragma omp for schedule(static)
        for (int64_t j = 0; j < (int64_t)count; j++)
            for (int64_t p = 0; p < parts; p++) {
                dgain[j] += shares[p].gain[j];
                if (dbias) dbias[j] += shares[p].bias[j];
            }
    }
}

void lnt_norm_backward(const lnt_ctx *ctx, const lnt_norm *l, const real *x, const real *stat,
                       const real *dy, real *dx, bool add, size_t n)
{
    const back t = { .ker = nn_kernels(ctx), .norm = l, .x = x, .stat = stat, .dy = dy, .dx = dx,
                     .n = n, .add = add };
    const int threads = threads_for(ctx, l, n);
    for (size_t c = 0; c < l->width; c += ACROSS)
        backward_columns(&t, c, nn_least(l->width - c, ACROSS), threads);
}
