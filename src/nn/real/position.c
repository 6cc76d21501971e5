/* nn/real/position.c - learned and sinusoidal positions are added; rotary ones rotate pairs of numbers:
 *
 *     (a, b) -> (a cos - b sin, a sin + b cos),   angle = position f_i,   f_i = 10000^(-2i/dim)
 *
 * unless the model has other frequencies (nn/rotary.c).
 * A rotation keeps lengths, and its gradient is the inverse rotation.  Angles are computed in double because
 * positions may be in the millions. */
#include "nn/position.h"

#include <math.h>

void lnt_position_add(const lnt_ctx *ctx, real *x, const real *table, size_t batch, size_t length,
                      size_t width)
{
    const size_t n = batch * length;
    const int threads = lnt_threads_for(ctx, (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++) {
        real *row = x + (size_t)i * width;
        const real *add = table + ((size_t)i % length) * width;
        for (size_t c = 0; c < width; c++) row[c] += add[c];
    }
}

void lnt_position_backward(const lnt_ctx *ctx, const real *dx, real *dtable, size_t batch,
                           size_t length, size_t width)
{
    const int threads = lnt_threads_for(ctx, (double)(batch * length) * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < (int64_t)length; t++) {
        real *to = dtable + (size_t)t * width;
        for (size_t b = 0; b < batch; b++) {
            const real *row = dx + (b * length + (size_t)t) * width;
            for (size_t c = 0; c < width; c++) to[c] += row[c];
        }
    }
}

static double angle(int64_t position, size_t pair, size_t width)
{
    return (double)position * pow(10000, -2 * (double)pair / (double)width);
}

void lnt_sinusoidal_table(real *table, int64_t first, size_t count, size_t width)
{
    for (size_t t = 0; t < count; t++)
        for (size_t c = 0; c < width; c++) {
            const double a = angle(first + (int64_t)t, c / 2, width);
            table[t * width + c] = (real)(c % 2 ? cos(a) : sin(a));
        }
}

void lnt_rotary_table(real *table, int64_t first, size_t count, const lnt_rotary *rotary,
                      const double *frequency, size_t dim)
{
    const size_t width = lnt_rotary_width(rotary, dim), half = width / 2;
    const double magnitude = lnt_rotary_magnitude(rotary);
    for (size_t t = 0; t < count; t++, table += dim) {
        for (size_t i = 0; i < half; i++) {
            const double a = (double)(first + (int64_t)t) * frequency[i];
            table[rotary->halves ? i : 2 * i] = (real)(magnitude * cos(a));
            table[rotary->halves ? half + i : 2 * i + 1] = (real)(magnitude * sin(a));
        }
        for (size_t i = width; i < dim; i++) table[i] = (real)(i % 2 == 0); /* pairs that stay */
    }
}

void lnt_rotary_rotate(const lnt_pass *pass, real *x, size_t ld, int sign, size_t heads, size_t dim,
                       size_t half)
{
    const kernels *ker = nn_kernels(pass->ctx);
    const size_t n = nn_tokens(pass);
    const int threads = lnt_threads_for(pass->ctx, 6 * (double)n * (double)(heads * dim));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < (int64_t)n; row++) {
        const real *turn = pass->rotary + (size_t)row % pass->length * dim;
        real *at = x + (size_t)row * ld;
        if (half) ker->rotate_halves(at, turn, (real)sign, heads, dim, half);
        else ker->rotate_pairs(at, turn, (real)sign, heads, dim);
    }
}
