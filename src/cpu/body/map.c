/* cpu/body/map.c - the elementwise feature maps of linear attention that need an exponential. */
#include <math.h>

#include "cpu/body/vec.h"

void KERNEL(map_elu1)(real *x, size_t padded)
{
    for (size_t i = 0; i < padded; i += LANES) {
        const vec v = vload(x + i);
        vstore(x + i, vselect(v > 0, v + 1, vexp(v)));
    }
}

void KERNEL(map_exp)(real *x, size_t padded)
{
#ifdef LNT_DOUBLE
    const real highest = 0x1.62e42fefa39efp+9;
#else
    const real highest = 0x1.62e42ep+6f;
#endif
    for (size_t i = 0; i < padded; i += LANES) {
        const vec v = vload(x + i);
        vstore(x + i, vselect(v > highest, vsplat((real)INFINITY), vexp(v)));
    }
}
