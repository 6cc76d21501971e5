/* model/template/lexer.h - the text of a template as tokens, one at a time.
 *
 * White space as Hugging Face's apply_chat_template sets it: the newline after a block or comment
 * is dropped (trim_blocks), and so is the blank that a line has before one (lstrip_blocks); '-'
 * takes all of it, '+' none. A last newline of the template is dropped, and every newline is \n. */
#ifndef LNT_MODEL_TEMPLATE_LEXER_H
#define LNT_MODEL_TEMPLATE_LEXER_H

#include "model/template/characters.h"
#include "model/template/pool.h"

typedef enum lnt_token_kind {
    LNT_TOKEN_END, LNT_TOKEN_TEXT, LNT_TOKEN_PRINT, LNT_TOKEN_PRINT_END, LNT_TOKEN_BLOCK, LNT_TOKEN_BLOCK_END,
    LNT_TOKEN_NAME, LNT_TOKEN_STRING, LNT_TOKEN_INTEGER, LNT_TOKEN_REAL,
    LNT_TOKEN_SIGN /* an operator or a bracket */
} lnt_token_kind;

/* Operators of one character are that character. */
enum lnt_sign { LNT_SIGN_EQUAL = 256, LNT_SIGN_UNEQUAL, LNT_SIGN_LESS_EQUAL, LNT_SIGN_MORE_EQUAL,
                LNT_SIGN_FLOOR, LNT_SIGN_POWER };

typedef struct lnt_token {
    lnt_token_kind kind;
    int sign;
    size_t at;      /* in the source */
    lnt_span text;  /* of text, names, and strings without their escapes; else as it is written */
    int64_t integer;
    double real;
} lnt_token;

typedef struct lnt_lexer {
    lnt_template_pool *pool;
    lnt_span source; /* with its newlines made \n */
    size_t at;
    lnt_token_kind inside; /* LNT_TOKEN_PRINT, LNT_TOKEN_BLOCK, or LNT_TOKEN_TEXT */
    int brackets;          /* open */
} lnt_lexer;

/* The text is copied into the pool. */
bool lnt_lexer_open(lnt_template_pool *pool, const char *text, size_t bytes, lnt_lexer *out);
bool lnt_lexer_next(lnt_lexer *lexer, lnt_token *out); /* false with the sentence */

/* "WHERE, line 3, column 7: ..."; returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
bool lnt_template_fail(const lnt_template_pool *pool, lnt_span source, size_t at, const char *format, ...);

#endif
