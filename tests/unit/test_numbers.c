/* test_numbers.c - f16 and bf16 against their definition, and the random generator against its
 * published answers. */
#include <math.h>

#include "../support/support.h"
#include "core/dtype.h"
#include "core/rng.h"

/* A small float of `mantissa` bits and exponents `lowest` .. `highest`, by the definition. */
typedef struct format {
    int mantissa, lowest, highest;
    float (*to_float)(uint16_t);
    uint16_t (*from_float)(float);
    uint16_t (*from_double)(double);
} format;

static const format formats[] = {
    { 10, -14, 15, lnt_f16_to_float, lnt_float_to_f16, lnt_double_to_f16 },
    { 7, -126, 127, lnt_bf16_to_float, lnt_float_to_bf16, lnt_double_to_bf16 },
};

static double decode(const format *f, unsigned bits)
{
    const unsigned sign = bits >> 15, fraction = bits & ((1u << f->mantissa) - 1);
    const unsigned exponent = (bits & 0x7fff) >> f->mantissa;
    const unsigned special = (1u << (15 - f->mantissa)) - 1;
    double x = ldexp(fraction, f->lowest - f->mantissa);
    if (exponent == special) x = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent) x = ldexp(1 + ldexp(fraction, -f->mantissa), (int)exponent - 1 + f->lowest);
    return sign ? -x : x;
}

/* The nearest number of the format, ties to even; past the largest, infinity. */
static double nearest(const format *f, double x)
{
    if (!isfinite(x) || x == 0) return x;
    int e = ilogb(x);
    if (e < f->lowest) e = f->lowest;
    const double unit = ldexp(1, e - f->mantissa), y = nearbyint(x / unit) * unit;
    return fabs(y) >= ldexp(1, f->highest + 1) ? copysign(INFINITY, x) : y;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void every_half_is_the_number_it_stands_for(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(formats); i++)
        for (unsigned bits = 0; bits < 0x10000; bits++) {
            const format *f = &formats[i];
            const double want = decode(f, bits), got = (double)f->to_float((uint16_t)bits);
            if (!same(got, want)) fail_msg("format %d: %04x is %g, not %g", i, bits, got, want);
            if (isnan(want)) assert_true(isnan(f->to_float(f->from_float((float)got))));
            else assert_int_equal(f->from_float((float)got), bits);
        }
}

static void check_rounding(const format *f, float x)
{
    const double got = (double)f->to_float(f->from_float(x)), want = nearest(f, (double)x);
    if (!same(got, want)) fail_msg("%a rounds to %a, not %a", (double)x, got, want);
}

/* At every number, every midpoint between neighbours, and one float to either side of each. */
static void floats_round_to_the_nearest_half_ties_to_even(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(formats); i++) {
        const format *f = &formats[i];
        for (unsigned bits = 0; bits < 0x7fff; bits++) {
            const double x = decode(f, bits), y = decode(f, bits + 1);
            if (!isfinite(x)) break;
            const double next = isfinite(y) ? y : ldexp(1, f->highest + 1);
            const float at[2] = { (float)x, (float)((x + next) / 2) };
            for (int k = 0; k < 2; k++) {
                if (!isfinite(at[k])) continue;
                check_rounding(f, at[k]);
                check_rounding(f, -at[k]);
                check_rounding(f, nextafterf(at[k], INFINITY));
                check_rounding(f, nextafterf(at[k], -INFINITY));
            }
        }
    }
}

static void check_rounding_once(const format *f, double x)
{
    const double got = (double)f->to_float(f->from_double(x)), want = nearest(f, x);
    if (!same(got, want)) fail_msg("%a rounds to %a, not %a", x, got, want);
}

/* At every number and every midpoint, and beside each by as little as a double can be: a float between would
 * have been rounded to the midpoint itself. */
static void doubles_round_once(void **state)
{
    (void)state;
    static const double ends[] = { 0.0, -0.0, 1e-310, 1e300, 3.4e38, 3.41e38, (double)INFINITY };
    for (int i = 0; i < COUNT_OF(formats); i++) {
        const format *f = &formats[i];
        for (int e = 0; e < COUNT_OF(ends); e++) check_rounding_once(f, ends[e]);
        assert_true(isnan(f->to_float(f->from_double((double)NAN))));
        for (unsigned bits = 0; bits < 0x7fff; bits++) {
            const double x = decode(f, bits), y = decode(f, bits + 1);
            if (!isfinite(x)) break;
            const double next = isfinite(y) ? y : ldexp(1, f->highest + 1);
            const double at[2] = { x, (x + next) / 2 };
            for (int k = 0; k < 2; k++) {
                check_rounding_once(f, at[k]);
                check_rounding_once(f, nextafter(at[k], INFINITY));
                check_rounding_once(f, nextafter(at[k], -INFINITY));
                check_rounding_once(f, -nextafter(at[k], INFINITY));
                check_rounding_once(f, at[k] * (1 + 0x1p-30));
                check_rounding_once(f, at[k] * (1 - 0x1p-30));
            }
        }
    }
}

static void random_floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    dice d = { 4 };
    for (int i = 0; i < budget(20000, 2000000); i++) {
        const float x = lnt_bits_float((uint32_t)dice_next(&d));
        for (int k = 0; k < COUNT_OF(formats); k++) check_rounding(&formats[k], x);
    }
}

/* ---- the generator ------------------------------------------------------------------------- */

static void philox_gives_its_published_answers(void **state)
{
    (void)state;
    static const struct {
        lnt_rng rng;
        uint64_t index;
        uint32_t want[4];
    } known[] = {
        { { 0, 0 }, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { UINT64_MAX, UINT64_MAX },
          UINT64_MAX,
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x299f31d0a4093822, 0x0370734413198a2e },
          0x85a308d3243f6a88,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (int i = 0; i < COUNT_OF(known); i++) {
        uint32_t got[4];
        lnt_rng_words(known[i].rng, known[i].index, got);
        for (int w = 0; w < 4; w++) assert_int_equal(got[w], known[i].want[w]);
    }
}

static void uniform_and_normal_have_their_moments(void **state)
{
    (void)state;
    const lnt_rng rng = lnt_rng_make(5);
    const int n = budget(20000, 400000);
    double u1 = 0, u2 = 0, z1 = 0, z2 = 0, z4 = 0;
    for (int i = 0; i < n; i++) {
        const double u = lnt_rng_uniform(rng, (uint64_t)i), z = lnt_rng_normal(rng, (uint64_t)i);
        assert_true(u >= 0 && u < 1 && isfinite(z));
        u1 += u / n;
        u2 += u * u / n;
        z1 += z / n;
        z2 += z * z / n;
        z4 += z * z * z * z / n;
    }
    const double five = 5 / sqrt(n); /* five deviations, of the mean of something of variance 1 */
    assert_true(fabs(u1 - 0.5) < 0.29 * five && fabs(u2 - 1.0 / 3) < 0.3 * five);
    assert_true(fabs(z1) < five && fabs(z2 - 1) < 1.42 * five && fabs(z4 - 3) < 9.8 * five);
}

static void split_streams_are_their_own_and_repeatable(void **state)
{
    (void)state;
    const lnt_rng parent = lnt_rng_make(6);
    double product = 0;
    for (uint64_t s = 0; s < 100; s++) {
        const lnt_rng a = lnt_rng_split(parent, s), b = lnt_rng_split(parent, s + 1),
                      again = lnt_rng_split(parent, s), deep = lnt_rng_split(a, s);
        for (uint64_t i = 0; i < 100; i++) {
            const double x = lnt_rng_normal(a, i);
            assert_true(x == lnt_rng_normal(again, i));
            assert_true(x != lnt_rng_normal(b, i) && x != lnt_rng_normal(parent, i) &&
                        x != lnt_rng_normal(deep, i));
            product += x * lnt_rng_normal(b, i) / 10000;
        }
    }
    assert_true(fabs(product) < 0.05); /* five deviations of 1 / sqrt(10000) */
}

/* Element [b,h,n,d] depends on the seed and its index alone: not on strides, dtype or threads. */
static void a_fill_does_not_depend_on_order_layout_or_threads(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    block want = block_new(LNT_F64, LAYOUT_BHND, 2, 3, 50, 7);
    assert_ok(ctx, lnt_tensor_fill_normal(ctx, &want.t, 11, 2.5));
    lnt_ctx_destroy(ctx);
    for (int threads = 1; threads < 8; threads += 3)
        for (int kind = 0; kind < LAYOUT_OUTPUTS; kind++) {
            ctx = context_new(threads, NULL);
            block got = block_new(LNT_F64, (layout)kind, 2, 3, 50, 7);
            assert_ok(ctx, lnt_tensor_fill_normal(ctx, &got.t, 11, 2.5));
            assert_true(tensor_error(&got.t, &want.t) == 0);
            assert_true(block_guard_intact(&got));
            block_free(&got);
            lnt_ctx_destroy(ctx);
        }
    double square = 0;
    for (int64_t i = 0; i < 2100; i++) square += pow(tensor_at(&want.t, i), 2) / 2100;
    assert_true(fabs(square / 6.25 - 1) < 0.16);
    block_free(&want);
}

static void a_deviation_that_is_none_is_refused_and_nothing_is_filled(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    block x = block_new(LNT_F32, LAYOUT_BHND, 1, 1, 2, 3);
    const double bad[] = { -1e-9, NAN, INFINITY, -INFINITY };
    tensor_fill(&x.t, 55);
    for (int i = 0; i < COUNT_OF(bad); i++)
        assert_refused(ctx, lnt_tensor_fill_normal(ctx, &x.t, 1, bad[i]), LNT_ERR_ARGUMENT, "sigma is");
    for (int64_t i = 0; i < 6; i++) assert_true(tensor_at(&x.t, i) == 55);
    assert_ok(ctx, lnt_tensor_fill_normal(ctx, &x.t, 1, 0));
    for (int64_t i = 0; i < 6; i++) assert_true(tensor_at(&x.t, i) == 0);
    block_free(&x);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_the_number_it_stands_for),
        cmocka_unit_test(floats_round_to_the_nearest_half_ties_to_even),
        cmocka_unit_test(doubles_round_once),
        cmocka_unit_test(random_floats_round_to_the_nearest_half),
        cmocka_unit_test(philox_gives_its_published_answers),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
        cmocka_unit_test(split_streams_are_their_own_and_repeatable),
        cmocka_unit_test(a_fill_does_not_depend_on_order_layout_or_threads),
        cmocka_unit_test(a_deviation_that_is_none_is_refused_and_nothing_is_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
