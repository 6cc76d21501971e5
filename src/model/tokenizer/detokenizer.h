/* model/tokenizer/detokenizer.h - from tokens to text: what is done to the spelling of each, in order. */
#ifndef LNT_MODEL_TOKENIZER_DETOKENIZER_H
#define LNT_MODEL_TOKENIZER_DETOKENIZER_H

#include "model/tokenizer/buffer.h"
#include "model/tokenizer/regex.h"

typedef enum lnt_spell_kind {
    LNT_SPELL_REPLACE,    /* from, or regex, by to */
    LNT_SPELL_METASPACE,  /* from is a space; in the first token nothing, where `drop_first` */
    LNT_SPELL_WORDPIECE,  /* a space before a token, unless it begins with from, which is left out; cleaned up
                           */
    LNT_SPELL_APART,      /* a space before every token but the first */
    LNT_SPELL_STRIP,      /* up to `start` and `stop` of the character `from` at the ends of a token */
    LNT_SPELL_BYTES,      /* <0x0A> is a byte */
    LNT_SPELL_WHOLE_STRIP /* strip, of the text as a whole */
} lnt_spell_kind;

typedef struct lnt_spell {
    lnt_spell_kind kind;
    lnt_text from, to;
    lnt_regex *regex;
    size_t start, stop;
    bool drop_first, clean_up;
} lnt_spell;

/* Of the kinds up to STRIP any number in any order; then BYTES, then WHOLE_STRIP, at most one each. */

#endif
