/* cpu/body/layer.c - what layers do number by number: units of the logistic function, norms back,
 * steps of Adam.
 *
 * What is left over by units and steps goes through a vector of its own, so that a number is treated
 * alike wherever it stands. */
#include <string.h>

#include "cpu/body/vec.h"

enum { AT_ONCE = 4 }; /* vectors in flight */

/* 1 / (1 + e^-u); 0 where e^-u would overflow. */
INLINE vec logistic(vec u)
{
    const real lowest = EXP_BIAS == 127 ? -88 : -709;
    return vclear(u < lowest, 1 / (1 + vexp_below(-u)));
}

INLINE vec unit(vec x, real slope, real cube)
{
    return x * logistic(slope * (x + cube * (x * x * x)));
}

INLINE vec unit_back(vec x, vec dy, real slope, real cube)
{
    const vec square = x * x, s = logistic(slope * (x + cube * (square * x)));
    return dy * s * (1 + x * (1 - s) * (slope * (1 + 3 * cube * square)));
}

void KERNEL(logistic_unit)(real *y, const real *x, real slope, real cube, size_t n)
{
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= n; i += AT_ONCE * LANES) {
        vec out[AT_ONCE];
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++)
            out[j] = unit(vload(x + i + (size_t)(j * LANES)), slope, cube);
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++) vstore(y + i + (size_t)(j * LANES), out[j]);
    }
    for (; i + LANES <= n; i += LANES) vstore(y + i, unit(vload(x + i), slope, cube));
    if (i == n) return;
    real own[LANES] = { 0 };
    memcpy(own, x + i, (n - i) * sizeof *own);
    vstore(own, unit(vload(own), slope, cube));
    memcpy(y + i, own, (n - i) * sizeof *own);
}

void KERNEL(logistic_unit_back)(real *dx, const real *x, const real *dy, real slope, real cube,
                                size_t n)
{
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= n; i += AT_ONCE * LANES) {
        vec out[AT_ONCE];
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++) {
            const size_t at = i + (size_t)(j * LANES);
            out[j] = unit_back(vload(x + at), vload(dy + at), slope, cube);
        }
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++) vstore(dx + i + (size_t)(j * LANES), out[j]);
    }
    for (; i + LANES <= n; i += LANES)
        vstore(dx + i, unit_back(vload(x + i), vload(dy + i), slope, cube));
    if (i == n) return;
    real own[2][LANES] = { { 0 } };
    memcpy(own[0], x + i, (n - i) * sizeof(real));
    memcpy(own[1], dy + i, (n - i) * sizeof(real));
    vstore(own[0], unit_back(vload(own[0]), vload(own[1]), slope, cube));
    memcpy(dx + i, own[0], (n - i) * sizeof(real));
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
