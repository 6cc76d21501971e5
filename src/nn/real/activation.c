/* nn/real/activation.c - y = max(x, 0), or y = x s(u(x)) with the logistic function s:
 *
 *     SiLU  u = x;   GELU  u = 2 sqrt(2/pi) (x + 0.044715 x^3)   (its tanh form)
 *     dy/dx = s + x s (1 - s) u'
 *     SwiGLU  y = silu(gate) up,  GEGLU  y = gelu(gate) up
 *
 * GELU exactly is y = x P(x), where P is the distribution of a normal number: dy/dx = P + x P'.
 *
 * One exponential a number; backward of the logistic ones has s of what forward gave. */
#include "nn/activation.h"

#include <math.h>

static const real GELU_SLOPE = (real)1.5957691216057308, GELU_CUBE = (real)0.044715;

static real slope_of(lnt_act kind) { return kind == LNT_ACT_GELU ? GELU_SLOPE : 1; }
static real cube_of(lnt_act kind) { return kind == LNT_ACT_GELU ? GELU_CUBE : 0; }

/* s[count] = 1 / (1 + e^-x). */
static void logistic(const kernels *ker, const real *x, real *s, size_t count)
{
    real e[LNT_NN_BLOCK] = { 0 }; /* the kernel takes whole vectors */
    for (size_t i = 0; i < count; i++) e[i] = -x[i];
    ker->map_exp(e, e, lnt_round_up(count, LNT_PAD));
    for (size_t i = 0; i < count; i++) s[i] = 1 / (1 + e[i]);
}

static void forward_block(const kernels *ker, lnt_act kind, const real *x, real *y,
                          size_t count)
{
    if (kind == LNT_ACT_RELU) {
        for (size_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
        return;
    }
    if (kind == LNT_ACT_SIGMOID) {
        logistic(ker, x, y, count);
        return;
    }
    if (kind == LNT_ACT_GELU_ERF) {
        ker->normal_unit(y, x, count);
        return;
    }
    ker->logistic_unit(y, x, slope_of(kind), cube_of(kind), count);
}

static void backward_block(const kernels *ker, lnt_act kind, const real *x, const real *y,
                           const real *dy, real *dx, size_t count)
{
    if (kind == LNT_ACT_RELU) {
        for (size_t i = 0; i < count; i++) dx[i] = x[i] > 0 ? dy[i] : 0;
        return;
    }
    if (kind == LNT_ACT_SIGMOID) {
        for (size_t i = 0; i < count; i++) dx[i] = dy[i] * y[i] * (1 - y[i]);
        return;
    }
    if (kind == LNT_ACT_GELU_ERF) {
        ker->normal_unit_back(dx, x, dy, count);
        return;
    }
    ker->logistic_unit_back(dx, x, y, dy, slope_of(kind), cube_of(kind), count);
}

/* What the gate goes through. */
static lnt_act gate_of(lnt_act kind)
{
    return kind == LNT_ACT_SWIGLU ? LNT_ACT_SILU : kind == LNT_ACT_GEGLU ? LNT_ACT_GELU : LNT_ACT_GELU_ERF;
}

static void gated_forward(const kernels *ker, lnt_act kind, const real *gate, const real *up,
                          real *y, size_t count)
{
    forward_block(ker, gate_of(kind), gate, y, count);
    for (size_t i = 0; i < count; i++) y[i] *= up[i];
}

static void gated_backward(const kernels *ker, lnt_act kind, const real *gate, const real *up,
                           const real *dy, real *dgate, real *dup, size_t count)
{
    real part[LNT_NN_BLOCK];
    forward_block(ker, gate_of(kind), gate, dup, count);
    for (size_t i = 0; i < count; i++) part[i] = dy[i] * up[i];
    backward_block(ker, gate_of(kind), gate, dup, part, dgate, count);
    for (size_t i = 0; i < count; i++) dup[i] *= dy[i];
}

/* A piece is LNT_NN_BLOCK numbers of one token. */
void lnt_act_forward(const lnt_ctx *ctx, lnt_act kind, const real *x, real *y, size_t n,
                     size_t width)
{
    const kernels *ker = nn_kernels(ctx);
    const size_t inputs = lnt_act_inputs(kind);
    const int64_t across = nn_pieces(width, LNT_NN_BLOCK);
    const int threads = lnt_threads_for(ctx, 20 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < (int64_t)n * across; piece++) {
        const size_t i = (size_t)(piece / across), c = (size_t)(piece % across) * LNT_NN_BLOCK;
        const size_t count = nn_least(width - c, LNT_NN_BLOCK);
        const real *from = x + i * inputs * width + c;
        if (inputs == 2) gated_forward(ker, kind, from, from + width, y + i * width + c, count);
        else forward_block(ker, kind, from, y + i * width + c, count);
    }
}

void lnt_act_backward(const lnt_ctx *ctx, lnt_act kind, const real *x, const real *y, const real *dy,
                      real *dx, size_t n, size_t width)
{
    const kernels *ker = nn_kernels(ctx);
    const size_t inputs = lnt_act_inputs(kind);
    const int64_t across = nn_pieces(width, LNT_NN_BLOCK);
    const int threads = lnt_threads_for(ctx, 30 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < (int64_t)n * across; piece++) {
        const size_t i = (size_t)(piece / across), c = (size_t)(piece % across) * LNT_NN_BLOCK;
        const size_t count = nn_least(width - c, LNT_NN_BLOCK), at = i * inputs * width + c;
        const real *grad = dy + i * width + c;
        if (inputs == 2)
            gated_backward(ker, kind, x + at, x + at + width, grad, dx + at, dx + at + width, count);
        else
            backward_block(ker, kind, x + at, y + at, grad, dx + at, count);
    }
}
