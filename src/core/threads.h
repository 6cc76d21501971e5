/* core/threads.h - how many threads a piece of work should use. */
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

/* How many pieces of work, of which each sequence has `pieces`, a thread takes at a time: all of a sequence
 * where there are sequences enough, for its heads lie side by side, narrow ones in one cache line, and
 * threads that write to one wait for each other.  Never 0, which OpenMP does not take. */
static inline int64_t lnt_pieces_at_once(int64_t sequences, int64_t pieces, int threads)
{
    return pieces < 1 || sequences < 4 * (int64_t)threads ? 1 : pieces;
}

#endif
