/* cli/measure/order.h - sorting and the median. */
#ifndef LNT_CLI_MEASURE_ORDER_H
#define LNT_CLI_MEASURE_ORDER_H

#include <stdlib.h>

static inline int order_of_two(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void sort_ascending(double *values, size_t count)
{
    qsort(values, count, sizeof *values, order_of_two);
}

/* Sorts them; count is not 0. */
static inline double median_of(double *values, size_t count)
{
    sort_ascending(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

#endif
