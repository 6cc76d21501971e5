/* train/settings.h - the settings of a run: the defaults of its task, overridden by a config file, then by a
 * request. */
#ifndef LNT_TRAIN_SETTINGS_H
#define LNT_TRAIN_SETTINGS_H

#include "task/task.h"

typedef struct lnt_settings {
    lnt_config config;
    lnt_recipe recipe;
    lnt_task_options options;
    unsigned said; /* what the file says of its own though it is the task's: lnt_settings_check_ends */
} lnt_settings;

/* `path` names in sentences what was read. */

lnt_status lnt_settings_kind(lnt_ctx *ctx, const char *name, const lnt_task_kind **out);
/* What a task says before anybody else. */
lnt_status lnt_settings_begin(lnt_ctx *ctx, const char *task, const lnt_task_kind **kind, lnt_settings *s);
lnt_status lnt_settings_parse(lnt_ctx *ctx, const char *path, const char *text, size_t bytes,
                              const lnt_task_kind *kind, lnt_settings *s);
lnt_status lnt_settings_read(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind, lnt_settings *s);
lnt_status lnt_settings_seed(lnt_ctx *ctx, uint64_t seed, lnt_settings *s);
lnt_status lnt_settings_apply(lnt_ctx *ctx, const lnt_train_request *request, lnt_settings *s);
/* What the task decides, as s has it now: a config may say it, as that of a model does, but not otherwise.
 * `before` is what it said. */
lnt_status lnt_settings_check_ends(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind,
                                   const lnt_settings *s, const lnt_config *before);

#endif
