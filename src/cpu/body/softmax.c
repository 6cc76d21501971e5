/* cpu/body/softmax.c - the softmax of a tile of scores, one query a column (lane); scores softly capped.
 *
 * A column that is -inf throughout (a query that sees none of these keys) keeps its maximum and
 * sum. */
#include <math.h>

#include "cpu/body/vec.h"

enum { AT_ONCE = EXPS, HALF = EXPS / 2 }; /* HALF: a tile's edges are multiples of 16 numbers */

/* `cols` vectors of columns. */
INLINE void fold(int cols, real *w, const real *s, size_t ld, size_t keys, real *max, real *sum,
                 real *rescale)
{
    vec top[AT_ONCE], shift[AT_ONCE], total[AT_ONCE];
    UNROLL_FULL
    for (int c = 0; c < cols; c++) {
        top[c] = vload(max + (size_t)(c * LANES));
        total[c] = vsplat(0);
    }
    for (size_t j = 0; j < keys; j++)
        UNROLL_FULL
        for (int c = 0; c < cols; c++)
            top[c] = vmax(vload(s + j * ld + (size_t)(c * LANES)), top[c]);
    /* Where nothing was seen yet, subtract 0: -inf - -inf would be NaN. */
    UNROLL_FULL
    for (int c = 0; c < cols; c++)
        shift[c] = vselect(top[c] > -(real)INFINITY, top[c], vsplat(0));
    for (size_t j = 0; j < keys; j++) {
        vec p[AT_ONCE];
        UNROLL_FULL
        for (int c = 0; c < cols; c++) p[c] = vload(s + j * ld + (size_t)(c * LANES)) - shift[c];
        vexps_below(cols, p);
        UNROLL_FULL
        for (int c = 0; c < cols; c++) {
            vstore(w + j * ld + (size_t)(c * LANES), p[c]);
            total[c] += p[c];
        }
    }
    UNROLL_FULL
    for (int c = 0; c < cols; c++) {
        const size_t at = (size_t)(c * LANES);
        const vec factor = vexp_below(vload(max + at) - shift[c]);
        vstore(max + at, top[c]);
        vstore(sum + at, vload(sum + at) * factor + total[c]);
        vstore(rescale + at, factor);
    }
}

void KERNEL(softmax_fold)(real *w, const real *s, size_t ld, size_t keys, size_t padded, real *max,
                          real *sum, real *rescale)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        fold(AT_ONCE, w + c, s + c, ld, keys, max + c, sum + c, rescale + c);
    for (; c + HALF * LANES <= padded; c += HALF * LANES)
        fold(HALF, w + c, s + c, ld, keys, max + c, sum + c, rescale + c);
    for (; c < padded; c += LANES) fold(1, w + c, s + c, ld, keys, max + c, sum + c, rescale + c);
}

void KERNEL(softmax_row)(real *s, size_t padded, real *max, real *sum, real *rescale)
{
    const real before = *max;
    vec tops = vsplat(before), total = vsplat(0);
    for (size_t j = 0; j < padded; j += LANES) tops = vmax(vload(s + j), tops);
    real part[LANES], top = before;
    vstore(part, tops);
    for (int i = 0; i < LANES; i++) top = part[i] > top ? part[i] : top;
    const real shift = top > -(real)INFINITY ? top : 0;
    for (size_t j = 0; j < padded; j += LANES) {
        const vec p = vexp_below(vload(s + j) - shift);
        vstore(s + j, p);
        total += p;
    }
    vstore(part, vexp_below(vsplat(before - shift)));
    *rescale = part[0];
    *sum = *sum * part[0] + vsum(total);
    *max = top;
}

INLINE void weights(int cols, real *s, size_t ld, size_t keys, const real *lse)
{
    for (size_t j = 0; j < keys; j++, s += ld) {
        vec p[AT_ONCE];
        UNROLL_FULL
        for (int c = 0; c < cols; c++)
            p[c] = vload(s + (size_t)(c * LANES)) - vload(lse + (size_t)(c * LANES));
        vexps_below(cols, p);
        UNROLL_FULL
        for (int c = 0; c < cols; c++) vstore(s + (size_t)(c * LANES), p[c]);
    }
}

void KERNEL(softmax_weights)(real *s, size_t ld, size_t keys, size_t padded, const real *lse)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        weights(AT_ONCE, s + c, ld, keys, lse + c);
    for (; c + HALF * LANES <= padded; c += HALF * LANES)
        weights(HALF, s + c, ld, keys, lse + c);
    for (; c < padded; c += LANES) weights(1, s + c, ld, keys, lse + c);
}

void KERNEL(softmax_grad)(real *ds, const real *p, size_t ld, size_t keys, size_t padded,
                          const real *delta)
{
    for (size_t j = 0; j < keys; j++)
        for (size_t c = 0; c < padded; c += LANES) {
            real *at = ds + j * ld + c;
            vstore(at, vload(p + j * ld + c) * (vload(at) - vload(delta + c)));
        }
}

INLINE void back(int cols, real *s, real *ds, size_t ld, size_t keys, const real *lse,
                 const real *delta)
{
    for (size_t j = 0; j < keys; j++, s += ld, ds += ld) {
        vec p[AT_ONCE];
        UNROLL_FULL
        for (int c = 0; c < cols; c++)
            p[c] = vload(s + (size_t)(c * LANES)) - vload(lse + (size_t)(c * LANES));
        vexps_below(cols, p);
        UNROLL_FULL
        for (int c = 0; c < cols; c++) {
            const size_t at = (size_t)(c * LANES);
            vstore(s + at, p[c]);
            vstore(ds + at, p[c] * (vload(ds + at) - vload(delta + at)));
        }
    }
}

void KERNEL(softmax_back)(real *s, real *ds, size_t ld, size_t keys, size_t padded, const real *lse,
                          const real *delta)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        back(AT_ONCE, s + c, ds + c, ld, keys, lse + c, delta + c);
    for (; c + HALF * LANES <= padded; c += HALF * LANES)
        back(HALF, s + c, ds + c, ld, keys, lse + c, delta + c);
    for (; c < padded; c += LANES) back(1, s + c, ds + c, ld, keys, lse + c, delta + c);
}

INLINE void recall(int cols, real *p, const real *w, real *ds, size_t ld, size_t keys,
                   const real *factor, const real *delta)
{
    vec by[AT_ONCE], less[AT_ONCE];
    UNROLL_FULL
    for (int c = 0; c < cols; c++) {
        by[c] = vload(factor + (size_t)(c * LANES));
        less[c] = vload(delta + (size_t)(c * LANES));
    }
    for (size_t j = 0; j < keys; j++, p += ld, w += ld, ds += ld)
        UNROLL_FULL
        for (int c = 0; c < cols; c++) {
            const size_t at = (size_t)(c * LANES);
            const vec v = vload(w + at) * by[c];
            vstore(p + at, v);
            vstore(ds + at, v * (vload(ds + at) - less[c]));
        }
}

void KERNEL(softmax_recall)(real *p, const real *w, real *ds, size_t ld, size_t keys, size_t padded,
                            const real *factor, const real *delta)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        recall(AT_ONCE, p + c, w + c, ds + c, ld, keys, factor + c, delta + c);
    for (; c < padded; c += LANES) recall(1, p + c, w + c, ds + c, ld, keys, factor + c, delta + c);
}

/* tanh: near 0 a minimax polynomial of u^2 (relative error 5e-9 in float, 5e-18 in double), for 1 - e^-2u
 * would lose digits there; elsewhere (1 - e) / (1 + e), e = e^-2|u|, with the sign of u. */
#ifdef LNT_DOUBLE
static const real TANH[] = {
    -0x1.5555555555555p-2,  0x1.1111111111110p-3, -0x1.ba1ba1ba1b6f2p-5,  0x1.664f4882a3754p-6,
    -0x1.226e355574d6ap-7,  0x1.d6d3cdab3b8a1p-9, -0x1.7da306b7025b5p-10, 0x1.35511886b8c2ap-11,
    -0x1.f4c708370b999p-13, 0x1.90538d2eae5d6p-14, -0x1.26d7f53269de5p-15, 0x1.2944273292743p-17
};
enum { TANH_DEGREE = 11 };
#else
static const real TANH[] = { -0x1.555554p-2f, 0x1.111080p-3f, -0x1.b9d2aep-5f, 0x1.5fc692p-6f,
                             -0x1.c7033cp-8f };
enum { TANH_DEGREE = 4 };
#endif

INLINE void caps(int count, real *x, real c)
{
    vec u[AT_ONCE], e[AT_ONCE];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        u[j] = vload(x + (size_t)(j * LANES)) / c;
        e[j] = vselect(u[j] < 0, u[j], -u[j]) * 2;
    }
    vexps_below(count, e);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec z = u[j] * u[j];
        vec y = vsplat(TANH[TANH_DEGREE]);
        UNROLL_FULL
        for (int i = TANH_DEGREE - 1; i >= 0; i--) y = TANH[i] + z * y;
        const vec ratio = (1 - e[j]) / (1 + e[j]), far = vselect(u[j] < 0, -ratio, ratio);
        vstore(x + (size_t)(j * LANES), c * vselect(z < (real)0.25, u[j] + u[j] * (z * y), far));
    }
}

void KERNEL(soft_cap)(real *x, real c, size_t padded)
{
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= padded; i += AT_ONCE * LANES) caps(AT_ONCE, x + i, c);
    for (; i < padded; i += LANES) caps(1, x + i, c);
}

void KERNEL(soft_cap_back)(real *d, const real *y, real c, size_t padded)
{
    for (size_t i = 0; i < padded; i += LANES) {
        const vec u = vload(y + i) / c;
        vstore(d + i, vload(d + i) * (1 - u * u));
    }
}
