/* test_fit.c - the polynomial nearest to e^x over normal scores. */
#include <math.h>

#include "../support/support.h"
#include "linnet.h"

/* The mean of f(x) over x ~ N(0, s^2), by the trapezium rule, which is exact to rounding here. */
static double mean_square(const double *a, int64_t terms, double s, double moved, int which)
{
    double sum = 0, total = 0;
    for (double t = -12; t <= 12; t += 1.0 / 64) {
        const double x = s * t, weight = exp(-t * t / 2);
        double value = 0, power = 1;
        for (int64_t p = 0; p < terms; p++, power *= x)
            value += (a[p] + (p == which ? moved : 0)) * power;
        sum += weight * pow(value - exp(x), 2);
        total += weight;
    }
    return sum / total;
}

static void no_other_polynomial_is_nearer(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    for (int64_t terms = 1; terms <= 8; terms++)
        for (int s = 1; s <= 4; s++) {
            double a[8];
            const double sigma = 0.5 * s;
            assert_ok(ctx, lnt_taylor_fit(ctx, terms, sigma, a));
            const double best = mean_square(a, terms, sigma, 0, 0);
            for (int p = 0; p < terms; p++)
                for (int sign = -1; sign <= 1; sign += 2)
                    assert_true(mean_square(a, terms, sigma, sign * 1e-3, p) > best);
        }
    lnt_ctx_destroy(ctx);
}

static void without_deviation_it_is_the_taylor_series(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double a[32], factorial = 1;
    assert_ok(ctx, lnt_taylor_fit(ctx, 32, 0, a));
    for (int p = 0; p < 32; p++, factorial *= p)
        assert_true(fabs(a[p] * factorial - 1) < 1e-14);
    lnt_ctx_destroy(ctx);
}

static void its_error_is_below_that_of_the_series(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const double series[4] = { 1, 1, 0.5, 1.0 / 6 };
    double a[4];
    assert_ok(ctx, lnt_taylor_fit(ctx, 4, 1, a));
    assert_true(mean_square(a, 4, 1, 0, 0) < 0.5 * mean_square(series, 4, 1, 0, 0));
    lnt_ctx_destroy(ctx);
}

static void what_it_does_not_take_is_named(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    double a[4];
    assert_refused(ctx, lnt_taylor_fit(ctx, 0, 1, a), LNT_ERR_ARGUMENT, "terms is 0");
    assert_refused(ctx, lnt_taylor_fit(ctx, 33, 1, a), LNT_ERR_ARGUMENT, "terms is 33");
    assert_refused(ctx, lnt_taylor_fit(ctx, 4, -1, a), LNT_ERR_ARGUMENT, "sigma is -1");
    assert_refused(ctx, lnt_taylor_fit(ctx, 4, NAN, a), LNT_ERR_ARGUMENT, "sigma is");
    assert_refused(ctx, lnt_taylor_fit(ctx, 4, 1, NULL), LNT_ERR_ARGUMENT, "coefficients");
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_polynomial_is_nearer),
        cmocka_unit_test(without_deviation_it_is_the_taylor_series),
        cmocka_unit_test(its_error_is_below_that_of_the_series),
        cmocka_unit_test(what_it_does_not_take_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
