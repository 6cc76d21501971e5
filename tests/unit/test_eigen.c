/* test_eigen.c - eigenvalues and eigenvectors: they give the matrix again, and are orthonormal. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "attention/cur/eigen.h"
#include "core/isa.h"

enum { MOST = 130 };

typedef struct problem {
    size_t n, ld;
    double *a, *values, *vectors, *scratch, *used;
} problem;

static problem problem_new(size_t n)
{
    problem p = { .n = n, .ld = lnt_round_up(n, LNT_PAD) };
    p.a = calloc(n * p.ld, sizeof *p.a);
    p.used = calloc(n * p.ld, sizeof *p.used);
    p.values = calloc(p.ld, sizeof *p.values);
    p.vectors = calloc(n * p.ld, sizeof *p.vectors);
    p.scratch = calloc(LNT_EIGEN_ROWS * p.ld, sizeof *p.scratch);
    assert_true(p.a && p.used && p.values && p.vectors && p.scratch);
    return p;
}

static void problem_free(problem *p)
{
    free(p->a), free(p->used), free(p->values), free(p->vectors), free(p->scratch);
}

static void put(problem *p, size_t i, size_t j, double x)
{
    p->a[i * p->ld + j] = p->a[j * p->ld + i] = x;
}

static void decompose(problem *p, int isa)
{
    memcpy(p->used, p->a, p->n * p->ld * sizeof *p->a);
    lnt_eigen(lnt_kernels_get_f64(isa), p->n, p->ld, p->used, p->values, p->vectors, p->scratch);
}

/* On every ISA that is here. */
static void check(problem *p)
{
    double norm = 0;
    for (size_t i = 0; i < p->n * p->ld; i++) norm += p->a[i] * p->a[i];
    norm = sqrt(norm);
    for (int isa = 0; lnt_isa_name(isa); isa++) {
        if (!lnt_isa_available(isa)) continue;
        decompose(p, isa);
        for (size_t i = 0; i < p->n; i++)
            for (size_t j = 0; j < p->n; j++) {
                double again = 0, product = 0;
                for (size_t k = 0; k < p->n; k++) {
                    const double *row = p->vectors + k * p->ld;
                    again += row[i] * p->values[k] * row[j];
                    product += p->vectors[i * p->ld + k] * p->vectors[j * p->ld + k];
                }
                const double bound = 8 * (double)p->n * DBL_EPSILON;
                assert_true(fabs(again - p->a[i * p->ld + j]) <= bound * norm);
                assert_true(fabs(product - (i == j)) <= bound);
            }
        for (size_t i = 0; i < p->n; i++)
            for (size_t j = p->n; j < p->ld; j++) assert_true(p->vectors[i * p->ld + j] == 0);
    }
}

static void they_give_any_symmetric_matrix_again(void **state)
{
    (void)state;
    dice d = { 1 };
    for (size_t n = 1; n <= MOST; n += n < 20 ? 1 : 37) {
        problem p = problem_new(n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++) put(&p, i, j, dice_normal(&d));
        check(&p);
        problem_free(&p);
    }
}

/* Of as many vectors as `rank`, each a power of ten longer than the next: most eigenvalues are 0. */
static void they_give_matrices_of_low_rank_again(void **state)
{
    (void)state;
    dice d = { 2 };
    for (size_t rank = 0; rank < 9; rank++) {
        problem p = problem_new(40);
        double x[40], size = 1;
        for (size_t r = 0; r < rank; r++, size /= 10) {
            for (size_t i = 0; i < p.n; i++) x[i] = size * dice_normal(&d);
            for (size_t i = 0; i < p.n; i++)
                for (size_t j = 0; j <= i; j++) put(&p, i, j, p.a[i * p.ld + j] + x[i] * x[j]);
        }
        check(&p);
        problem_free(&p);
    }
}

static void they_give_matrices_with_equal_eigenvalues_again(void **state)
{
    (void)state;
    problem p = problem_new(33);
    for (size_t i = 0; i < p.n; i++) put(&p, i, i, 3);
    check(&p);
    for (size_t i = 0; i < p.n; i++) assert_true(p.values[i] == 3);
    for (size_t i = 0; i < p.n; i++)
        for (size_t j = 0; j < i; j++) put(&p, i, j, 1); /* 35, and 2 as often as there is room */
    check(&p);
    for (size_t i = 1; i < p.n; i++) put(&p, i, i - 1, 0); /* and what splits into parts */
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 16; j < p.n; j++) put(&p, i, j, 0);
    check(&p);
    problem_free(&p);
}

static void tiny_and_huge_numbers_are_as_good_as_others(void **state)
{
    (void)state;
    for (int power = -120; power <= 120; power += 40) {
        dice d = { 3 };
        problem p = problem_new(19);
        for (size_t i = 0; i < p.n; i++)
            for (size_t j = 0; j <= i; j++) put(&p, i, j, dice_normal(&d) * pow(10, power));
        check(&p);
        problem_free(&p);
    }
}

/* Squares of what is beside the diagonal underflow, some of them to 0. */
static void numbers_whose_squares_are_lost_count_as_nothing(void **state)
{
    (void)state;
    for (int power = -165; power <= -140; power++) {
        dice d = { 4 };
        problem p = problem_new(9);
        for (size_t i = 0; i < p.n; i++)
            for (size_t j = 0; j <= i; j++)
                put(&p, i, j, i == j ? (double)(i % 3) : dice_normal(&d) * pow(10, power));
        check(&p);
        problem_free(&p);
    }
}

static void what_is_no_number_is_told(void **state)
{
    (void)state;
    for (size_t n = 1; n < 12; n++)
        for (size_t at = 0; at < n; at++) {
            problem p = problem_new(n);
            for (size_t i = 0; i < n; i++) put(&p, i, i, 1);
            put(&p, at, n / 2, (double)NAN);
            decompose(&p, 0);
            for (size_t i = 0; i < n; i++) assert_true(isnan(p.values[i]));
            put(&p, at, n / 2, INFINITY);
            decompose(&p, 0);
            for (size_t i = 0; i < n; i++) assert_true(isnan(p.values[i]));
            problem_free(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_give_any_symmetric_matrix_again),
        cmocka_unit_test(they_give_matrices_of_low_rank_again),
        cmocka_unit_test(they_give_matrices_with_equal_eigenvalues_again),
        cmocka_unit_test(tiny_and_huge_numbers_are_as_good_as_others),
        cmocka_unit_test(numbers_whose_squares_are_lost_count_as_nothing),
        cmocka_unit_test(what_is_no_number_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
