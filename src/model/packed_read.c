/* model/packed_read.c - reads the file of packed.h as hostile input.
 *
 * A matrix costs one pass over its bytes, into panels (nn/weight.h); its pages of the map may go then. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/import/vocabulary.h"
#include "model/packed.h"

typedef struct job {
    lnt_ctx *ctx;
    const char *path;
    const lnt_safetensors *st;
    const lnt_model_options *options;
    lnt_json packed, origin; /* without root: the file has none */
    bool *used;              /* [st->entry_count] */
} job;

void lnt_packed_name(const char *param, size_t part, char out[LNT_PACKED_NAME])
{
    snprintf(out, LNT_PACKED_NAME, part ? "%s.%zu" : "%s", param, part);
}

bool lnt_packed_is(const lnt_safetensors *st)
{
    const char *format = lnt_safetensors_meta(st, "format");
    return format && strcmp(format, LNT_PACKED_FORMAT) == 0;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static lnt_status bad(const job *j, const char *tensor, const char *reason)
{
    return lnt_fail(j->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%.80s' %s", j->path, tensor, reason);
}

/* NULL if absent. */
static const lnt_st_entry *find(const job *j, const char *name)
{
    const lnt_st_entry *entry = lnt_safetensors_find(j->st, name);
    if (entry) j->used[entry - j->st->entries] = true;
    return entry;
}

static lnt_status find_floats(const job *j, const lnt_layout_entry *e, const lnt_st_entry **out)
{
    *out = find(j, e->name);
    if (!*out) return lnt_fail(j->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has no tensor '%s'", j->path, e->name);
    bool same = (*out)->rank == e->param.rank && (*out)->dtype == LNT_ST_F32;
    for (int axis = 0; same && axis < e->param.rank; axis++)
        same = (*out)->shape[axis] == (int64_t)e->param.shape[axis];
    return same ? LNT_OK : bad(j, e->name, "has another shape or dtype than the config says");
}

/* By its name, of blocks alone. */
static lnt_storage blocks_of(const lnt_json_node *word)
{
    int s = 0;
    while (s < LNT_STORAGES && (lnt_storage_numbers((lnt_storage)s) == 1 ||
                                strcmp(lnt_storage_name((lnt_storage)s), word->text) != 0))
        s++;
    return (lnt_storage)s;
}

/* What "packed" says of a tensor of U8: ["q4_1", rows, numbers of a row]. */
static lnt_status read_blocks(const job *j, const lnt_st_entry *e, size_t in, lnt_weight_part *out)
{
    const lnt_json_node *said = j->packed.root ? lnt_json_member(j->packed.root, e->name) : NULL;
    const lnt_json_node *word = said && said->type == LNT_JSON_ARRAY && said->count == 3 ? said->child : NULL;
    if (!word || word->type != LNT_JSON_STRING)
        return bad(j, e->name, "is of U8, and \"packed\" does not say [storage, rows, numbers of a row]");
    const lnt_json_node *rows = word->next, *numbers = rows->next;
    const lnt_storage storage = blocks_of(word);
    if (storage == LNT_STORAGES)
        return lnt_fail(j->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%.80s' is said to be in '%.20s', must be "
                                     "q8_0, q4_0, q4_1, q5_0, q5_1 or q2_k to q6_k",
                        j->path, e->name, word->text);
    if (rows->type != LNT_JSON_INTEGER || numbers->type != LNT_JSON_INTEGER || rows->integer != e->shape[0] ||
        numbers->integer < 0 || (uint64_t)numbers->integer != in)
        return bad(j, e->name, "has another shape than \"packed\" and the config say");
    if (in % lnt_storage_numbers(storage) || (uint64_t)e->shape[1] != lnt_weight_row_bytes(storage, in))
        return bad(j, e->name, "has rows of other bytes than its storage takes");
    out->storage = storage;
    return LNT_OK;
}

/* A tensor of rows with `in` numbers. */
static lnt_status read_part(const job *j, const lnt_st_entry *e, size_t in, lnt_weight_part *out)
{
    *out = (lnt_weight_part){ .data = e->data };
    if (e->rank != 2 || e->shape[0] < 1) return bad(j, e->name, "must have two extents, and rows");
    out->rows = (size_t)e->shape[0];
    if (e->dtype == LNT_ST_U8) return read_blocks(j, e, in, out);
    if (e->dtype == LNT_ST_F32)
        out->storage = LNT_STORAGE_F32;
    else if (e->dtype == LNT_ST_F16)
        out->storage = LNT_STORAGE_F16;
    else if (e->dtype == LNT_ST_BF16)
        out->storage = LNT_STORAGE_BF16;
    else
        return bad(j, e->name, "must be of F32, F16, BF16 or U8");
    return (uint64_t)e->shape[1] == in ? LNT_OK : bad(j, e->name, "has another shape than the config says");
}

/* The tensors of matrix i, which together have its rows. */
static lnt_status find_parts(const job *j, const lnt_config *config, const lnt_layout_entry *e, size_t i,
                             lnt_weight_part parts[LNT_WEIGHT_PARTS], size_t *count)
{
    char name[LNT_PACKED_NAME];
    size_t out, in, rows = 0;
    lnt_model_extents(config, e, i, &out, &in);
    for (*count = 0; rows < out && *count < LNT_WEIGHT_PARTS; ++*count) {
        lnt_packed_name(e->name, *count, name);
        const lnt_st_entry *entry = find(j, name);
        if (!entry)
            return lnt_fail(j->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has no tensor '%s'", j->path, name);
        const lnt_status status = read_part(j, entry, in, &parts[*count]);
        if (status) return status;
        if (parts[*count].rows > out - rows) break;
        rows += parts[*count].rows;
    }
    return rows == out ? LNT_OK : bad(j, e->name, "has another number of rows than the config says");
}

/* ---- before memory is taken for the model ----------------------------------------------------- */

static bool is_text(const lnt_st_entry *e) { return e->dtype == LNT_ST_U8 && e->rank == 1; }

/* Every parameter is there, and nothing else is. */
static lnt_status check_tensors(const job *j, const lnt_config *config)
{
    static const char *const texts[] = { LNT_TOKENIZER_JSON, LNT_TOKENIZER_GGUF, LNT_TOKENIZER_LLAMA2C,
                                         LNT_PACKED_TEMPLATE };
    lnt_layout layout;
    lnt_weight_part parts[LNT_WEIGHT_PARTS];
    const lnt_st_entry *entry;
    size_t count;
    lnt_status status = lnt_layout_open(j->ctx, config, &layout);
    if (status) return status;
    for (size_t i = 0; !status && i < layout.entry_count; i++) {
        const lnt_layout_entry *e = &layout.entries[i];
        if (!e->param.name) continue;
        status = lnt_layout_packs(i) ? find_parts(j, config, e, i, parts, &count) : find_floats(j, e, &entry);
    }
    lnt_layout_close(j->ctx, &layout);
    for (size_t i = 0; !status && i < sizeof texts / sizeof texts[0]; i++)
        if ((entry = find(j, texts[i])) && !is_text(entry))
            status = bad(j, texts[i], "must be bytes, U8 [n]");
    for (size_t i = 0; !status && i < j->st->entry_count; i++)
        if (!j->used[i])
            status = bad(j, j->st->entries[i].name, "is not known: a model without it would be another");
    return status;
}

/* ---- the origin ---------------------------------------------------------------------------- */

static lnt_status copy_bytes(const job *j, const lnt_st_entry *e, size_t more, char **out)
{
    *out = lnt_allocate(j->ctx, e->bytes + more, e->name);
    if (!*out) return LNT_ERR_MEMORY;
    if (e->bytes) memcpy(*out, e->data, e->bytes);
    if (more) memset(*out + e->bytes, 0, more);
    return LNT_OK;
}

/* Integers of a list, at most `room`; -1: it is none. */
static int read_list(const lnt_json_node *list, int64_t *out, size_t room)
{
    int n = 0;
    if (!list || list->type != LNT_JSON_ARRAY || list->count > room) return -1;
    for (const lnt_json_node *c = list->child; c; c = c->next) {
        if (c->type != LNT_JSON_INTEGER) return -1;
        out[n++] = c->integer;
    }
    return n;
}

static lnt_status read_codec(const job *j, lnt_model *model)
{
    static const char *const names[] = { LNT_TOKENIZER_JSON, LNT_TOKENIZER_GGUF, LNT_TOKENIZER_LLAMA2C };
    lnt_codec_file *file = &model->codec_file;
    const lnt_st_entry *entry = NULL;
    for (int i = 0; i < 3 && !entry; i++)
        if ((entry = lnt_safetensors_find(j->st, names[i]))) file->name = names[i];
    if (!entry) return LNT_OK;
    lnt_status status = copy_bytes(j, entry, 0, &file->data);
    if (status) return status;
    file->bytes = entry->bytes;
    status = lnt_vocabulary_reopen(j->ctx, j->path, file, &model->codec);
    if (status || (int64_t)lnt_codec_count(model->codec) <= model->config.inputs) return status;
    return lnt_fail(j->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": a tokenizer of %zu tokens for a model of %lld",
                    j->path, lnt_codec_count(model->codec), (long long)model->config.inputs);
}

/* {"architecture":"llama","text_length":512,"roles":[...],"ends":[...],"labels":{...}} */
static lnt_status read_origin(const job *j, lnt_model *model)
{
    const lnt_json_node *root = j->origin.root, *name = lnt_json_member(root, "architecture");
    const lnt_json_node *length = lnt_json_member(root, "text_length");
    int64_t roles[LNT_ROLES], ends[LNT_MODEL_ENDS];
    const int role_count = read_list(lnt_json_member(root, "roles"), roles, LNT_ROLES);
    const int end_count = read_list(lnt_json_member(root, "ends"), ends, LNT_MODEL_ENDS);
    bool good = name && name->type == LNT_JSON_STRING && strlen(name->text) < LNT_MODEL_NAME && length &&
                length->type == LNT_JSON_INTEGER && length->integer >= 1 &&
                length->integer <= model->config.length && role_count == LNT_ROLES && end_count >= 0;
    for (int i = 0; good && i < end_count; i++) good = ends[i] >= 0 && ends[i] < model->config.inputs;
    if (!good)
        return lnt_fail(j->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": \"origin\" in its metadata is not what it must be", j->path);
    memcpy(model->architecture, name->text, strlen(name->text) + 1);
    model->text_length = length->integer;
    for (int i = 0; i < end_count; i++) model->end[model->end_count++] = (int32_t)ends[i];
    const lnt_json_node *labels = lnt_json_member(root, "labels");
    lnt_status status = lnt_labels_read(j->ctx, labels, (size_t)model->config.outputs, &model->labels);
    if (!status) status = read_codec(j, model);
    for (int i = 0; !status && model->codec && i < LNT_ROLES; i++)
        lnt_codec_set_role(model->codec, (lnt_codec_role)i, roles[i]);
    const lnt_st_entry *template = lnt_safetensors_find(j->st, LNT_PACKED_TEMPLATE);
    if (status || !template) return status;
    const lnt_status copied = copy_bytes(j, template, 1, &model->chat_template);
    if (!copied) model->chat_template_bytes = template->bytes;
    return copied;
}

/* ---- weights ------------------------------------------------------------------------------- */

static lnt_status load_floats(const job *j, const lnt_layout_entry *e, lnt_model *model)
{
    const lnt_st_entry *entry;
    float *to = model->weights + e->offset;
    const lnt_status status = find_floats(j, e, &entry);
    if (status) return status;
    memcpy(to, entry->data, e->count * sizeof *to);
    for (size_t n = 0; n < e->count; n++)
        if (!isfinite(to[n])) return bad(j, e->name, "has numbers that are not finite");
    return LNT_OK;
}

static lnt_status load_matrix(const job *j, size_t i, size_t bytes[LNT_STORAGES], lnt_model *model)
{
    lnt_weight_part parts[LNT_WEIGHT_PARTS];
    size_t count, out, in;
    const lnt_layout_entry *e = &model->layout.entries[i];
    lnt_status status = find_parts(j, &model->config, e, i, parts, &count);
    if (!status) status = lnt_model_pack(model, i, parts, count);
    lnt_model_extents(&model->config, e, i, &out, &in);
    for (size_t p = 0; !status && p < count; p++) {
        const size_t own = parts[p].rows * lnt_weight_row_bytes(parts[p].storage, in);
        bytes[parts[p].storage] += own;
        if (j->st->map.data) lnt_map_advise(parts[p].data, own, LNT_MAP_NO_LONGER);
    }
    return status;
}

/* The memory of all matrices at once, unless their sum is beyond counting: then one of them fails. */
static lnt_status reserve(const job *j, lnt_model *model)
{
    const lnt_layout *layout = &model->layout;
    size_t sum = 0;
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        lnt_weight_part parts[LNT_WEIGHT_PARTS];
        size_t count, out, in;
        if (!e->param.name || !lnt_layout_packs(i)) continue;
        const lnt_status status = find_parts(j, &model->config, e, i, parts, &count);
        if (status) return status;
        lnt_model_extents(&model->config, e, i, &out, &in);
        if (__builtin_add_overflow(sum, lnt_weight_bytes(parts, count, in), &sum)) return LNT_OK;
    }
    return lnt_model_reserve(model, sum);
}

static lnt_status load(const job *j, lnt_model *model)
{
    const lnt_layout *layout = &model->layout;
    size_t bytes[LNT_STORAGES] = { 0 };
    lnt_status status = j->origin.root ? read_origin(j, model) : LNT_OK;
    if (!status) status = reserve(j, model);
    memset(model->weights, 0, layout->size * sizeof *model->weights);
    for (size_t i = 0; !status && i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        if (!e->param.name) continue;
        if (j->options->progress)
            j->options->progress(j->options->user, (double)i / (double)layout->entry_count);
        status = lnt_layout_packs(i) ? load_matrix(j, i, bytes, model) : load_floats(j, e, model);
    }
    for (int s = 0; s < LNT_STORAGES; s++)
        if (bytes[s] > bytes[model->storage]) model->storage = (lnt_storage)s;
    return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static lnt_status read_json(const job *j, const char *key, lnt_json *out)
{
    const char *text = lnt_safetensors_meta(j->st, key);
    *out = (lnt_json){ 0 };
    return text ? lnt_json_parse(j->ctx, j->path, key, text, strlen(text), out) : LNT_OK;
}

static lnt_status read(job *j, lnt_model **out)
{
    lnt_model_head head;
    lnt_status status = read_json(j, "packed", &j->packed);
    if (!status) status = read_json(j, "origin", &j->origin);
    if (!status) status = lnt_model_read_head(j->ctx, j->path, j->st, j->options->attention, &head);
    if (status) return status;
    status = check_tensors(j, &head.config);
    if (status)
        lnt_tokenizer_close(j->ctx, &head.tokenizer);
    else
        status = lnt_model_open(j->ctx, &head.config, head.task, &head.tokenizer, true, out);
    if (status) return status;
    memcpy((*out)->task_options, head.task_options, strlen(head.task_options) + 1);
    status = load(j, *out);
    if (status) {
        lnt_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

lnt_status lnt_packed_read(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                           const lnt_model_options *options, lnt_model **out)
{
    const size_t bytes = st->entry_count * sizeof(bool);
    job j = { .ctx = ctx, .path = path, .st = st, .options = options };
    *out = NULL;
    j.used = lnt_allocate(ctx, bytes, "the names of tensors");
    if (!j.used) return LNT_ERR_MEMORY;
    memset(j.used, 0, bytes);
    const lnt_status status = read(&j, out);
    lnt_json_free(ctx, &j.packed);
    lnt_json_free(ctx, &j.origin);
    lnt_release(ctx, j.used, bytes);
    return status;
}
