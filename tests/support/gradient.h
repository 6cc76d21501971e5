/* gradient.h - holds a gradient against central differences of the loss. */
#ifndef LNT_TESTS_GRADIENT_H
#define LNT_TESTS_GRADIENT_H

#include "support.h"

/* An input of the loss and what is claimed to be its gradient. */
typedef struct slope {
    const char *name;
    double *x;
    const double *dx;
    size_t count;
} slope;

/* Fails unless, for every array, the claimed gradient is within `tolerance` of the differences,
 * relative to them.  Differences are taken along random directions, in which every element has its
 * part: a few show any that is wrong. */
void check_slopes(const char *what, double (*loss)(void *user), void *user, const slope *slopes,
                  int count, double tolerance);

/* Normal numbers times sigma, from malloc. */
double *random_doubles(dice *d, size_t count, double sigma);
double *zero_doubles(size_t count);
double inner_product(const double *a, const double *b, size_t count);

#endif
