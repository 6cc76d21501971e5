/* layer.c - checks of logistic_unit, logistic_unit_back, normal_unit, normal_unit_back, norm, norm_share,
 * norm_back, rotate_pairs, rotate_halves, adam. */
#include "checks.h"

enum { COUNTS = 70 }; /* every count up to where four vectors of any ISA have gone round */

#ifdef LNT_DOUBLE
#define LEAST DBL_MIN
#else
#define LEAST ((double)FLT_MIN)
#endif

/* Numbers of every size: none, not normal, small, ordinary, and so far out that e^u over- or
 * underflows. */
static grid spread_new(trial *t, size_t n)
{
    static const double sizes[] = { 0, LEAST / 64, LEAST, 1e-3, 1, 5, 40, 1000 };
    grid x = grid_inout(t, 1, n, n + 1);
    for (size_t j = 0; j < n; j++) x.at[j] *= (real)sizes[dice_range(&t->dice, 0, COUNT_OF(sizes) - 1)];
    grid_keep(&x);
    return x;
}

static double logistic(double u) { return u >= 0 ? 1 / (1 + exp(-u)) : exp(u) / (1 + exp(u)); }

/* For `factor` times s: u is off by a few epsilon of its size, which s feels by 1 - s; and it may be 0
 * where it is not a normal number. */
static double bound_of(double u, double s, double factor)
{
    const double off = REAL_EPSILON * (8 + 4 * fabs(u) * (1 - s));
    return (off * s + LEAST) * fabs(factor);
}

void CHECK(logistic_unit)(trial *t)
{
    for (size_t n = 0; n < COUNTS; n++) {
        const real slope = n % 2 ? (real)1.5957691 : 1, cube = n % 2 ? (real)0.044715 : 0;
        grid x = spread_new(t, n), y = grid_output(t, 1, n, n + 1);
        trial_sizes(t, "n %zu slope %g cube %g", n, (double)slope, (double)cube);
        t->ker->logistic_unit(y.at, x.at, slope, cube, n);
        for (size_t j = 0; j < n; j++) {
            const double at = was(&x, 0, j);
            const double u = (double)slope * (at + (double)cube * at * at * at), s = logistic(u);
            expect_near(t, "y", 0, j, now(&y, 0, j), at * s, bound_of(u, s, at) + LEAST);
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 1, n);
        grid_free(&x), grid_free(&y);
    }
}

void CHECK(logistic_unit_back)(trial *t)
{
    for (size_t n = 0; n < COUNTS; n++) {
        const real slope = n % 2 ? (real)1.5957691 : 1, cube = n % 2 ? (real)0.044715 : 0;
        grid x = spread_new(t, n), dy = grid_inout(t, 1, n, n + 1);
        const bool in_place = n % 3 == 0;
        grid own = grid_output(t, 1, n, n + 1), *dx = in_place ? &dy : &own;
        trial_sizes(t, "n %zu slope %g cube %g", n, (double)slope, (double)cube);
        grid y = grid_output(t, 1, n, n + 1);
        t->ker->logistic_unit(y.at, x.at, slope, cube, n);
        grid_keep(&y);
        t->ker->logistic_unit_back(dx->at, x.at, y.at, dy.at, slope, cube, n);
        for (size_t j = 0; j < n; j++) {
            const double at = was(&x, 0, j), grad = was(&dy, 0, j);
            const double u = (double)slope * (at + (double)cube * at * at * at), s = logistic(u);
            const double along = at * (double)slope * (1 + 3 * (double)cube * at * at);
            const double want = grad * s * (1 + (1 - s) * along);
            /* Its two parts may cancel; 1 - s is off by an epsilon of 1. */
            const double size = fabs(grad) * (1 + (1 - s) * fabs(along));
            expect_near(t, "dx", 0, j, now(dx, 0, j), want,
                        bound_of(u, s, size) + 4 * REAL_EPSILON * fabs(grad * s * along) + LEAST);
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 0, 0);
        expect_untouched(t, "dx", dx, 1, n);
        grid_free(&x), grid_free(&y), grid_free(&dy), grid_free(&own);
    }
}

/* Of P(x): e^(-x^2/2) is off by an epsilon of its exponent, the polynomial by the sizes of its terms. */
static double tail_bound(double x)
{
    const double terms = REAL_EPSILON < 1e-10 ? 80 : 20, tail = 0.5 * erfc(fabs(x) / sqrt(2));
    return REAL_EPSILON * ((terms + x * x) * tail + (x > 0 ? 1 : 0)) + LEAST;
}

void CHECK(normal_unit)(trial *t)
{
    for (size_t n = 0; n < COUNTS; n++) {
        grid x = spread_new(t, n), y = grid_output(t, 1, n, n + 1);
        trial_sizes(t, "n %zu", n);
        t->ker->normal_unit(y.at, x.at, n);
        for (size_t j = 0; j < n; j++) {
            const double at = was(&x, 0, j), below = 0.5 * erfc(-at / sqrt(2));
            const double bound = fabs(at) * (tail_bound(at) + REAL_EPSILON * below);
            expect_near(t, "y", 0, j, now(&y, 0, j), at * below, bound + LEAST);
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "y", &y, 1, n);
        grid_free(&x), grid_free(&y);
    }
}

void CHECK(normal_unit_back)(trial *t)
{
    for (size_t n = 0; n < COUNTS; n++) {
        grid x = spread_new(t, n), dy = grid_inout(t, 1, n, n + 1);
        const bool in_place = n % 3 == 0;
        grid own = grid_output(t, 1, n, n + 1), *dx = in_place ? &dy : &own;
        trial_sizes(t, "n %zu", n);
        t->ker->normal_unit_back(dx->at, x.at, dy.at, n);
        for (size_t j = 0; j < n; j++) {
            const double at = was(&x, 0, j), grad = was(&dy, 0, j), below = 0.5 * erfc(-at / sqrt(2));
            const double along = at * exp(-at * at / 2) * 0.3989422804014327;
            const double off = tail_bound(at) + REAL_EPSILON * (2 * below + (4 + at * at) * fabs(along));
            expect_near(t, "dx", 0, j, now(dx, 0, j), grad * (below + along), fabs(grad) * off + LEAST);
        }
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "dx", dx, 1, n);
        grid_free(&x), grid_free(&dy), grid_free(&own);
    }
}

/* Norm i, whose mean and r are in stat. */
static void expect_norm(trial *t, const grid *x, const grid *gain, const grid *bias, const grid *y,
                        const grid *stat, size_t i, int centred, double eps)
{
    const size_t n = x->cols;
    double mean = 0, size = 0, square = 0;
    for (size_t j = 0; j < n; j++) {
        size += fabs(was(x, i, j)) / (double)n;
        mean += centred ? was(x, i, j) / (double)n : 0;
    }
    for (size_t j = 0; j < n; j++) square += pow(was(x, i, j) - mean, 2) / (double)n;
    const double r = 1 / sqrt(square + eps), off = sum_bound(n, size);
    expect_near(t, "mean", i, 0, now(stat, i, 0), mean, off);
    expect_near(t, "r", i, 1, now(stat, i, 1), r, r * (sum_bound(n, 1) + off * off * r * r));
    for (size_t j = 0; j < n; j++) {
        const double u = (was(x, i, j) - mean) * r, add = bias ? was(bias, 0, j) : 0;
        expect_near(t, "y", i, j, now(y, i, j), u * was(gain, 0, j) + add,
                    (r * off + sum_bound(n, fabs(u)) + fabs(u) * off * off * r * r) *
                            fabs(was(gain, 0, j)) + sum_bound(1, fabs(add)));
    }
}

void CHECK(norm)(trial *t)
{
    for (size_t n = 1; n < 2 * COUNTS; n++) {
        const size_t m = n % 19;
        const int centred = n % 2, biased = n / 2 % 2;
        const real eps = (real)1e-3;
        grid x = grid_input(t, m, n, n), gain = grid_input(t, 1, n, n + 1);
        grid bias = grid_input(t, 1, n, n + 1), y = grid_output(t, m, n, n);
        grid stat = grid_output(t, m, 2, 2);
        trial_sizes(t, "m %zu n %zu centred %d biased %d", m, n, centred, biased);
        t->ker->norm(y.at, x.at, gain.at, biased ? bias.at : NULL, stat.at, centred, eps, m, n);
        for (size_t i = 0; i < m; i++)
            expect_norm(t, &x, &gain, biased ? &bias : NULL, &y, &stat, i, centred, (double)eps);
        expect_untouched(t, "y", &y, m, n);
        expect_untouched(t, "stat", &stat, m, 2);
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "gain", &gain, 0, 0);
        expect_untouched(t, "bias", &bias, 0, 0);
        grid_free(&x), grid_free(&gain), grid_free(&bias), grid_free(&y), grid_free(&stat);
    }
}

void CHECK(norm_share)(trial *t)
{
    for (size_t n = 0; n < 2 * COUNTS; n++) {
        const size_t m = n % 5, ld = n + 3;
        grid x = grid_input(t, m, n, ld), dy = grid_input(t, m, n, ld);
        grid stat = grid_input(t, m, 2, 2);
        grid dgain = grid_inout(t, 1, n, n + 1), dbias = grid_inout(t, 1, n, n + 1);
        trial_sizes(t, "m %zu n %zu", m, n);
        t->ker->norm_share(dgain.at, dbias.at, x.at, dy.at, ld, stat.at, m, n);
        for (size_t j = 0; j < n; j++) {
            double gain = was(&dgain, 0, j), bias = was(&dbias, 0, j);
            double gains = fabs(gain), biases = fabs(bias);
            for (size_t i = 0; i < m; i++) {
                const double d = was(&dy, i, j), r = was(&stat, i, 1);
                gain += d * (was(&x, i, j) - was(&stat, i, 0)) * r;
                gains += fabs(d * r) * (fabs(was(&x, i, j)) + fabs(was(&stat, i, 0)));
                bias += d;
                biases += fabs(d);
            }
            expect_near(t, "dgain", 0, j, now(&dgain, 0, j), gain, sum_bound(m + 3, gains));
            expect_near(t, "dbias", 0, j, now(&dbias, 0, j), bias, sum_bound(m, biases));
        }
        expect_untouched(t, "dgain", &dgain, 1, n);
        expect_untouched(t, "dbias", &dbias, 1, n);
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "dy", &dy, 0, 0);
        expect_untouched(t, "stat", &stat, 0, 0);
        grid_free(&x), grid_free(&dy), grid_free(&stat), grid_free(&dgain), grid_free(&dbias);
    }
}

static void expect_norm_back(trial *t, const grid *x, const grid *gain, const grid *dy,
                             const grid *stat, const grid *dx, size_t i, int centred, int add)
{
    const size_t n = x->cols;
    const double mean = was(stat, i, 0), r = was(stat, i, 1);
    double g = 0, gu = 0, size = 0, along = 0;
    for (size_t j = 0; j < n; j++) {
        const double part = was(dy, i, j) * was(gain, 0, j), u = (was(x, i, j) - mean) * r;
        g += part / (double)n, size += fabs(part) / (double)n;
        gu += part * u / (double)n, along += fabs(part * u) / (double)n;
    }
    if (!centred) g = size = 0;
    for (size_t j = 0; j < n; j++) {
        const double part = was(dy, i, j) * was(gain, 0, j), u = (was(x, i, j) - mean) * r;
        const double before = add ? was(dx, i, j) : 0;
        expect_near(t, "dx", i, j, now(dx, i, j), before + r * (part - g - u * gu),
                    sum_bound(n, fabs(before) + fabs(part) + size + fabs(u) * along));
    }
}

void CHECK(norm_back)(trial *t)
{
    for (size_t n = 1; n < COUNTS; n++) {
        const size_t m = n % 19;
        const int centred = n % 2, add = n / 2 % 2;
        grid x = grid_input(t, m, n, n), gain = grid_input(t, 1, n, n + 1);
        grid dy = grid_input(t, m, n, n), stat = grid_input(t, m, 2, 2);
        grid dx = (add ? grid_inout : grid_output)(t, m, n, n);
        for (size_t i = 0; i < m; i++) {
            stat.at[2 * i] *= centred ? 1 : 0;
            stat.at[2 * i + 1] = (real)(0.5 + (double)i / 10);
        }
        grid_keep(&stat);
        trial_sizes(t, "m %zu n %zu centred %d add %d", m, n, centred, add);
        t->ker->norm_back(dx.at, x.at, gain.at, dy.at, stat.at, centred, add, m, n);
        for (size_t i = 0; i < m; i++)
            expect_norm_back(t, &x, &gain, &dy, &stat, &dx, i, centred, add);
        expect_untouched(t, "dx", &dx, m, n);
        expect_untouched(t, "x", &x, 0, 0);
        expect_untouched(t, "gain", &gain, 0, 0);
        expect_untouched(t, "dy", &dy, 0, 0);
        expect_untouched(t, "stat", &stat, 0, 0);
        grid_free(&x), grid_free(&gain), grid_free(&dy), grid_free(&stat), grid_free(&dx);
    }
}

void CHECK(rotate_pairs)(trial *t)
{
    for (size_t i = 0; i < 9 * 20; i++) {
        const size_t heads = i % 9, dim = 2 * (i / 9);
        const real sign = i % 2 ? 1 : -1;
        grid x = grid_inout(t, heads, dim, dim ? dim : 1), turn = grid_input(t, 1, dim, dim + 1);
        trial_sizes(t, "heads %zu dim %zu sign %g", heads, dim, (double)sign);
        t->ker->rotate_pairs(x.at, turn.at, sign, heads, dim);
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < dim; j += 2) {
                const double a = was(&x, h, j), b = was(&x, h, j + 1), c = was(&turn, 0, j);
                const double s = (double)sign * was(&turn, 0, j + 1);
                expect_near(t, "a", h, j, now(&x, h, j), a * c - b * s,
                            REAL_EPSILON * (fabs(a * c) + fabs(b * s)));
                expect_near(t, "b", h, j + 1, now(&x, h, j + 1), a * s + b * c,
                            REAL_EPSILON * (fabs(a * s) + fabs(b * c)));
            }
        expect_untouched(t, "x", &x, heads, dim);
        expect_untouched(t, "turn", &turn, 0, 0);
        grid_free(&x), grid_free(&turn);
    }
}

void CHECK(rotate_halves)(trial *t)
{
    for (size_t i = 0; i < 4 * 3 * 40; i++) {
        const size_t heads = i % 4, still = i / 4 % 3, half = i / 12, dim = 2 * half + still;
        const real sign = i % 2 ? 1 : -1;
        grid x = grid_inout(t, heads, dim, dim ? dim : 1), turn = grid_input(t, 1, 2 * half, 2 * half + 1);
        trial_sizes(t, "heads %zu dim %zu half %zu", heads, dim, half);
        t->ker->rotate_halves(x.at, turn.at, sign, heads, dim, half);
        for (size_t h = 0; h < heads; h++) {
            for (size_t j = 0; j < half; j++) {
                const double a = was(&x, h, j), b = was(&x, h, half + j), c = was(&turn, 0, j);
                const double s = (double)sign * was(&turn, 0, half + j);
                expect_near(t, "a", h, j, now(&x, h, j), a * c - b * s,
                            REAL_EPSILON * (fabs(a * c) + fabs(b * s)));
                expect_near(t, "b", h, half + j, now(&x, h, half + j), a * s + b * c,
                            REAL_EPSILON * (fabs(a * s) + fabs(b * c)));
            }
            for (size_t j = 2 * half; j < dim; j++) assert_true(now(&x, h, j) == was(&x, h, j));
        }
        expect_untouched(t, "x", &x, heads, dim);
        expect_untouched(t, "turn", &turn, 0, 0);
        grid_free(&x), grid_free(&turn);
    }
}

void CHECK(adam)(trial *t)
{
    for (size_t n = 0; n < COUNTS; n++) {
        const real f[8] = { (real)1e-2, (real)0.1, (real)0.9, (real)0.95, (real)0.5,
                            (real)1.7,  (real)1.3, (real)1e-6 };
        grid w = grid_inout(t, 1, n, n + 1), g = grid_input(t, 1, n, n + 1);
        grid m = grid_inout(t, 1, n, n + 1), v = grid_inout(t, 1, n, n + 1);
        for (size_t j = 0; j < n; j++) v.at[j] *= v.at[j];
        grid_keep(&v);
        trial_sizes(t, "n %zu", n);
        t->ker->adam(w.at, g.at, m.at, v.at, f, n);
        for (size_t j = 0; j < n; j++) {
            const double h = (double)f[4] * was(&g, 0, j), eps = 4 * REAL_EPSILON;
            const double part = (double)f[2] * was(&m, 0, j), first = part + (1 - (double)f[2]) * h;
            const double second = (double)f[3] * was(&v, 0, j) + (1 - (double)f[3]) * h * h;
            const double over = sqrt(second) * (double)f[6] + (double)f[7];
            const double step =
                (double)f[5] * first / over + (double)f[1] * was(&w, 0, j);
            const double first_off = eps * (fabs(part) + fabs(h));
            const double step_off = (double)f[5] * first_off / over +
                                    2 * eps * (fabs(step) + fabs((double)f[1] * was(&w, 0, j)));
            expect_near(t, "m", 0, j, now(&m, 0, j), first, first_off);
            expect_near(t, "v", 0, j, now(&v, 0, j), second, 2 * eps * second);
            expect_near(t, "w", 0, j, now(&w, 0, j), was(&w, 0, j) - (double)f[0] * step,
                        eps * fabs(was(&w, 0, j)) + (double)f[0] * step_off);
        }
        expect_untouched(t, "g", &g, 0, 0);
        expect_untouched(t, "w", &w, 1, n);
        expect_untouched(t, "m", &m, 1, n);
        expect_untouched(t, "v", &v, 1, n);
        grid_free(&w), grid_free(&g), grid_free(&m), grid_free(&v);
    }
}
