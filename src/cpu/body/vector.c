/* cpu/body/vector.c - dot, axpy, scale over any count. */
#include "cpu/body/vec.h"

real KERNEL(dot)(const real *x, const real *y, size_t n)
{
    vec sum[2] = { vsplat(0), vsplat(0) };
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        sum[0] += vload(x + i) * vload(y + i);
        sum[1] += vload(x + i + LANES) * vload(y + i + LANES);
    }
    real total = vsum(sum[0] + sum[1]);
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

void KERNEL(axpy)(real *y, real a, const real *x, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(y + i, vload(y + i) + a * vload(x + i));
    for (; i < n; i++) y[i] += a * x[i];
}

void KERNEL(scale)(real *x, real a, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(x + i, vload(x + i) * a);
    for (; i < n; i++) x[i] *= a;
}
