/* cli/model.h - finds and loads the model that a command works on. */
#ifndef LNT_CLI_MODEL_H
#define LNT_CLI_MODEL_H

#include "cli/options.h"
#include "linnet/model.h"

/* Loads a model from a file or a directory.  EXIT_OK, or one sentence and EXIT_FAILED. */
int model_load(lnt_ctx *ctx, const char *path, lnt_model **out);
/* The same with the tokenizer of --tokenizer, and with the attention of --mechanism and its options in place
 * of the model's, where they are given. */
int model_load_as(const options *o, lnt_ctx *ctx, const char *path, lnt_model **out);
/* The same with the model's own attention, whatever is given. */
int model_load_own(const options *o, lnt_ctx *ctx, const char *path, lnt_model **out);
/* ... or with that of a descriptor; NULL: its own. */
int model_load_with(lnt_ctx *ctx, const char *path, const lnt_attn_desc *attention, lnt_model **out);
/* Whether model_load(path) would read this file. */
bool model_is_file(const char *path, const char *file);

/* A new session, whose cache is that of --cache. */
int model_session(const options *o, const lnt_ctx *ctx, const lnt_model *model, int64_t batch,
                  lnt_session **out);
/* How a cache stores numbers that came in f32: "f32", "f16". */
const char *cache_numbers(lnt_cache cache);

/* The decoder that a study measures: that of --model, or one with random weights for `task`.  The latter has
 * the task's recipe, overridden by the settings in text, and those by --config.  EXIT_OK, or one sentence and
 * another status; the caller destroys *out in any case. */
int model_open(const options *o, lnt_ctx *ctx, const char *task, const char *text, lnt_model **out,
               lnt_model_info *info);

#endif
