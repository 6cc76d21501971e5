/* cli/measure/resident.h - the resident memory of this process, as the operating system counts it. */
#ifndef LNT_CLI_MEASURE_RESIDENT_H
#define LNT_CLI_MEASURE_RESIDENT_H

#include <stdint.h>

/* Bytes; 0 where the system does not tell. */
int64_t resident_now(void);
int64_t resident_peak(void); /* the most so far */

#endif
