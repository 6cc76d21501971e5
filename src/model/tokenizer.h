/* model/tokenizer.h - text to tokens and back: bytes, or byte-pair encoding. */
#ifndef LNT_MODEL_TOKENIZER_H
#define LNT_MODEL_TOKENIZER_H

#include "io/json.h"

typedef enum lnt_tokenizer_kind {
    LNT_TOKENS_NONE = 0, /* the tokens are no text */
    LNT_TOKENS_BYTES = 1,
    LNT_TOKENS_BPE = 2
} lnt_tokenizer_kind;

enum { LNT_BYTE_TOKENS = 256, LNT_TOKENIZER_MOST = 1 << 16 };

/* Token 256 + i is the pair merge[i], of tokens before it. */
typedef struct lnt_merge {
    int32_t left, right;
} lnt_merge;

typedef struct lnt_tokenizer {
    lnt_tokenizer_kind kind;
    lnt_merge *merge; /* [merges] */
    size_t merges, room;
    size_t *start; /* [tokens + 1]: where the bytes of a token begin in `bytes` */
    char *bytes;
    size_t bytes_room;
    uint32_t *slot; /* [slots], a hash table from pairs to merges: index + 1, 0: free */
    size_t slots;
} lnt_tokenizer;

/* Words of "tokenizer" in a config: none, bytes, bpe. */
const char *lnt_tokenizer_word(int index);

/* kind bytes or none; or bpe with its merges, which are copied and checked. */
lnt_status lnt_tokenizer_open(lnt_ctx *ctx, lnt_tokenizer_kind kind, const lnt_merge *merge,
                              size_t merges, lnt_tokenizer *out);
static inline lnt_status lnt_tokenizer_copy(lnt_ctx *ctx, const lnt_tokenizer *from,
                                            lnt_tokenizer *out)
{
    return lnt_tokenizer_open(ctx, from->kind, from->merge, from->merges, out);
}
void lnt_tokenizer_close(lnt_ctx *ctx, lnt_tokenizer *t);

static inline size_t lnt_tokenizer_count(const lnt_tokenizer *t)
{
    return LNT_BYTE_TOKENS + t->merges;
}

/* tokens [bytes at most]; returns how many. */
size_t lnt_tokenizer_encode(const lnt_tokenizer *t, const char *text, size_t bytes,
                            int32_t *tokens);
/* The bytes of a token, and how many; token is below the count. */
const char *lnt_tokenizer_decode(const lnt_tokenizer *t, int32_t token, size_t *bytes);

/* {"kind":"bpe","merges":[a,b,a,b,...]} */
void lnt_tokenizer_write(lnt_json_text *out, const lnt_tokenizer *t);
lnt_status lnt_tokenizer_read(lnt_ctx *ctx, const char *path, const char *text,
                              lnt_tokenizer *out);

/* Length of the word that text begins with: merges do not cross words.  A word is letters with the
 * space before them, digits, spaces, or other bytes. */
size_t lnt_tokenizer_word_length(const char *text, size_t bytes);

#endif
