/* attention/partial.h - checks on the unnormalised answers. */
#ifndef LNT_ATTENTION_PARTIAL_H
#define LNT_ATTENTION_PARTIAL_H

#include "core/overlap.h"

/* A caller's partial, whole. */
lnt_status lnt_partial_take(lnt_ctx *ctx, const char *name, const lnt_partial *given, lnt_partial *partial);

lnt_status lnt_partial_check(lnt_ctx *ctx, const char *name, const lnt_partial *partial);

/* That its tensors lie apart from each other and from inputs [count]. */
lnt_status lnt_partial_apart(lnt_ctx *ctx, const char *name, const lnt_partial *partial,
                             const lnt_named_tensor *inputs, int count);

#endif
