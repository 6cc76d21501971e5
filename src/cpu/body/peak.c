/* cpu/body/peak.c - what the machine can do: fused multiply-adds on registers, updates in memory. */
#include "cpu/body/vec.h"

/* Each chain takes a little from its neighbour: no product can be hoisted out of the loop, and with
 * `little` around 1e-9 the numbers stay near 1. */
real KERNEL(peak_fma)(size_t rounds, real little)
{
    vec x[PEAK_CHAINS];
    UNROLL_FULL
    for (int i = 0; i < PEAK_CHAINS; i++) x[i] = vsplat(1 + little * (real)i);
    for (size_t r = 0; r < rounds; r++) {
        UNROLL_FULL
        for (int i = 0; i < PEAK_CHAINS; i++) x[i] += little * x[(i + 1) % PEAK_CHAINS];
    }
    vec total = x[0];
    UNROLL_FULL
    for (int i = 1; i < PEAK_CHAINS; i++) total += x[i];
    return vsum(total);
}

/* A difference and not a multiply-add, which would cost a copy of its addend and, in the first level
 * of cache, be slower than the memory. */
void KERNEL(peak_update)(real *x, size_t padded, real b)
{
    const vec vb = vsplat(b);
    size_t i = 0;
    for (; i + 8 * LANES <= padded; i += 8 * LANES)
        UNROLL_FULL
        for (int j = 0; j < 8; j++) {
            real *at = x + i + (size_t)(j * LANES);
            vstore(at, vb - vload(at));
        }
    for (; i < padded; i += LANES) vstore(x + i, vb - vload(x + i));
}
