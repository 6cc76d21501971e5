/* test_measure.c - what is measured is what was done over the seconds it took: here the clock is the test's
 * own, one second from one reading to the next, so that the figures are exact. */
#include <stdatomic.h>

#include "../support/support.h"
#include "attention/registry.h"
#include "core/clock.h"
#include "cpu/kernels.h"

static double tick(void)
{
    static _Thread_local double now;
    return now += 1;
}

/* The library's own kernels, whose work is counted. */
static atomic_size_t moved, rounds;
static lnt_kernels_f32 counted;

static void count_update(float *x, size_t padded, float b)
{
    moved += 2 * padded * sizeof *x; /* every number is read and written */
    lnt_kernels_get_f32(0)->peak_update(x, padded, b);
}

static float count_fma(size_t n, float little)
{
    rounds += n;
    return lnt_kernels_get_f32(0)->peak_fma(1, little);
}

static const lnt_kernels_f32 *counting_kernels(int isa)
{
    (void)isa;
    return &counted;
}

#define lnt_clock tick
#define lnt_kernels_get_f32 counting_kernels
#include "plan/measure.c"
#undef lnt_kernels_get_f32
#define lnt_plan_forward(plan, io) ((void)(plan), (void)(io), LNT_OK) /* takes a tick, whatever it does */
#include "plan/planner.c"

static int count_kernels(void **state)
{
    (void)state;
    counted = *lnt_kernels_get_f32(0);
    counted.peak_update = count_update;
    counted.peak_fma = count_fma;
    return 0;
}

static void assert_near(double got, double want)
{
    if (!(got > want * (1 - 1e-9) && got < want * (1 + 1e-9))) fail_msg("%.17g, not %.17g", got, want);
}

static void bandwidth_is_the_bytes_read_and_written_by_all_threads_over_the_time(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++)
        for (size_t bytes = 100; bytes < 8 << 20; bytes *= 100) {
            lnt_ctx *ctx = context_new(threads, NULL);
            double gbytes;
            moved = 0;
            assert_ok(ctx, lnt_measure_bandwidth(ctx, bytes, &gbytes));
            assert_near(gbytes * 1e9, (double)moved / REPEATS);
            lnt_ctx_destroy(ctx);
        }
}

static void flops_are_those_of_all_threads_over_the_time(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        lnt_ctx *ctx = context_new(threads, NULL);
        double gflops;
        rounds = 0;
        assert_ok(ctx, lnt_measure_flops(ctx, LNT_F32, &gflops));
        assert_near(gflops * 1e9, (double)rounds * counted.fma_flops / REPEATS);
        lnt_ctx_destroy(ctx);
    }
}

/* A run from one reading to the next. */
static void a_calibrated_plan_predicts_the_time_that_calibration_measured(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_calibration c;
    assert_ok(ctx, lnt_ctx_calibrate(ctx));
    assert_ok(ctx, lnt_device_of(ctx)->calibration(ctx, LNT_F32, &c));
    for (int a = 0; lnt_algorithm_name(a); a++) {
        lnt_attn_desc d;
        lnt_plan *plan;
        lnt_plan_info info = { .size = sizeof info };
        assert_ok(ctx, lnt_attn_desc_init(&d, sizeof d));
        d.mechanism = lnt_algorithm_mechanism(a);
        d.algorithm = lnt_algorithm_name(a);
        d.heads = c.heads;
        d.length_q = c.tokens;
        d.dim = c.dim;
        d.causal = d.mechanism != LNT_CUR;
        for (int runs = 1; runs <= 2; runs++) { /* of twice the heads: twice as long */
            assert_ok(ctx, lnt_plan_create(ctx, &d, &plan));
            assert_ok(ctx, lnt_plan_describe(plan, &info));
            assert_near(info.seconds, runs);
            lnt_plan_destroy(plan);
            d.heads *= 2;
        }
    }
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandwidth_is_the_bytes_read_and_written_by_all_threads_over_the_time),
        cmocka_unit_test(flops_are_those_of_all_threads_over_the_time),
        cmocka_unit_test(a_calibrated_plan_predicts_the_time_that_calibration_measured),
    };
    return cmocka_run_group_tests(tests, count_kernels, NULL);
}
