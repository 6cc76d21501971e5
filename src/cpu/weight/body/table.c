/* cpu/weight/body/table.c - this instruction set's kernels of weights, from the list. */
#include "cpu/weight/body/ops.h"

#define K(name, result, arguments) result KERNEL(name) arguments;
#include "cpu/weight/kernels.def"
#undef K

const lnt_weight_kernels *KERNEL(weight_table)(void);

const lnt_weight_kernels *KERNEL(weight_table)(void)
{
#define K(name, result, arguments) .name = KERNEL(name),
    static const lnt_weight_kernels table = {
        .few = LNT_FEW,
#include "cpu/weight/kernels.def"
    };
#undef K
    return &table;
}
