/* model/template/pool.h - memory that grows by blocks and is given back at once, up to a limit. */
#ifndef LNT_MODEL_TEMPLATE_POOL_H
#define LNT_MODEL_TEMPLATE_POOL_H

#include "core/context.h"

#define LNT_TEMPLATE_FMT "chat template of '%.200s'" /* with `where` */

typedef struct lnt_template_pool {
    lnt_ctx *ctx;
    const char *where;              /* what a sentence begins with */
    struct lnt_template_pool_block *block;   /* the latest; it knows the one before */
    char *at;
    size_t left, taken, most;       /* bytes: of the block, of all blocks, and how many those may be */
    bool refused;                   /* the allocator gave none */
} lnt_template_pool;

/* Not cleared, aligned for anything.  NULL with the sentence: no memory, or more than `most`. */
void *lnt_template_pool_take(lnt_template_pool *pool, size_t count, size_t size);
void lnt_template_pool_close(lnt_template_pool *pool);

#endif
