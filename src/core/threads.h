/* core/threads.h - how many threads a piece of work is worth. */
#ifndef LNT_CORE_THREADS_H
#define LNT_CORE_THREADS_H

#include "core/context.h"

/* Waking a thread and waiting for it costs about a microsecond: each gets a few of them to do.  The
 * answer never depends on the number. */
static inline int lnt_threads_for(const lnt_ctx *ctx, double flops)
{
    const double worth = flops / 5e4;
    return worth >= ctx->threads ? ctx->threads : worth < 1 ? 1 : (int)worth;
}

#endif
