/* io/map.h - a file in memory without a copy: its pages come from the disk when they are first read.
 *
 * Opening costs the same for any size; pages are shared with every process that maps the file.
 *
 * Promised: a file that is replaced by another (rename, as io/file.h writes) stays as it was.  Not
 * promised, as with any mapped file: a file that is cut short in place while it is mapped ends the process
 * by SIGBUS at a read past its new end, and one that is written in place changes here too.  So readers
 * keep offsets and lengths that they have checked in memory of their own, and never take them from the map
 * again. */
#ifndef LNT_IO_MAP_H
#define LNT_IO_MAP_H

#include "core/context.h"

typedef struct lnt_map {
    const unsigned char *data; /* at the begin of a page; read only */
    size_t bytes;              /* not 0 */
} lnt_map;

/* A regular file that is not empty; directories, pipes and devices are refused.  LNT_ERR_FILE with the
 * system's reason; LNT_ERR_FORMAT for an empty one.  On failure out is zeroed. */
LNT_PRIVATE_API lnt_status lnt_map_open(lnt_ctx *ctx, const char *path, lnt_map *out);
LNT_PRIVATE_API void lnt_map_close(lnt_map *map); /* a zeroed one is fine */

typedef enum lnt_map_advice {
    LNT_MAP_SOON,       /* read ahead now: it is wanted soon */
    LNT_MAP_IN_ORDER,   /* read ahead far, from the front to the back */
    LNT_MAP_ANYWHERE,   /* read no more than what is touched */
    LNT_MAP_NO_LONGER   /* its pages may go; they come again when read */
} lnt_map_advice;

/* For the pages of `bytes` bytes at `from`, which are inside a map.  Advice may go unheard, so nothing is
 * returned. */
LNT_PRIVATE_API void lnt_map_advise(const void *from, size_t bytes, lnt_map_advice advice);

#endif
