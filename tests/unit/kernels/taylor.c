/* taylor.c - checks of the polynomial and its gradient, the monomials, the products of rows and the dot
 * products of columns. */
#include "checks.h"

void CHECK(polynomial)(trial *t)
{
    for (size_t i = 0; i < 11 * 13; i++) {
        const size_t n = TAKE(vector_counts, i) * t->ker->lanes, terms = i % 13;
        const bool in_place = i % 2;
        grid x = grid_inout(t, 1, n, n + 1), y = grid_output(t, 1, n, n + 1);
        grid a = grid_input(t, 1, terms, terms + 1);
        trial_sizes(t, "terms %zu padded %zu", terms, n);
        t->ker->polynomial(in_place ? x.at : y.at, x.at, a.at, terms, n);
        for (size_t j = 0; j < n; j++) {
            double sum = 0, magnitude = 0, power = 1;
            for (size_t p = 0; p < terms; p++, power *= was(&x, 0, j)) {
                sum += was(&a, 0, p) * power;
                magnitude += fabs(was(&a, 0, p) * power);
            }
            expect_near(t, "y", 0, j, now(in_place ? &x : &y, 0, j), sum,
                        2 * (double)(terms + 1) * REAL_EPSILON * magnitude);
        }
        expect_untouched(t, "x", &x, in_place, n);
        expect_untouched(t, "y", &y, !in_place, n);
        grid_free(&x), grid_free(&y), grid_free(&a);
    }
}

/* The value and the slope of the polynomial a, and the sums of their terms' sizes. */
static void evaluate(const grid *a, double x, double at[2], double size[2])
{
    double power = 1, before = 0; /* x^p, and x^(p-1) */
    at[0] = at[1] = size[0] = size[1] = 0;
    for (size_t p = 0; p < a->cols; p++, before = power, power *= x) {
        at[0] += was(a, 0, p) * power;
        at[1] += was(a, 0, p) * (double)p * before;
        size[0] += fabs(was(a, 0, p) * power);
        size[1] += fabs(was(a, 0, p) * (double)p * before);
    }
}

void CHECK(polynomial_back)(trial *t)
{
    for (size_t i = 0; i < 17 * 11; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes;
        const size_t ld = leading(t, n), terms = 1 + i % 7;
        grid x = grid_inout(t, m, n, ld), dw = grid_inout(t, m, n, ld);
        grid a = grid_input(t, 1, terms, terms + 1), f = grid_input(t, 1, n, n + 1);
        grid delta = grid_input(t, 1, n, n + 1);
        trial_sizes(t, "m %zu padded %zu ld %zu terms %zu", m, n, ld, terms);
        t->ker->polynomial_back(x.at, dw.at, ld, m, n, a.at, terms, f.at, delta.at);
        for (size_t r = 0; r < m; r++)
            for (size_t j = 0; j < n; j++) {
                double at[2], size[2];
                const double off = 4 * (double)(terms + 1) * REAL_EPSILON;
                const double over = was(&dw, r, j) - was(&delta, 0, j);
                evaluate(&a, was(&x, r, j), at, size);
                expect_near(t, "x", r, j, now(&x, r, j), at[0] * was(&f, 0, j),
                            off * size[0] * fabs(was(&f, 0, j)));
                expect_near(t, "dw", r, j, now(&dw, r, j), at[1] * over * was(&f, 0, j),
                            off * size[1] * fabs(over * was(&f, 0, j)));
            }
        expect_untouched(t, "x", &x, m, n);
        expect_untouched(t, "dw", &dw, m, n);
        expect_untouched(t, "a", &a, 0, 0);
        expect_untouched(t, "f", &f, 0, 0);
        expect_untouched(t, "delta", &delta, 0, 0);
        grid_free(&x), grid_free(&dw), grid_free(&a), grid_free(&f), grid_free(&delta);
    }
}

void CHECK(multiply_rows)(trial *t)
{
    for (size_t i = 0; i < 17 * 11; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes;
        grid x = grid_input(t, m, n, leading(t, n)), f = grid_input(t, 1, n, n + 1);
        grid y = grid_output(t, m, n, leading(t, n));
        trial_sizes(t, "m %zu padded %zu", m, n);
        t->ker->multiply_rows(y.at, y.ld, x.at, x.ld, f.at, m, n);
        for (size_t r = 0; r < m; r++)
            for (size_t j = 0; j < n; j++)
                expect_bits(t, "y", r, j, now(&y, r, j),
                            (double)((real)was(&x, r, j) * (real)was(&f, 0, j)));
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "f", &f, 0, 0);
        expect_untouched(t, "y", &y, m, n);
        grid_free(&x), grid_free(&f), grid_free(&y);
    }
}

/* A prefix of degree 0, and those of a few steps more, each with a run that has as many monomials as fit. */
static size_t make_steps(lnt_monomial_step step[6], size_t columns, size_t count, size_t seed)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t level = i < 3 ? i : 1 + i % 2, first = (seed + i) % columns;
        const size_t length = i % 3 == 1 ? 0 : 1 + (seed + 5 * i) % (columns - first);
        step[i] = (lnt_monomial_step){ .level = (uint32_t)level,
                                       .index = (uint32_t)((seed + 3 * i) % columns),
                                       .first = (uint32_t)first,
                                       .length = (uint32_t)length,
                                       .factor = 1.5 - (double)i / 8,
                                       .first_factor = 0.25 + (double)i / 4 };
        made += length;
    }
    return made;
}

void CHECK(monomials)(trial *t)
{
    for (size_t i = 0; i < 17 * 11 * 6; i++) {
        const size_t columns = 1 + TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes;
        const size_t ld = leading(t, n), count = i % 7;
        const bool query = i % 2;
        lnt_monomial_step step[6];
        const size_t made = make_steps(step, columns, count, i);
        grid x = grid_input(t, columns, n, ld), phi = grid_output(t, made, n, ld);
        grid prefix = grid_output(t, 3, n, ld);
        trial_sizes(t, "columns %zu padded %zu ld %zu steps %zu query %d", columns, n, ld, count, query);
        t->ker->monomials(phi.at, prefix.at, x.at, ld, step, count, n, query);
        for (size_t j = 0; j < n; j++) {
            real p[3];
            size_t row = 0;
            for (size_t k = 0; k < count; k++) {
                const lnt_monomial_step *s = step + k;
                const real by = s->level ? p[s->level - 1] * (real)was(&x, s->index, j) : 1;
                p[s->level] = query ? by * (real)s->factor : by;
                for (size_t r = 0; r < s->length; r++, row++) {
                    const real each = p[s->level] * (real)was(&x, s->first + r, j);
                    expect_bits(t, "phi", row, j, now(&phi, row, j),
                                (double)(query && r == 0 ? each * (real)s->first_factor : each));
                }
            }
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "phi", &phi, made, n);
        grid_free(&x), grid_free(&phi), grid_free(&prefix);
    }
}

void CHECK(multiply_rows_back)(trial *t)
{
    for (size_t i = 0; i < 17 * 11; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes;
        const size_t ld = leading(t, n);
        grid dx = grid_inout(t, m, n, ld), df = grid_inout(t, 1, n, n + 1);
        grid dy = grid_input(t, m, n, ld), x = grid_input(t, m, n, ld);
        grid f = grid_input(t, 1, n, n + 1);
        trial_sizes(t, "m %zu padded %zu", m, n);
        t->ker->multiply_rows_back(dx.at, df.at, dy.at, x.at, ld, f.at, m, n);
        for (size_t j = 0; j < n; j++) {
            double sum = was(&df, 0, j), magnitude = fabs(sum);
            for (size_t r = 0; r < m; r++) {
                const double before = was(&dx, r, j), term = was(&dy, r, j) * was(&f, 0, j);
                expect_near(t, "dx", r, j, now(&dx, r, j), before + term,
                            REAL_EPSILON * (fabs(before) + fabs(term)));
                sum += was(&dy, r, j) * was(&x, r, j);
                magnitude += fabs(was(&dy, r, j) * was(&x, r, j));
            }
            expect_near(t, "df", 0, j, now(&df, 0, j), sum, sum_bound(m + 1, magnitude));
        }
        expect_untouched(t, "dx", &dx, m, n);
        expect_untouched(t, "df", &df, 1, n);
        grid_free(&dx), grid_free(&df), grid_free(&dy), grid_free(&x), grid_free(&f);
    }
}

void CHECK(columns_dot)(trial *t)
{
    for (size_t i = 0; i < 17 * 11; i++) {
        const size_t m = TAKE(any_sizes, i), n = TAKE(vector_counts, i) * t->ker->lanes;
        const size_t ld = leading(t, n);
        grid sum = grid_inout(t, 1, n, n + 1), x = grid_input(t, m, n, ld);
        grid y = grid_input(t, m, n, ld);
        trial_sizes(t, "m %zu padded %zu", m, n);
        t->ker->columns_dot(sum.at, x.at, y.at, ld, m, n);
        for (size_t j = 0; j < n; j++) {
            double total = was(&sum, 0, j), magnitude = fabs(total);
            for (size_t r = 0; r < m; r++) {
                total += was(&x, r, j) * was(&y, r, j);
                magnitude += fabs(was(&x, r, j) * was(&y, r, j));
            }
            expect_near(t, "sum", 0, j, now(&sum, 0, j), total, sum_bound(m + 1, magnitude));
        }
        expect_untouched(t, "sum", &sum, 1, n);
        grid_free(&sum), grid_free(&x), grid_free(&y);
    }
}
