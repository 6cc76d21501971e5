/* bench/gpu/table.h - the table of works: what the device can do at most, and a line about each. */
#ifndef BENCH_GPU_TABLE_H
#define BENCH_GPU_TABLE_H

#include <functional>

#include "linnet.h"

/* Seconds of run(), which goes to the default stream: the median. */
double median_seconds(const std::function<void()> &run, int repeats);

/* Measures the device, unless works are only run once, and prints the heading. */
void begin_table(bool once);

/* bf16 products in whose time the device makes one in the precision of f32: three of tf32, which
 * has half the rate of bf16. */
enum { SPLIT_PRODUCTS = 6 };

struct table_line {
    const char *name = "";
    double seconds = 0;
    double value = 0, target = 0; /* in `unit`; target 0: there is none */
    const char *unit = "ms";
    double flops = 0, bytes = 0; /* the least that the work takes */
    double products = 1;         /* of bf16 that one of its products takes the time of */
    double error = 0, allowed = 3e-3;
    bool clean = true;
};
void print_line(const table_line &x);

#endif
