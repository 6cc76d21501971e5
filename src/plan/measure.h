/* plan/measure.h - the ceilings of the CPU: lnt_measure_flops and lnt_measure_bandwidth there. */
#ifndef LNT_PLAN_MEASURE_H
#define LNT_PLAN_MEASURE_H

#include "core/context.h"

lnt_status lnt_cpu_measure_flops(lnt_ctx *ctx, lnt_dtype dtype, double *gflops);
lnt_status lnt_cpu_measure_bandwidth(lnt_ctx *ctx, size_t bytes, double *gbytes_per_second);

#endif
