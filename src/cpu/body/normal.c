/* cpu/body/normal.c - y = x P(x), GELU exactly, and back: P is the distribution of a normal number.
 *
 *     P(-|x|) = e^(-x^2/2) t p(t) / 2,   t = 1 / (1 + 0.4 |x| / sqrt(2))
 *     y' = P(x) + x e^(-x^2/2) / sqrt(2 pi)
 *
 * with a polynomial p through the Chebyshev nodes of 0 .. 1: to 1e-8 in float, to the last digits in double.
 * One exponential and one division a number.  What is left over goes through a vector of its own, so that a
 * number is treated alike wherever it stands. */
#include <string.h>

#include "cpu/body/vec.h"

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

static const real SLOPE = (real)(0.4 * 0.7071067811865476);
static const real PEAK = (real)0.3989422804014327; /* of the bell: 1 / sqrt(2 pi) */

/* below = P(x) and bell = e^(-x^2/2) of `count` vectors, step by step: a division takes long. */
INLINE void distribution(int count, const real *x, vec *below, vec *bell)
{
    vec t[EXPS], p[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec v = vload(x + (size_t)(j * LANES));
        t[j] = 1 / (1 + SLOPE * vmax(v, -v));
        bell[j] = v * v * (real)-0.5;
    }
    vexps_below(count, bell);
    UNROLL_FULL
    for (int j = 0; j < count; j++) p[j] = vsplat(TAIL[TAIL_TERMS - 1]);
    UNROLL_FULL
    for (int i = TAIL_TERMS - 2; i >= 0; i--)
        UNROLL_FULL
        for (int j = 0; j < count; j++) p[j] = TAIL[i] + t[j] * p[j];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec tail = bell[j] * t[j] * p[j] * (real)0.5;
        below[j] = vselect(vload(x + (size_t)(j * LANES)) > 0, 1 - tail, tail);
    }
}

INLINE void units(int count, real *y, const real *x)
{
    vec below[EXPS], bell[EXPS];
    distribution(count, x, below, bell);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const size_t at = (size_t)(j * LANES);
        vstore(y + at, vload(x + at) * below[j]);
    }
}

INLINE void units_back(int count, real *dx, const real *x, const real *dy)
{
    vec below[EXPS], bell[EXPS];
    distribution(count, x, below, bell);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const size_t at = (size_t)(j * LANES);
        vstore(dx + at, vload(dy + at) * (below[j] + vload(x + at) * (PEAK * bell[j])));
    }
}

void KERNEL(normal_unit)(real *y, const real *x, size_t n)
{
    size_t i = 0;
    for (; i + EXPS * LANES <= n; i += EXPS * LANES) units(EXPS, y + i, x + i);
    for (; i + LANES <= n; i += LANES) units(1, y + i, x + i);
    if (i == n) return;
    real own[LANES] = { 0 };
    memcpy(own, x + i, (n - i) * sizeof *own);
    units(1, own, own);
    memcpy(y + i, own, (n - i) * sizeof *own);
}

void KERNEL(normal_unit_back)(real *dx, const real *x, const real *dy, size_t n)
{
    size_t i = 0;
    for (; i + EXPS * LANES <= n; i += EXPS * LANES) units_back(EXPS, dx + i, x + i, dy + i);
    for (; i + LANES <= n; i += LANES) units_back(1, dx + i, x + i, dy + i);
    if (i == n) return;
    real own[2][LANES] = { { 0 } };
    memcpy(own[0], x + i, (n - i) * sizeof(real));
    memcpy(own[1], dy + i, (n - i) * sizeof(real));
    units_back(1, own[1], own[0], own[1]);
    memcpy(dx + i, own[1], (n - i) * sizeof(real));
}
