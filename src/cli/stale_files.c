/* cli/stale_files.c - see stale_files.h.
 *
 * The library writes to .linnet-PROCESS-COUNT.tmp beside a file, cli/output_file.c to
 * FILE.PROCESS-COUNT.tmp. */
#include "cli/stale_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Moves *at past a whole number above or equal to 0, and says which; -1: there is none. */
static long read_whole(const char **at)
{
    char *end;
    if (**at < '0' || **at > '9') return -1;
    errno = 0;
    const long value = strtol(*at, &end, 10);
    *at = end;
    return errno ? -1 : value;
}

/* Moves *at past `text`, if that is what stands there. */
static bool skip(const char **at, const char *text)
{
    const size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0) return false;
    *at += length;
    return true;
}

/* The process that wrote BEGIN followed by PROCESS-COUNT.tmp; -1: that is not its name. */
static long writer_of(const char *name, const char *begin)
{
    if (!skip(&name, begin)) return -1;
    const long process = read_whole(&name);
    const bool good = skip(&name, "-") && read_whole(&name) >= 0 && !strcmp(name, ".tmp");
    return good ? process : -1;
}

/* This process has begun nothing yet: what bears its number is of an earlier one. */
static bool is_over(long process)
{
    if (process <= 0 || (pid_t)process != process) return false;
    return (pid_t)process == getpid() || (kill((pid_t)process, 0) && errno == ESRCH);
}

static bool is_stale(const char *name, const char *const names[])
{
    long process = writer_of(name, ".linnet-");
    for (int i = 0; process < 0 && names[i]; i++) {
        const char *rest = name;
        if (skip(&rest, names[i])) process = writer_of(rest, ".");
    }
    return is_over(process);
}

void stale_files_remove(const char *directory, const char *const names[])
{
    DIR *listing = opendir(directory);
    if (!listing) return;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        struct stat st;
        if (is_stale(entry->d_name, names) &&
            !fstatat(dirfd(listing), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(st.st_mode))
            unlinkat(dirfd(listing), entry->d_name, 0);
    }
    closedir(listing);
}
