/* model/recent.c - the last tokens of each sequence; see recent.h.  4 kB a sequence. */
#include "model/recent.h"

#include <assert.h>

static size_t bytes_of(size_t batch) { return batch * LNT_RECENT_TOKENS * sizeof(int32_t); }

lnt_status lnt_recent_open(lnt_ctx *ctx, size_t batch, lnt_recent *out)
{
    *out = (lnt_recent){ .batch = batch };
    out->tokens = lnt_allocate(ctx, bytes_of(batch), "the last tokens");
    return out->tokens ? LNT_OK : LNT_ERR_MEMORY;
}

void lnt_recent_close(lnt_ctx *ctx, lnt_recent *r)
{
    lnt_release(ctx, r->tokens, bytes_of(r->batch));
    *r = (lnt_recent){ 0 };
}

void lnt_recent_add(lnt_recent *r, const int32_t *tokens, size_t count)
{
    const size_t skip = count > LNT_RECENT_TOKENS ? count - LNT_RECENT_TOKENS : 0;
    for (size_t b = 0; b < r->batch; b++)
        for (size_t i = skip; i < count; i++)
            r->tokens[b * LNT_RECENT_TOKENS + (r->fed + i) % LNT_RECENT_TOKENS] = tokens[b * count + i];
    r->fed += count;
}

size_t lnt_recent_last(const lnt_recent *r, size_t b, size_t most, int32_t *tokens)
{
    assert(most <= LNT_RECENT_TOKENS);
    const size_t count = r->fed < most ? (size_t)r->fed : most;
    for (size_t i = 0; i < count; i++)
        tokens[i] = r->tokens[b * LNT_RECENT_TOKENS + (r->fed - 1 - i) % LNT_RECENT_TOKENS];
    return count;
}
