/* cpu/body/layer.c - what layers do number by number: units of the logistic function, norms back,
 * steps of Adam.
 *
 * What is left over by units and steps goes through a vector of its own, so that a number is treated
 * alike wherever it stands. */
#include <string.h>

#include "cpu/body/vec.h"

/* s = 1 / (1 + e^-u), u = x (slope + bend x^2), bend = slope cube; 0 where e^-u would overflow, which
 * n = 128 makes infinite. */
INLINE void units(int count, real *y, const real *x, real slope, real bend)
{
    const real lowest = EXP_BIAS == 127 ? -89 : -710;
    vec s[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec v = vload(x + (size_t)(j * LANES));
        s[j] = -vmax(vsplat(lowest), v * (slope + bend * (v * v)));
    }
    vexps_below(count, s);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const size_t at = (size_t)(j * LANES);
        vstore(y + at, vload(x + at) * (1 / (1 + s[j])));
    }
}

/* s is y / x, which costs less than another exponential; where x is so small that y has lost digits,
 * one half. */
INLINE void unit_back(real *dx, const real *x, const real *y, const real *dy, real slope, real bend)
{
    const real least = EXP_BIAS == 127 ? (real)1e-30 : (real)1e-290;
    const vec v = vload(x), du = slope + 3 * bend * (v * v);
    const vec s = vselect(vmax(v, -v) > least, vload(y) / v, vsplat((real)0.5));
    vstore(dx, vload(dy) * s * (1 + v * (1 - s) * du));
}

void KERNEL(logistic_unit)(real *y, const real *x, real slope, real cube, size_t n)
{
    const real bend = slope * cube;
    size_t i = 0;
    for (; i + EXPS * LANES <= n; i += EXPS * LANES) units(EXPS, y + i, x + i, slope, bend);
    for (; i + LANES <= n; i += LANES) units(1, y + i, x + i, slope, bend);
    if (i == n) return;
    real own[LANES] = { 0 };
    memcpy(own, x + i, (n - i) * sizeof *own);
    units(1, own, own, slope, bend);
    memcpy(y + i, own, (n - i) * sizeof *own);
}

void KERNEL(logistic_unit_back)(real *dx, const real *x, const real *y, const real *dy, real slope,
                                real cube, size_t n)
{
    const real bend = slope * cube;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) unit_back(dx + i, x + i, y + i, dy + i, slope, bend);
    if (i == n) return;
    real own[3][LANES] = { { 0 } };
    memcpy(own[0], x + i, (n - i) * sizeof(real));
    memcpy(own[1], y + i, (n - i) * sizeof(real));
    memcpy(own[2], dy + i, (n - i) * sizeof(real));
    unit_back(own[2], own[0], own[1], own[2], slope, bend);
    memcpy(dx + i, own[2], (n - i) * sizeof(real));
}

void KERNEL(norm_back)(real *dx, const real *x, const real *gain, const real *dy, real mean, real r,
                       int centred, int add, size_t n)
{
    const size_t whole = n / LANES * LANES;
    vec sum = vsplat(0), along = vsplat(0);
    for (size_t i = 0; i < whole; i += LANES) {
        const vec g = vload(dy + i) * vload(gain + i);
        sum += g;
        along += g * (vload(x + i) - mean);
    }
    real shift = vsum(sum), slope = vsum(along);
    for (size_t i = whole; i < n; i++) {
        const real g = dy[i] * gain[i];
        shift += g;
        slope += g * (x[i] - mean);
    }
    shift = centred ? shift / (real)n : 0;
    slope *= r * r / (real)n;
    for (size_t i = 0; i < whole; i += LANES) {
        const vec g = vload(dy + i) * vload(gain + i);
        const vec d = r * ((g - shift) - slope * (vload(x + i) - mean));
        vstore(dx + i, add ? vload(dx + i) + d : d);
    }
    for (size_t i = whole; i < n; i++) {
        const real d = r * ((dy[i] * gain[i] - shift) - slope * (x[i] - mean));
        dx[i] = add ? dx[i] + d : d;
    }
}

typedef struct factors {
    real rate, decay, beta1, beta2, factor, mean, root, eps;
} factors;

INLINE void adam_step(const factors *f, real *w, const real *g, real *m, real *v)
{
    const vec h = f->factor * vload(g), weight = vload(w);
    const vec first = f->beta1 * vload(m) + (1 - f->beta1) * h;
    const vec second = f->beta2 * vload(v) + (1 - f->beta2) * h * h;
    const vec step = f->mean * first / (vsqrt(second) * f->root + f->eps) + f->decay * weight;
    vstore(m, first);
    vstore(v, second);
    vstore(w, weight - f->rate * step);
}

void KERNEL(adam)(real *w, const real *g, real *m, real *v, const real f[8], size_t n)
{
    const factors all = { f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7] };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) adam_step(&all, w + i, g + i, m + i, v + i);
    if (i == n) return;
    real own[4][LANES] = { { 0 } };
    const size_t bytes = (n - i) * sizeof(real);
    memcpy(own[0], w + i, bytes);
    memcpy(own[1], g + i, bytes);
    memcpy(own[2], m + i, bytes);
    memcpy(own[3], v + i, bytes);
    adam_step(&all, own[0], own[1], own[2], own[3]);
    memcpy(w + i, own[0], bytes);
    memcpy(m + i, own[2], bytes);
    memcpy(v + i, own[3], bytes);
}
