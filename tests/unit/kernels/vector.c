/* vector.c - checks of dot, largest, axpy, add_rows (of bf16 too), combine, scale, scale_rows,
 * rotate_rows, add_compensated, and of the two kernels that measure the machine. */
#include <stdlib.h>

#include "checks.h"

/* Every count up to where two vectors of any ISA have gone round, then some longer ones. */
static const size_t longer[] = { 127, 128, 129, 1000, 1031 };

static size_t count_at(size_t i) { return i < 70 ? i : longer[i - 70]; }
static size_t counts(void) { return 70 + (size_t)budget(3, COUNT_OF(longer)); }

void CHECK(dot)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i);
        grid x = grid_input(t, 1, n, n + 1), y = grid_input(t, 1, n, n + 1);
        trial_sizes(t, "n %zu", n);
        const real got = t->ker->dot(x.at, y.at, n);
        double sum = 0, magnitude = 0;
        for (size_t j = 0; j < n; j++) {
            sum += was(&x, 0, j) * was(&y, 0, j);
            magnitude += fabs(was(&x, 0, j) * was(&y, 0, j));
        }
        expect_near(t, "dot", 0, 0, (double)got, sum, sum_bound(n, magnitude));
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 0, 0);
        grid_free(&x), grid_free(&y);
    }
}

/* In every place; beside NaN, and behind it. */
void CHECK(largest)(trial *t)
{
    for (size_t i = 1; i < counts(); i++) {
        const size_t n = count_at(i);
        trial_sizes(t, "n %zu", n);
        for (size_t at = 0; at < n; at++) {
            grid x = grid_inout(t, 1, n, n + 1);
            x.at[at] = 100;
            expect_bits(t, "largest", 0, at, (double)t->ker->largest(x.at, n), 100);
            const size_t beside = (size_t)dice_range(&t->dice, 0, (int64_t)n - 1);
            if (beside && beside != at) x.at[beside] = (real)NAN;
            expect_bits(t, "largest beside NaN", 0, at, (double)t->ker->largest(x.at, n), 100);
            x.at[0] = (real)NAN;
            expect_bits(t, "largest behind NaN", 0, at, isnan(t->ker->largest(x.at, n)), 1);
            expect_untouched(t, "x", &x, 1, n);
            grid_free(&x);
        }
    }
}

void CHECK(axpy)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i);
        const real a = (real)dice_normal(&t->dice);
        grid x = grid_input(t, 1, n, n + 1), y = grid_inout(t, 1, n, n + 1);
        trial_sizes(t, "n %zu a %g", n, (double)a);
        t->ker->axpy(y.at, a, x.at, n);
        for (size_t j = 0; j < n; j++) {
            const double term = (double)a * was(&x, 0, j), before = was(&y, 0, j);
            expect_near(t, "y", 0, j, now(&y, 0, j), before + term,
                        REAL_EPSILON * (fabs(before) + fabs(term)));
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 1, n);
        grid_free(&x), grid_free(&y);
    }
}

void CHECK(add_rows)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i), m = i % 11; /* none, less than a group, groups and a rest */
        grid a = grid_input(t, 1, m, m + 1), x = grid_input(t, m, n, n + 3);
        grid y = grid_inout(t, 1, n, n + 1);
        trial_sizes(t, "m %zu n %zu", m, n);
        t->ker->add_rows(y.at, a.at, x.at, x.ld, m, n);
        for (size_t j = 0; j < n; j++) {
            double sum = was(&y, 0, j), magnitude = fabs(sum);
            for (size_t r = 0; r < m; r++) {
                sum += was(&a, 0, r) * was(&x, r, j);
                magnitude += fabs(was(&a, 0, r) * was(&x, r, j));
            }
            expect_near(t, "y", 0, j, now(&y, 0, j), sum, sum_bound(m + 1, magnitude));
        }
        expect_untouched(t, "a", &a, 0, 0);
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 1, n);
        grid_free(&a), grid_free(&x), grid_free(&y);
    }
}

void CHECK(add_rows_bf16)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i), m = i % 11;
        grid a = grid_input(t, 1, m, m + 1), x = grid_input(t, m, n, n + 3);
        grid y = grid_inout(t, 1, n, n + 1), want = grid_inout(t, 1, n, n + 1);
        uint16_t *bf16 = grid_bf16(&x);
        for (size_t j = 0; j < n; j++) want.at[j] = y.at[j];
        trial_sizes(t, "m %zu n %zu", m, n);
        t->ker->add_rows_bf16(y.at, a.at, bf16, x.ld, m, n);
        t->ker->add_rows(want.at, a.at, x.at, x.ld, m, n);
        for (size_t j = 0; j < n; j++) expect_bits(t, "y", 0, j, now(&y, 0, j), now(&want, 0, j));
        expect_untouched(t, "a", &a, 0, 0);
        expect_untouched(t, "y", &y, 1, n);
        grid_free(&a), grid_free(&x), grid_free(&y), grid_free(&want), free(bf16);
    }
}

/* Of one to four arrays, into one of their own or over any of them. */
void CHECK(combine)(trial *t)
{
    enum { MOST = 4 };
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i), m = 1 + i % MOST, over = i / MOST % (MOST + 1);
        grid a = grid_input(t, 1, m, m + 1), x[MOST], y = grid_inout(t, 1, n, n + 1);
        const real *from[MOST];
        trial_sizes(t, "m %zu n %zu over %zu", m, n, over);
        for (size_t r = 0; r < m; r++) {
            x[r] = (r == over ? grid_inout : grid_input)(t, 1, n, n + 1);
            from[r] = x[r].at;
        }
        grid *to = over < m ? x + over : &y;
        t->ker->combine(to->at, a.at, from, m, n);
        for (size_t j = 0; j < n; j++) {
            double sum = 0, magnitude = 0;
            for (size_t r = 0; r < m; r++) {
                sum += was(&a, 0, r) * was(x + r, 0, j);
                magnitude += fabs(was(&a, 0, r) * was(x + r, 0, j));
            }
            expect_near(t, "y", 0, j, now(to, 0, j), sum, sum_bound(m, magnitude));
        }
        expect_untouched(t, "a", &a, 0, 0);
        expect_untouched(t, "y", &y, to == &y, n);
        for (size_t r = 0; r < m; r++) {
            expect_untouched(t, "x", x + r, to == x + r, n);
            grid_free(x + r);
        }
        grid_free(&a), grid_free(&y);
    }
}

void CHECK(scale)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i);
        const real a = i % 8 ? (real)dice_normal(&t->dice) : 0;
        grid x = grid_inout(t, 1, n, n + 1);
        trial_sizes(t, "n %zu a %g", n, (double)a);
        t->ker->scale(x.at, a, n);
        for (size_t j = 0; j < n; j++)
            expect_bits(t, "x", 0, j, now(&x, 0, j), (double)((real)was(&x, 0, j) * a));
        expect_untouched(t, "x", &x, 1, n);
        grid_free(&x);
    }
}

void CHECK(scale_rows)(trial *t)
{
    for (size_t m = 0; m < 20; m++) {
        const size_t padded = t->ker->lanes * (m % 3 + 1), ld = padded + m % 2;
        grid x = grid_inout(t, m, padded, ld), f = grid_inout(t, 1, m, m + 1);
        for (size_t i = 0; i < m; i++) /* eights of rows that change, that stay, and that do both */
            if (i % 16 < 8 ? m % 2 : i % 3) f.at[i] = 1;
        trial_sizes(t, "m %zu padded %zu", m, padded);
        t->ker->scale_rows(x.at, ld, f.at, m, padded);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < padded; j++)
                expect_bits(t, "x", i, j, now(&x, i, j),
                            (double)((real)was(&x, i, j) * (real)now(&f, 0, i)));
        expect_untouched(t, "x", &x, m, padded);
        expect_untouched(t, "f", &f, 1, m);
        grid_free(&x), grid_free(&f);
    }
}

void CHECK(rotate_rows)(trial *t)
{
    for (size_t m = 0; m < 20; m++) {
        const size_t padded = t->ker->lanes * (m % 7 + 1), ld = padded + m % 2;
        grid x = grid_inout(t, m + 1, padded, ld);
        grid c = grid_input(t, 1, m, m + 1), s = grid_input(t, 1, m, m + 1);
        trial_sizes(t, "m %zu padded %zu", m, padded);
        t->ker->rotate_rows(x.at, ld, c.at, s.at, m, padded);
        for (size_t j = 0; j < padded; j++) {
            double next = was(&x, m, j), magnitude = fabs(next);
            for (size_t i = m; i-- > 0;) {
                const double row = was(&x, i, j), cosine = was(&c, 0, i), sine = was(&s, 0, i);
                const double both = fabs(cosine) + fabs(sine);
                magnitude = both * (magnitude > fabs(row) ? magnitude : fabs(row));
                expect_near(t, "x", i + 1, j, now(&x, i + 1, j), sine * row + cosine * next,
                            sum_bound(m + 2, magnitude));
                next = cosine * row - sine * next;
            }
            expect_near(t, "x", 0, j, now(&x, 0, j), next, sum_bound(m + 2, magnitude));
        }
        expect_untouched(t, "x", &x, m + 1, padded);
        expect_untouched(t, "c", &c, 0, 0);
        expect_untouched(t, "s", &s, 0, 0);
        grid_free(&x), grid_free(&c), grid_free(&s);
    }
}

/* s is the rounded sum, low what was rounded off: the smaller of the two less what of it arrived. */
static void check_two_sum(const trial *t, const grid *s, const grid *low, const grid *x, size_t i,
                          size_t j)
{
    const real before = (real)was(s, i, j), y = (real)now(x, i, j) + (real)was(low, i, j);
    const real sum = before + y;
    const real rest = fabs((double)before) < fabs((double)y) ? before - (sum - y)
                                                             : y - (sum - before);
    expect_bits(t, "s", i, j, now(s, i, j), (double)sum);
    expect_near(t, "low", i, j, now(low, i, j), (double)rest, 0);
}

void CHECK(add_compensated)(trial *t)
{
    for (size_t i = 0; i < counts(); i++) {
        const size_t n = count_at(i), m = TAKE(any_sizes, i), ld = leading(t, n);
        grid s = grid_inout(t, m, n, ld), low = grid_inout(t, m, n, ld);
        grid x = grid_input(t, m, n, leading(t, n));
        for (size_t j = 0; j < m * n; j++)
            low.at[j / n * ld + j % n] *= (real)(REAL_EPSILON / 4);
        grid_keep(&low);
        trial_sizes(t, "m %zu n %zu ld %zu", m, n, ld);
        t->ker->add_compensated(s.at, low.at, ld, x.at, x.ld, m, n);
        for (size_t j = 0; j < m * n; j++) check_two_sum(t, &s, &low, &x, j / n, j % n);
        expect_untouched(t, "s", &s, m, n);
        expect_untouched(t, "low", &low, m, n);
        grid_free(&s);
        grid_free(&low);
        grid_free(&x);
    }
}

void CHECK(peak_update)(trial *t)
{
    for (size_t i = 0; i < COUNT_OF(vector_counts); i++) {
        const size_t n = vector_counts[i] * t->ker->lanes;
        const real b = (real)dice_normal(&t->dice);
        grid x = grid_inout(t, 1, n, n + 1);
        trial_sizes(t, "padded %zu b %g", n, (double)b);
        t->ker->peak_update(x.at, n, b);
        for (size_t j = 0; j < n; j++) {
            const double before = was(&x, 0, j);
            expect_near(t, "x", 0, j, now(&x, 0, j), (double)b - before,
                        REAL_EPSILON * (fabs(before) + fabs((double)b)));
        }
        expect_untouched(t, "x", &x, 1, n);
        grid_free(&x);
    }
}

/* Each sum starts near 1 and takes `little` of another every round: all of them together grow by
 * 1 + little.  So the result shows how many sums there are, and that no round was left out. */
void CHECK(peak_fma)(trial *t)
{
    static const struct {
        size_t rounds;
        double little;
    } cases[] = { { 0, 1e-9 }, { 1, 1e-9 }, { 1000, 1e-9 }, { 100, 1e-3 }, { 701, 1e-3 } };
    const double sums = t->ker->fma_flops / 2; /* one multiplication and one addition each */
    for (int i = 0; i < COUNT_OF(cases); i++) {
        const double want = sums * pow(1 + cases[i].little, (double)cases[i].rounds);
        trial_sizes(t, "rounds %zu little %g", cases[i].rounds, cases[i].little);
        const real got = t->ker->peak_fma(cases[i].rounds, (real)cases[i].little);
        expect_near(t, "result", 0, 0, (double)got, want, 0.02 * want);
    }
}
