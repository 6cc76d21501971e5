/* cli/generation.h - generates tokens with a session and measures the speed. */
#ifndef LNT_CLI_GENERATION_H
#define LNT_CLI_GENERATION_H

#include "cli/options.h"
#include "linnet/model.h"

typedef struct generation {
    const options *o;
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_model_info info;
    lnt_session *session;
    lnt_stream *stream; /* of a model that others trained: its tokens to text; else NULL */
    lnt_sampling sampling;
    int64_t batch, written;
    double seconds; /* spent on generating */
    int64_t prompt_tokens;
    double prompt_seconds;
    bool ended;     /* the model has ended its text */
    bool broken;    /* sampling or forward failed, so the session must not be saved */
} generation;

/* Each gives EXIT_OK, or says one sentence and gives another exit status. */

/* Loads the model and the options of sampling; no session yet. */
int generation_open(generation *g, const options *o);
int generation_begin(generation *g, int64_t batch); /* a new session, or that of --load-state */
/* A saved session, which must have so many sequences and, if --cache is given, that cache. */
int generation_load(const generation *g, const char *path, int64_t batch, lnt_session **out);
int generation_end(generation *g);                  /* --save-state */
void generation_close(generation *g);

/* Samples a token for each sequence, tokens [batch], and runs it through the model, unless it is the last. */
int generation_next(generation *g, bool goes_on, int32_t *tokens);

/* The number of tokens, the speed and the size of the state, on a terminal: as a status line during
 * generation (status_end removes it), and at the end. */
void generation_status(const generation *g);
void generation_status_last(const generation *g);
/* The same figures as one JSON object on stdout, with the text (NULL: none), which ends in NUL. */
void generation_json(const generation *g, const char *text, size_t bytes);

#endif
