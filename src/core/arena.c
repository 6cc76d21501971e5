/* core/arena.c - see arena.h. */
#include "core/arena.h"

#include <assert.h>
#include <stdint.h>

void *lnt_arena_take(lnt_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!lnt_size_product(count, size, 1, &bytes) || bytes > SIZE_MAX - LNT_ALIGN ||
        __builtin_add_overflow(arena->used, (bytes + LNT_ALIGN - 1) / LNT_ALIGN * LNT_ALIGN,
                               &bytes)) {
        arena->overflow = true;
        return NULL;
    }
    const size_t start = arena->used;
    arena->used = bytes;
    if (!arena->base) return NULL;
    assert(bytes <= arena->capacity);
    return arena->base + start;
}

void *lnt_arena_take_matrix(lnt_arena *arena, size_t rows, size_t cols, size_t size)
{
    size_t count;
    if (!lnt_size_product(rows, cols, 1, &count)) count = SIZE_MAX;
    return lnt_arena_take(arena, count, size);
}

size_t lnt_arena_counted(const lnt_arena *counting)
{
    return counting->overflow ? SIZE_MAX : counting->used;
}

lnt_status lnt_arena_open(lnt_ctx *ctx, const lnt_arena *counting, const char *what, lnt_arena *out)
{
    *out = (lnt_arena){ 0 };
    if (counting->overflow)
        return lnt_fail(ctx, LNT_ERR_MEMORY, "%s: the size asked for exceeds the address space",
                        what);
    out->base = lnt_allocate(ctx, counting->used, what);
    if (!out->base) return LNT_ERR_MEMORY;
    out->capacity = counting->used;
    return LNT_OK;
}

void lnt_arena_close(lnt_ctx *ctx, lnt_arena *arena)
{
    lnt_release(ctx, arena->base, arena->capacity);
    *arena = (lnt_arena){ 0 };
}
