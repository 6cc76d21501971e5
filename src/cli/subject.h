/* cli/subject.h - the model that a command is about. */
#ifndef LNT_CLI_SUBJECT_H
#define LNT_CLI_SUBJECT_H

#include "cli/options.h"
#include "linnet.h"

/* The model in a file, or in the directory of a run.  EXIT_OK, or one sentence and EXIT_FAILED. */
int subject_load(lnt_ctx *ctx, const char *path, lnt_model **out);
/* Whether that is the file which would be loaded. */
bool subject_is(const char *path, const char *file);

/* What a study measures: the decoder of --model; or one whose weights are at random, for `task`, with the
 * task's recipe, over it the settings in text, over them those of --config.  EXIT_OK, or one sentence and
 * another status; *out is the caller's to destroy in any case. */
int subject_open(const options *o, lnt_ctx *ctx, const char *task, const char *text,
                 lnt_model **out, lnt_model_info *info);

#endif
