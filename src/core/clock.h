/* core/clock.h - monotonic time in seconds. */
#ifndef LNT_CORE_CLOCK_H
#define LNT_CORE_CLOCK_H

#include <time.h>

static inline double lnt_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
