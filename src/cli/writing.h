/* cli/writing.h - a session that writes: its prompt, its tokens one after another, its speed. */
#ifndef LNT_CLI_WRITING_H
#define LNT_CLI_WRITING_H

#include "cli/options.h"
#include "linnet.h"

typedef struct writing {
    const options *o;
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_model_info info;
    lnt_session *session;
    lnt_sampling sampling;
    int64_t batch, written;
    double seconds; /* spent on what was written */
    bool broken;    /* a token could not be drawn or fed: what is remembered is no good */
} writing;

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* Loads the model and the options of sampling; no session yet. */
int writing_open(writing *w, const options *o);
int writing_begin(writing *w, int64_t batch); /* a new session, or that of --load-state */
int writing_end(writing *w);                  /* --save-state */
void writing_close(writing *w);

/* Draws a token for each sequence, tokens [batch], and feeds it, unless it is the last. */
int writing_next(writing *w, bool goes_on, int32_t *tokens);

/* Tokens, their speed and what is remembered: while it writes (status_end takes it away), and at the
 * end, where stderr is a terminal. */
void writing_status(const writing *w);
void writing_status_last(const writing *w);
/* The same figures as one JSON object on stdout, with the text (NULL: none), which ends in NUL. */
void writing_json(const writing *w, const char *text, size_t bytes);

#endif
