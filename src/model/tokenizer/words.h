/* model/tokenizer/words.h - pre-tokenizers: what cuts a normalised text into words, which are encoded alone.
 */
#ifndef LNT_MODEL_TOKENIZER_WORDS_H
#define LNT_MODEL_TOKENIZER_WORDS_H

#include "model/tokenizer/regex.h"

/* What becomes of the text that a cut finds. */
typedef enum lnt_behaviour {
    LNT_CUT_REMOVED,
    LNT_CUT_ISOLATED,
    LNT_CUT_MERGED_WITH_PREVIOUS,
    LNT_CUT_MERGED_WITH_NEXT,
    LNT_CUT_CONTIGUOUS
} lnt_behaviour;

typedef enum lnt_cut_kind {
    LNT_CUT_SPLIT,    /* at what is found */
    LNT_CUT_PREFIX,   /* a space before words that begin without one */
    LNT_CUT_METASPACE /* spaces become the mark, and each begins a word */
} lnt_cut_kind;

typedef enum lnt_scheme { LNT_PREPEND_ALWAYS, LNT_PREPEND_FIRST, LNT_PREPEND_NEVER } lnt_scheme;

typedef struct lnt_cut {
    lnt_cut_kind kind;
    lnt_regex *regex; /* what a split looks for; NULL: the literal */
    lnt_text literal; /* not empty; or the mark of metaspace */
    lnt_behaviour behaviour;
    bool invert; /* what is between is what was found */
    lnt_scheme scheme;
    bool apart; /* metaspace: each mark begins a word */
} lnt_cut;

/* Words of a text: bytes that follow each other, gaps included. */
typedef struct lnt_word {
    size_t start, bytes;
    bool first; /* it begins the whole text */
} lnt_word;

typedef struct lnt_words {
    lnt_chars text;
    lnt_word *word; /* [count] */
    size_t count, room;
    lnt_chars next_text; /* scratch of a cut that changes the text */
    lnt_word *next;
    size_t next_count, next_room;
} lnt_words;

/* words->text becomes the words that the cuts make of it; first: it begins the whole text. */
lnt_status lnt_words_cut(lnt_ctx *ctx, const lnt_cut *cut, size_t cuts, bool first, lnt_words *words);
void lnt_words_free(lnt_ctx *ctx, lnt_words *words);

#endif
