/* test_basis.c - the symmetric monomials: how many, in which order, how often each is counted. */
#include <math.h>

#include "../support/support.h"
#include "attention/taylor/basis.h"

static double binomial(int64_t n, int64_t k)
{
    double value = 1;
    for (int64_t i = 1; i <= k; i++) value = value * (double)(n - k + i) / (double)i;
    return round(value);
}

static void sizes_are_binomial_coefficients(void **state)
{
    (void)state;
    for (int64_t d = 1; d <= 128; d++)
        for (int64_t terms = 1; terms <= 8; terms++)
            assert_true((double)lnt_basis_size(d, terms) == binomial(d + terms - 1, terms - 1));
    assert_int_equal(lnt_basis_size(16, 4), 969);
    assert_int_equal(lnt_basis_size(64, 4), 47905);
}

static void a_size_that_does_not_fit_is_told(void **state)
{
    (void)state;
    assert_int_equal(lnt_basis_size(INT64_C(1) << 40, 4), -1);
    assert_int_equal(lnt_basis_size(1 << 20, 32), -1);
    assert_int_equal(lnt_basis_size(35, 32), -1);
}

/* Whatever the product was before its division by t. */
static void a_size_that_fits_is_exact(void **state)
{
    (void)state;
    assert_int_equal(lnt_basis_size(30, 32), INT64_C(232714176627630544));
    assert_int_equal(lnt_basis_size(34, 32), INT64_C(3397378086595889760));
    assert_int_equal(lnt_basis_size((INT64_C(1) << 31) - 1, 3), INT64_C(2305843010287435776));
}

/* All p indices of monomial j of a run. */
static void indices(const lnt_basis_run *run, int64_t j, int64_t *out)
{
    for (int i = 0; i + 1 < run->degree; i++) out[i] = run->prefix[i];
    if (run->degree) out[run->degree - 1] = run->first + j;
}

/* -1, 0 or 1 as a comes before b. */
static int order(const int64_t *a, const int64_t *b, int p)
{
    for (int i = 0; i < p; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

static void runs_go_through_sorted_indices_in_lexicographic_order(void **state)
{
    (void)state;
    for (int64_t d = 1; d <= 7; d++) {
        int64_t count = 0;
        for (int p = 0; p < 6; p++) {
            int64_t last[LNT_MAX_TERMS] = { -1 }, now[LNT_MAX_TERMS];
            lnt_basis_run run = lnt_basis_begin(d, p);
            do {
                for (int64_t j = 0; j < lnt_basis_length(&run); j++, count++) {
                    indices(&run, j, now);
                    for (int i = 1; i < p; i++) assert_true(now[i - 1] <= now[i]);
                    for (int i = 0; i < p; i++) assert_in_range(now[i], 0, d - 1);
                    if (p) assert_int_equal(order(last, now, p), -1);
                    for (int i = 0; i < p; i++) last[i] = now[i];
                }
            } while (lnt_basis_next(&run));
        }
        assert_int_equal(count, lnt_basis_size(d, 6));
    }
}

static void changed_is_the_first_index_of_the_prefix_that_is_new(void **state)
{
    (void)state;
    lnt_basis_run run = lnt_basis_begin(5, 4), before = run;
    assert_int_equal(run.changed, 0);
    while (lnt_basis_next(&run)) {
        int first = 0;
        while (run.prefix[first] == before.prefix[first]) first++;
        assert_int_equal(run.changed, first);
        before = run;
    }
}

/* p! / prod r! from the repeats at the end of each beginning, as the algorithms use them. */
static double orderings(const lnt_basis_run *run, int64_t j)
{
    double count = 1;
    for (int t = 1; t < run->degree; t++) count *= (double)t / lnt_basis_repeats(run, t);
    if (run->degree < 2) return count;
    const int repeats = j ? 1 : lnt_basis_repeats(run, run->degree - 1) + 1;
    return count * run->degree / repeats;
}

static void monomials_with_their_orderings_sum_to_the_power(void **state)
{
    (void)state;
    dice roll = { 1 };
    for (int64_t d = 1; d <= 6; d++)
        for (int p = 0; p <= 7; p++) {
            double q[6], k[6], dot = 0, sum = 0;
            for (int64_t i = 0; i < d; i++) {
                q[i] = dice_normal(&roll);
                k[i] = dice_normal(&roll);
                dot += q[i] * k[i];
            }
            lnt_basis_run run = lnt_basis_begin(d, p);
            do {
                for (int64_t j = 0; j < lnt_basis_length(&run); j++) {
                    int64_t index[LNT_MAX_TERMS];
                    double product = orderings(&run, j);
                    indices(&run, j, index);
                    for (int i = 0; i < p; i++) product *= q[index[i]] * k[index[i]];
                    sum += product;
                }
            } while (lnt_basis_next(&run));
            assert_true(fabs(sum - pow(dot, p)) <= 1e-11 * (1 + pow(fabs(dot) + 3, p)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_binomial_coefficients),
        cmocka_unit_test(a_size_that_does_not_fit_is_told),
        cmocka_unit_test(a_size_that_fits_is_exact),
        cmocka_unit_test(runs_go_through_sorted_indices_in_lexicographic_order),
        cmocka_unit_test(changed_is_the_first_index_of_the_prefix_that_is_new),
        cmocka_unit_test(monomials_with_their_orderings_sum_to_the_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
