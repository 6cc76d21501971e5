/* cli/option_table.h - the table of options, from which the parser, the help and the error messages are
 * made. */
#ifndef LNT_CLI_OPTION_TABLE_H
#define LNT_CLI_OPTION_TABLE_H

#include <stddef.h>

#include "cli/options.h"

typedef enum option_kind {
    KIND_FLAG,
    KIND_WHOLE,        /* min .. max */
    KIND_SEED,         /* any 64-bit number */
    KIND_REAL,         /* finite, at least `least` */
    KIND_DECAYS,       /* one number, or a comma list */
    KIND_TEMPERATURES, /* the same */
    KIND_COEFFICIENTS, /* a comma list, or the word taylor or fit */
    KIND_PINS,         /* a comma list of tokens */
    KIND_CHOICE,       /* a word of choice() */
    KIND_TEXT,         /* not empty */
    KIND_STOPS,        /* the same, and may be given more than once */
    KIND_PROMPT        /* text; empty is as if it were not given */
} option_kind;

typedef struct option_row {
    const char *name; /* without the dashes */
    char letter;      /* the short form, 0: none */
    option_kind kind;
    const char *argument; /* its name in the help; NULL: the choices themselves */
    int commands;
    int mechanisms; /* bits 1 << lnt_mechanism of those that take it; 0: all, or no matter */
    bool problem;   /* describes what is computed, not how or where to */
    int64_t min, max;
    double least;
    const char *(*choice)(int index);
    const char *help;
} option_row;

extern const option_row option_table[OPTION_COUNT];

/* The choices of a row joined by `separator`, into text, which is returned. */
const char *option_join_choices(const option_row *row, const char *separator, char *text,
                                size_t capacity);

#endif
