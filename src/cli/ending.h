/* cli/ending.h - finds the texts of --stop in a text that comes in pieces.
 *
 * What may still become one of them is held back, so none is printed, wherever pieces begin and end. */
#ifndef LNT_CLI_ENDING_H
#define LNT_CLI_ENDING_H

#include "cli/options.h"
#include "cli/text_buffer.h"

typedef struct ending {
    const char *const *text; /* [count] */
    int count;
    bool found;
    text_buffer held; /* its first `given` bytes were given before */
    size_t given;
} ending;

void ending_open(ending *e, const options *o);
void ending_close(ending *e);

/* Takes a piece and gives what is known to be before any of the texts, which lives until the next call.
 * EXIT_OK, or one sentence and EXIT_FAILED. */
int ending_put(ending *e, const char *piece, size_t bytes, const char **text, size_t *text_bytes);
/* What was held back, where no text was found; then it begins anew. */
void ending_end(ending *e, const char **text, size_t *bytes);

#endif
