/* model/tokenizer/regex.h - regular expressions as tokenizers write them, by PCRE2 with Unicode.
 *
 * Built without PCRE2, compiling one is refused.  Matching backtracks within limits: a pattern that would go
 * on for ever is an error of the text it met. */
#ifndef LNT_MODEL_TOKENIZER_REGEX_H
#define LNT_MODEL_TOKENIZER_REGEX_H

#include "model/tokenizer/buffer.h"

typedef struct lnt_regex lnt_regex;

/* pattern is UTF-8; path is for sentences. */
lnt_status lnt_regex_open(lnt_ctx *ctx, const char *path, lnt_text pattern, lnt_regex **out);
void lnt_regex_close(lnt_ctx *ctx, lnt_regex *regex); /* NULL is fine */

/* A search through one text, match by match, from left to right and none within another. */
typedef struct lnt_search {
    lnt_ctx *ctx;
    const lnt_regex *regex;
    void *match;
    const char *text; /* UTF-8 */
    size_t bytes, at;
} lnt_search;

lnt_status lnt_search_open(lnt_ctx *ctx, const lnt_regex *regex, lnt_search *out);
void lnt_search_on(lnt_search *s, const char *text, size_t bytes); /* begin there */
/* *found false: there is no more. */
lnt_status lnt_search_next(lnt_search *s, size_t *start, size_t *end, bool *found);
void lnt_search_close(lnt_search *s);

#endif
