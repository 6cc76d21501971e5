/* model/tokenizer/unicode.h - what tokenizers ask about characters.  Categories and normal forms are
 * utf8proc's. */
#ifndef LNT_MODEL_TOKENIZER_UNICODE_H
#define LNT_MODEL_TOKENIZER_UNICODE_H

#include "model/tokenizer/buffer.h"

typedef enum lnt_unicode_form { LNT_NFC, LNT_NFD, LNT_NFKC, LNT_NFKD } lnt_unicode_form;

/* LNT_ERR_UNSUPPORTED where this build has no utf8proc; path is for the sentence. */
lnt_status lnt_unicode_check(lnt_ctx *ctx, const char *path);

bool lnt_unicode_is_white(uint32_t code); /* White_Space; needs no utf8proc */
/* Letters, marks, decimal digits, connectors and joiners; without utf8proc of ASCII, and all beyond it. */
bool lnt_unicode_is_word(uint32_t code);

/* These only where the check passed. */
bool lnt_unicode_is_other(uint32_t code); /* category C, but what is not assigned */
bool lnt_unicode_is_mark(uint32_t code, bool nonspacing_only);
/* Appends text (UTF-8): in a normal form; in lower case, character by character. */
lnt_status lnt_unicode_normalise(lnt_ctx *ctx, lnt_unicode_form form, const char *text, size_t bytes,
                                 lnt_chars *to);
lnt_status lnt_unicode_lower(lnt_ctx *ctx, const char *text, size_t bytes, lnt_chars *to);

/* Of text that is UTF-8: the character at s, and the one that ends before text[at]. */
static inline uint32_t lnt_utf8_at(const char *s)
{
    uint32_t code = 0;
    lnt_utf8_take(s, 4, &code);
    return code;
}
static inline uint32_t lnt_utf8_before(const char *text, size_t at)
{
    do at--;
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
    return lnt_utf8_at(text + at);
}

#endif
