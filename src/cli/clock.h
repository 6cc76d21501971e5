/* cli/clock.h - wall time. */
#ifndef LNT_CLI_CLOCK_H
#define LNT_CLI_CLOCK_H

#include <time.h>

static inline double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
