/* nn/conv.c - y[t] = b + sum over taps j of x[t + j - 1] w_j.
 *
 * One product for each tap, over the tokens that have that neighbour: 6 n in out operations. */
#include "nn/conv.h"

#include <string.h>

/* The tokens t of a sequence that have a neighbour at tap j: `count` from `first` on, which is at
 * token `from` of x. */
typedef struct reach {
    size_t first, from, count;
} reach;

static reach reach_of(size_t tap, size_t length)
{
    const size_t lost = tap == 1 ? 0 : nn_least(1, length);
    return (reach){ .first = tap == 0 ? lost : 0, .from = tap == 2 ? lost : 0,
                    .count = length - lost };
}

void lnt_conv_forward(const lnt_ctx *ctx, const real *x, const real *w, const real *b, real *y,
                      const int64_t *lengths, size_t batch, size_t length, size_t in,
                      size_t out)
{
    for (size_t i = 0; i < batch * length; i++) memcpy(y + i * out, b, out * sizeof *y);
    for (size_t s = 0; s < batch; s++)
        for (size_t tap = 0; tap < LNT_CONV_TAPS; tap++) {
            const reach r = reach_of(tap, lengths ? (size_t)lengths[s] : length);
            lnt_product(ctx, y + (s * length + r.first) * out, out,
                        (lnt_matrix){ x + (s * length + r.from) * in, in, 1 },
                        (lnt_matrix){ w + tap * in * out, out, 1 }, r.count, out, in, true);
        }
}

void lnt_conv_backward(const lnt_ctx *ctx, const real *x, const real *w, const real *dy, real *dx,
                       real *dw, real *db, const int64_t *lengths, size_t batch, size_t length,
                       size_t in, size_t out)
{
    lnt_columns_sum(ctx, db, dy, batch * length, out);
    if (dx) memset(dx, 0, batch * length * in * sizeof *dx);
    for (size_t s = 0; s < batch; s++)
        for (size_t tap = 0; tap < LNT_CONV_TAPS; tap++) {
            const reach r = reach_of(tap, lengths ? (size_t)lengths[s] : length);
            const lnt_matrix grad = { dy + (s * length + r.first) * out, out, 1 };
            const size_t from = (s * length + r.from) * in;
            lnt_product(ctx, dw + tap * in * out, out, (lnt_matrix){ x + from, 1, in }, grad, in,
                        out, r.count, true);
            if (dx)
                lnt_product(ctx, dx + from, in, grad,
                            (lnt_matrix){ w + tap * in * out, 1, out }, r.count, in, out, true);
        }
}
