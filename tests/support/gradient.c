/* gradient.c - see gradient.h. */
#include "gradient.h"

#include <math.h>
#include <stdlib.h>

enum { TRIED = 40 };

static double difference(double (*loss)(void *user), void *user, double *x)
{
    const double at = *x, h = 1e-4;
    double y[4];
    for (int i = 0; i < 4; i++) {
        *x = at + h * (double)(i < 2 ? i - 2 : i - 1);
        y[i] = loss(user);
    }
    *x = at;
    return (y[0] - 8 * y[1] + 8 * y[2] - y[3]) / (12 * h);
}

void check_slopes(const char *what, double (*loss)(void *user), void *user, const slope *slopes,
                  int count, double tolerance)
{
    dice d = { 77 };
    for (int s = 0; s < count; s++) {
        error_sum e = { 0 };
        const size_t n = slopes[s].count;
        for (size_t i = 0; i < (n < TRIED ? n : TRIED); i++) {
            const size_t at = n <= TRIED ? i : (size_t)dice_range(&d, 0, (int64_t)n - 1);
            error_add(&e, slopes[s].dx[at], difference(loss, user, slopes[s].x + at));
        }
        if (n && !(e.reference > 0))
            fail_msg("%s: the gradient of %s is 0: the test sees nothing", what, slopes[s].name);
        if (n && !(error_value(&e) < tolerance))
            fail_msg("%s: the gradient of %s is off by %g", what, slopes[s].name, error_value(&e));
    }
}

double *random_doubles(dice *d, size_t count, double sigma)
{
    double *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = sigma * dice_normal(d);
    return x;
}

double *zero_doubles(size_t count)
{
    double *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

double inner_product(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}
