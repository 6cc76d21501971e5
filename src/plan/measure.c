/* plan/measure.c - the two ceilings a figure is held against, measured on this machine now. */
#include "plan/measure.h"

#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "cpu/kernels.h"

enum { ROUNDS = 100000, REPEATS = 20 };

static double fma_seconds(const lnt_ctx *ctx, lnt_dtype dtype, double *flops)
{
    const lnt_kernels_f32 *narrow = lnt_kernels_get_f32(ctx->isa);
    const lnt_kernels_f64 *wide = lnt_kernels_get_f64(ctx->isa);
    double best = -1, sum = 0;
    *flops = ROUNDS * (dtype == LNT_F64 ? wide->fma_flops : narrow->fma_flops);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double start = lnt_clock();
        sum += dtype == LNT_F64 ? wide->peak_fma(ROUNDS, 1e-9)
                                : (double)narrow->peak_fma(ROUNDS, 1e-9f);
        const double took = lnt_clock() - start;
        if (best < 0 || took < best) best = took;
    }
    return sum > 0 ? best : 0; /* the sum is used, so the work is done */
}

lnt_status lnt_cpu_measure_flops(lnt_ctx *ctx, lnt_dtype dtype, double *gflops)
{
    double total = 0;
#pragma omp parallel num_threads(ctx->threads) reduction(+ : total)
    {
        double flops;
        const double seconds = fma_seconds(ctx, dtype, &flops);
        total += flops / seconds * 1e-9;
    }
    *gflops = total;
    return LNT_OK;
}

/* Best of a few passes, each long enough for the clock; the thread's share stays its own. */
static double update_seconds(const lnt_kernels_f32 *ker, float *x, size_t count)
{
    const size_t passes = 1 + (4u << 20) / (count * sizeof *x + 1);
    double best = -1;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double start = lnt_clock();
        for (size_t i = 0; i < passes; i++) ker->peak_update(x, count, 1.0f);
        const double took = (lnt_clock() - start) / (double)passes;
        if (best < 0 || took < best) best = took;
    }
    return best;
}

lnt_status lnt_cpu_measure_bandwidth(lnt_ctx *ctx, size_t bytes, double *gbytes_per_second)
{
    const lnt_kernels_f32 *ker = lnt_kernels_get_f32(ctx->isa);
    const size_t share = lnt_round_up(bytes / sizeof(float) / (size_t)ctx->threads + 1, LNT_PAD);
    size_t total;
    if (!lnt_size_product(share, (size_t)ctx->threads, sizeof(float), &total))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "bytes is %zu: too many", bytes);
    float *x = lnt_allocate(ctx, total, "measuring bandwidth");
    if (!x) return LNT_ERR_MEMORY;
    double rate = 0;
#pragma omp parallel num_threads(ctx->threads) reduction(+ : rate)
    {
        const size_t thread = (size_t)omp_get_thread_num();
        memset(x + thread * share, 0, share * sizeof *x); /* touched by the thread that uses it */
#pragma omp barrier
        rate += 2 * (double)(share * sizeof *x) / update_seconds(ker, x + thread * share, share);
    }
    lnt_release(ctx, x, total);
    *gbytes_per_second = rate * 1e-9;
    return LNT_OK;
}
