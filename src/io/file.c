/* io/file.c - exact reads, and atomic writes: write a temporary, fsync, rename. */
#include "io/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_TRANSFER = 1 << 30,   /* bytes a call; Linux moves less than 2 GiB at once */
    MAX_TEMPORARIES = 1 << 10 /* names tried before giving up */
};

static lnt_status cannot(lnt_ctx *ctx, const char *verb, const char *path, const char *reason)
{
    return lnt_fail(ctx, LNT_ERR_FILE, "cannot %s " LNT_FILE_FMT ": %s", verb, path, reason);
}

static size_t transfer_size(size_t left) { return left < MAX_TRANSFER ? left : MAX_TRANSFER; }

/* ---- reading ------------------------------------------------------------------------------- */

lnt_status lnt_file_open(lnt_ctx *ctx, const char *path, lnt_file_reader *out)
{
    *out = (lnt_file_reader){ .ctx = ctx, .path = path, .fd = -1 };
    /* O_NONBLOCK: a pipe that nobody writes to is refused below, not waited for. */
    out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (out->fd < 0 || fstat(out->fd, &st)) {
        const int error = errno;
        lnt_file_close(out);
        return cannot(ctx, "read", path, strerror(error));
    }
    if (!S_ISREG(st.st_mode)) {
        lnt_file_close(out);
        return cannot(ctx, "read", path,
                      S_ISDIR(st.st_mode) ? strerror(EISDIR) : "it is not a regular file");
    }
    out->size = (uint64_t)st.st_size;
    return LNT_OK;
}

lnt_status lnt_file_read(lnt_file_reader *r, void *into, size_t bytes)
{
    assert(r->fd >= 0);
    char *next = into;
    while (bytes) {
        const ssize_t got = read(r->fd, next, transfer_size(bytes));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot(r->ctx, "read", r->path, strerror(errno));
        if (got == 0)
            return lnt_fail(r->ctx, LNT_ERR_FILE,
                            "cannot read " LNT_FILE_FMT
                            ": it ended after %llu bytes, %zu more were expected",
                            r->path, (unsigned long long)r->offset, bytes);
        next += got;
        bytes -= (size_t)got;
        r->offset += (uint64_t)got;
    }
    return LNT_OK;
}

void lnt_file_close(lnt_file_reader *r)
{
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
}

/* ---- writing ------------------------------------------------------------------------------- */

static lnt_status give_up(lnt_file_writer *w, int error)
{
    lnt_file_abort(w);
    return cannot(w->ctx, "write", w->path, strerror(error));
}

/* Whether realpath can name the file behind `path`: what /dev/stdout leads to may have been deleted
 * since, and then there is nothing to move a temporary over. */
static bool resolve_name(lnt_file_writer *w, const struct stat *st)
{
    struct stat named;
    return realpath(w->path, w->target) && !stat(w->target, &named) &&
           named.st_dev == st->st_dev && named.st_ino == st->st_ino;
}

/* Fills target; leaves it "" where `path` is to be written as it stands.  *mode is that of the file
 * to be replaced, 0 for a new one. */
static lnt_status resolve_target(lnt_file_writer *w, mode_t *mode)
{
    struct stat st;
    *mode = 0;
    if (stat(w->path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return give_up(w, EISDIR);
        /* rename would replace a file that the caller may not write. */
        if (faccessat(AT_FDCWD, w->path, W_OK, AT_EACCESS)) return give_up(w, errno);
        if (!S_ISREG(st.st_mode) || !resolve_name(w, &st)) w->target[0] = 0;
        *mode = st.st_mode & 0777;
        return LNT_OK;
    }
    if (errno != ENOENT || !*w->path) return give_up(w, errno);
    if (lstat(w->path, &st) == 0) /* rename would replace the link, not follow it */
        return cannot(w->ctx, "write", w->path, "it is a link to a file that does not exist");
    const int length = snprintf(w->target, sizeof w->target, "%s", w->path);
    return (size_t)length < sizeof w->target ? LNT_OK : give_up(w, ENAMETOOLONG);
}

static lnt_status open_temporary(lnt_file_writer *w)
{
    const char *slash = strrchr(w->target, '/');
    const int directory = slash ? (int)(slash - w->target) + 1 : 0;
    int error = EEXIST;
    for (unsigned i = 0; i < MAX_TEMPORARIES && error == EEXIST; i++) {
        const int length = snprintf(w->temporary, sizeof w->temporary, "%.*s.linnet-%ld-%u.tmp",
                                    directory, w->target, (long)getpid(), i);
        if ((size_t)length >= sizeof w->temporary) {
            error = ENAMETOOLONG;
            break;
        }
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return LNT_OK;
        error = errno;
    }
    w->temporary[0] = 0; /* it is not ours to remove */
    return give_up(w, error);
}

lnt_status lnt_file_create(lnt_ctx *ctx, const char *path, lnt_file_writer *out)
{
    out->ctx = ctx;
    out->path = path;
    out->fd = -1;
    out->target[0] = out->temporary[0] = 0;
    mode_t mode;
    lnt_status status = resolve_target(out, &mode);
    if (status) return status;
    if (!out->target[0]) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        return out->fd >= 0 ? LNT_OK : give_up(out, errno);
    }
    status = open_temporary(out);
    if (status) return status;
    return mode && fchmod(out->fd, mode) ? give_up(out, errno) : LNT_OK;
}

lnt_status lnt_file_write(lnt_file_writer *w, const void *from, size_t bytes)
{
    assert(w->fd >= 0);
    const char *next = from;
    while (bytes) {
        const ssize_t put = write(w->fd, next, transfer_size(bytes));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return give_up(w, put < 0 ? errno : ENOSPC);
        next += put;
        bytes -= (size_t)put;
    }
    return LNT_OK;
}

lnt_status lnt_file_patch(lnt_file_writer *w, uint64_t offset, const void *from, size_t bytes)
{
    assert(w->fd >= 0);
    if (!w->temporary[0]) {
        const lnt_status status = cannot(w->ctx, "write", w->path, "it is not a regular file");
        lnt_file_abort(w);
        return status;
    }
    const char *next = from;
    while (bytes) {
        const ssize_t put = pwrite(w->fd, next, transfer_size(bytes), (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return give_up(w, put < 0 ? errno : ENOSPC);
        next += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return LNT_OK;
}

lnt_status lnt_file_commit(lnt_file_writer *w)
{
    assert(w->fd >= 0);
    if (w->temporary[0] && fsync(w->fd)) return give_up(w, errno);
    const int fd = w->fd;
    w->fd = -1; /* close gives the descriptor back even where it fails */
    if (close(fd)) return give_up(w, errno);
    if (w->temporary[0] && rename(w->temporary, w->target)) return give_up(w, errno);
    w->temporary[0] = 0;
    return LNT_OK;
}

void lnt_file_abort(lnt_file_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    if (w->temporary[0]) unlink(w->temporary);
    w->fd = -1;
    w->temporary[0] = 0;
}
