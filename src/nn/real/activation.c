/* nn/real/activation.c - y = max(x, 0), or y = x s(u(x)) with the logistic function s:
 *
 *     SiLU  u = x;   GELU  u = 2 sqrt(2/pi) (x + 0.044715 x^3)   (its tanh form)
 *     dy/dx = s + x s (1 - s) u'
 *     SwiGLU  y = silu(gate) up,  GEGLU  y = gelu(gate) up
 *
 * GELU exactly is y = x P(x), where P is the distribution of a normal number: dy/dx = P + x P'.  With
 * u = |x|/sqrt(2),
 *
 *     P(-|x|) = erfc(u) / 2 = e^(-u^2) t p(t) / 2,   t = 1 / (1 + 0.4 u)
 *
 * where p is a polynomial, through the Chebyshev nodes of 0 .. 1: to 1e-8 in float, to the last digits in
 * double.
 *
 * One exponential a number; backward of the logistic ones has s of what forward gave. */
#include "nn/activation.h"

#include <math.h>

static const real GELU_SLOPE = (real)1.5957691216057308, GELU_CUBE = (real)0.044715;

static real slope_of(lnt_act kind) { return kind == LNT_ACT_GELU ? GELU_SLOPE : 1; }
static real cube_of(lnt_act kind) { return kind == LNT_ACT_GELU ? GELU_CUBE : 0; }

#ifdef LNT_DOUBLE
static const real TAIL[] = {
    0.2256758334191025315, 0.2256758334190972529, 0.2076217667466496162, 0.1715136333127531909,
    0.1216844129426733848, 0.06679995784493977157, 0.01812772366316938236, -0.01395362103685978348,
    -0.02396780179364766751, -0.01577894000803701336, 0.003855710929859724176,
    0.01606916967363155149, -0.03234811147271008954, 0.2545951441442839103, -0.9446939961458674773,
    2.436050032084872458, -4.841756320139424556, 7.288023597595328036, -8.171090308355048339,
    6.77676113541778551, -4.115118238948439445, 1.785867755764193835, -0.5265235067340052261,
    0.09479626513421226519, -0.007887127458512834195
};
#else
static const real TAIL[] = { 0.2256758315F, 0.2256763169F, 0.2076007204F, 0.1718905719F, 0.118095123F,
                             0.08712064164F, -0.05379316633F, 0.1468032457F, -0.2430417318F,
                             0.1438410693F, -0.02986862849F };
#endif
enum { TAIL_TERMS = sizeof TAIL / sizeof TAIL[0] };

/* s[count] = 1 / (1 + e^-x). */
static void logistic(const kernels *ker, const real *x, real *s, size_t count)
{
    real e[LNT_NN_BLOCK] = { 0 }; /* the kernel takes whole vectors */
    for (size_t i = 0; i < count; i++) e[i] = -x[i];
    ker->map_exp(e, e, lnt_round_up(count, LNT_PAD));
    for (size_t i = 0; i < count; i++) s[i] = 1 / (1 + e[i]);
}

/* below[count] = P(x), and bell[count] = e^(-x^2/2), which P' is a multiple of. */
static void normal(const kernels *ker, const real *x, real *below, real *bell, size_t count)
{
    real t[LNT_NN_BLOCK] = { 0 }, e[LNT_NN_BLOCK] = { 0 }, p[LNT_NN_BLOCK];
    const size_t padded = lnt_round_up(count, LNT_PAD);
    const real slope = (real)(0.4 * 0.7071067811865476);
    for (size_t i = 0; i < count; i++) t[i] = 1 / (1 + slope * (real)fabs((double)x[i]));
    for (size_t i = 0; i < count; i++) e[i] = -(real)0.5 * x[i] * x[i];
    ker->map_exp(e, e, padded);
    ker->polynomial(p, t, TAIL, TAIL_TERMS, padded);
    for (size_t i = 0; i < count; i++) {
        const real tail = (real)0.5 * e[i] * t[i] * p[i];
        below[i] = x[i] > 0 ? 1 - tail : tail;
        bell[i] = e[i];
    }
}

static void erf_forward(const kernels *ker, const real *x, real *y, size_t count)
{
    real below[LNT_NN_BLOCK], bell[LNT_NN_BLOCK];
    normal(ker, x, below, bell, count);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * below[i];
}

static void erf_backward(const kernels *ker, const real *x, const real *dy, real *dx, size_t count)
{
    const real peak = (real)0.3989422804014327; /* of the bell: 1 / sqrt(2 pi) */
    real below[LNT_NN_BLOCK], bell[LNT_NN_BLOCK];
    normal(ker, x, below, bell, count);
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * (below[i] + x[i] * (peak * bell[i]));
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
        erf_forward(ker, x, y, count);
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
        erf_backward(ker, x, dy, dx, count);
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
