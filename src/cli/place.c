/* cli/place.c - see place.h. */
#include "cli/place.h"

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
static int find_target(const char *path, place *out, mode_t *mode)
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
static int open_temporary(place *out)
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

int place_open(const char *path, place *out)
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

void place_abandon(place *at)
{
    if (at->file) fclose(at->file);
    at->file = NULL;
    unlink(at->temporary);
}

int place_check(const char *path)
{
    place at;
    const int status = place_open(path, &at);
    if (!status) place_abandon(&at);
    return status;
}

int place_commit(place *at)
{
    FILE *file = at->file;
    int error = fflush(file) || fsync(fileno(file)) ? errno : ferror(file) ? EIO : 0;
    at->file = NULL; /* fclose gives it back even where it fails */
    if (fclose(file) && !error) error = errno;
    if (!error && rename(at->temporary, at->target)) error = errno;
    if (!error) return EXIT_OK;
    place_abandon(at);
    return cannot_write(at->path, error);
}
