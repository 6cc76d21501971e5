/* model/labels.c - see labels.h. */
#include "model/labels.h"

#include <string.h>

lnt_status lnt_labels_open(lnt_ctx *ctx, size_t count, size_t bytes, lnt_labels *out)
{
    *out = (lnt_labels){ .count = count, .bytes = bytes };
    if (!count) return LNT_OK;
    out->at = lnt_allocate(ctx, count * sizeof *out->at, "the names of classes");
    out->text = lnt_allocate(ctx, bytes, "the names of classes");
    if (!out->at || !out->text) {
        lnt_labels_close(ctx, out);
        return LNT_ERR_MEMORY;
    }
    memset(out->at, 0xff, count * sizeof *out->at);
    return LNT_OK;
}

lnt_status lnt_labels_copy(lnt_ctx *ctx, const lnt_labels *from, lnt_labels *out)
{
    const lnt_status status = lnt_labels_open(ctx, from->count, from->bytes, out);
    if (status || !from->count) return status;
    memcpy(out->at, from->at, from->count * sizeof *out->at);
    memcpy(out->text, from->text, from->bytes);
    return LNT_OK;
}

void lnt_labels_close(lnt_ctx *ctx, lnt_labels *labels)
{
    lnt_release(ctx, labels->at, labels->count * sizeof *labels->at);
    lnt_release(ctx, labels->text, labels->bytes);
    *labels = (lnt_labels){ 0 };
}

const char *lnt_labels_name(const lnt_labels *labels, size_t i)
{
    return i < labels->count && labels->at[i] != SIZE_MAX ? labels->text + labels->at[i] : NULL;
}
