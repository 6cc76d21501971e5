/* model/template/characters.h - UTF-8 text as Python sees it: a sequence of characters.
 *
 * A byte that is not part of UTF-8 counts as one character.  Cases are known of the Latin, Greek and Cyrillic
 * letters in their first blocks (to U+052F); other letters stay as they are. */
#ifndef LNT_MODEL_TEMPLATE_CHARACTERS_H
#define LNT_MODEL_TEMPLATE_CHARACTERS_H

#include "core/context.h"

typedef struct lnt_span {
    const char *text;
    size_t bytes;
} lnt_span;

#define LNT_SPAN(literal) ((lnt_span){ (literal), sizeof(literal) - 1 })
/* For "%.*s" in a sentence. */
#define LNT_SHOWN(span) (int)((span).bytes < 60 ? (span).bytes : 60), (span).text

bool lnt_span_is(lnt_span span, const char *text);
bool lnt_span_equal(lnt_span a, lnt_span b);
/* By bytes, which for UTF-8 is the order of the characters. */
int lnt_span_compare(lnt_span a, lnt_span b);
/* Where `part` begins in `in` at or after byte `from`; SIZE_MAX: nowhere. */
size_t lnt_span_find(lnt_span in, lnt_span part, size_t from);

/* Of the character that begins at s, left > 0. */
size_t lnt_characters_bytes(const char *s, size_t left);
uint32_t lnt_characters_code(const char *s, size_t left); /* a byte that is not UTF-8: 0xdc00 + it */
size_t lnt_characters_put(uint32_t code, char to[4]);     /* returns how many bytes */
size_t lnt_characters_count(lnt_span span);
size_t lnt_characters_skip(lnt_span span, size_t characters); /* bytes of so many characters */
size_t lnt_characters_last(lnt_span span);                    /* bytes of the last one; span is not empty */

bool lnt_characters_is_space(uint32_t code); /* as Python's str.isspace */
uint32_t lnt_characters_upper(uint32_t code);
uint32_t lnt_characters_lower(uint32_t code);
bool lnt_characters_is_cased(uint32_t code);
bool lnt_characters_is_printable(uint32_t code); /* else repr() writes it as an escape */

/* Bytes of the first line, and in *end those of what ends it (0: nothing), as Python's
 * str.splitlines has it. */
size_t lnt_characters_line(lnt_span span, size_t *end);

/* Without the characters of `set` at its ends; set.text NULL: without white space. */
lnt_span lnt_characters_strip(lnt_span span, lnt_span set, bool left, bool right);

#endif
