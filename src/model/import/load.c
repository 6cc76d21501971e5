/* model/import/load.c - a model from the files of others.
 *
 * Vectors, positions and norms become floats; matrices stay in the numbers that the file has them in,
 * repacked for the kernels (nn/weight.h).  Every tensor is looked for, held against the shape that the config
 * says, and every tensor of the file must be known: what is not understood is refused, not left out. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model/import/arch.h"
#include "model/import/import.h"
#include "model/import/pooling.h"
#include "model/import/vocabulary.h"

/* A parameter on its way from the tensors of its rule. */
typedef struct job {
    lnt_source *s;
    const lnt_arch *arch;
    const lnt_config *config;
    lnt_model *model;
    bool *used;                 /* [tensors.count] */
    size_t bytes[LNT_STORAGES]; /* of matrices */
    const lnt_model_options *options;
} job;

/* Rows and columns of a parameter as files have it: [out,in], and of what is looked up [tokens,dim]. */
static void extents(const lnt_layout_entry *e, size_t i, bool sees, int64_t *rows, int64_t *columns)
{
    const bool as_is = (i == LNT_PARAM_EMBED && !sees) || i == LNT_PARAM_POSITION || i == LNT_PARAM_CLASS;
    *rows = (int64_t)(e->param.rank < 2 ? e->param.shape[0] : e->param.shape[as_is ? 0 : 1]);
    *columns = (int64_t)(e->param.rank < 2 ? 1 : e->param.shape[as_is ? 1 : 0]);
}

static lnt_status refuse_shape(const job *j, const lnt_stored *t, const char *wanted)
{
    return lnt_fail(j->s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%.80s' has another shape than %s",
                    j->s->path, t->name, wanted);
}

static size_t numbers_of(const lnt_stored *t)
{
    size_t count = 1;
    for (int axis = 0; axis < t->rank; axis++) count *= (size_t)t->shape[axis];
    return count;
}

/* The tensors of a rule in block l. */
static size_t find_all(const job *j, const lnt_rule *rule, size_t l, const lnt_stored *out[LNT_RULE_NAMES])
{
    size_t count = 0;
    for (; count < LNT_RULE_NAMES && rule->name[count]; count++)
        out[count] = lnt_arch_tensor(j->s, j->arch, rule->name[count], l);
    return count;
}

/* ---- what there must be, before memory is taken for it ------------------------------------- */

static lnt_status check_tensor(const job *j, const lnt_rule *rule, size_t n, size_t l, const lnt_stored *t)
{
    if (!t)
        return lnt_fail(j->s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%s' of block %zu is missing",
                        j->s->path, rule->name[n], l);
    if (t->storage == LNT_STORAGES)
        return lnt_fail(j->s->ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": tensor '%.80s' is of %s, no numbers of a layer", j->s->path, t->name,
                        t->type);
    j->used[t - j->s->tensors.entries] = true;
    return LNT_OK;
}

/* That the tensors of a rule, one below the other, are the parameter. */
static lnt_status check_rule(const job *j, const lnt_rule *rule, size_t l, const lnt_layout_entry *e,
                             size_t i)
{
    const lnt_stored *t[LNT_RULE_NAMES];
    const size_t count = find_all(j, rule, l, t);
    const bool matrix = e->param.rank == 2, turned = rule->turn == LNT_TURN_COLUMNS;
    const bool flat = matrix && rule->turn == LNT_TURN_FLAT;
    int64_t rows, columns, sum = 0;
    lnt_status status = LNT_OK;
    extents(e, i, lnt_config_sees(j->config), &rows, &columns);
    for (size_t n = 0; !status && n < count; n++) {
        status = check_tensor(j, rule, n, l, t[n]);
        if (status) break;
        const int64_t numbers = (int64_t)numbers_of(t[n]);
        const int64_t has = flat                            ? numbers / columns
                            : matrix && t[n]->rank == 2 ? t[n]->shape[turned ? 1 : 0]
                                                            : numbers;
        if (flat && numbers % columns) return refuse_shape(j, t[n], "the config says");
        if (matrix && !flat && (t[n]->rank != 2 || t[n]->shape[turned ? 0 : 1] != columns))
            return refuse_shape(j, t[n], "the config says");
        if (has > rows - sum) return refuse_shape(j, t[n], "the config says");
        sum += has;
    }
    return status || sum == rows ? status : refuse_shape(j, t[0], "the config says");
}

/* Row i of heads of q, k and v is row order[i] of [heads][q, k, v] together. */
static void fill_order(const lnt_config *c, uint32_t *order)
{
    const uint32_t heads = (uint32_t)c->heads, d = (uint32_t)c->head_dim;
    for (uint32_t part = 0; part < 3; part++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t i = 0; i < d; i++) order[(part * heads + h) * d + i] = (3 * h + part) * d + i;
}

/* ---- vectors ------------------------------------------------------------------------------- */

/* to [count] += or = the numbers of a tensor, some of which may be left out at its end. */
static lnt_status read_numbers(const job *j, const lnt_stored *t, float *to, size_t count)
{
    lnt_ctx *ctx = j->s->ctx;
    const size_t block = lnt_storage_numbers(t->storage), whole = (count + block - 1) / block * block;
    if (whole == count) {
        lnt_storage_unpack(t->storage, t->data, to, count);
        return LNT_OK;
    }
    float *own = lnt_allocate(ctx, whole * sizeof *own, "numbers of a tensor");
    if (!own) return LNT_ERR_MEMORY;
    lnt_storage_unpack(t->storage, t->data, own, whole);
    memcpy(to, own, count * sizeof *to);
    lnt_release(ctx, own, whole * sizeof *own);
    return LNT_OK;
}

/* x [heads, 3, d] in the order of layers. */
static lnt_status turn_vector(const job *j, float *x, size_t count)
{
    lnt_ctx *ctx = j->s->ctx;
    uint32_t *order = lnt_allocate(ctx, count * sizeof *order, "the order of rows");
    float *from = lnt_allocate(ctx, count * sizeof *from, "a bias");
    if (order && from) {
        fill_order(&j->model->config, order);
        memcpy(from, x, count * sizeof *x);
        for (size_t i = 0; i < count; i++) x[i] = from[order[i]];
    }
    const lnt_status status = order && from ? LNT_OK : LNT_ERR_MEMORY;
    lnt_release(ctx, order, count * sizeof *order);
    lnt_release(ctx, from, count * sizeof *from);
    return status;
}

/* A vector, or a matrix that is used as floats, into the model's weights. */
static lnt_status load_floats(const job *j, const lnt_rule *rule, size_t l, const lnt_layout_entry *e)
{
    const lnt_stored *t[LNT_RULE_NAMES];
    const size_t count = find_all(j, rule, l, t);
    float *to = j->model->weights + e->offset;
    lnt_status status = LNT_OK;
    size_t at = 0;
    for (size_t n = 0; !status && n < count; n++) {
        status = read_numbers(j, t[n], to + at, numbers_of(t[n]));
        at += numbers_of(t[n]);
    }
    if (!status && rule->turn == LNT_TURN_HEADS) status = turn_vector(j, to, e->count);
    for (size_t n = 0; rule->turn == LNT_TURN_PLUS_ONE && n < e->count; n++) to[n] += 1;
    for (size_t n = 0; !status && n < e->count; n++)
        if (!isfinite(to[n]))
            status = lnt_fail(j->s->ctx, LNT_ERR_FORMAT,
                              LNT_FILE_FMT ": tensor '%.80s' has numbers that are not finite", j->s->path,
                              t[0]->name);
    return status;
}

/* The first row of a tensor is added to every row of parameter i. */
static lnt_status add_first_row(const job *j, const lnt_rule *rule, size_t i)
{
    const lnt_layout_entry *e = &j->model->layout.entries[i];
    const lnt_stored *t = lnt_arch_tensor(j->s, j->arch, rule->name[0], 0);
    const size_t width = e->count ? e->param.shape[1] : 0;
    if (!t || !width) return LNT_OK;
    if (t->storage == LNT_STORAGES || t->rank < 1 || t->shape[t->rank - 1] != (int64_t)width ||
        numbers_of(t) < width)
        return refuse_shape(j, t, "the config says");
    float *row = lnt_allocate(j->s->ctx, width * sizeof *row, "a row");
    if (!row) return LNT_ERR_MEMORY;
    const lnt_status status = read_numbers(j, t, row, width);
    for (size_t n = 0; !status && n < e->count; n++) j->model->weights[e->offset + n] += row[n % width];
    lnt_release(j->s->ctx, row, width * sizeof *row);
    return status;
}

/* ---- matrices ------------------------------------------------------------------------------ */

/* The tensors of a rule in block l, and what they are of its matrix. */
static size_t find_parts(const job *j, const lnt_rule *rule, size_t l, const lnt_stored *t[LNT_RULE_NAMES],
                         lnt_weight_part parts[LNT_RULE_NAMES])
{
    const size_t count = find_all(j, rule, l, t);
    const bool turned = rule->turn == LNT_TURN_COLUMNS;
    for (size_t n = 0; n < count; n++)
        parts[n] = (lnt_weight_part){ .storage = t[n]->storage,
                                      .data = t[n]->data,
                                      .rows = (size_t)t[n]->shape[turned ? 1 : 0],
                                      .transposed = turned };
    return count;
}

static lnt_status load_matrix(job *j, const lnt_rule *rule, size_t l, size_t i)
{
    lnt_ctx *ctx = j->s->ctx;
    const lnt_stored *t[LNT_RULE_NAMES];
    lnt_weight_part parts[LNT_RULE_NAMES];
    const size_t count = find_parts(j, rule, l, t, parts);
    const size_t bytes = parts[0].rows * sizeof(uint32_t);
    uint32_t *order = NULL;
    if (rule->turn == LNT_TURN_HEADS) {
        order = lnt_allocate(ctx, bytes, "the order of rows");
        if (!order) return LNT_ERR_MEMORY;
        fill_order(&j->model->config, order);
        parts[0].order = order;
    }
    const lnt_status status = lnt_model_pack(j->model, i, parts, count);
    lnt_release(ctx, order, bytes);
    for (size_t n = 0; n < count; n++) {
        j->bytes[t[n]->storage] += t[n]->bytes;
        /* Of a directory they may be copies, and no pages of a file. */
        if (j->s->kind != LNT_SOURCE_DIRECTORY) lnt_map_advise(t[n]->data, t[n]->bytes, LNT_MAP_NO_LONGER);
    }
    return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* The rule of entry i, and its block. */
static const lnt_rule *rule_of(const job *j, size_t i, size_t *l)
{
    const bool inner = i >= LNT_PARAM_OUTER;
    *l = inner ? (i - LNT_PARAM_OUTER) / LNT_BLOCK_PARAMS : 0;
    const int param = inner ? LNT_RULE_BLOCK + (int)((i - LNT_PARAM_OUTER) % LNT_BLOCK_PARAMS) : (int)i;
    return lnt_arch_rule(j->s, j->arch, param);
}

/* The memory of all matrices at once, unless their sum is beyond counting: then one of them fails. */
static lnt_status reserve(const job *j)
{
    const lnt_layout *layout = &j->model->layout;
    size_t sum = 0;
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        const lnt_stored *t[LNT_RULE_NAMES];
        lnt_weight_part parts[LNT_RULE_NAMES];
        int64_t rows, columns;
        size_t l;
        if (!e->param.name || !lnt_layout_packs(i)) continue;
        const lnt_rule *rule = rule_of(j, i, &l);
        const size_t count = find_parts(j, rule, l, t, parts);
        extents(e, i, lnt_config_sees(j->config), &rows, &columns);
        if (__builtin_add_overflow(sum, lnt_weight_bytes(parts, count, (size_t)columns), &sum)) return LNT_OK;
    }
    return lnt_model_reserve(j->model, sum);
}

static lnt_status load_entries(job *j)
{
    const lnt_layout *layout = &j->model->layout;
    lnt_status status = reserve(j);
    for (size_t i = 0; !status && i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        size_t l;
        if (!e->param.name) continue;
        if (j->options->progress)
            j->options->progress(j->options->user, (double)i / (double)layout->entry_count);
        const lnt_rule *rule = rule_of(j, i, &l);
        status = lnt_layout_packs(i) ? load_matrix(j, rule, l, i) : load_floats(j, rule, l, e);
    }
    for (const lnt_rule *r = lnt_arch_rules(j->s, j->arch); !status && r->name[0]; r++)
        if (r->turn == LNT_TURN_FIRST_ROW) status = add_first_row(j, r, (size_t)r->param);
    for (int i = 0; i < LNT_STORAGES; i++)
        if (j->bytes[i] > j->bytes[j->model->storage]) j->model->storage = (lnt_storage)i;
    return status;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t bytes = strlen(name), tail = strlen(end);
    return bytes >= tail && strcmp(name + bytes - tail, end) == 0;
}

static bool is_ignored(const job *j, const lnt_config *c, const char *name)
{
    if (lnt_source_is_gguf(j->s)) return strcmp(name, "rope_freqs.weight") == 0; /* rope.c reads it */
    for (const char *const *end = j->arch->ignored; *end; end++)
        if (ends_in(name, *end)) return true;
    return c->tied && ends_in(name, "lm_head.weight");
}

/* The first row of a rule's tensor, which is used whatever else it has. */
static void use_first_rows(const job *j)
{
    for (const lnt_rule *r = lnt_arch_rules(j->s, j->arch); r->name[0]; r++) {
        const lnt_stored *t =
            r->turn == LNT_TURN_FIRST_ROW ? lnt_arch_tensor(j->s, j->arch, r->name[0], 0) : NULL;
        if (t) j->used[t - j->s->tensors.entries] = true;
    }
}

/* That every parameter has its tensors, and every tensor is known. */
static lnt_status check_entries(const job *j, const lnt_layout *layout)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; !status && i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        size_t l;
        if (!e->param.name) continue;
        const lnt_rule *rule = rule_of(j, i, &l);
        if (rule)
            status = check_rule(j, rule, l, e, i);
        else
            status = lnt_fail(j->s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": no tensor is its '%s'", j->s->path,
                              e->name);
    }
    use_first_rows(j);
    for (size_t i = 0; !status && i < j->s->tensors.count; i++)
        if (!j->used[i] && !is_ignored(j, j->config, j->s->tensors.entries[i].name))
            status = lnt_fail(j->s->ctx, LNT_ERR_UNSUPPORTED,
                              LNT_FILE_FMT
                              ": %s: tensor '%.80s' is not known, and a model without it would be another",
                              j->s->path, j->s->name, j->s->tensors.entries[i].name);
    return status;
}

static lnt_status check_tensors(lnt_source *s, const lnt_arch *arch, const lnt_config *config)
{
    const size_t bytes = s->tensors.count * sizeof(bool);
    bool *used = lnt_allocate(s->ctx, bytes, "the names of tensors");
    const job j = { .s = s, .arch = arch, .config = config, .used = used };
    lnt_layout layout;
    if (!j.used) return LNT_ERR_MEMORY;
    memset(j.used, 0, bytes);
    lnt_status status = lnt_layout_open(s->ctx, config, &layout);
    if (!status) {
        status = check_entries(&j, &layout);
        lnt_layout_close(s->ctx, &layout);
    }
    lnt_release(s->ctx, j.used, bytes);
    return status;
}

/* That each token of the tokenizer is one of the model's. */
static lnt_status check_tokens(const lnt_source *s, const lnt_codec *codec, const lnt_config *c)
{
    if (!codec || (int64_t)lnt_codec_count(codec) <= c->inputs) return LNT_OK;
    return lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": a tokenizer of %zu tokens for a model of %lld",
                    s->path, lnt_codec_count(codec), (long long)c->inputs);
}

static void add_end(lnt_model *model, int64_t token)
{
    for (size_t i = 0; i < model->end_count; i++)
        if (model->end[i] == token) return;
    if (token >= 0 && token < model->config.inputs && model->end_count < LNT_MODEL_ENDS)
        model->end[model->end_count++] = (int32_t)token;
}

/* The tokens that end a text, those that a directory's generation_config.json lists, and those of the known
 * forms of conversations.  In llama2.c's texts one ends where the next begins. */
static void find_ends(lnt_source *s, lnt_model *model)
{
    static const char *const known[] = { "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>",
                                         "<|endoftext|>" };
    lnt_json json = { 0 };
    if (!model->codec) return;
    add_end(model, lnt_codec_role_token(model->codec, LNT_ROLE_EOS));
    if (lnt_source_is_gguf(s)) {
        add_end(model, lnt_source_whole_or(s, "tokenizer.ggml.eot_token_id", NULL, -1));
    } else if (s->kind == LNT_SOURCE_LLAMA2C) {
        add_end(model, lnt_codec_role_token(model->codec, LNT_ROLE_BOS));
    } else {
        s->status = lnt_source_json(s->ctx, s->path, "generation_config.json", &json);
        const lnt_json_node *node = json.root ? lnt_json_member(json.root, "eos_token_id") : NULL;
        if (node && node->type == LNT_JSON_INTEGER) add_end(model, node->integer);
        for (node = node && node->type == LNT_JSON_ARRAY ? node->child : NULL; node; node = node->next)
            if (node->type == LNT_JSON_INTEGER) add_end(model, node->integer);
        lnt_json_free(s->ctx, &json);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        add_end(model, lnt_codec_find(model->codec, known[i], strlen(known[i])));
}

/* What a classifier's classes are called. */
static lnt_status read_labels(const lnt_source *s, const lnt_config *c, lnt_labels *out)
{
    const bool named = c->output == LNT_OUTPUT_CLASS && !lnt_source_is_gguf(s);
    const lnt_json_node *list = named ? lnt_json_member(s->config.root, "id2label") : NULL;
    return lnt_labels_read(s->ctx, list, (size_t)c->outputs, out);
}

static lnt_status import(lnt_source *s, const lnt_model_options *options, lnt_model **out)
{
    lnt_config config;
    lnt_codec *codec = NULL;
    lnt_codec_file file = { 0 };
    lnt_tokenizer none = { 0 };
    const lnt_arch *arch = lnt_arch_find(s);
    if (!s->status) s->status = lnt_config_default(s->ctx, &config);
    if (!s->status) arch->configure(s, arch, &config);
    if (!s->status && options->attention)
        s->status = lnt_config_set_attention(s->ctx, options->attention, &config);
    if (!s->status) s->status = lnt_config_resolve(s->ctx, s->path, &config);
    if (!s->status) s->status = check_tensors(s, arch, &config);
    if (!s->status) s->status = lnt_vocabulary_open(s, options->tokenizer, &codec, &file);
    if (!s->status) s->status = check_tokens(s, codec, &config);
    if (!s->status) s->status = lnt_model_open(s->ctx, &config, "", &none, true, out);
    if (s->status) {
        lnt_codec_close(codec);
        lnt_codec_file_free(s->ctx, &file);
        return s->status;
    }
    (*out)->codec = codec;
    (*out)->codec_file = file;
    snprintf((*out)->architecture, sizeof(*out)->architecture, "%s", s->name);
    (*out)->text_length = lnt_pooling_length(s, &config);
    find_ends(s, *out);
    if (!s->status)
        s->status = lnt_vocabulary_template(s, &(*out)->chat_template, &(*out)->chat_template_bytes);
    if (!s->status) s->status = read_labels(s, &config, &(*out)->labels);
    job j = { .s = s, .arch = arch, .config = &config, .model = *out, .options = options };
    if (!s->status) s->status = load_entries(&j);
    if (s->status) {
        lnt_model_destroy(*out);
        *out = NULL;
    }
    return s->status;
}

bool lnt_import_takes(const char *path)
{
    char inside[PATH_MAX], magic[4] = "";
    struct stat at;
    if (lnt_llama2c_takes(path)) return true;
    if (stat(path, &at)) return false;
    if (S_ISDIR(at.st_mode))
        return snprintf(inside, sizeof inside, "%s/config.json", path) < PATH_MAX && !stat(inside, &at);
    FILE *file = S_ISREG(at.st_mode) ? fopen(path, "rb") : NULL;
    const bool whole = file && fread(magic, 1, sizeof magic, file) == sizeof magic;
    if (file) fclose(file);
    return whole && memcmp(magic, "GGUF", sizeof magic) == 0;
}

lnt_status lnt_import_model(lnt_ctx *ctx, const char *path, const lnt_model_options *options, lnt_model **out)
{
    lnt_source s;
    lnt_status status = lnt_source_open(ctx, path, &s);
    if (status) return status;
    status = import(&s, options, out);
    lnt_source_close(&s);
    return status;
}
