/* nn/real/conv.c - y[t] = b + sum over taps j of x[t + j - 1] w_j.
 *
 * One product for each tap, over the tokens that have that neighbour: 6 n in out operations. */
#include "nn/conv.h"

#include <string.h>

#include "nn/product.h"

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

void lnt_conv_forward(const lnt_pass *pass, const lnt_conv *l, const real *x, real *y)
{
    const size_t in = l->in, out = l->out, length = pass->length;
    for (size_t i = 0; i < nn_tokens(pass); i++) memcpy(y + i * out, l->b, out * sizeof *y);
    for (size_t s = 0; s < pass->batch; s++)
        for (size_t tap = 0; tap < LNT_CONV_TAPS; tap++) {
            const reach r = reach_of(tap, nn_length(pass, s));
            lnt_product(pass->ctx, y + (s * length + r.first) * out, out,
                        nn_rows(x + (s * length + r.from) * in, in),
                        nn_rows(l->w + tap * in * out, out), r.count, out, in, true);
        }
}

void lnt_conv_backward(const lnt_pass *pass, const lnt_conv *l, const real *x, const real *dy,
                       real *dx)
{
    const size_t in = l->in, out = l->out, length = pass->length;
    lnt_columns_sum(pass->ctx, l->db, dy, nn_tokens(pass), out);
    if (dx) memset(dx, 0, nn_tokens(pass) * in * sizeof *dx);
    for (size_t s = 0; s < pass->batch; s++)
        for (size_t tap = 0; tap < LNT_CONV_TAPS; tap++) {
            const reach r = reach_of(tap, nn_length(pass, s));
            const lnt_matrix grad = nn_rows(dy + (s * length + r.first) * out, out);
            const size_t from = (s * length + r.from) * in;
            lnt_product(pass->ctx, l->dw + tap * in * out, out, nn_transposed(nn_rows(x + from, in)), grad,
                        in, out, r.count, true);
            if (dx)
                lnt_product(pass->ctx, dx + from, in, grad,
                            nn_transposed(nn_rows(l->w + tap * in * out, out)), r.count, in, out, true);
        }
}
