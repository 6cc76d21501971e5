/* cli/place.c - see place.h. */
#include "cli/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"

static int cannot_write(const char *path, int error)
{
    return fail("cannot write '%s': %s", path, strerror(error));
}

int place_open(const char *path, place *out)
{
    struct stat st;
    out->path = path;
    if (!realpath(path, out->target)) {
        if (errno != ENOENT) return cannot_write(path, errno);
        if (strlen(path) >= sizeof out->target) return cannot_write(path, ENAMETOOLONG);
        strcpy(out->target, path);
    } else if (!stat(out->target, &st) && !S_ISREG(st.st_mode)) {
        return fail("cannot write '%s': it is not a regular file", path);
    } else if (access(out->target, W_OK)) { /* rename would replace it all the same */
        return cannot_write(path, errno);
    }
    const int length = snprintf(out->temporary, sizeof out->temporary, "%s.%ld.tmp", out->target,
                                (long)getpid());
    if ((size_t)length >= sizeof out->temporary) return cannot_write(path, ENAMETOOLONG);
    const int fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return cannot_write(path, errno);
    out->file = fdopen(fd, "w");
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
