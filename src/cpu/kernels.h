/* cpu/kernels.h - the dispatch table of micro-kernels, one per ISA and number type. */
#ifndef LNT_CPU_KERNELS_H
#define LNT_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"
#include "cpu/real.h"

/* Leading dimensions and counts are padded to this many elements: enough for every ISA of the
 * architecture, and no more, for narrow heads are loaded and cleared with their padding. */
#ifdef __aarch64__
enum { LNT_PAD = 8 };
#else
enum { LNT_PAD = 16 };
#endif

static inline size_t lnt_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Of the kernel monomials: prefix `level` = prefix level - 1 times column `index` (level 0: 1), then
 * `length` monomials, that prefix times column `first` and on; of a query the prefix times `factor`, and
 * the first monomial times `first_factor`. */
typedef struct lnt_monomial_step {
    uint32_t level, index, first, length;
    double factor, first_factor;
} lnt_monomial_step;

#define K(name, result, arguments) result(*name) arguments;
typedef struct lnt_kernels_f32 {
    size_t lanes;     /* elements in one vector */
    bool by_lane;     /* gemm_tn has many factors with one load; else gemm_nn is as fast */
    double fma_flops; /* of one round of peak_fma */
#define R float
#include "cpu/kernels.def"
#undef R
} lnt_kernels_f32;

typedef struct lnt_kernels_f64 {
    size_t lanes;
    bool by_lane;
    double fma_flops;
#define R double
#include "cpu/kernels.def"
#undef R
} lnt_kernels_f64;
#undef K

LNT_PRIVATE_API const lnt_kernels_f32 *lnt_kernels_get_f32(int isa);
const lnt_kernels_f64 *lnt_kernels_get_f64(int isa);

#endif
