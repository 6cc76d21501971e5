/* cpu/weight/body/table.c - this instruction set's kernels of weights, from the list. */
#include "cpu/weight/body/ops.h"

#define K(name, result, arguments) result KERNEL(name) arguments;
#include "cpu/weight/kernels.def"
#undef K

const lnt_weight_kernels *KERNEL(weight_table)(void);

/* By measurement on a Xeon of AVX-512 (docs/log/tuning.md); NEON's are a guess after AVX2's. */
#ifdef __AVX512VNNI__
#define FEW_CODES SIZE_MAX
#else
#define FEW_CODES 32
#endif

const lnt_weight_kernels *KERNEL(weight_table)(void)
{
#define K(name, result, arguments) .name = KERNEL(name),
    static const lnt_weight_kernels table = {
        .few_codes = FEW_CODES,
#include "cpu/weight/kernels.def"
    };
#undef K
    return &table;
}
