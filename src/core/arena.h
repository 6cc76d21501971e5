/* core/arena.h - one block of memory, sized first and then cut up.
 *
 * The same function runs twice: over a null arena it only counts, over a real one it hands out
 * pointers.  So the size that was planned is the size that is used. */
#ifndef LNT_CORE_ARENA_H
#define LNT_CORE_ARENA_H

#include "core/context.h"

typedef struct lnt_arena {
    char *base; /* NULL while counting */
    size_t used, capacity;
    bool overflow; /* a size did not fit size_t */
} lnt_arena;

/* count * size bytes, aligned to LNT_ALIGN; NULL while counting. */
void *lnt_arena_take(lnt_arena *arena, size_t count, size_t size);

/* Allocates what counting->used says. */
lnt_status lnt_arena_open(lnt_ctx *ctx, const lnt_arena *counting, const char *what,
                          lnt_arena *out);
void lnt_arena_close(lnt_ctx *ctx, lnt_arena *arena);

#endif
