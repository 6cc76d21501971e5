/* attention/io.h - what one run is given: checked, and cut into sequences. */
#ifndef LNT_ATTENTION_IO_H
#define LNT_ATTENTION_IO_H

#include "core/context.h"

/* One sequence of a run: rows q0 .. q0+nq-1 of q and k0 .. k0+nk-1 of k, v at batch index b, and how
 * many tokens the state before it holds. */
typedef struct lnt_sequence {
    int64_t b, q0, nq, k0, nk, before;
} lnt_sequence;

/* A caller's io, whole. */
lnt_status lnt_io_take(lnt_ctx *ctx, const lnt_attn_io *given, lnt_attn_io *io);

/* Checks io's tensors, lengths and states against the problem; how many sequences it holds.
 * `with_out` is false where io->out is not used. */
lnt_status lnt_io_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io, bool with_out,
                        int64_t *sequences);

/* Sequence s of a checked io. */
lnt_sequence lnt_io_sequence(const lnt_attn_io *io, int64_t s);

#endif
