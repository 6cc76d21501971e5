/* model/tokenizer/charsmap.h - SentencePiece's precompiled normaliser: a double-array trie from spellings to
 * what stands for them. */
#ifndef LNT_MODEL_TOKENIZER_CHARSMAP_H
#define LNT_MODEL_TOKENIZER_CHARSMAP_H

#include "model/tokenizer/buffer.h"

typedef struct lnt_charsmap {
    uint32_t *unit; /* [units] */
    size_t units;
    lnt_text normal; /* strings, each ends in NUL; unit values are places in it */
} lnt_charsmap;

/* blob: the bytes in the trie (u32, little-endian), the trie, the strings.  Copied to the pool. */
lnt_status lnt_charsmap_open(lnt_pool *pool, const char *path, lnt_text blob, lnt_charsmap *out);
lnt_status lnt_charsmap_apply(lnt_ctx *ctx, const lnt_charsmap *map, const char *text, size_t bytes,
                              lnt_chars *to);

/* Characters that are one to a reader, as Unicode cuts them: bytes of the first.  left > 0 */
size_t lnt_grapheme_bytes(const char *text, size_t left);

#endif
