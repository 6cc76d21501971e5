/* gradient.c - see gradient.h. */
#include "gradient.h"

#include <stdlib.h>
#include <string.h>

static void move(double *x, const double *along, size_t count, double by)
{
    for (size_t i = 0; i < count; i++) x[i] += by * along[i];
}

/* Of the loss along a direction, which is where x moves; x comes back to the bit. */
static double difference(double (*loss)(void *user), void *user, double *x, const double *along,
                         size_t count)
{
    const double h = 3e-5;
    double *at = malloc(count * sizeof *at), y[4];
    assert_non_null(at);
    memcpy(at, x, count * sizeof *at);
    for (int i = 0; i < 4; i++) {
        move(x, along, count, h * (double)(i < 2 ? i - 2 : i - 1));
        y[i] = loss(user);
        memcpy(x, at, count * sizeof *at);
    }
    free(at);
    return (y[0] - 8 * y[1] + 8 * y[2] - y[3]) / (12 * h);
}

void check_slopes(const char *what, double (*loss)(void *user), void *user, const slope *slopes,
                  int count, double tolerance)
{
    dice d = { 77 };
    for (int s = 0; s < count; s++) {
        error_sum e = { 0 };
        const size_t n = slopes[s].count;
        for (int i = 0; n && i < budget(2, 8); i++) {
            double *along = random_doubles(&d, n, 1);
            error_add(&e, inner_product(slopes[s].dx, along, n),
                      difference(loss, user, slopes[s].x, along, n));
            free(along);
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
