/* test_quantise.c - nn/quantise: numbers in blocks are as near as their codes allow, and what fits no block
 * is refused. */
#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "nn/quantise.h"
#include "support.h"

enum { COUNT = 32 * 8 };

static void fill(dice *d, float *x, double scale)
{
    for (int i = 0; i < COUNT; i++) x[i] = (float)(scale * dice_normal(d));
}

static float at(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return lnt_f16_to_float(half);
}

/* x is within half a step, and the last digit of an f16 scale takes no more than another step at the ends. */
static void numbers_are_within_a_step(void **state)
{
    (void)state;
    dice d = { 1 };
    float x[COUNT], y[COUNT];
    unsigned char out[COUNT * 4];
    for (int trial = 0; trial < budget(50, 500); trial++) {
        fill(&d, x, ldexp(1, (int)dice_range(&d, -8, 8)));
        assert_true(lnt_quantise(LNT_STORAGE_Q8_0, x, out, COUNT));
        lnt_storage_unpack(LNT_STORAGE_Q8_0, out, y, COUNT);
        for (int i = 0; i < COUNT; i++) {
            const float step = at(out + i / 32 * 34);
            assert_true(fabsf(y[i] - x[i]) <= step * 0.57f);
        }
        assert_true(lnt_quantise(LNT_STORAGE_BF16, x, out, COUNT));
        lnt_storage_unpack(LNT_STORAGE_BF16, out, y, COUNT);
        for (int i = 0; i < COUNT; i++) assert_true(fabsf(y[i] - x[i]) <= fabsf(x[i]) / 256);
        assert_true(lnt_quantise(LNT_STORAGE_F32, x, out, COUNT));
        assert_memory_equal(out, x, sizeof x);
    }
}

/* The square of the error of a block in 16 steps from its lowest to its highest number. */
static double plain_error(const float *x)
{
    float low = x[0], high = x[0];
    double error = 0;
    for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    const float m = lnt_f16_to_float(lnt_float_to_f16(low)),
                d = lnt_f16_to_float(lnt_float_to_f16((high - low) / 15));
    for (int i = 0; i < 32; i++) {
        const double q = fmin(15, fmax(0, rint((double)(x[i] - m) / (double)d)));
        const double e = (double)m + q * (double)d - (double)x[i];
        error += e * e;
    }
    return error;
}

static void four_bits_are_nearer_than_equal_steps_over_the_range(void **state)
{
    (void)state;
    dice d = { 2 };
    float x[COUNT], y[COUNT];
    unsigned char out[COUNT];
    double plain = 0, own = 0, size = 0;
    for (int trial = 0; trial < budget(50, 500); trial++) {
        fill(&d, x, 0.05);
        assert_true(lnt_quantise(LNT_STORAGE_Q4_1, x, out, COUNT));
        lnt_storage_unpack(LNT_STORAGE_Q4_1, out, y, COUNT);
        for (int b = 0; b < COUNT; b += 32) plain += plain_error(x + b);
        for (int i = 0; i < COUNT; i++) {
            own += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            size += (double)x[i] * (double)x[i];
        }
    }
    assert_true(own < 0.95 * plain);
    assert_true(sqrt(own / size) < 0.08);
}

static void numbers_of_few_values_come_back_exactly(void **state)
{
    (void)state;
    dice d = { 3 };
    float x[COUNT], y[COUNT];
    unsigned char out[COUNT * 2];
    static const lnt_storage storages[] = { LNT_STORAGE_Q8_0, LNT_STORAGE_Q4_1 };
    for (int s = 0; s < 2; s++)
        for (int trial = 0; trial < 50; trial++) {
            const int most = trial % 3; /* all 0, all of one size, or 0 to 15 */
            for (int i = 0; i < COUNT; i++)
                x[i] = most == 0 ? 0 : most == 1 ? 0.5f : i % 32 == 0 ? 15 : (float)dice_range(&d, 0, 15);
            for (int i = 1; most == 2 && i < COUNT; i += 32) x[i] = 0;
            if (most && storages[s] == LNT_STORAGE_Q8_0) continue; /* its steps are 127ths */
            assert_true(lnt_quantise(storages[s], x, out, COUNT));
            lnt_storage_unpack(storages[s], out, y, COUNT);
            for (int i = 0; i < COUNT; i++) assert_true(fabsf(y[i] - x[i]) <= 0);
        }
}

static void what_fits_no_block_is_refused(void **state)
{
    (void)state;
    static const lnt_storage storages[] = { LNT_STORAGE_F32, LNT_STORAGE_BF16, LNT_STORAGE_Q8_0,
                                            LNT_STORAGE_Q4_1 };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    dice d = { 4 };
    float x[COUNT];
    unsigned char out[COUNT * 4];
    for (int s = 0; s < COUNT_OF(storages); s++)
        for (int b = 0; b < 3; b++)
            for (int at_row = 0; at_row < COUNT; at_row += 37) {
                fill(&d, x, 1);
                x[at_row] = bad[b];
                assert_false(lnt_quantise(storages[s], x, out, COUNT));
            }
    for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? 3e38f : -3e38f;
    assert_false(lnt_quantise(LNT_STORAGE_Q8_0, x, out, COUNT));
    assert_false(lnt_quantise(LNT_STORAGE_Q4_1, x, out, COUNT));
    assert_true(lnt_quantise(LNT_STORAGE_BF16, x, out, COUNT));
    for (int i = 0; i < COUNT; i++) x[i] = i % 2 ? 1e-42f : -1e-42f; /* below what a scale can be: 0 */
    assert_true(lnt_quantise(LNT_STORAGE_Q8_0, x, out, COUNT));
    assert_true(lnt_quantise(LNT_STORAGE_Q4_1, x, out, COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_within_a_step),
        cmocka_unit_test(four_bits_are_nearer_than_equal_steps_over_the_range),
        cmocka_unit_test(numbers_of_few_values_come_back_exactly),
        cmocka_unit_test(what_fits_no_block_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
