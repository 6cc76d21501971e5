/* cpu/weight/kernels.h - the kernels over panels of weights, one table per instruction set. */
#ifndef LNT_CPU_WEIGHT_KERNELS_H
#define LNT_CPU_WEIGHT_KERNELS_H

#include "cpu/weight/panel.h"

#define K(name, result, arguments) result(*name) arguments;
typedef struct lnt_weight_kernels {
#include "cpu/weight/kernels.def"
    /* Rows of activations up to which multiply_codes is faster than a product of floats with what unpack
     * gives. */
    size_t few_codes;
} lnt_weight_kernels;
#undef K

/* By the index of core/isa.h. */
const lnt_weight_kernels *lnt_weight_kernels_get(int isa);

#endif
