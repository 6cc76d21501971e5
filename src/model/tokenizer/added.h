/* model/tokenizer/added.h - added tokens, which are found in a text before all else: of those that begin at a
 * place the longest, from left to right. */
#ifndef LNT_MODEL_TOKENIZER_ADDED_H
#define LNT_MODEL_TOKENIZER_ADDED_H

#include "model/tokenizer/buffer.h"

typedef struct lnt_added_token {
    lnt_text text; /* as it is looked for */
    int32_t token;
    bool special;
    bool single_word;     /* not within a word */
    bool lstrip, rstrip;  /* takes the white space before it, behind it */
} lnt_added_token;

typedef struct lnt_added_node {
    uint32_t child, next; /* the first child; the next of the same parent: 0, none */
    uint32_t token;       /* index + 1 of the token that ends here, or 0 */
    unsigned char byte;
} lnt_added_node;

/* A tree of the tokens' bytes. */
typedef struct lnt_added {
    lnt_added_token *token; /* [count], empty ones are never found */
    size_t count;
    lnt_added_node *node; /* [nodes]; the first is the root */
    size_t nodes;
    bool begins[256]; /* a token begins with the byte */
} lnt_added;

/* token and count are set; takes what it needs from the pool. */
lnt_status lnt_added_open(lnt_pool *pool, lnt_added *added);

typedef struct lnt_added_match {
    size_t start, end;
    int32_t token; /* or LNT_NO_TOKEN: text between */
} lnt_added_match;

/* Which special tokens are text: all, or those that hold one of the bytes bar [bars], which ascend. */
typedef struct lnt_added_bars {
    bool verbatim;
    const size_t *bar;
    size_t bars;
} lnt_added_bars;

/* Cuts text into tokens and what is between, none of it empty.  *match has *room, which grows; *count are
 * used. */
lnt_status lnt_added_find(lnt_ctx *ctx, const lnt_added *added, const char *text, size_t bytes,
                          lnt_added_bars bars, lnt_added_match **match, size_t *room, size_t *count);
/* Whether text begins with a special token. */
bool lnt_added_begins_special(const lnt_added *added, const char *text, size_t bytes);
/* The token spelled so, or LNT_NO_TOKEN. */
int32_t lnt_added_exactly(const lnt_added *added, const char *text, size_t bytes);

#endif
