/* cpu/body/map.c - the elementwise feature maps of linear attention that need an exponential. */
#include <math.h>

#include "cpu/body/vec.h"

enum { AT_ONCE = 4 }; /* independent exponentials in flight */

INLINE vec elu1(vec v) { return vselect(v <= 0, vexp_of_number(v), v + 1); } /* NaN: v + 1 */

void KERNEL(map_elu1)(real *y, const real *x, size_t padded)
{
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= padded; i += AT_ONCE * LANES) {
        vec v[AT_ONCE];
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++) v[j] = elu1(vload(x + i + (size_t)(j * LANES)));
        UNROLL_FULL
        for (int j = 0; j < AT_ONCE; j++) vstore(y + i + (size_t)(j * LANES), v[j]);
    }
    for (; i < padded; i += LANES) vstore(y + i, elu1(vload(x + i)));
}

void KERNEL(map_exp)(real *y, const real *x, size_t padded)
{
#ifdef LNT_DOUBLE
    const real highest = 0x1.62e42fefa39efp+9;
#else
    const real highest = 0x1.62e42ep+6f;
#endif
    for (size_t i = 0; i < padded; i += LANES) {
        const vec v = vload(x + i);
        vstore(y + i, vselect(v > highest, vsplat((real)INFINITY), vexp(v)));
    }
}
