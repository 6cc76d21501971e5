/* core/arena.h - one block of memory that is measured first and then divided.
 *
 * The same layout function runs twice: over a null arena it only counts, over a real one it returns pointers.
 * So the size that was planned is the size that is used. */
#ifndef LNT_CORE_ARENA_H
#define LNT_CORE_ARENA_H

#include "core/context.h"

typedef struct lnt_arena {
    char *base; /* NULL while counting */
    size_t used, capacity;
    bool overflow; /* a size did not fit size_t */
} lnt_arena;

/* count * size bytes, aligned to LNT_ALIGN; NULL while counting. */
LNT_PRIVATE_API void *lnt_arena_take(lnt_arena *arena, size_t count, size_t size);
/* The same for rows * cols numbers of that size. */
LNT_PRIVATE_API void *lnt_arena_take_matrix(lnt_arena *arena, size_t rows, size_t cols, size_t size);

/* Bytes that were counted; SIZE_MAX: they do not fit size_t. */
size_t lnt_arena_counted(const lnt_arena *counting);

/* Allocates what counting->used says. */
LNT_PRIVATE_API lnt_status lnt_arena_open(lnt_ctx *ctx, const lnt_arena *counting, const char *what,
                                          lnt_arena *out);
LNT_PRIVATE_API void lnt_arena_close(lnt_ctx *ctx, lnt_arena *arena);

#endif
