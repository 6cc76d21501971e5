/* bench/gpu/dtype.h - the dtypes of the GPU, bf16, f16 and f32: their size, name and accuracy. */
#ifndef BENCH_GPU_DTYPE_H
#define BENCH_GPU_DTYPE_H

#include "linnet.h"

size_t bytes_of(lnt_dtype dtype);
const char *name_of(lnt_dtype dtype);

/* The relative error that a dtype is held to; of bf16 and f16 the rounding of the result is
 * most. */
double allowed_for(lnt_dtype dtype);

#endif
