/* cli/output_file.c - see output_file.h. */
#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/show/report.h"

enum { MAX_TEMPORARIES = 1 << 10 }; /* names tried before giving up */

static int cannot_write(const char *path, int error)
{
    return fail("cannot write '%s': %s", path, strerror(error));
}

/* Fills target; *mode is that of the file to be replaced, 0 for a new one. */
static int find_target(const char *path, output_file *out, mode_t *mode)
{
    struct stat st;
    *mode = 0;
    if (realpath(path, out->target)) {
        if (stat(out->target, &st)) return cannot_write(path, errno);
        if (!S_ISREG(st.st_mode)) return fail("cannot write '%s': it is not a regular file", path);
        if (access(out->target, W_OK)) return cannot_write(path, errno); /* rename would replace it */
        *mode = st.st_mode & 0777;
        return EXIT_OK;
    }
    if (errno != ENOENT) return cannot_write(path, errno);
    if (!lstat(path, &st)) /* rename would replace the link, not follow it */
        return fail("cannot write '%s': it is a link to a file that does not exist", path);
    if (strlen(path) >= sizeof out->target) return cannot_write(path, ENAMETOOLONG);
    strcpy(out->target, path);
    return EXIT_OK;
}

/* A new file beside the target; -1: errno says why not.  What a process of the same number has left
 * there is not in the way. */
static int open_temporary(output_file *out)
{
    int fd = -1;
    errno = EEXIST;
    for (unsigned i = 0; fd < 0 && errno == EEXIST && i < MAX_TEMPORARIES; i++) {
        const int length = snprintf(out->temporary, sizeof out->temporary, "%s.%ld-%u.tmp",
                                    out->target, (long)getpid(), i);
        if ((size_t)length >= sizeof out->temporary) errno = ENAMETOOLONG;
        else fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return fd;
}

int output_file_open(const char *path, output_file *out)
{
    mode_t mode;
    out->path = path;
    const int status = find_target(path, out, &mode);
    if (status) return status;
    const int fd = open_temporary(out);
    if (fd < 0) return cannot_write(path, errno);
    out->file = mode && fchmod(fd, mode) ? NULL : fdopen(fd, "w");
    if (out->file) return EXIT_OK;
    const int error = errno;
    close(fd);
    unlink(out->temporary);
    return cannot_write(path, error);
}

void output_file_abandon(output_file *at)
{
    if (at->file) fclose(at->file);
    at->file = NULL;
    unlink(at->temporary);
}

int output_file_check(const char *path)
{
    output_file at;
    const int status = output_file_open(path, &at);
    if (!status) output_file_abandon(&at);
    return status;
}

int output_file_commit(output_file *at)
{
    FILE *file = at->file;
    int error = fflush(file) || fsync(fileno(file)) ? errno : ferror(file) ? EIO : 0;
    at->file = NULL; /* fclose gives it back even where it fails */
    if (fclose(file) && !error) error = errno;
    if (!error && rename(at->temporary, at->target)) error = errno;
    if (!error) return EXIT_OK;
    output_file_abandon(at);
    return cannot_write(at->path, error);
}

/* ---- two files ----------------------------------------------------------------------------- */

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

bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) || stat(b, &y)) {
        const char *name, *other;
        if (!folder_of(a, &name, &x) || !folder_of(b, &other, &y) || strcmp(name, other) != 0)
            return strcmp(a, b) == 0;
    }
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Writes the second file under another name, then the first, and renames the second to `path`, with the mode
 * of what it replaces. */
static int write_pair(void *of, int (*first)(void *of), int (*second)(void *of, const char *path),
                      const char *path)
{
    struct stat before;
    const bool replaces = stat(path, &before) == 0;
    const int unwritable = output_file_check(path); /* in a sentence with its own name, not the other */
    if (unwritable) return unwritable;
    const size_t capacity = strlen(path) + 32;
    char *pending = malloc(capacity);
    if (!pending) return fail_memory(capacity);
    snprintf(pending, capacity, "%s.%ld.new", path, (long)getpid());
    int status = second(of, pending);
    if (!status) {
        if (replaces && chmod(pending, before.st_mode & 0777)) status = cannot_write(path, errno);
        if (!status) status = first(of);
        if (!status && rename(pending, path)) status = cannot_write(path, errno);
        if (status) unlink(pending);
    }
    free(pending);
    return status;
}

int output_file_pair(void *of, int (*first)(void *of), int (*second)(void *of, const char *path),
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
        return write_pair(of, first, second, path);
    char *linked = realpath(path, NULL);
    if (!linked) return fail("cannot write '%s': it is a link to a file that does not exist", path);
    const int status = write_pair(of, first, second, linked);
    free(linked);
    return status;
}
