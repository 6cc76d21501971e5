/* cli/measure/resident.c - see resident.h. */
#include "cli/measure/resident.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

int64_t resident_now(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

int64_t resident_peak(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (int64_t)usage.ru_maxrss * 1024;
}
