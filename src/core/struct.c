/* core/struct.c - public structs of a caller that may be older than this library. */
#include "core/struct.h"

#include <string.h>

/* Structs hold pointers and 64-bit numbers: no field of theirs ends between two words. */
enum { WORD = sizeof(size_t) };

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

lnt_status lnt_struct_check(lnt_ctx *ctx, lnt_struct kind, const char *name, const void *out)
{
    if (!out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is NULL", name);
    const size_t size = size_of(out), least = (kind.least + WORD - 1) / WORD * WORD;
    if (size >= least && size <= kind.all && size % WORD == 0) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: size of %s is %zu, must be %zu to %zu, in steps of %d", name,
                    kind.type, size, least, kind.all, (int)WORD);
}

lnt_status lnt_struct_take(lnt_ctx *ctx, lnt_struct kind, const char *name, const void *given, void *own)
{
    const lnt_status status = lnt_struct_check(ctx, kind, name, given);
    if (status) return status;
    memcpy(own, given, size_of(given));
    memcpy(own, &kind.all, sizeof kind.all);
    return LNT_OK;
}

void lnt_struct_give(const void *own, void *out)
{
    const size_t size = size_of(out);
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, size - sizeof size);
}
