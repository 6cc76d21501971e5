/* cli/spin_wait.c - see spin_wait.h. */
#include "cli/spin_wait.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Spins in about 50 microseconds.  On x86 each spin pauses for about 140 cycles; elsewhere it does not. */
#if defined(__x86_64__)
#define SPINS "1000"
#else
#define SPINS "50000"
#endif

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void spin_wait_shorten(char **argv)
{
    char self[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || !argv[0]) return;
    if (omp_get_proc_bind() != omp_proc_bind_false) return; /* the new process would have one core */
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return;
    self[length] = '\0';
    if (strcmp(last_part(self), last_part(argv[0])) != 0) return; /* run by a loader or an emulator */
    if (setenv("GOMP_SPINCOUNT", SPINS, 1) == 0) execv(self, argv);
}
