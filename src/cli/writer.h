/* cli/writer.h - tokens to text on standard output, up to where the model or --stop ends it. */
#ifndef LNT_CLI_WRITER_H
#define LNT_CLI_WRITER_H

#include "cli/ending.h"
#include "cli/generation.h"

typedef struct writer {
    const generation *g;
    bool prints, keeps; /* on standard output, and in `kept` */
    text_buffer kept;
    text_buffer *all; /* NULL, or what the tokens spell, with what --stop has cut off */
    ending stops;
} writer;

void writer_open(writer *w, const generation *g, bool prints, bool keeps);
void writer_close(writer *w);

/* Each gives EXIT_OK, or says one sentence and gives another exit status.  A closed pipe has no sentence. */
int writer_put(writer *w, int32_t token); /* w->stops.found: the text has ended */
int writer_end(writer *w);                /* what was held back */

#endif
