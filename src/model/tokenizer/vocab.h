/* model/tokenizer/vocab.h - tokens by number and by spelling. */
#ifndef LNT_MODEL_TOKENIZER_VOCAB_H
#define LNT_MODEL_TOKENIZER_VOCAB_H

#include "model/tokenizer/buffer.h"

typedef struct lnt_vocab {
    lnt_pool *pool;
    const char *path;
    size_t count;     /* one more than the highest token */
    lnt_text *token;  /* [count]; text NULL: there is none */
    double *score;    /* [count] */
    bool *special;    /* [count] */
    int32_t byte[256]; /* the token <0x..> of each byte, or LNT_NO_TOKEN */
    uint32_t *slot;   /* [slots], a hash table from spellings to tokens: token + 1, 0: free */
    size_t slots;     /* a power of 2 */
    size_t longest;   /* bytes of a spelling in the table */
} lnt_vocab;

/* Room for tokens below count; path must outlive the vocabulary's making. */
lnt_status lnt_vocab_open(lnt_pool *pool, const char *path, size_t count, lnt_vocab *out);
/* The token's spelling, copied; refused where it has one. */
lnt_status lnt_vocab_set(lnt_vocab *v, int64_t token, const char *text, size_t bytes);
/* Lets the token be found by its spelling; where another has the same it takes its place, or is refused. */
lnt_status lnt_vocab_index(lnt_vocab *v, int32_t token, bool takes);
int32_t lnt_vocab_find(const lnt_vocab *v, const char *text, size_t bytes); /* or LNT_NO_TOKEN */
/* After the last was indexed: fills byte[]. */
void lnt_vocab_find_bytes(lnt_vocab *v);

/* The byte that "<0x0A>" stands for, or -1. */
int lnt_byte_token(lnt_text spelling);

#endif
