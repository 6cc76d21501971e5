/* test_product.c - the product of layers in float: right for any shape and strides, and the same bits
 * for any number of threads, whatever blocks they work on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "nn/tiles.h"
#include "support.h"

const lnt_tile_kernels *lnt_emulated_tile_table(void);

static float *random_floats(dice *d, size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = (float)dice_normal(d);
    return x;
}

typedef struct shape {
    size_t m, n, k;
    bool a_transposed, b_transposed, accumulate;
} shape;

static lnt_matrix matrix(const float *at, size_t rows, size_t columns, bool transposed)
{
    return transposed ? nn_transposed(nn_rows(at, rows)) : nn_rows(at, columns);
}

static void check(const shape *s, dice *d)
{
    float *a = random_floats(d, s->m * s->k), *b = random_floats(d, s->k * s->n);
    float *before = random_floats(d, s->m * s->n), *c = random_floats(d, s->m * s->n);
    float *first = random_floats(d, s->m * s->n);
    const lnt_matrix x = matrix(a, s->m, s->k, s->a_transposed), y = matrix(b, s->k, s->n, s->b_transposed);
    for (int threads = 1; threads <= 40; threads += 13) {
        lnt_ctx *ctx = context_new(threads, NULL);
        memcpy(c, before, s->m * s->n * sizeof *c);
        lnt_product(ctx, c, s->n, x, y, s->m, s->n, s->k, s->accumulate);
        if (threads == 1) memcpy(first, c, s->m * s->n * sizeof *c);
        if (memcmp(first, c, s->m * s->n * sizeof *c))
            fail_msg("%zu x %zu x %zu: %d threads give other bits", s->m, s->n, s->k, threads);
        lnt_ctx_destroy(ctx);
    }
    for (int i = 0; i < 200; i++) {
        const size_t row = (size_t)dice_range(d, 0, (int64_t)s->m - 1);
        const size_t column = (size_t)dice_range(d, 0, (int64_t)s->n - 1);
        double want = s->accumulate ? (double)before[row * s->n + column] : 0, size = fabs(want);
        for (size_t k = 0; k < s->k; k++) {
            const double part = (double)x.at[row * x.row + k * x.col] *
                                (double)y.at[k * y.row + column * y.col];
            want += part;
            size += fabs(part);
        }
        if (!(fabs((double)first[row * s->n + column] - want) <= 1e-6 * size + 1e-30))
            fail_msg("%zu x %zu x %zu: element %zu, %zu is wrong", s->m, s->n, s->k, row, column);
    }
    free(a);
    free(b);
    free(c);
    free(before);
    free(first);
}

static void products_are_right_and_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    dice d = { 3 };
    static const shape fixed[] = { { 1, 1, 1, 0, 0, 0 },      { 1, 300, 500, 0, 0, 1 },
                                   { 4, 256, 64, 0, 1, 0 },   { 200, 100, 400, 0, 0, 1 },
                                   { 97, 385, 193, 1, 0, 1 }, { 500, 30, 256, 0, 0, 1 },
                                   { 256, 256, 700, 1, 0, 1 }, { 1, 1024, 256, 0, 0, 0 },
                                   { 3, 700, 1000, 0, 0, 1 },  { 2, 9000, 130, 0, 0, 0 },
                                   { 4, 40, 2000, 0, 0, 0 },   { 64, 20, 1, 0, 1, 0 },
                                   { 64, 20, 1, 1, 0, 1 },     { 64, 1, 20, 0, 1, 0 },
                                   { 64, 1, 20, 1, 0, 1 } };
    for (int i = 0; i < COUNT_OF(fixed); i++) check(&fixed[i], &d);
    for (int i = 0; i < budget(4, 30); i++) {
        const shape s = { (size_t)dice_range(&d, 1, 400), (size_t)dice_range(&d, 1, 400),
                          (size_t)dice_range(&d, 0, 400), dice_range(&d, 0, 1) != 0,
                          dice_range(&d, 0, 1) != 0, dice_range(&d, 0, 1) != 0 };
        check(&s, &d);
    }
}

/* c = a b + bias and c += a b, sums += the rows of b: what the plain product gives, and the sums. */
static void check_beside(const shape *s, dice *d)
{
    float *a = random_floats(d, s->m * s->k), *b = random_floats(d, s->k * s->n);
    float *bias = random_floats(d, s->n), *want = random_floats(d, s->m * s->n);
    float *c = random_floats(d, s->m * s->n), *sums = random_floats(d, s->n);
    float *first = random_floats(d, s->n);
    const lnt_matrix x = matrix(a, s->m, s->k, s->a_transposed), y = matrix(b, s->k, s->n, false);
    for (int threads = 1; threads <= 27; threads += 13) {
        lnt_ctx *ctx = context_new(threads, NULL);
        for (size_t i = 0; i < s->m; i++) memcpy(want + i * s->n, bias, s->n * sizeof *want);
        lnt_product(ctx, want, s->n, x, y, s->m, s->n, s->k, true);
        lnt_product_biased(ctx, c, s->n, x, y, bias, s->m, s->n, s->k);
        if (memcmp(want, c, s->m * s->n * sizeof *c))
            fail_msg("%zu x %zu x %zu: biased, %d threads", s->m, s->n, s->k, threads);
        memcpy(sums, bias, s->n * sizeof *sums);
        lnt_product(ctx, want, s->n, x, y, s->m, s->n, s->k, true);
        lnt_product_summed(ctx, c, s->n, x, y, sums, s->m, s->n, s->k);
        if (memcmp(want, c, s->m * s->n * sizeof *c))
            fail_msg("%zu x %zu x %zu: summed, %d threads", s->m, s->n, s->k, threads);
        if (threads == 1) memcpy(first, sums, s->n * sizeof *sums);
        if (memcmp(first, sums, s->n * sizeof *sums))
            fail_msg("%zu x %zu x %zu: %d threads give other sums", s->m, s->n, s->k, threads);
        lnt_ctx_destroy(ctx);
    }
    for (size_t j = 0; j < s->n; j++) {
        double sum = (double)bias[j], size = fabs(sum);
        for (size_t k = 0; k < s->k; k++) {
            sum += (double)b[k * s->n + j];
            size += fabs((double)b[k * s->n + j]);
        }
        if (!(fabs((double)first[j] - sum) <= 2e-6 * size + 1e-30))
            fail_msg("%zu x %zu x %zu: sum %zu is wrong", s->m, s->n, s->k, j);
    }
    float *const all[] = { a, b, bias, want, c, sums, first };
    for (int i = 0; i < COUNT_OF(all); i++) free(all[i]);
}

static void bias_and_sums_come_with_the_product(void **state)
{
    (void)state;
    dice d = { 4 };
    static const shape fixed[] = { { 1, 1, 1, 0, 0, 0 },     { 3, 300, 500, 0, 0, 0 },
                                   { 3, 300, 500, 1, 0, 0 }, { 97, 385, 193, 1, 0, 0 },
                                   { 300, 600, 700, 1, 0, 0 }, { 200, 100, 400, 0, 0, 0 },
                                   { 64, 64, 0, 0, 0, 0 } };
    for (int i = 0; i < COUNT_OF(fixed); i++) check_beside(&fixed[i], &d);
}

/* Few rows read b as bf16, more do not: the bits are those of b itself. */
static void numbers_of_bf16_may_be_given_as_such(void **state)
{
    (void)state;
    dice d = { 5 };
    static const shape fixed[] = { { 1, 1, 1, 0, 0, 0 },   { 1, 300, 500, 0, 0, 0 }, { 4, 577, 64, 0, 0, 0 },
                                   { 1, 300, 77, 0, 1, 0 }, { 3, 64, 500, 0, 1, 0 },  { 5, 70, 90, 0, 0, 0 },
                                   { 1, 9000, 130, 0, 0, 0 }, { 2, 40, 0, 0, 0, 0 } };
    for (int i = 0; i < COUNT_OF(fixed); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const shape *s = &fixed[i];
            lnt_ctx *ctx = context_new(threads, NULL);
            float *a = random_floats(&d, s->m * s->k), *b = random_floats(&d, s->k * s->n);
            float *bias = random_floats(&d, s->n), *want = random_floats(&d, s->m * s->n);
            float *c = random_floats(&d, s->m * s->n);
            uint16_t *bf16 = malloc(s->k * s->n * sizeof *bf16 + 1);
            assert_non_null(bf16);
            for (size_t j = 0; j < s->k * s->n; j++) {
                bf16[j] = lnt_float_to_bf16(b[j]);
                b[j] = lnt_bf16_to_float(bf16[j]);
            }
            const lnt_matrix x = matrix(a, s->m, s->k, false);
            lnt_matrix y = matrix(b, s->k, s->n, s->b_transposed);
            lnt_product_biased(ctx, want, s->n, x, y, bias, s->m, s->n, s->k);
            y.bf16 = bf16;
            lnt_product_biased(ctx, c, s->n, x, y, bias, s->m, s->n, s->k);
            if (memcmp(want, c, s->m * s->n * sizeof *c))
                fail_msg("%zu x %zu x %zu, %d threads", s->m, s->n, s->k, threads);
            free(a), free(b), free(bias), free(want), free(c), free(bf16);
            lnt_ctx_destroy(ctx);
        }
}

/* Few rows and many, with parts that end anywhere: the numbers of the same matrix in f32. */
static void packed_weights_may_be_the_right_factor(void **state)
{
    (void)state;
    dice d = { 6 };
    static const shape fixed[] = { { 1, 1, 1, 0, 0, 0 },
                                   { 1, 300, 500, 0, 0, 1 },
                                   { 30, 77, 333, 0, 0, 0 },
                                   { 200, 577, 64, 0, 0, 1 },
                                   { 33, 31, 1000, 0, 0, 0 } };
    for (int i = 0; i < COUNT_OF(fixed); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const shape *s = &fixed[i];
            lnt_ctx *ctx = context_new(threads, NULL);
            float *a = random_floats(&d, s->m * s->k), *b = random_floats(&d, s->k * s->n);
            float *want = random_floats(&d, s->m * s->n), *c = malloc(s->m * s->n * sizeof *c);
            assert_non_null(c);
            memcpy(c, want, s->m * s->n * sizeof *c);
            const size_t first = s->n / 3;
            const lnt_weight_part parts[] = {
                { LNT_STORAGE_F32, b, first, NULL, false },
                { LNT_STORAGE_F32, b + first * s->k, s->n - first, NULL, false },
            };
            lnt_weight w;
            assert_ok(ctx, lnt_weight_open(ctx, "b", parts, 2, s->k, NULL, &w));
            const lnt_matrix x = matrix(a, s->m, s->k, false), packed = { .packed = &w };
            lnt_product(ctx, want, s->n, x, matrix(b, s->k, s->n, true), s->m, s->n, s->k, s->accumulate);
            lnt_product(ctx, c, s->n, x, packed, s->m, s->n, s->k, s->accumulate);
            const bool by_tiles = s->m >= lnt_tiles_least(&w) && lnt_tile_kernels_get(ctx->isa);
            const float share = by_tiles ? 3 / 65536.0f : 2e-6f; /* of a product, in cpu/tiles/tiles.h */
            for (size_t j = 0; j < s->m * s->n; j++)
                if (!(fabsf(c[j] - want[j]) <= share * (float)s->k + 1e-6f))
                    fail_msg("%zu x %zu x %zu, %d threads: %g, not %g", s->m, s->n, s->k, threads,
                             (double)c[j], (double)want[j]);
            lnt_weight_close(ctx, &w);
            free(a), free(b), free(want), free(c);
            lnt_ctx_destroy(ctx);
        }
}

/* As training has them with "compute": "bf16": each factor rounded once, either as it lies or transposed. */
static void check_rounded(const shape *s, dice *d)
{
    float *a = random_floats(d, s->m * s->k), *b = random_floats(d, s->k * s->n);
    float *before = random_floats(d, s->m * s->n), *c[] = { random_floats(d, 0), NULL };
    const lnt_matrix x = matrix(a, s->m, s->k, s->a_transposed), y = matrix(b, s->k, s->n, s->b_transposed);
    for (int i = 0; i < 2; i++) {
        lnt_ctx *ctx = context_new(1 + 4 * i, NULL);
        c[i] = realloc(c[i], (s->m * s->n + 1) * sizeof **c);
        assert_non_null(c[i]);
        memcpy(c[i], before, s->m * s->n * sizeof **c);
        lnt_tiles_multiply(ctx, lnt_emulated_tile_table(), c[i], s->n, x, y, s->m, s->n, s->k, s->accumulate,
                           false);
        lnt_ctx_destroy(ctx);
    }
    assert_int_equal(memcmp(c[0], c[1], s->m * s->n * sizeof **c), 0);
    for (size_t at = 0; at < s->m * s->n; at++) {
        double want = s->accumulate ? (double)before[at] : 0, size = fabs(want);
        for (size_t k = 0; k < s->k; k++) {
            const float left = x.at[at / s->n * x.row + k * x.col];
            const float right = y.at[k * y.row + at % s->n * y.col];
            const double part = (double)lnt_bf16_to_float(lnt_float_to_bf16(left)) *
                                (double)lnt_bf16_to_float(lnt_float_to_bf16(right));
            want += part;
            size += fabs(part);
        }
        if (!(fabs((double)c[0][at] - want) <= 1e-6 * size + 1e-30))
            fail_msg("%zu x %zu x %zu: element %zu is %g, not %g", s->m, s->n, s->k, at, (double)c[0][at],
                     want);
    }
    free(a), free(b), free(before), free(c[0]), free(c[1]);
}

static void tiles_round_factors_once_and_sum_in_float(void **state)
{
    (void)state;
    dice d = { 7 };
    static const shape fixed[] = { { 1, 1, 1, 0, 0, 0 }, { 70, 40, 0, 0, 0, 0 }, { 33, 700, 1300, 0, 0, 1 } };
    for (int i = 0; i < COUNT_OF(fixed); i++) check_rounded(&fixed[i], &d);
    for (int i = 0; i < budget(24, 80); i++) {
        const shape s = { (size_t)dice_range(&d, 1, 150), (size_t)dice_range(&d, 1, 150),
                          (size_t)dice_range(&d, 1, 150), i & 1, i & 2, i & 4 };
        check_rounded(&s, &d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right_and_the_same_for_any_number_of_threads),
        cmocka_unit_test(bias_and_sums_come_with_the_product),
        cmocka_unit_test(numbers_of_bf16_may_be_given_as_such),
        cmocka_unit_test(tiles_round_factors_once_and_sum_in_float),
        cmocka_unit_test(packed_weights_may_be_the_right_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
