/* task/content.h - a whole file in memory, unpacked where it is gzipped. */
#ifndef LNT_TASK_CONTENT_H
#define LNT_TASK_CONTENT_H

#include "core/context.h"

typedef struct lnt_content {
    char *data; /* [bytes], and a NUL behind it */
    size_t bytes;
} lnt_content;

/* LNT_ERR_FILE if it cannot be read, LNT_ERR_FORMAT if it is gzipped and broken,
 * LNT_ERR_UNSUPPORTED if it is gzipped and there is no zlib. */
lnt_status lnt_content_read(lnt_ctx *ctx, const char *path, lnt_content *out);
void lnt_content_free(lnt_ctx *ctx, lnt_content *content);

#endif
