/* train/setup.c - creates a trainer from a request, from a checkpoint, or only for evaluation: config, task
 * and model, in that order, each checked against the one before. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/struct.h"
#include "io/file.h"
#include "train/settings.h"
#include "train/trainer.h"

enum { NUMBER = 24, RECIPE_TEXT = 1024 };

static lnt_task make_task(lnt_ctx *ctx, const lnt_task_kind *kind, const char *data, lnt_use use,
                          const lnt_settings *s)
{
    return (lnt_task){ .ctx = ctx, .kind = kind, .options = s->options, .use = use, .data = data,
                       .rng = lnt_rng_split(lnt_rng_make((uint64_t)s->recipe.seed), 1) };
}

/* ---- a new one ----------------------------------------------------------------------------- */

/* Of a task that has said what goes in and out, over a config that said `before`. */
static lnt_status make_model(const lnt_task *task, lnt_settings *s, const char *path,
                             const lnt_config *before, uint64_t seed, lnt_model **out)
{
    lnt_ctx *ctx = task->ctx;
    lnt_tokenizer tokenizer;
    lnt_status status = lnt_settings_check_ends(ctx, path, task->kind, s, before);
    if (!status) status = lnt_config_resolve(ctx, path, &s->config);
    if (!status) status = lnt_tokenizer_copy(ctx, &task->tokenizer, &tokenizer);
    if (!status) status = lnt_model_make(ctx, &s->config, task->kind->name, &tokenizer, seed, out);
    if (!status)
        lnt_fields_print((*out)->task_options, LNT_TASK_TEXT, task->kind->options, &s->options);
    return status;
}

/* Where no file was read, it is an argument that is wrong. */
static lnt_status blame(lnt_status status, const char *config)
{
    return status == LNT_ERR_FORMAT && !config ? LNT_ERR_ARGUMENT : status;
}

static lnt_status open_trainer(lnt_ctx *ctx, const lnt_train_request *request, const lnt_task_kind *kind,
                               lnt_settings *s, lnt_trainer **out)
{
    const lnt_config before = s->config;
    lnt_task task = make_task(ctx, kind, request->data, LNT_USE_TRAINING, s);
    lnt_model *model = NULL;
    lnt_status status = lnt_task_open(&task, &s->config);
    if (!status)
        status = make_model(&task, s, request->config ? request->config : kind->name, &before,
                            (uint64_t)s->recipe.seed, &model);
    if (!status) status = lnt_trainer_open(ctx, model, &task, &s->recipe, true, out);
    if (!status) return LNT_OK;
    lnt_model_destroy(model);
    lnt_task_close(&task);
    return status;
}

static lnt_status take_request(lnt_ctx *ctx, const lnt_train_request *given, lnt_train_request *request)
{
    *request = (lnt_train_request){ .size = sizeof *request };
    return lnt_struct_take(ctx, LNT_STRUCT(lnt_train_request, task), "train request", given, request);
}

lnt_status lnt_trainer_create(lnt_ctx *ctx, const lnt_train_request *given, lnt_trainer **out)
{
    lnt_train_request whole;
    const lnt_train_request *request = &whole;
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    if (take_request(ctx, given, &whole)) return LNT_ERR_ARGUMENT;
    if (!request->task) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "train request: task is NULL");
    const lnt_task_kind *kind;
    lnt_settings s;
    lnt_status status = lnt_settings_begin(ctx, request->task, &kind, &s);
    if (!status && request->config) status = lnt_settings_read(ctx, request->config, kind, &s);
    if (!status) status = lnt_settings_apply(ctx, request, &s);
    if (!status) status = open_trainer(ctx, request, kind, &s, out);
    return blame(status, request->config ? request->config : request->data);
}

lnt_status lnt_model_create(lnt_ctx *ctx, const lnt_model_request *given, lnt_model **out)
{
    lnt_model_request whole = { .size = sizeof whole };
    const lnt_model_request *request = &whole;
    const lnt_struct known = LNT_STRUCT(lnt_model_request, task);
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    if (lnt_struct_take(ctx, known, "model request", given, &whole)) return LNT_ERR_ARGUMENT;
    if (!request->task) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "model request: task is NULL");
    const char *path = request->config, *text = request->text;
    const lnt_task_kind *kind;
    lnt_settings s;
    lnt_status status = lnt_settings_begin(ctx, request->task, &kind, &s);
    if (!status && text) status = lnt_settings_parse(ctx, "text", text, strlen(text), kind, &s);
    if (!status && path) status = lnt_settings_read(ctx, path, kind, &s);
    if (status) return blame(status, path);
    const lnt_config before = s.config;
    const char *named = path ? path : text ? "text" : kind->name;
    lnt_task task = make_task(ctx, kind, NULL, LNT_USE_TRAINING, &s);
    status = lnt_config_check_applies(ctx, named, &s.config);
    if (!status) status = lnt_task_shape(&task, &s.config);
    if (!status) status = make_model(&task, &s, named, &before, request->seed, out);
    lnt_task_close(&task);
    return blame(status, path);
}

/* ---- from a model -------------------------------------------------------------------------- */

static lnt_status read_object(lnt_ctx *ctx, const char *path, const char *section, const char *text,
                              const lnt_field *table, void *into)
{
    lnt_json json;
    lnt_status status = lnt_json_parse(ctx, path, section, text, strlen(text), &json);
    if (status) return status;
    status = lnt_fields_read(ctx, path, section, json.root, table, into);
    lnt_json_free(ctx, &json);
    return status;
}

/* Whether the task, with this data, is what the model was made for. */
static lnt_status check_fit(lnt_ctx *ctx, const lnt_task *task, const lnt_config *now,
                            const lnt_config *model)
{
    if (now->input == model->input && now->output == model->output &&
        now->inputs == model->inputs && now->outputs == model->outputs &&
        now->length == model->length)
        return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    "task %s with " LNT_FILE_FMT " has %lld words in, %lld out and length %lld, the "
                    "model %lld, %lld and %lld",
                    task->kind->name, task->data ? task->data : "", (long long)now->inputs,
                    (long long)now->outputs, (long long)now->length, (long long)model->inputs,
                    (long long)model->outputs, (long long)model->length);
}

/* The model's own task over data, open; s->recipe is known. */
static lnt_status reopen_task(lnt_ctx *ctx, const char *path, const lnt_model *model,
                              const char *data, lnt_use use, lnt_settings *s, lnt_task *out)
{
    const lnt_task_kind *kind;
    lnt_status status = lnt_settings_kind(ctx, model->task, &kind);
    if (status) return status;
    lnt_recipe unused = s->recipe;
    lnt_config config = model->config;
    kind->recipe(&s->config, &unused, &s->options);
    status = read_object(ctx, path, "task", model->task_options, kind->options, &s->options);
    if (status) return status;
    *out = make_task(ctx, kind, data, use, s);
    status = lnt_tokenizer_copy(ctx, &model->tokenizer, &out->tokenizer);
    if (!status) status = lnt_task_open(out, &config);
    if (!status) status = check_fit(ctx, out, &config, &model->config);
    if (status) lnt_task_close(out);
    return status;
}

static lnt_status read_progress(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                                lnt_settings *s, int64_t *step)
{
    const char *train = lnt_safetensors_meta(st, "train"), *text = lnt_safetensors_meta(st, "step");
    if (!train || !text || sscanf(text, "%" SCNd64, step) != 1 || *step < 0 ||
        *step > LNT_STEPS_MOST)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is not a checkpoint of linnet", path);
    s->recipe = lnt_recipe_default();
    return read_object(ctx, path, "train", train, lnt_recipe_fields, &s->recipe);
}

static lnt_status check_data(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                             const lnt_task *task)
{
    const char *text = lnt_safetensors_meta(st, "data");
    uint64_t sum;
    if (text && sscanf(text, "%" SCNx64, &sum) == 1 && sum == task->data_checksum) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": was trained upon other data than " LNT_FILE_FMT " has now", path,
                    task->data ? task->data : "");
}

static lnt_status resume(lnt_ctx *ctx, const char *path, const lnt_safetensors *st, const char *data,
                         int64_t steps, lnt_trainer **out)
{
    lnt_settings s = { 0 };
    lnt_task task = { .ctx = ctx };
    lnt_model *model = NULL;
    int64_t step = 0;
    lnt_status status = read_progress(ctx, path, st, &s, &step);
    if (!status && steps && steps < step)
        status = lnt_fail(ctx, LNT_ERR_ARGUMENT,
                          "steps is %lld, must be %lld or more, which " LNT_FILE_FMT " has behind it",
                          (long long)steps, (long long)step, path);
    if (!status) status = lnt_model_read(ctx, path, st, NULL, &model);
    if (!status) status = reopen_task(ctx, path, model, data, LNT_USE_TRAINING, &s, &task);
    if (steps) s.recipe.steps = steps;
    if (!status) {
        status = check_data(ctx, path, st, &task);
        if (!status) status = lnt_trainer_open(ctx, model, &task, &s.recipe, true, out);
        if (status) lnt_task_close(&task);
    }
    if (status) {
        lnt_model_destroy(model);
        return status;
    }
    lnt_trainer *t = *out;
    t->step = step;
    status = lnt_model_read_array(model, path, st, &(lnt_model_array){ "adam.m.", t->mean });
    if (!status)
        status = lnt_model_read_array(model, path, st, &(lnt_model_array){ "adam.v.", t->square });
    if (!status) return LNT_OK;
    lnt_trainer_destroy(t);
    *out = NULL;
    return status;
}

lnt_status lnt_trainer_resume(lnt_ctx *ctx, const char *checkpoint, const char *data, int64_t steps,
                              lnt_trainer **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    if (!checkpoint || steps < 0 || steps > LNT_STEPS_MOST)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "checkpoint must be given, and steps be 0 (as planned) to %d", LNT_STEPS_MOST);
    lnt_safetensors st;
    lnt_status status = lnt_safetensors_read(ctx, checkpoint, &st);
    if (status) return status;
    status = resume(ctx, checkpoint, &st, data, steps, out);
    lnt_safetensors_free(ctx, &st);
    return status;
}

static lnt_status expect_config(const lnt_trainer *t, const lnt_train_request *request)
{
    const lnt_config *run = &t->model->config;
    const char *path = request->config;
    const lnt_task_kind *kind;
    lnt_settings s;
    lnt_status status = lnt_settings_begin(t->ctx, t->model->task, &kind, &s);
    if (!status) status = lnt_settings_read(t->ctx, path, kind, &s);
    if (!status) status = lnt_settings_apply(t->ctx, request, &s);
    if (status) return status;
    const lnt_config before = s.config;
    s.config.input = run->input; /* what the task has decided already */
    s.config.output = run->output;
    s.config.inputs = run->inputs;
    s.config.outputs = run->outputs;
    if (kind->fixes_length) s.config.length = run->length;
    s.recipe.steps = t->recipe.steps; /* these two may change */
    s.recipe.dtype = t->recipe.dtype;
    status = lnt_settings_check_ends(t->ctx, path, kind, &s, &before);
    if (!status) status = lnt_config_resolve(t->ctx, path, &s.config);
    if (!status) status = lnt_config_check_same(t->ctx, path, &s.config, run);
    if (!status)
        status = lnt_fields_check_same(t->ctx, path, "train", lnt_recipe_fields, &s.recipe, &t->recipe);
    if (!status)
        status = lnt_fields_check_same(t->ctx, path, "task", kind->options, &s.options, &t->task.options);
    return status;
}

lnt_status lnt_trainer_expect(const lnt_trainer *t, const lnt_train_request *given)
{
    lnt_train_request whole;
    const lnt_train_request *request = &whole;
    if (!t) return LNT_ERR_ARGUMENT;
    if (take_request(t->ctx, given, &whole)) return LNT_ERR_ARGUMENT;
    const char *mechanism = lnt_mechanism_name(t->model->config.attention.mechanism);
    if (request->task && strcmp(request->task, t->model->task) != 0)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "task is '%.40s', must be '%s'", request->task,
                        t->model->task);
    if (request->mechanism && strcmp(request->mechanism, mechanism) != 0)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "mechanism is '%.40s', must be '%s'", request->mechanism,
                        mechanism);
    if (request->seed && *request->seed != (uint64_t)t->recipe.seed)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "seed is %llu, must be %lld",
                        (unsigned long long)*request->seed, (long long)t->recipe.seed);
    if (request->steps && request->steps != t->recipe.steps)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "steps is %lld, must be %lld",
                        (long long)request->steps, (long long)t->recipe.steps);
    return request->config ? expect_config(t, request) : LNT_OK;
}

lnt_status lnt_trainer_save(const lnt_trainer *t, const char *path)
{
    if (!t) return LNT_ERR_ARGUMENT;
    if (!path) return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "path is NULL");
    char step[NUMBER], data[NUMBER], train[RECIPE_TEXT];
    lnt_fields_print(train, sizeof train, lnt_recipe_fields, &t->recipe);
    snprintf(step, sizeof step, "%" PRId64, t->step);
    const lnt_model_array arrays[] = { { "adam.m.", t->mean }, { "adam.v.", t->square } };
    snprintf(data, sizeof data, "%016" PRIx64, t->task.data_checksum);
    const lnt_st_meta meta[] = { { "step", step }, { "train", train }, { "data", data } };
    return lnt_model_write(t->model, path, LNT_F32, arrays, 2, meta, 3);
}

/* A trainer that only tests a model, which stays the caller's, upon batches of s->recipe. */
static lnt_status open_tests(const lnt_model *model, const char *data, lnt_use use, lnt_settings *s,
                             lnt_trainer **out)
{
    lnt_task task = { .ctx = model->ctx };
    lnt_status status = reopen_task(model->ctx, model->task, model, data, use, s, &task);
    if (status) return status;
    lnt_model *lent = (lnt_model *)(uintptr_t)model; /* nothing is trained: it stays as it is */
    status = lnt_trainer_open(model->ctx, lent, &task, &s->recipe, false, out);
    if (status) lnt_task_close(&task);
    return status;
}

static void close_tests(lnt_trainer *t)
{
    t->model = NULL;
    lnt_trainer_destroy(t);
}

lnt_status lnt_model_evaluate(const lnt_model *model, const lnt_eval_request *given, lnt_score_report *report)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    lnt_eval_request whole = { .size = sizeof whole };
    const lnt_eval_request *request = &whole;
    const lnt_struct known = LNT_STRUCT(lnt_eval_request, data);
    if (lnt_struct_take(ctx, known, "eval request", given, &whole)) return LNT_ERR_ARGUMENT;
    if (request->batch < 0 || request->batches < 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "eval request: batch is %lld, batches %lld, must be 0 or more",
                        (long long)request->batch, (long long)request->batches);
    lnt_settings s = { .recipe = lnt_recipe_default() };
    lnt_trainer *t;
    s.recipe.batch = request->batch ? request->batch : 16;
    lnt_status status = lnt_settings_seed(ctx, request->seed, &s);
    if (!status)
        status = open_tests(model, request->data, request->held_out ? LNT_USE_TESTS : LNT_USE_ALL, &s, &t);
    if (status) return status;
    status = lnt_trainer_evaluate(t, request->batches, report);
    close_tests(t);
    return status;
}

lnt_status lnt_model_examples(const lnt_model *model, const char *data, int64_t first, int64_t count,
                              int32_t *tokens)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if (!lnt_config_generates(&model->config))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "examples: the model must be a decoder");
    if (!tokens || first < 0 || count < 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "examples: tokens must be given, first be 0 or more and count 1 or more, they "
                        "are %lld and %lld", (long long)first, (long long)count);
    lnt_settings s = { .recipe = lnt_recipe_default() };
    lnt_trainer *t;
    s.recipe.batch = 1;
    lnt_status status = open_tests(model, data, LNT_USE_TESTS, &s, &t);
    if (status) return status;
    if (first > t->task.test_examples - count) {
        lnt_fail(ctx, LNT_ERR_ARGUMENT,
                 "examples: %lld from %lld on are asked for, there are %lld for testing", (long long)count,
                 (long long)first, (long long)t->task.test_examples);
        close_tests(t);
        return LNT_ERR_ARGUMENT;
    }
    const size_t length = (size_t)model->config.length;
    for (int64_t i = 0; i < count; i++) {
        t->task.kind->fill(&t->task, LNT_SPLIT_TEST, (uint64_t)(first + i), &t->sample);
        memcpy(tokens + (size_t)i * length, t->sample.targets, length * sizeof *tokens);
    }
    close_tests(t);
    return LNT_OK;
}
