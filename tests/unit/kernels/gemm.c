/* gemm.c - checks of gemm_nn, gemm_tn, the same from a row, and gemv (of bf16 too): c[m,n] (+)= a b,
 * c = row + a b and y[m] = a x, every size on and off a tile's edge. */
#include <stdlib.h>

#include "checks.h"

/* a is [m,k], or [k,m] if `turned`; row NULL: none. */
static void expect_product(const trial *t, const grid *c, const grid *a, const grid *b, bool turned,
                           size_t m, size_t n, size_t k, int accumulate, const grid *row)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = row ? was(row, 0, j) : accumulate ? was(c, i, j) : 0;
            double magnitude = fabs(sum);
            for (size_t p = 0; p < k; p++) {
                const double term = (turned ? was(a, p, i) : was(a, i, p)) * was(b, p, j);
                sum += term;
                magnitude += fabs(term);
            }
            expect_near(t, "c", i, j, now(c, i, j), sum, sum_bound(k, magnitude));
        }
    expect_untouched(t, "c", c, m, n);
    expect_untouched(t, "a", a, 0, 0);
    expect_untouched(t, "b", b, 0, 0);
}

static grid left_factor(trial *t, bool turned, size_t m, size_t k)
{
    return turned ? grid_input(t, k, m, leading(t, m)) : grid_input(t, m, k, leading(t, k));
}

static void check_product(trial *t, bool turned)
{
    const size_t count = (size_t)budget(2 * COUNT_OF(sum_lengths), 3 * 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes,
                     k = TAKE(sum_lengths, i);
        const int accumulate = (int)(i / COUNT_OF(sum_lengths) % 2); /* each k meets both */
        grid a = left_factor(t, turned, m, k), b = grid_input(t, k, n, leading(t, n));
        grid c = (accumulate ? grid_inout : grid_output)(t, m, n, leading(t, n));
        trial_sizes(t, "m %zu n %zu k %zu lda %zu ldb %zu ldc %zu accumulate %d", m, n, k, a.ld,
                    b.ld, c.ld, accumulate);
        (turned ? t->ker->gemm_tn : t->ker->gemm_nn)(c.at, c.ld, a.at, a.ld, b.at, b.ld, m, n, k,
                                                     accumulate);
        expect_product(t, &c, &a, &b, turned, m, n, k, accumulate, NULL);
        grid_free(&a), grid_free(&b), grid_free(&c);
    }
}

static void check_from_row(trial *t, bool turned)
{
    const size_t count = (size_t)budget(2 * COUNT_OF(sum_lengths), 3 * 11 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes,
                     k = TAKE(sum_lengths, i);
        grid a = left_factor(t, turned, m, k), b = grid_input(t, k, n, leading(t, n));
        grid c = grid_output(t, m, n, leading(t, n)), row = grid_input(t, 1, n, n + 1);
        trial_sizes(t, "m %zu n %zu k %zu lda %zu ldb %zu ldc %zu", m, n, k, a.ld, b.ld, c.ld);
        (turned ? t->ker->gemm_tn_from : t->ker->gemm_nn_from)(c.at, c.ld, a.at, a.ld, b.at, b.ld, m,
                                                               n, k, row.at);
        expect_product(t, &c, &a, &b, turned, m, n, k, 0, &row);
        expect_untouched(t, "row", &row, 0, 0);
        grid_free(&a), grid_free(&b), grid_free(&c), grid_free(&row);
    }
}

void CHECK(gemm_nn)(trial *t) { check_product(t, false); }
void CHECK(gemm_tn)(trial *t) { check_product(t, true); }
void CHECK(gemm_nn_from)(trial *t) { check_from_row(t, false); }
void CHECK(gemm_tn_from)(trial *t) { check_from_row(t, true); }

void CHECK(gemv)(trial *t)
{
    const size_t count = (size_t)budget(2 * COUNT_OF(any_sizes), 13 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t m = TAKE(any_sizes, i), k = TAKE(sum_lengths, i);
        grid a = grid_input(t, m, k, leading(t, k)), x = grid_input(t, k, 1, 1);
        grid y = grid_output(t, m, 1, 1); /* the product of gemm with one column */
        trial_sizes(t, "m %zu k %zu lda %zu", m, k, a.ld);
        t->ker->gemv(y.at, a.at, a.ld, x.at, m, k);
        expect_product(t, &y, &a, &x, false, m, 1, k, 0, NULL);
        grid_free(&a), grid_free(&x), grid_free(&y);
    }
}

void CHECK(gemv_bf16)(trial *t)
{
    const size_t count = (size_t)budget(2 * COUNT_OF(any_sizes), 13 * 17);
    for (size_t i = 0; i < count; i++) {
        const size_t m = TAKE(any_sizes, i), k = TAKE(sum_lengths, i);
        grid a = grid_input(t, m, k, leading(t, k)), x = grid_input(t, k, 1, 1);
        grid y = grid_output(t, m, 1, 1), want = grid_output(t, m, 1, 1);
        uint16_t *bf16 = grid_bf16(&a);
        trial_sizes(t, "m %zu k %zu lda %zu", m, k, a.ld);
        t->ker->gemv_bf16(y.at, bf16, a.ld, x.at, m, k);
        t->ker->gemv(want.at, a.at, a.ld, x.at, m, k);
        for (size_t j = 0; j < m; j++) expect_bits(t, "y", j, 0, now(&y, j, 0), now(&want, j, 0));
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, m, 1);
        grid_free(&a), grid_free(&x), grid_free(&y), grid_free(&want), free(bf16);
    }
}
