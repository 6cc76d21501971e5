/* io/file.h - reads of exactly the bytes asked for, and files that appear whole or not at all.
 *
 * Every failure is LNT_ERR_FILE with a sentence that holds the path and the system's reason. */
#ifndef LNT_IO_FILE_H
#define LNT_IO_FILE_H

#include <limits.h>

#include "core/context.h"

/* How a path stands in a sentence: cut, so that the reason after it fits LNT_ERROR_CAPACITY. */
#define LNT_FILE_FMT "'%.300s'"

/* path must outlive the reader or writer. */
typedef struct lnt_file_reader {
    lnt_ctx *ctx;
    const char *path;
    int fd;          /* -1: closed */
    uint64_t size;   /* when it was opened */
    uint64_t offset; /* read so far */
} lnt_file_reader;

/* A regular file; directories, pipes and devices are refused. */
LNT_PRIVATE_API lnt_status lnt_file_open(lnt_ctx *ctx, const char *path, lnt_file_reader *out);
/* The next `bytes` bytes, all of them: a file that has shrunk since is a failure. */
LNT_PRIVATE_API lnt_status lnt_file_read(lnt_file_reader *reader, void *into, size_t bytes);
LNT_PRIVATE_API void lnt_file_close(lnt_file_reader *reader); /* closed already is fine */

typedef struct lnt_file_writer {
    lnt_ctx *ctx;
    const char *path;         /* as the caller gave it */
    int fd;                   /* -1: closed */
    char target[PATH_MAX];    /* the file to replace, links followed */
    char temporary[PATH_MAX]; /* beside the target; "": writing straight to a special file */
} lnt_file_writer;

/* A regular file, new or not, is written to a temporary beside it that lnt_file_commit moves over
 * it; a device or a pipe is written as it stands.  Any failure, and lnt_file_abort, closes the
 * writer and takes the temporary away: what was at `path` before is still there. */
lnt_status lnt_file_create(lnt_ctx *ctx, const char *path, lnt_file_writer *out);
lnt_status lnt_file_write(lnt_file_writer *writer, const void *from, size_t bytes);
/* Over bytes that are written already; of a regular file alone, others give LNT_ERR_FILE. */
lnt_status lnt_file_patch(lnt_file_writer *writer, uint64_t offset, const void *from, size_t bytes);
lnt_status lnt_file_commit(lnt_file_writer *writer);
void lnt_file_abort(lnt_file_writer *writer); /* committed, aborted or failed already is fine */

#endif
