/* cpu/weight/kernels.h - the kernels over panels of weights, one table per instruction set. */
#ifndef LNT_CPU_WEIGHT_KERNELS_H
#define LNT_CPU_WEIGHT_KERNELS_H

#include "cpu/weight/panel.h"

#define K(name, result, arguments) result(*name) arguments;
typedef struct lnt_weight_kernels {
#include "cpu/weight/kernels.def"
    size_t few; /* rows of activations up to which multiply_codes is the fastest way */
} lnt_weight_kernels;
#undef K

/* By the index of core/isa.h. */
const lnt_weight_kernels *lnt_weight_kernels_get(int isa);

#endif
