/* cli/two_files.c - see two_files.h. */
#include "cli/two_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/place.h"
#include "cli/show/report.h"

/* The folder that a path is in; false: there is none. */
static bool folder_of(const char *path, const char **name, struct stat *folder)
{
    char text[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    *name = path + length;
    const int used = snprintf(text, sizeof text, "%.*s.", length, path);
    return used < (int)sizeof text && stat(text, folder) == 0;
}

bool two_files_are_one(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) || stat(b, &y)) {
        const char *name, *other;
        if (!folder_of(a, &name, &x) || !folder_of(b, &other, &y) || strcmp(name, other) != 0)
            return strcmp(a, b) == 0;
    }
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int cannot_write(const char *path) { return fail("cannot write '%s': %s", path, strerror(errno)); }

/* The second waits under another name until the first is there; it has the mode of what it replaces. */
static int write_waiting(void *of, int (*first)(void *of),
                         int (*second)(void *of, const char *path), const char *path)
{
    struct stat before;
    const bool replaces = stat(path, &before) == 0;
    const int unwritable = place_check(path); /* in a sentence with its own name, not the other */
    if (unwritable) return unwritable;
    const size_t capacity = strlen(path) + 32;
    char *waiting = malloc(capacity);
    if (!waiting) return fail_memory(capacity);
    snprintf(waiting, capacity, "%s.%ld.new", path, (long)getpid());
    int status = second(of, waiting);
    if (!status) {
        if (replaces && chmod(waiting, before.st_mode & 0777)) status = cannot_write(path);
        if (!status) status = first(of);
        if (!status && rename(waiting, path)) status = cannot_write(path);
        if (status) unlink(waiting);
    }
    free(waiting);
    return status;
}

int two_files_write(void *of, int (*first)(void *of), int (*second)(void *of, const char *path),
                    const char *path)
{
    struct stat target;
    if (stat(path, &target) == 0 && S_ISDIR(target.st_mode))
        return fail("cannot write '%s': it is a directory", path);
    if (stat(path, &target) == 0 && !S_ISREG(target.st_mode)) { /* a device is not replaced */
        const int status = second(of, path);
        return status ? status : first(of);
    }
    if (lstat(path, &target) != 0 || !S_ISLNK(target.st_mode))
        return write_waiting(of, first, second, path);
    char *linked = realpath(path, NULL);
    if (!linked) return fail("cannot write '%s': it is a link to a file that does not exist", path);
    const int status = write_waiting(of, first, second, linked);
    free(linked);
    return status;
}
