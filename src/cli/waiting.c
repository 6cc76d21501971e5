/* cli/waiting.c - see waiting.h. */
#include "cli/waiting.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looks at what is waited for, some 50 microseconds of them: between two x86 pauses for 140 cycles or so,
 * others do not. */
#if defined(__x86_64__)
#define LOOKS "1000"
#else
#define LOOKS "50000"
#endif

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void waiting_be_brief(char **argv)
{
    char self[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || !argv[0]) return;
    if (omp_get_proc_bind() != omp_proc_bind_false) return; /* it would start with the first core alone */
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return;
    self[length] = '\0';
    if (strcmp(last_part(self), last_part(argv[0])) != 0) return; /* a loader or an emulator runs it */
    if (setenv("GOMP_SPINCOUNT", LOOKS, 1) == 0) execv(self, argv);
}
