/* train/settings.h - the settings of a run: the defaults of its task, overridden by a config file, then by a
 * request. */
#ifndef LNT_TRAIN_SETTINGS_H
#define LNT_TRAIN_SETTINGS_H

#include "linnet/model.h"
#include "task/task.h"

typedef struct lnt_settings {
    lnt_config config;
    lnt_recipe recipe;
    lnt_task_options options;
    unsigned said; /* bits: what the file sets although the task decides it; see lnt_settings_check_ends */
} lnt_settings;

/* `path` names the file in error messages. */

lnt_status lnt_settings_kind(lnt_ctx *ctx, const char *name, const lnt_task_kind **out);
/* The defaults of a task. */
lnt_status lnt_settings_begin(lnt_ctx *ctx, const char *task, const lnt_task_kind **kind, lnt_settings *s);
lnt_status lnt_settings_parse(lnt_ctx *ctx, const char *path, const char *text, size_t bytes,
                              const lnt_task_kind *kind, lnt_settings *s);
lnt_status lnt_settings_read(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind, lnt_settings *s);
lnt_status lnt_settings_seed(lnt_ctx *ctx, uint64_t seed, lnt_settings *s);
lnt_status lnt_settings_apply(lnt_ctx *ctx, const lnt_train_request *request, lnt_settings *s);
/* A config may repeat what the task decides, as the config of a model does, but not contradict it.
 * `before` is what the config said, s what the task decided. */
lnt_status lnt_settings_check_ends(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind,
                                   const lnt_settings *s, const lnt_config *before);

#endif
