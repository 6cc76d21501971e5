/* model/tokenizer/normalizer.h - what is done to a text before it is cut into words: steps, one after the
 * other. */
#ifndef LNT_MODEL_TOKENIZER_NORMALIZER_H
#define LNT_MODEL_TOKENIZER_NORMALIZER_H

#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/unicode.h"

typedef enum lnt_normal_kind {
    LNT_NORMAL_FORM,
    LNT_NORMAL_LOWER,
    LNT_NORMAL_STRIP,   /* white space at the ends */
    LNT_NORMAL_MARKS,   /* marks are left out */
    LNT_NORMAL_REPLACE, /* regex, or from, by to */
    LNT_NORMAL_PREPEND, /* to, before a text that is not empty */
    LNT_NORMAL_CLEAN,   /* BERT: control characters are left out, white space is ' ' */
    LNT_NORMAL_CHINESE, /* BERT: spaces around Chinese characters */
    LNT_NORMAL_ACCENTS, /* BERT: decomposed, and marks that take no space left out */
    LNT_NORMAL_CHARSMAP
} lnt_normal_kind;

typedef struct lnt_normal {
    lnt_normal_kind kind;
    lnt_unicode_form form;
    bool left, right; /* strip */
    lnt_regex *regex;
    lnt_text from, to; /* from is not empty */
    const lnt_charsmap *map;
} lnt_normal;

/* *text becomes what the steps make of it; spare is scratch. */
lnt_status lnt_normalise(lnt_ctx *ctx, const lnt_normal *step, size_t steps, lnt_chars *text,
                         lnt_chars *spare);

#endif
