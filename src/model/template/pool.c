/* model/template/pool.c - see pool.h.  Blocks double, so there are few; what is large has one of its own. */
#include "model/template/pool.h"

#include <stdalign.h>
#include <stdint.h>

enum { FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20 };

typedef struct lnt_template_pool_block {
    struct lnt_template_pool_block *before;
    size_t bytes;
    alignas(max_align_t) char memory[];
} block;

static bool grow(lnt_template_pool *pool, size_t need)
{
    size_t bytes = pool->taken < FIRST_BLOCK ? FIRST_BLOCK
                   : pool->taken > LAST_BLOCK ? LAST_BLOCK : pool->taken;
    if (bytes < need + sizeof(block)) bytes = need + sizeof(block);
    if (bytes > pool->most - pool->taken) {
        lnt_fail(pool->ctx, LNT_ERR_FORMAT, LNT_TEMPLATE_FMT ": needs more than %zu bytes of memory",
                 pool->where, pool->most);
        return false;
    }
    block *added = lnt_allocate(pool->ctx, bytes, "a chat template");
    if (!added) {
        pool->refused = true;
        return false;
    }
    added->before = pool->block;
    added->bytes = bytes;
    pool->block = added;
    pool->taken += bytes;
    pool->at = added->memory;
    pool->left = bytes - sizeof *added;
    return true;
}

void *lnt_template_pool_take(lnt_template_pool *pool, size_t count, size_t size)
{
    const size_t unit = alignof(max_align_t);
    size_t bytes;
    if (!lnt_size_product(count, size, 1, &bytes) || bytes > SIZE_MAX / 4) bytes = SIZE_MAX / 4;
    bytes = (bytes + unit - 1) / unit * unit;
    if (bytes > pool->left && !grow(pool, bytes)) return NULL;
    void *memory = pool->at;
    pool->at += bytes;
    pool->left -= bytes;
    return memory;
}

void lnt_template_pool_close(lnt_template_pool *pool)
{
    while (pool->block) {
        block *last = pool->block;
        pool->block = last->before;
        lnt_release(pool->ctx, last, last->bytes);
    }
    pool->at = NULL;
    pool->left = pool->taken = 0;
}
