/* model/tokenizer/buffer.h - memory that grows, memory that lives as long as a codec, and UTF-8. */
#ifndef LNT_MODEL_TOKENIZER_BUFFER_H
#define LNT_MODEL_TOKENIZER_BUFFER_H

#include "model/tokenizer/codec.h"

/* Makes room for `need` elements of `size` bytes in *data, which has *room and keeps what it holds. */
lnt_status lnt_grow(lnt_ctx *ctx, void *data, size_t *room, size_t need, size_t size);

/* Bytes in the making; begins as { 0 }. */
typedef struct lnt_chars {
    char *text;
    size_t count, room;
    size_t most; /* more bytes are refused; 0: there is no limit but the memory */
} lnt_chars;

/* What the steps of a tokenizer may make of a text of so many bytes: a file could have each double it. */
static inline size_t lnt_chars_most(size_t bytes)
{
    return bytes < SIZE_MAX / 128 ? 64 * bytes + 65536 : SIZE_MAX;
}

lnt_status lnt_chars_put(lnt_ctx *ctx, lnt_chars *to, const char *text, size_t bytes);
lnt_status lnt_chars_put_code(lnt_ctx *ctx, lnt_chars *to, uint32_t code);
void lnt_chars_free(lnt_ctx *ctx, lnt_chars *chars);

lnt_status lnt_tokens_put(lnt_ctx *ctx, lnt_tokens *to, int32_t token);

/* What is taken lives until the pool is closed. */
typedef struct lnt_pool {
    lnt_ctx *ctx;
    struct lnt_pool_block *last;
} lnt_pool;

void *lnt_pool_take(lnt_pool *pool, size_t bytes); /* of zeros; NULL on failure */
lnt_status lnt_pool_text(lnt_pool *pool, const char *text, size_t bytes, lnt_text *out); /* a copy */
void lnt_pool_close(lnt_pool *pool);

/* The character at s, of which left > 0 bytes may be read: its bytes; or, negative, how many begin one
 * but do not make it (the maximal subpart, or 1); or 0 where the text ends before that is known. */
int lnt_utf8_take(const char *s, size_t left, uint32_t *code);
int lnt_utf8_put(uint32_t code, char to[4]);
/* Appends text with U+FFFD in place of what is broken. */
lnt_status lnt_utf8_repair(lnt_ctx *ctx, lnt_chars *to, const char *text, size_t bytes);

/* Of text that is UTF-8: its first character, left > 0. */
static inline size_t lnt_utf8_bytes(const char *s)
{
    const unsigned char c = (unsigned char)*s;
    return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

bool lnt_text_is(lnt_text a, const char *b);

#define LNT_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define LNT_LOW_BLOCK "\xe2\x96\x81"   /* U+2581, SentencePiece's space */

#endif
