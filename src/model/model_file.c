/* model/model_file.c - models as .safetensors: one tensor per parameter, and config, task and tokenizer in
 * the metadata; model/packed.h is for those whose matrices are packed.  A file is checked completely before
 * memory is allocated for it, because its config may claim anything. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/dtype.h"
#include "core/struct.h"
#include "io/file.h"
#include "model/import/import.h"
#include "model/packed.h"

enum { OWN_META = 5 };
#define FORMAT "linnet model 1"

/* ---- writing ------------------------------------------------------------------------------- */

static size_t add_entries(const lnt_layout *layout, const char *const *names, const float *data,
                          lnt_st_entry *out)
{
    size_t count = 0;
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        if (!e->count) continue;
        out[count] = (lnt_st_entry){ .name = names ? names[i] : e->name, .dtype = LNT_ST_F32,
                                     .rank = e->param.rank, .data = data + e->offset,
                                     .bytes = e->count * sizeof *data };
        for (int axis = 0; axis < e->param.rank; axis++)
            out[count].shape[axis] = (int64_t)e->param.shape[axis];
        count++;
    }
    return count;
}

enum { FULL_NAME = LNT_PARAM_NAME + 16 };

static void join(char out[FULL_NAME], const char *prefix, const char *name)
{
    const size_t length = strlen(prefix), rest = strlen(name);
    memcpy(out, prefix, length);
    memcpy(out + length, name, rest + 1);
}

/* What writing needs beside the model: one block. */
typedef struct room {
    size_t bytes, text_bytes;
    lnt_st_entry *entries;
    const char **names; /* [arrays,entries] */
    char (*joined)[FULL_NAME];
    char *tokenizer;
} room;

static lnt_status open_room(const lnt_model *model, size_t arrays, room *out)
{
    const size_t count = model->layout.entry_count;
    lnt_json_text text = { 0 };
    lnt_tokenizer_write(&text, &model->tokenizer);
    out->text_bytes = text.used + 1;
    const size_t per = (arrays + 1) * sizeof *out->entries +
                       arrays * (sizeof *out->names + sizeof *out->joined);
    out->bytes = count * per + out->text_bytes;
    char *memory = lnt_allocate(model->ctx, out->bytes, "the names in a file");
    if (!memory) return LNT_ERR_MEMORY;
    out->entries = (lnt_st_entry *)(void *)memory;
    out->names = (const char **)(void *)(out->entries + count * (arrays + 1));
    out->joined = (char(*)[FULL_NAME])(void *)(out->names + count * arrays);
    out->tokenizer = (char *)(out->joined + count * arrays);
    text = (lnt_json_text){ out->tokenizer, out->text_bytes - 1, 0 };
    lnt_tokenizer_write(&text, &model->tokenizer);
    out->tokenizer[text.used] = '\0';
    return LNT_OK;
}

/* The first `count` entries, which are floats, as bf16 in half [layout.size]. */
static void round_entries(const lnt_model *model, lnt_st_entry *entries, size_t count,
                          uint16_t *half)
{
    for (size_t i = 0; i < model->layout.size; i++) half[i] = lnt_float_to_bf16(model->weights[i]);
    for (size_t i = 0; i < count; i++) {
        entries[i].data = half + ((const float *)entries[i].data - model->weights);
        entries[i].dtype = LNT_ST_BF16;
        entries[i].bytes /= 2;
    }
}

lnt_status lnt_model_write(const lnt_model *model, const char *path, lnt_dtype dtype,
                           const lnt_model_array *arrays, size_t array_count,
                           const lnt_st_meta *meta, size_t meta_count)
{
    const size_t names = model->layout.entry_count;
    room r;
    assert(!model->packed); /* model/save.c writes those */
    lnt_status status = open_room(model, array_count, &r);
    if (status) return status;
    size_t count = add_entries(&model->layout, NULL, model->weights, r.entries);
    const size_t bytes = dtype == LNT_BF16 ? model->layout.size * sizeof(uint16_t) : 0;
    uint16_t *half = bytes ? lnt_allocate(model->ctx, bytes, "the rounded weights") : NULL;
    if (bytes && !half) status = LNT_ERR_MEMORY;
    if (half) round_entries(model, r.entries, count, half);
    for (size_t a = 0; a < array_count; a++) {
        for (size_t i = 0; i < names; i++) {
            join(r.joined[a * names + i], arrays[a].prefix, model->layout.entries[i].name);
            r.names[a * names + i] = r.joined[a * names + i];
        }
        count += add_entries(&model->layout, r.names + a * names, arrays[a].data,
                             r.entries + count);
    }
    lnt_st_meta all[OWN_META + LNT_MODEL_EXTRA] = { { "format", FORMAT },
                                                    { "task", model->task },
                                                    { "task_options", model->task_options },
                                                    { "config", model->text },
                                                    { "tokenizer", r.tokenizer } };
    for (size_t i = 0; i < meta_count; i++) all[OWN_META + i] = meta[i];
    if (!status)
        status = lnt_safetensors_write(model->ctx, path, r.entries, count, all,
                                       OWN_META + meta_count);
    if (half) lnt_release(model->ctx, half, bytes);
    lnt_release(model->ctx, r.entries, r.bytes);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------- */

static lnt_status find(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                       const lnt_layout_entry *e, const char *prefix, const lnt_st_entry **out)
{
    char name[FULL_NAME];
    join(name, prefix, e->name);
    const lnt_st_entry *entry = lnt_safetensors_find(st, name);
    if (!entry) return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has no tensor '%s'", path, name);
    bool same = entry->rank == e->param.rank &&
                (entry->dtype == LNT_ST_F32 || entry->dtype == LNT_ST_BF16);
    for (int axis = 0; same && axis < entry->rank; axis++)
        same = entry->shape[axis] == (int64_t)e->param.shape[axis];
    if (!same)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%s' has another shape or dtype than the config says",
                        path, name);
    *out = entry;
    return LNT_OK;
}

static lnt_status check_tensors(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                                const lnt_config *config)
{
    lnt_layout layout;
    const lnt_st_entry *entry;
    lnt_status status = lnt_layout_open(ctx, config, &layout);
    if (status) return status;
    for (size_t i = 0; !status && i < layout.entry_count; i++)
        if (layout.entries[i].count)
            status = find(ctx, path, st, &layout.entries[i], "", &entry);
    lnt_layout_close(ctx, &layout);
    return status;
}

static void read_tensor(const lnt_st_entry *entry, float *to, size_t count)
{
    const uint16_t *half = entry->data;
    if (entry->dtype == LNT_ST_F32)
        memcpy(to, entry->data, count * sizeof *to);
    else
        for (size_t i = 0; i < count; i++) to[i] = lnt_bf16_to_float(half[i]);
}

lnt_status lnt_model_read_array(const lnt_model *model, const char *path, const lnt_safetensors *st,
                                const lnt_model_array *array)
{
    const lnt_layout *layout = &model->layout;
    lnt_status status = LNT_OK;
    memset(array->data, 0, layout->size * sizeof *array->data);
    for (size_t i = 0; !status && i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        const lnt_st_entry *entry;
        if (!e->count) continue;
        status = find(model->ctx, path, st, e, array->prefix, &entry);
        if (!status) read_tensor(entry, array->data + e->offset, e->count);
    }
    for (size_t i = 0; !status && i < layout->size; i++)
        if (!isfinite(array->data[i]))
            status = lnt_fail(model->ctx, LNT_ERR_FORMAT,
                              LNT_FILE_FMT ": has numbers that are not finite", path);
    return status;
}

static lnt_status read_config(lnt_ctx *ctx, const char *path, const char *text,
                              const lnt_attn_desc *attention, lnt_config *out)
{
    lnt_json json;
    lnt_status status = lnt_config_default(ctx, out);
    if (!status) status = lnt_json_parse(ctx, path, "config", text, strlen(text), &json);
    if (status) return status;
    status = lnt_config_read(ctx, path, json.root, out);
    lnt_json_free(ctx, &json);
    if (!status && attention) status = lnt_config_set_attention(ctx, attention, out);
    return status ? status : lnt_config_resolve(ctx, path, out);
}

/* A tokenizer that could give or take tokens that the model does not know. */
static lnt_status check_tokens(lnt_ctx *ctx, const char *path, const lnt_tokenizer *t,
                               const lnt_config *c)
{
    if (t->kind == LNT_TOKENS_NONE || (int64_t)lnt_tokenizer_count(t) == c->inputs) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %zu tokens for a model of %lld", path,
                    lnt_tokenizer_count(t), (long long)c->inputs);
}

static lnt_status refuse(lnt_ctx *ctx, const char *path)
{
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": is not a model of linnet; one of Hugging Face's is its whole directory",
                    path);
}

lnt_status lnt_model_read_head(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                               const lnt_attn_desc *attention, lnt_model_head *out)
{
    const char *text = lnt_safetensors_meta(st, "config");
    const char *tokens = lnt_safetensors_meta(st, "tokenizer");
    *out = (lnt_model_head){ .task = lnt_safetensors_meta(st, "task"),
                             .task_options = lnt_safetensors_meta(st, "task_options") };
    if (!text || !out->task || !tokens || !out->task_options || strlen(out->task_options) >= LNT_TASK_TEXT)
        return refuse(ctx, path);
    lnt_status status = read_config(ctx, path, text, attention, &out->config);
    if (!status) status = lnt_tokenizer_read(ctx, path, tokens, &out->tokenizer);
    if (status) return status;
    status = check_tokens(ctx, path, &out->tokenizer, &out->config);
    if (status) lnt_tokenizer_close(ctx, &out->tokenizer);
    return status;
}

lnt_status lnt_model_read(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                          const lnt_attn_desc *attention, lnt_model **out)
{
    lnt_model_head head;
    const char *format = lnt_safetensors_meta(st, "format");
    *out = NULL;
    if (!format || strcmp(format, FORMAT) != 0) return refuse(ctx, path);
    lnt_status status = lnt_model_read_head(ctx, path, st, attention, &head);
    if (status) return status;
    status = check_tensors(ctx, path, st, &head.config);
    if (status) lnt_tokenizer_close(ctx, &head.tokenizer);
    else status = lnt_model_open(ctx, &head.config, head.task, &head.tokenizer, false, out);
    if (status) return status;
    memcpy((*out)->task_options, head.task_options, strlen(head.task_options) + 1);
    status = lnt_model_read_array(*out, path, st, &(lnt_model_array){ "", (*out)->weights });
    if (status) {
        lnt_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* The path itself, or for the directory of a run that of the model in it, put into `inside`. */
static const char *file_of(const char *path, char inside[PATH_MAX])
{
    struct stat at;
    if (stat(path, &at) || !S_ISDIR(at.st_mode)) return path;
    return snprintf(inside, PATH_MAX, "%s/model.safetensors", path) < PATH_MAX ? inside : path;
}

static lnt_status load_own(lnt_ctx *ctx, const char *path, const lnt_model_options *options, lnt_model **out)
{
    char inside[PATH_MAX];
    lnt_safetensors st;
    const char *file = file_of(path, inside);
    if (options->tokenizer)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": has its tokenizer with it, and takes no other", file);
    lnt_status status = lnt_safetensors_map(ctx, file, &st);
    if (status) return status;
    if (lnt_packed_is(&st))
        status = lnt_packed_read(ctx, file, &st, options, out);
    else
        status = lnt_model_read(ctx, file, &st, options->attention, out);
    lnt_safetensors_free(ctx, &st);
    return status ? status : lnt_model_keep_bf16(out);
}

/* The caller's options, and its descriptor in `attention`. */
static lnt_status take_options(lnt_ctx *ctx, const lnt_model_options *given, lnt_model_options *own,
                               lnt_attn_desc *attention)
{
    *own = (lnt_model_options){ .size = sizeof *own };
    if (!given) return LNT_OK;
    lnt_status status = lnt_struct_take(ctx, LNT_STRUCT(lnt_model_options, attention), "options", given, own);
    if (status || !own->attention) return status;
    status = lnt_attn_desc_init(attention, sizeof *attention);
    if (!status)
        status = lnt_struct_take(ctx, LNT_STRUCT(lnt_attn_desc, dim_value), "options.attention",
                                 own->attention, attention);
    own->attention = attention;
    return status;
}

lnt_status lnt_model_load_with(lnt_ctx *ctx, const char *path, const lnt_model_options *given,
                               lnt_model **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    lnt_model_options options;
    lnt_attn_desc attention;
    lnt_status status = take_options(ctx, given, &options, &attention);
    if (status) return status;
    status = lnt_import_takes(path) ? lnt_import_model(ctx, path, &options, out)
                                    : load_own(ctx, path, &options, out);
    if (!status && options.progress) options.progress(options.user, 1);
    return status;
}

lnt_status lnt_model_load(lnt_ctx *ctx, const char *path, lnt_model **out)
{
    return lnt_model_load_with(ctx, path, NULL, out);
}
