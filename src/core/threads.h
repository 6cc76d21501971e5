/* core/threads.h - how many threads a piece of work is worth. */
#ifndef LNT_CORE_THREADS_H
#define LNT_CORE_THREADS_H

#include "core/context.h"

/* One or all: libgomp ends the threads that a smaller team has no use for, and starts them anew for the
 * next that has, which takes longer than most of what is done here.  Waking them and waiting for them
 * costs a few microseconds.  The answer never depends on the number. */
static inline int lnt_threads_for(const lnt_ctx *ctx, double flops)
{
    return flops < 1e5 ? 1 : ctx->threads;
}

/* How many of so many heads a thread takes at a time: two where there are plenty, for narrow heads share
 * cache lines, and threads that write to one wait for each other. */
static inline int lnt_heads_at_once(int64_t heads, int threads)
{
    return heads < 8 * (int64_t)threads ? 1 : 2;
}

#endif
