/* core/struct.h - public structs of a caller that may be older than this library.
 *
 * A struct begins with its size as the caller's header had it.  What a smaller one lacks is at its default;
 * a larger one has fields that this library cannot know, and is refused. */
#ifndef LNT_CORE_STRUCT_H
#define LNT_CORE_STRUCT_H

#include "core/context.h"

typedef struct lnt_struct {
    const char *type;  /* "lnt_attn_io" */
    size_t least, all; /* bytes: those that no caller can leave out, and all there are */
} lnt_struct;

/* Of `type`, whose fields up to `last` must be there. */
#define LNT_STRUCT(type, last) \
    (lnt_struct){ #type, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type) }

/* An input: copies what the caller has into own, a whole struct filled with defaults.  name: the argument. */
LNT_PRIVATE_API lnt_status lnt_struct_take(lnt_ctx *ctx, lnt_struct kind, const char *name,
                                           const void *given, void *own);

/* A report: whether `out` can be filled, and then what it has room for of own, a whole struct. */
LNT_PRIVATE_API lnt_status lnt_struct_check(lnt_ctx *ctx, lnt_struct kind, const char *name,
                                            const void *out);
LNT_PRIVATE_API void lnt_struct_give(const void *own, void *out);

#endif
