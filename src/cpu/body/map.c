/* cpu/body/map.c - elementwise: the feature maps of linear attention that need an exponential, the
 * polynomial and the products of Taylor attention. */
#include <math.h>

#include "cpu/body/vec.h"

enum { AT_ONCE = 4 }; /* vectors in flight */

INLINE void elu1(int count, real *y, const real *x)
{
    vec e[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) e[j] = vload(x + (size_t)(j * LANES));
    vexps_below(count, e);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec v = vload(x + (size_t)(j * LANES));
        vstore(y + (size_t)(j * LANES), vselect(v <= 0, e[j], v + 1)); /* NaN: v + 1 */
    }
}

void KERNEL(map_elu1)(real *y, const real *x, size_t padded)
{
    size_t i = 0;
    for (; i + EXPS * LANES <= padded; i += EXPS * LANES) elu1(EXPS, y + i, x + i);
    for (; i < padded; i += LANES) elu1(1, y + i, x + i);
}

void KERNEL(elu1_back)(real *d, const real *phi, size_t padded)
{
    for (size_t i = 0; i < padded; i += LANES) {
        const vec v = vload(phi + i);
        vstore(d + i, vload(d + i) * vselect(v < 1, v, vsplat(1)));
    }
}

INLINE void exps(int count, real *y, const real *x)
{
    const real highest = EXP_BIAS == 127 ? (real)0x1.62e42ep+6 : (real)0x1.62e42fefa39efp+9;
    vec e[EXPS];
    UNROLL_FULL
    for (int j = 0; j < count; j++) e[j] = vload(x + (size_t)(j * LANES));
    vexps(count, e, 1);
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        const vec v = vload(x + (size_t)(j * LANES));
        vstore(y + (size_t)(j * LANES), vselect(v > highest, vsplat((real)INFINITY), e[j] + e[j]));
    }
}

void KERNEL(map_exp)(real *y, const real *x, size_t padded)
{
    size_t i = 0;
    for (; i + EXPS * LANES <= padded; i += EXPS * LANES) exps(EXPS, y + i, x + i);
    for (; i < padded; i += LANES) exps(1, y + i, x + i);
}

/* Horner's rule on `count` vectors side by side: one alone would wait for itself at every term. */
INLINE void polynomial_of(int count, real *y, const real *x, const real *a, size_t terms)
{
    vec v[AT_ONCE], sum[AT_ONCE];
    UNROLL_FULL
    for (int j = 0; j < count; j++) {
        v[j] = vload(x + (size_t)(j * LANES));
        sum[j] = vsplat(terms ? a[terms - 1] : 0);
    }
    for (size_t t = terms; t > 1; t--) {
        UNROLL_FULL
        for (int j = 0; j < count; j++) sum[j] = sum[j] * v[j] + a[t - 2];
    }
    UNROLL_FULL
    for (int j = 0; j < count; j++) vstore(y + (size_t)(j * LANES), sum[j]);
}

INLINE void polynomial(real *y, const real *x, const real *a, size_t terms, size_t padded)
{
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= padded; i += AT_ONCE * LANES)
        polynomial_of(AT_ONCE, y + i, x + i, a, terms);
    for (; i < padded; i += LANES) polynomial_of(1, y + i, x + i, a, terms);
}

/* As many terms as are usual are known to the compiler: twice as fast. */
void KERNEL(polynomial)(real *y, const real *x, const real *a, size_t terms, size_t padded)
{
    if (terms == 3) polynomial(y, x, a, 3, padded);
    else if (terms == 4) polynomial(y, x, a, 4, padded);
    else polynomial(y, x, a, terms, padded);
}

/* The polynomial and its slope by one Horner's rule, on `cols` vectors of columns. */
INLINE void polynomial_stripe(int cols, real *x, real *dw, size_t ld, size_t m, const real *a,
                              size_t terms, const real *f, const real *delta)
{
    vec factor[AT_ONCE], minus[AT_ONCE];
    UNROLL_FULL
    for (int j = 0; j < cols; j++) {
        factor[j] = vload(f + (size_t)(j * LANES));
        minus[j] = vload(delta + (size_t)(j * LANES));
    }
    for (size_t i = 0; i < m; i++, x += ld, dw += ld) {
        vec v[AT_ONCE], sum[AT_ONCE], slope[AT_ONCE];
        UNROLL_FULL
        for (int j = 0; j < cols; j++) {
            v[j] = vload(x + (size_t)(j * LANES));
            sum[j] = vsplat(a[terms - 1]);
            slope[j] = vsplat(0);
        }
        for (size_t t = terms; t > 1; t--)
            UNROLL_FULL
            for (int j = 0; j < cols; j++) {
                slope[j] = t == terms ? sum[j] : slope[j] * v[j] + sum[j];
                sum[j] = sum[j] * v[j] + a[t - 2];
            }
        UNROLL_FULL
        for (int j = 0; j < cols; j++) {
            const size_t at = (size_t)(j * LANES);
            vstore(x + at, sum[j] * factor[j]);
            vstore(dw + at, slope[j] * (vload(dw + at) - minus[j]) * factor[j]);
        }
    }
}

INLINE void polynomial_grad(real *x, real *dw, size_t ld, size_t m, size_t padded, const real *a,
                            size_t terms, const real *f, const real *delta)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        polynomial_stripe(AT_ONCE, x + c, dw + c, ld, m, a, terms, f + c, delta + c);
    for (; c < padded; c += LANES)
        polynomial_stripe(1, x + c, dw + c, ld, m, a, terms, f + c, delta + c);
}

/* As above. */
void KERNEL(polynomial_back)(real *x, real *dw, size_t ld, size_t m, size_t padded, const real *a,
                             size_t terms, const real *f, const real *delta)
{
    if (terms == 3) polynomial_grad(x, dw, ld, m, padded, a, 3, f, delta);
    else if (terms == 4) polynomial_grad(x, dw, ld, m, padded, a, 4, f, delta);
    else polynomial_grad(x, dw, ld, m, padded, a, terms, f, delta);
}

/* One stripe of AT_ONCE or one vectors; the factor stays in registers. */
INLINE void multiply_stripe(int cols, real *y, size_t ldy, const real *x, size_t ldx, const real *f,
                            size_t m)
{
    vec factor[AT_ONCE];
    UNROLL_FULL
    for (int j = 0; j < cols; j++) factor[j] = vload(f + (size_t)(j * LANES));
    for (size_t i = 0; i < m; i++)
        UNROLL_FULL
        for (int j = 0; j < cols; j++) {
            const size_t at = (size_t)(j * LANES);
            vstore(y + i * ldy + at, vload(x + i * ldx + at) * factor[j]);
        }
}

void KERNEL(multiply_rows)(real *y, size_t ldy, const real *x, size_t ldx, const real *f, size_t m,
                           size_t padded)
{
    size_t c = 0;
    for (; c + AT_ONCE * LANES <= padded; c += AT_ONCE * LANES)
        multiply_stripe(AT_ONCE, y + c, ldy, x + c, ldx, f + c, m);
    for (; c < padded; c += LANES) multiply_stripe(1, y + c, ldy, x + c, ldx, f + c, m);
}

void KERNEL(multiply_rows_back)(real *dx, real *df, const real *dy, const real *x, size_t ld,
                                const real *f, size_t m, size_t padded)
{
    for (size_t c = 0; c < padded; c += LANES) {
        const vec factor = vload(f + c);
        vec sum = vload(df + c);
        for (size_t i = 0; i < m; i++) {
            const size_t at = i * ld + c;
            const vec grad = vload(dy + at);
            vstore(dx + at, vload(dx + at) + grad * factor);
            sum += grad * vload(x + at);
        }
        vstore(df + c, sum);
    }
}

void KERNEL(columns_dot)(real *sum, const real *x, const real *y, size_t ld, size_t m,
                         size_t padded)
{
    for (size_t c = 0; c < padded; c += LANES) {
        vec total = vload(sum + c);
        for (size_t i = 0; i < m; i++) total += vload(x + i * ld + c) * vload(y + i * ld + c);
        vstore(sum + c, total);
    }
}
