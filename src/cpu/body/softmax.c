/* cpu/body/softmax.c - the softmax of a tile of scores, one query a column (lane).
 *
 * A column that is -inf throughout (a query that sees none of these keys) keeps its maximum and
 * sum. */
#include <math.h>

#include "cpu/body/vec.h"

void KERNEL(softmax_fold)(real *s, size_t ld, size_t keys, size_t padded, real *max, real *sum,
                          real *rescale)
{
    for (size_t c = 0; c < padded; c += LANES) {
        const vec before = vload(max + c);
        vec top = before;
        for (size_t j = 0; j < keys; j++) top = vmax(vload(s + j * ld + c), top);
        /* Where nothing was seen yet, subtract 0: -inf - -inf would be NaN. */
        const vec shift = vselect(top > -(real)INFINITY, top, vsplat(0));
        const vec factor = vexp(before - shift);
        vec total = vsplat(0);
        for (size_t j = 0; j < keys; j++) {
            const vec p = vexp(vload(s + j * ld + c) - shift);
            vstore(s + j * ld + c, p);
            total += p;
        }
        vstore(max + c, top);
        vstore(sum + c, vload(sum + c) * factor + total);
        vstore(rescale + c, factor);
    }
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
        const vec p = vexp(vload(s + j) - shift);
        vstore(s + j, p);
        total += p;
    }
    vstore(part, vexp(vsplat(before - shift)));
    *rescale = part[0];
    *sum = *sum * part[0] + vsum(total);
    *max = top;
}

void KERNEL(softmax_weights)(real *s, size_t ld, size_t keys, size_t padded, const real *lse)
{
    for (size_t j = 0; j < keys; j++)
        for (size_t c = 0; c < padded; c += LANES) {
            real *at = s + j * ld + c;
            vstore(at, vexp(vload(at) - vload(lse + c)));
        }
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
