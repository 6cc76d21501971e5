/* core/overlap.h - whether what a call writes lies apart from what it reads. */
#ifndef LNT_CORE_OVERLAP_H
#define LNT_CORE_OVERLAP_H

#include "core/context.h"

typedef struct lnt_named_tensor {
    const char *name;
    const lnt_tensor *t; /* checked; data NULL: it is not there */
} lnt_named_tensor;

/* Whether two checked views have a byte in common.  Views that lie between each other's rows, as those of q,
 * k and v in one array, have none. */
bool lnt_tensor_overlap(const lnt_tensor *a, const lnt_tensor *b);

/* Whether they are one view. */
bool lnt_tensor_same(const lnt_tensor *a, const lnt_tensor *b);

/* Refuses an `out` that overlaps one of inputs [count]. */
lnt_status lnt_tensor_expect_apart(lnt_ctx *ctx, lnt_named_tensor out, const lnt_named_tensor *inputs,
                                   int count);

/* The same of plain memory. */
LNT_PRIVATE_API lnt_status lnt_expect_apart(lnt_ctx *ctx, const char *to_name, const void *to,
                                            size_t to_bytes, const char *from_name, const void *from,
                                            size_t from_bytes);

#endif
