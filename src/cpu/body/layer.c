/* cpu/body/layer.c - what layers do number by number: units of the logistic function, norms and
 * back, pairs that are turned, steps of Adam.
 *
 * What is left over by units and steps goes through a vector of its own, so that a number is treated
 * alike wherever it stands. */
#include <string.h>

#include "cpu/body/vec.h"

enum { SHARES = 8 }; /* vectors of columns whose sums over tokens are in registers together */

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
        vstore(y + at, vload(x + at) / (1 + s[j]));
    }
}

/* s is y / x, which costs less than another exponential; where x is so small that y has lost digits,
 * one half.  Step by step, as exponentials are: a division takes long and need not be waited for. */
INLINE void units_back(int count, real *dx, const real *x, const real *y, const real *dy, real slope,
                       real bend)
{
    const real least = EXP_BIAS == 127 ? (real)1e-30 : (real)1e-290; /* of x^2 */
    vec v[EXPS], square[EXPS], s[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) v[j] = vload(x + (size_t)(j * LANES));
    UNROLL_FULL
    for (int j = 0; j < count; j++) s[j] = vload(y + (size_t)(j * LANES)) / v[j];
    UNROLL_FULL
    for (int j = 0; j < count; j++) square[j] = v[j] * v[j];
    UNROLL_FULL
    for (int j = 0; j < count; j++) s[j] = vselect(square[j] > least, s[j], vsplat((real)0.5));
    UNROLL_FULL
    for (int j = 0; j < count; j++) v[j] *= (1 - s[j]) * (slope + 3 * bend * square[j]);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const size_t at = (size_t)(j * LANES);
        vstore(dx + at, vload(dy + at) * s[j] * (1 + v[j]));
    }
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
    for (; i + EXPS * LANES <= n; i += EXPS * LANES)
        units_back(EXPS, dx + i, x + i, y + i, dy + i, slope, bend);
    for (; i + LANES <= n; i += LANES) units_back(1, dx + i, x + i, y + i, dy + i, slope, bend);
    if (i == n) return;
    real own[3][LANES] = { { 0 } };
    memcpy(own[0], x + i, (n - i) * sizeof(real));
    memcpy(own[1], y + i, (n - i) * sizeof(real));
    memcpy(own[2], dy + i, (n - i) * sizeof(real));
    units_back(1, own[2], own[0], own[1], own[2], slope, bend);
    memcpy(dx + i, own[2], (n - i) * sizeof(real));
}

/* The sum of x - mean, or of its squares, over n numbers: FOUR sums, that no one waits for another. */
INLINE real sum_of(const real *x, real mean, int squares, size_t n)
{
    enum { FOUR = 4 };
    vec part[FOUR] = { vsplat(0), vsplat(0), vsplat(0), vsplat(0) };
    size_t i = 0;
    for (; i + FOUR * LANES <= n; i += FOUR * LANES)
        UNROLL_FULL
        for (int j = 0; j < FOUR; j++) {
            const vec u = vload(x + i + (size_t)(j * LANES)) - mean;
            part[j] += squares ? u * u : u;
        }
    for (; i + LANES <= n; i += LANES) {
        const vec u = vload(x + i) - mean;
        part[0] += squares ? u * u : u;
    }
    real sum = vsum((part[0] + part[1]) + (part[2] + part[3]));
    for (; i < n; i++) sum += squares ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
    return sum;
}

enum { TOGETHER = 8 }; /* norms, step by step: a step is long and waits for itself */

INLINE void apply_norm(real *y, const real *x, const real *gain, const real *bias,
                       const real stat[2], size_t n)
{
    const size_t whole = n / LANES * LANES;
    const real mean = stat[0], r = stat[1];
    for (size_t i = 0; i < whole; i += LANES) {
        const vec u = (vload(x + i) - mean) * r * vload(gain + i);
        vstore(y + i, bias ? u + vload(bias + i) : u);
    }
    for (size_t i = whole; i < n; i++) y[i] = (x[i] - mean) * r * gain[i] + (bias ? bias[i] : 0);
}

void KERNEL(norm)(real *y, const real *x, const real *gain, const real *bias, real *stat,
                  int centred, real eps, size_t m, size_t n)
{
    for (size_t i0 = 0; i0 < m; i0 += TOGETHER) {
        const size_t end = m - i0 < TOGETHER ? m : i0 + TOGETHER;
        for (size_t i = i0; i < end; i++)
            stat[2 * i] = centred ? sum_of(x + i * n, 0, 0, n) / (real)n : 0;
        for (size_t i = i0; i < end; i++)
            stat[2 * i + 1] = sum_of(x + i * n, stat[2 * i], 1, n) / (real)n;
        for (size_t i = i0; i < end; i++) /* of a float a float's root, exactly */
            stat[2 * i + 1] = 1 / (real)sqrt((double)(stat[2 * i + 1] + eps));
        for (size_t i = i0; i < end; i++)
            apply_norm(y + i * n, x + i * n, gain, bias, stat + 2 * i, n);
    }
}

/* For `count` vectors of columns, whose sums stay in registers. */
INLINE void share_columns(int count, real *dgain, real *dbias, const real *x, const real *dy,
                          size_t ld, const real *stat, size_t m)
{
    vec gain[SHARES], bias[SHARES];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        gain[j] = vload(dgain + (size_t)(j * LANES));
        bias[j] = vload(dbias + (size_t)(j * LANES));
    }
    for (size_t i = 0; i < m; i++) {
        const real mean = stat[2 * i], r = stat[2 * i + 1];
        UNROLL_FULL
        for (int j = 0; j < count; j++) {
            const size_t at = i * ld + (size_t)(j * LANES);
            const vec d = vload(dy + at);
            gain[j] += d * ((vload(x + at) - mean) * r);
            bias[j] += d;
        }
    }
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        vstore(dgain + (size_t)(j * LANES), gain[j]);
        vstore(dbias + (size_t)(j * LANES), bias[j]);
    }
}

void KERNEL(norm_share)(real *dgain, real *dbias, const real *x, const real *dy, size_t ld,
                        const real *stat, size_t m, size_t n)
{
    size_t c = 0;
    for (; c + SHARES * LANES <= n; c += SHARES * LANES)
        share_columns(SHARES, dgain + c, dbias + c, x + c, dy + c, ld, stat, m);
    for (; c + SHARES / 2 * LANES <= n; c += SHARES / 2 * LANES)
        share_columns(SHARES / 2, dgain + c, dbias + c, x + c, dy + c, ld, stat, m);
    for (; c + LANES <= n; c += LANES)
        share_columns(1, dgain + c, dbias + c, x + c, dy + c, ld, stat, m);
    for (; c < n; c++)
        for (size_t i = 0; i < m; i++) {
            const real d = dy[i * ld + c];
            dgain[c] += d * ((x[i * ld + c] - stat[2 * i]) * stat[2 * i + 1]);
            dbias[c] += d;
        }
}

/* mean(g) and, times r^2, mean(g (x - mean)), where g = dy gain. */
INLINE void find_means(real means[2], const real *x, const real *gain, const real *dy,
                       const real stat[2], int centred, size_t n)
{
    const size_t whole = n / LANES * LANES;
    const real mean = stat[0], r = stat[1];
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
    means[0] = centred ? shift / (real)n : 0;
    means[1] = slope * (r * r / (real)n);
}

INLINE void norm_slope(real *dx, const real *x, const real *gain, const real *dy,
                       const real stat[2], const real means[2], int add, size_t n)
{
    const size_t whole = n / LANES * LANES;
    const real mean = stat[0], r = stat[1], shift = means[0], slope = means[1];
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

void KERNEL(norm_back)(real *dx, const real *x, const real *gain, const real *dy, const real *stat,
                       int centred, int add, size_t m, size_t n)
{
    for (size_t i0 = 0; i0 < m; i0 += TOGETHER) {
        const size_t end = m - i0 < TOGETHER ? m : i0 + TOGETHER;
        real means[TOGETHER][2];
        for (size_t i = i0; i < end; i++)
            find_means(means[i - i0], x + i * n, gain, dy + i * n, stat + 2 * i, centred, n);
        for (size_t i = i0; i < end; i++)
            norm_slope(dx + i * n, x + i * n, gain, dy + i * n, stat + 2 * i, means[i - i0], add, n);
    }
}

#if LNT_VEC_BYTES == 0
void KERNEL(rotate_pairs)(real *x, const real *turn, real sign, size_t heads, size_t dim)
{
    for (size_t h = 0; h < heads; h++, x += dim)
        for (size_t i = 0; i < dim; i += 2) {
            const real a = x[i], b = x[i + 1], c = turn[i], s = sign * turn[i + 1];
            x[i] = a * c - b * s;
            x[i + 1] = a * s + b * c;
        }
}
#else
/* The same `count` numbers of every head: those of x, and so many from there on each time. */
INLINE void turn_places(real *x, vec turn, real sign, size_t count, size_t width, size_t total)
{
    vec signs = vsplat(1);
    UNROLL_FULL
    for (int j = 0; j < LANES; j += 2) signs[j] = -1;
    const vec c = OF_PAIRS(turn, 0, 0), s = OF_PAIRS(turn, 1, 1) * (signs * sign);
    size_t at = 0;
    for (; count == LANES && at + LANES <= total; at += width) {
        const vec v = vload(x + at);
        vstore(x + at, v * c + OF_PAIRS(v, 1, 0) * s);
    }
    for (; at < total; at += width) {
        const size_t part = total - at < count ? total - at : count;
        const vec v = vload_part(x + at, part);
        vstore_part(x + at, v * c + OF_PAIRS(v, 1, 0) * s, part);
    }
}

/* Heads that are narrower than a vector, and divide it, are taken several at once. */
void KERNEL(rotate_pairs)(real *x, const real *turn, real sign, size_t heads, size_t dim)
{
    const size_t total = heads * dim;
    if (dim > 0 && LANES % dim == 0) {
        real wide[LANES];
        memcpy(wide, turn, dim * sizeof *wide);
        for (size_t done = dim; done < LANES; done *= 2) memcpy(wide + done, wide, done * sizeof *wide);
        turn_places(x, vload(wide), sign, LANES, LANES, total);
        return;
    }
    for (size_t i = 0; i < dim; i += LANES) {
        const size_t count = dim - i < LANES ? dim - i : LANES;
        turn_places(x + i, vload_part(turn + i, count), sign, count, dim, total);
    }
}
#endif

void KERNEL(rotate_halves)(real *x, const real *turn, real sign, size_t heads, size_t dim, size_t half)
{
    const size_t whole = half / LANES * LANES;
    for (size_t h = 0; h < heads; h++, x += dim) {
        for (size_t i = 0; i < whole; i += LANES) {
            const vec a = vload(x + i), b = vload(x + half + i);
            const vec c = vload(turn + i), s = sign * vload(turn + half + i);
            vstore(x + i, a * c - b * s);
            vstore(x + half + i, a * s + b * c);
        }
        for (size_t i = whole; i < half; i++) {
            const real a = x[i], b = x[half + i], c = turn[i], s = sign * turn[half + i];
            x[i] = a * c - b * s;
            x[half + i] = a * s + b * c;
        }
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
