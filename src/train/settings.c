/* train/settings.c - see settings.h. */
#include "train/settings.h"

#include <stdio.h>

#include "task/content.h"
#include "io/file.h"

/* What the task decides. */
static const char *const ends[] = { "input", "output", "inputs", "outputs" };
enum { ENDS = sizeof ends / sizeof ends[0], WORDS = 2 }; /* the first are words, the others numbers */

lnt_status lnt_settings_kind(lnt_ctx *ctx, const char *name, const lnt_task_kind **out)
{
    char names[160] = "";
    size_t used = 0;
    *out = lnt_task_find(name);
    if (*out) return LNT_OK;
    for (int i = 0; lnt_task_name(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 lnt_task_name(i));
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "task '%.40s' is not one of %s", name, names);
}

lnt_status lnt_settings_begin(lnt_ctx *ctx, const char *task, const lnt_task_kind **kind, lnt_settings *s)
{
    *s = (lnt_settings){ .recipe = lnt_recipe_default() };
    lnt_status status = lnt_settings_kind(ctx, task, kind);
    if (!status) status = lnt_config_default(ctx, &s->config);
    if (!status) (*kind)->recipe(&s->config, &s->recipe, &s->options);
    return status;
}

static lnt_status read_sections(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind,
                                const lnt_json_node *root, lnt_settings *s)
{
    static const lnt_field sections[] = { { .key = "model", .kind = LNT_FIELD_OBJECT },
                                          { .key = "train", .kind = LNT_FIELD_OBJECT },
                                          { .key = "task", .kind = LNT_FIELD_OBJECT },
                                          { .key = NULL } };
    const lnt_json_node *model = lnt_json_member(root, "model");
    for (int i = 0; model && i < ENDS; i++)
        if (lnt_json_member(model, ends[i])) s->said |= 1u << i;
    lnt_status status = lnt_fields_read(ctx, path, NULL, root, sections, s);
    if (!status) status = lnt_config_read(ctx, path, model, &s->config);
    if (!status)
        status = lnt_fields_read(ctx, path, "train", lnt_json_member(root, "train"),
                                 lnt_recipe_fields, &s->recipe);
    if (!status && s->recipe.schedule == LNT_SCHEDULE_STEP && !s->recipe.drop_at)
        status = lnt_fail(ctx, LNT_ERR_FORMAT,
                          LNT_FILE_FMT ": train.schedule is 'step', which needs drop_at, the step from "
                                       "which the rate is rate_last",
                          path);
    if (!status)
        status = lnt_fields_read(ctx, path, "task", lnt_json_member(root, "task"), kind->options,
                                 &s->options);
    return status;
}

lnt_status lnt_settings_parse(lnt_ctx *ctx, const char *path, const char *text, size_t bytes,
                              const lnt_task_kind *kind, lnt_settings *s)
{
    lnt_json json;
    lnt_status status = lnt_json_parse(ctx, path, NULL, text, bytes, &json);
    if (status) return status;
    status = read_sections(ctx, path, kind, json.root, s);
    lnt_json_free(ctx, &json);
    return status;
}

lnt_status lnt_settings_read(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind, lnt_settings *s)
{
    lnt_content content;
    lnt_status status = lnt_content_read(ctx, path, &content);
    if (status) return status;
    status = lnt_settings_parse(ctx, path, content.data, content.bytes, kind, s);
    lnt_content_free(ctx, &content);
    return status;
}

lnt_status lnt_settings_seed(lnt_ctx *ctx, uint64_t seed, lnt_settings *s)
{
    if (seed > INT64_MAX)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "seed is %llu, must be 0 to %lld", (unsigned long long)seed,
                        (long long)INT64_MAX);
    s->recipe.seed = (int64_t)seed;
    return LNT_OK;
}

lnt_status lnt_settings_apply(lnt_ctx *ctx, const lnt_train_request *r, lnt_settings *s)
{
    if (r->steps < 0 || r->steps > LNT_STEPS_MOST)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "steps is %lld, must be 0 (the config's) to %d",
                        (long long)r->steps, LNT_STEPS_MOST);
    if (r->steps) s->recipe.steps = r->steps;
    lnt_status status = r->seed ? lnt_settings_seed(ctx, *r->seed, s) : LNT_OK;
    if (!status && r->mechanism) status = lnt_config_set_mechanism(ctx, r->mechanism, &s->config);
    return status ? status
                  : lnt_config_check_applies(ctx, r->config ? r->config : r->task, &s->config);
}

lnt_status lnt_settings_check_ends(lnt_ctx *ctx, const char *path, const lnt_task_kind *kind,
                                   const lnt_settings *s, const lnt_config *before)
{
    const lnt_config *c = &s->config;
    const int64_t now[ENDS] = { c->input, c->output, c->inputs, c->outputs };
    const int64_t was[ENDS] = { before->input, before->output, before->inputs, before->outputs };
    for (int i = 0; i < ENDS; i++) {
        if (!(s->said >> i & 1) || was[i] == now[i]) continue;
        if (i < WORDS)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": model.%s is not that of task %s; leave it out", path,
                            ends[i], kind->name);
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": model.%s is %lld, task %s has %lld; leave it out", path,
                        ends[i], (long long)was[i], kind->name, (long long)now[i]);
    }
    return LNT_OK;
}
