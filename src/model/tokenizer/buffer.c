/* model/tokenizer/buffer.c - see buffer.h. */
#include "model/tokenizer/buffer.h"

#include <string.h>

/* ---- what grows ---------------------------------------------------------------------------------- */

lnt_status lnt_grow(lnt_ctx *ctx, void *data, size_t *room, size_t need, size_t size)
{
    if (need <= *room) return LNT_OK;
    size_t more = *room > need / 2 ? 2 * *room : need, bytes;
    if (more < 16) more = 16;
    if (!lnt_size_product(more, size, 1, &bytes))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "tokenizer: %zu elements do not fit the memory", need);
    void *old, *now = lnt_allocate(ctx, bytes, "tokens of a text");
    if (!now) return LNT_ERR_MEMORY;
    memcpy(&old, data, sizeof old); /* data is the address of a pointer of any type */
    if (old) memcpy(now, old, *room * size);
    lnt_release(ctx, old, *room * size);
    memcpy(data, &now, sizeof now);
    *room = more;
    return LNT_OK;
}

lnt_status lnt_chars_put(lnt_ctx *ctx, lnt_chars *to, const char *text, size_t bytes)
{
    if (!bytes) return LNT_OK;
    if (to->most && (to->count > to->most || bytes > to->most - to->count))
        return lnt_fail(ctx, LNT_ERR_FORMAT, "tokenizer: its steps make over %zu bytes of a text", to->most);
    const lnt_status status = lnt_grow(ctx, &to->text, &to->room, to->count + bytes, 1);
    if (status) return status;
    memcpy(to->text + to->count, text, bytes);
    to->count += bytes;
    return LNT_OK;
}

lnt_status lnt_chars_put_code(lnt_ctx *ctx, lnt_chars *to, uint32_t code)
{
    char bytes[4];
    return lnt_chars_put(ctx, to, bytes, (size_t)lnt_utf8_put(code, bytes));
}

void lnt_chars_free(lnt_ctx *ctx, lnt_chars *chars)
{
    lnt_release(ctx, chars->text, chars->room);
    *chars = (lnt_chars){ 0 };
}

lnt_status lnt_tokens_put(lnt_ctx *ctx, lnt_tokens *to, int32_t token)
{
    const lnt_status status = lnt_grow(ctx, &to->token, &to->room, to->count + 1, sizeof *to->token);
    if (!status) to->token[to->count++] = token;
    return status;
}

void lnt_tokens_free(lnt_ctx *ctx, lnt_tokens *tokens)
{
    lnt_release(ctx, tokens->token, tokens->room * sizeof *tokens->token);
    *tokens = (lnt_tokens){ 0 };
}

/* ---- the pool ------------------------------------------------------------------------------------ */

enum { BLOCK = 1 << 16 };

typedef struct lnt_pool_block {
    struct lnt_pool_block *before;
    size_t bytes, used; /* of data */
    _Alignas(16) char data[];
} lnt_pool_block;

void *lnt_pool_take(lnt_pool *pool, size_t bytes)
{
    lnt_pool_block *b = pool->last;
    if (!b || b->bytes - b->used < bytes) {
        if (bytes > SIZE_MAX - BLOCK) return NULL;
        const size_t room = bytes > BLOCK / 8 ? bytes : BLOCK;
        b = lnt_allocate(pool->ctx, sizeof *b + room, "a tokenizer");
        if (!b) return NULL;
        memset(b, 0, sizeof *b + room);
        b->bytes = room;
        if (bytes > BLOCK / 8 && pool->last) { /* the last goes on being filled */
            b->before = pool->last->before;
            pool->last->before = b;
        } else {
            b->before = pool->last;
            pool->last = b;
        }
    }
    void *out = b->data + b->used;
    const size_t step = bytes % 16 ? bytes + 16 - bytes % 16 : bytes;
    b->used = b->bytes - b->used < step ? b->bytes : b->used + step;
    return out;
}

lnt_status lnt_pool_text(lnt_pool *pool, const char *text, size_t bytes, lnt_text *out)
{
    char *copy = lnt_pool_take(pool, bytes + 1);
    if (!copy) return LNT_ERR_MEMORY;
    if (bytes) memcpy(copy, text, bytes);
    *out = (lnt_text){ copy, bytes };
    return LNT_OK;
}

void lnt_pool_close(lnt_pool *pool)
{
    while (pool->last) {
        lnt_pool_block *b = pool->last;
        pool->last = b->before;
        lnt_release(pool->ctx, b, sizeof *b + b->bytes);
    }
}

/* ---- UTF-8 --------------------------------------------------------------------------------------- */

int lnt_utf8_take(const char *s, size_t left, uint32_t *code)
{
    const unsigned char c = (unsigned char)s[0];
    if (c < 0x80) return (int)(*code = c, 1);
    if (c < 0xc2 || c > 0xf4) return -1;
    const int n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    *code = c & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((size_t)i == left) return 0;
        const unsigned char d = (unsigned char)s[i];
        const bool low = i == 1 && ((c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90));
        const bool high = i == 1 && ((c == 0xed && d > 0x9f) || (c == 0xf4 && d > 0x8f));
        if ((d & 0xc0) != 0x80 || low || high) return -i;
        *code = *code << 6 | (d & 0x3fu);
    }
    return n;
}

int lnt_utf8_put(uint32_t code, char to[4])
{
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (int i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}

lnt_status lnt_utf8_repair(lnt_ctx *ctx, lnt_chars *to, const char *text, size_t bytes)
{
    lnt_status status = LNT_OK;
    size_t good = 0; /* where what is not yet copied begins */
    for (size_t i = 0; !status && i < bytes;) {
        uint32_t code;
        const int n = lnt_utf8_take(text + i, bytes - i, &code);
        if (n > 0) {
            i += (size_t)n;
            continue;
        }
        status = lnt_chars_put(ctx, to, text + good, i - good);
        if (!status) status = lnt_chars_put(ctx, to, LNT_REPLACEMENT, 3);
        good = i = n ? i + (size_t)-n : bytes;
    }
    return status ? status : lnt_chars_put(ctx, to, text + good, bytes - good);
}

bool lnt_text_is(lnt_text a, const char *b)
{
    return a.bytes == strlen(b) && memcmp(a.text, b, a.bytes) == 0;
}
