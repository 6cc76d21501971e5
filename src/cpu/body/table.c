/* cpu/body/table.c - this ISA's kernels, from the list. */
#include "cpu/body/vec.h"

#define R real
#define K(name, result, arguments) result KERNEL(name) arguments;
#include "cpu/kernels.def"
#undef K

const LNT_REAL_NAME(lnt_kernels) * KERNEL(table)(void);

const LNT_REAL_NAME(lnt_kernels) * KERNEL(table)(void)
{
#define K(name, result, arguments) .name = KERNEL(name),
    static const LNT_REAL_NAME(lnt_kernels) table = {
        .lanes = LANES,
        .by_lane = BY_LANE,
        .fma_flops = 2.0 * PEAK_CHAINS * LANES,
#include "cpu/kernels.def"
    };
#undef K
    return &table;
}
