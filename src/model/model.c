/* model/model.c - a model in memory: creation, forward pass, text. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/overlap.h"
#include "core/struct.h"
#include "device/device.h"

static lnt_status describe_config(lnt_model *model)
{
    lnt_json_text text = { model->text, sizeof model->text - 1, 0 };
    lnt_config_write(&text, &model->config);
    if (text.used >= sizeof model->text)
        return lnt_fail(model->ctx, LNT_ERR_ARGUMENT, "model: its config is longer than %d bytes",
                        LNT_CONFIG_TEXT - 1);
    model->text[text.used] = '\0';
    return LNT_OK;
}

/* Leaves the matrices out of the array. */
static lnt_status open_packed(lnt_model *model)
{
    lnt_layout *layout = &model->layout;
    const size_t bytes = layout->entry_count * sizeof *model->packed;
    model->packed = lnt_allocate(model->ctx, bytes, "the list of packed weights");
    if (!model->packed) return LNT_ERR_MEMORY;
    memset(model->packed, 0, bytes);
    for (size_t i = 0; i < layout->entry_count; i++)
        if (lnt_layout_packs(i)) lnt_layout_leave_out(layout, i);
    return LNT_OK;
}

void lnt_model_extents(const lnt_config *config, const lnt_layout_entry *e, size_t i, size_t *out, size_t *in)
{
    const bool table = i == LNT_PARAM_EMBED && config->input == LNT_INPUT_TOKENS;
    *out = e->param.shape[table ? 0 : 1];
    *in = e->param.shape[table ? 1 : 0];
}

lnt_status lnt_model_reserve(lnt_model *model, size_t bytes)
{
    model->pool = lnt_allocate(model->ctx, bytes, "the matrices");
    model->pool_bytes = bytes;
    return model->pool ? LNT_OK : LNT_ERR_MEMORY;
}

/* So many bytes of what was reserved; NULL: it is used up. */
static void *take_reserved(lnt_model *model, size_t bytes)
{
    if (bytes > model->pool_bytes - model->pool_used) return NULL;
    char *at = model->pool + model->pool_used;
    model->pool_used += bytes;
    return at;
}

lnt_status lnt_model_pack(lnt_model *model, size_t i, const lnt_weight_part *parts, size_t count)
{
    const lnt_layout_entry *e = &model->layout.entries[i];
    size_t rows = 0, in, out;
    lnt_model_extents(&model->config, e, i, &out, &in);
    for (size_t p = 0; p < count; p++) rows += parts[p].rows;
    if (rows != out)
        return lnt_fail(model->ctx, LNT_ERR_SHAPE, "model: %s has %zu rows, must have %zu", e->name,
                        rows, out);
    lnt_weight_close(model->ctx, &model->packed[i]);
    void *memory = model->pool ? take_reserved(model, lnt_weight_bytes(parts, count, in)) : NULL;
    return lnt_weight_open(model->ctx, e->name, parts, count, in, memory, &model->packed[i]);
}

lnt_status lnt_model_open(lnt_ctx *ctx, const lnt_config *config, const char *task,
                          lnt_tokenizer *tokenizer, bool packed, lnt_model **out)
{
    *out = NULL;
    lnt_status status = LNT_OK;
    if (!lnt_device_of(ctx)->host_memory)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: on the cpu only, the context is on %s",
                          lnt_ctx_device(ctx));
    lnt_model *model = status ? NULL : lnt_allocate(ctx, sizeof *model, "the model");
    if (!model) {
        lnt_tokenizer_close(ctx, tokenizer);
        return status ? status : LNT_ERR_MEMORY;
    }
    ctx->users++; /* it makes plans as it goes */
    *model = (lnt_model){ .ctx = ctx, .config = *config, .tokenizer = *tokenizer };
    *tokenizer = (lnt_tokenizer){ 0 };
    snprintf(model->task, sizeof model->task, "%s", task);
    snprintf(model->task_options, sizeof model->task_options, "{}");
    status = describe_config(model);
    if (!status) status = lnt_layout_open(ctx, &model->config, &model->layout);
    if (!status && packed) status = open_packed(model);
    if (!status) {
        model->weights = lnt_allocate(ctx, model->layout.size * sizeof(float), "the weights");
        status = model->weights ? LNT_OK : LNT_ERR_MEMORY;
    }
    if (status) {
        lnt_model_destroy(model);
        return status;
    }
    *out = model;
    return LNT_OK;
}

static lnt_status make(lnt_ctx *ctx, const lnt_config *config, const char *task, lnt_tokenizer *tokenizer,
                       uint64_t seed, bool packed, lnt_model **out)
{
    const lnt_status status = lnt_model_open(ctx, config, task, tokenizer, packed, out);
    if (!status) lnt_layout_init(&(*out)->layout, seed, (*out)->weights);
    return status;
}

lnt_status lnt_model_make(lnt_ctx *ctx, const lnt_config *config, const char *task,
                          lnt_tokenizer *tokenizer, uint64_t seed, lnt_model **out)
{
    return make(ctx, config, task, tokenizer, seed, false, out);
}

static bool is_bf16(const lnt_model *model, const lnt_layout_entry *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (lnt_float_bits(model->weights[e->offset + i]) & 0xffff) return false;
    return true;
}

lnt_status lnt_model_keep_bf16(lnt_model **own)
{
    lnt_model *model = *own;
    const lnt_layout *layout = &model->layout;
    if (model->config.kind != LNT_DECODER || model->packed) return LNT_OK;
    for (size_t i = 0; i < layout->entry_count; i++)
        if (layout->entries[i].param.rank > 1 && !is_bf16(model, &layout->entries[i])) return LNT_OK;
    model->bf16 = lnt_allocate(model->ctx, layout->size * sizeof *model->bf16, "the weights in bf16");
    if (!model->bf16) {
        lnt_model_destroy(model);
        *own = NULL;
        return LNT_ERR_MEMORY;
    }
    for (size_t i = 0; i < layout->size; i++) model->bf16[i] = lnt_float_to_bf16(model->weights[i]);
    return LNT_OK;
}

void lnt_model_destroy(lnt_model *model)
{
    if (!model) return;
    lnt_ctx *ctx = model->ctx;
    ctx->users--;
    lnt_network_close(&model->network);
    lnt_release(ctx, model->weights, model->layout.size * sizeof *model->weights);
    lnt_release(ctx, model->bf16, model->layout.size * sizeof *model->bf16);
    for (size_t i = 0; model->packed && i < model->layout.entry_count; i++)
        lnt_weight_close(ctx, &model->packed[i]);
    lnt_release(ctx, model->pool, model->pool_bytes);
    lnt_release(ctx, model->packed, model->layout.entry_count * sizeof *model->packed);
    if (model->layout.entries) lnt_layout_close(ctx, &model->layout);
    lnt_tokenizer_close(ctx, &model->tokenizer);
    lnt_codec_close(model->codec);
    lnt_codec_file_free(ctx, &model->codec_file);
    lnt_labels_close(ctx, &model->labels);
    lnt_release(ctx, model->chat_template, model->chat_template_bytes + 1);
    lnt_release(ctx, model, sizeof *model);
}

/* Over weights that began as those of a new model: what only the new one has stays as it began. */
static lnt_status copy_weights(const lnt_model *from, lnt_model *to)
{
    lnt_status status = LNT_OK;
    for (size_t i = 0; i < to->layout.entry_count; i++) {
        const lnt_layout_entry *a = &from->layout.entries[i], *b = &to->layout.entries[i];
        if (a->count == b->count)
            memcpy(to->weights + b->offset, from->weights + a->offset, a->count * sizeof(float));
        const lnt_weight *packed = lnt_weight_at(from->packed, i);
        if (packed && !status) status = lnt_weight_copy(from->ctx, a->name, packed, &to->packed[i]);
    }
    return status;
}

lnt_status lnt_model_convert(const lnt_model *model, const char *mechanism, lnt_model **out)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if (!out || !mechanism)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "mechanism and out must not be NULL");
    *out = NULL;
    lnt_config config = model->config;
    lnt_tokenizer tokenizer;
    lnt_status status = lnt_config_set_mechanism(ctx, mechanism, &config);
    if (!status) status = lnt_config_resolve(ctx, model->task, &config);
    if (status == LNT_ERR_FORMAT) status = LNT_ERR_ARGUMENT; /* no file says so */
    if (!status) status = lnt_tokenizer_copy(ctx, &model->tokenizer, &tokenizer);
    if (!status) status = make(ctx, &config, model->task, &tokenizer, 0, model->packed != NULL, out);
    if (status) return status;
    memcpy((*out)->task_options, model->task_options, sizeof model->task_options);
    status = lnt_labels_copy(ctx, &model->labels, &(*out)->labels);
    if (!status) status = copy_weights(model, *out);
    if (!status) return lnt_model_keep_bf16(out);
    lnt_model_destroy(*out);
    *out = NULL;
    return status;
}

static const char *storage_name(const lnt_model *model)
{
    return model->packed ? lnt_storage_name(model->storage) : model->bf16 ? "bf16" : "f32";
}

static int64_t weight_bytes(const lnt_model *model)
{
    size_t sum = model->layout.size * (sizeof *model->weights + (model->bf16 ? sizeof *model->bf16 : 0));
    for (size_t i = 0; model->packed && i < model->layout.entry_count; i++) sum += model->packed[i].bytes;
    return (int64_t)sum;
}

static bool has_positions(const lnt_config *c)
{
    return c->position == LNT_POSITION_LEARNED || c->distance_bias;
}

lnt_status lnt_model_describe(const lnt_model *model, lnt_model_info *out)
{
    if (!model) return LNT_ERR_ARGUMENT;
    const lnt_status status =
        lnt_struct_check(model->ctx, LNT_STRUCT(lnt_model_info, task), "model info", out);
    if (status) return status;
    const lnt_config *c = &model->config;
    const lnt_model_info info = { .size = sizeof info,
                              .task = model->task,
                              .config = model->text,
                              .mechanism = lnt_mechanism_name(c->attention.mechanism),
                              .tokenizer = model->codec ? lnt_codec_kind_name(model->codec)
                                                        : lnt_tokenizer_word((int)model->tokenizer.kind),
                              .generates = lnt_config_generates(c),
                              .parameters = (int64_t)model->layout.parameters,
                              .layers = c->layers,
                              .inputs = c->inputs,
                              .outputs = c->outputs,
                              .length = model->text_length ? model->text_length : c->length,
                              .architecture = model->architecture,
                              .storage = storage_name(model),
                              .weight_bytes = weight_bytes(model),
                              .embeds = c->output == LNT_OUTPUT_VECTOR && c->pooling != LNT_POOL_NONE &&
                                        !lnt_config_sees(c),
                              .chats = model->chat_template != NULL,
                              .image = c->image,
                              .channels = c->channels,
                              .dim = c->dim,
                              .classifies = c->output == LNT_OUTPUT_CLASS,
                              .positions = has_positions(c) ? c->length : 0 };
    lnt_struct_give(&info, out);
    return LNT_OK;
}

/* ---- forward ------------------------------------------------------------------------------- */

static lnt_status check_forward(const lnt_model *model, const int32_t *tokens, int64_t batch,
                                int64_t length, const int64_t *lengths, const float *logits)
{
    lnt_ctx *ctx = model->ctx;
    const lnt_config *c = &model->config;
    if (lnt_config_sees(c))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "model: it reads images, not tokens; use lnt_model_forward_images");
    if (c->input != LNT_INPUT_TOKENS)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: it reads features, not tokens");
    if (!tokens || !logits || batch < 1 || length < 1)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "tokens and logits must be given, batch and length be at least 1");
    if (has_positions(c) && length > c->length)
        return lnt_fail(ctx, LNT_ERR_SHAPE, "length is %lld, the model has learned %lld positions",
                        (long long)length, (long long)c->length);
    int64_t count;
    if (__builtin_mul_overflow(batch, length, &count))
        return lnt_fail(ctx, LNT_ERR_SHAPE, "batch %lld times length %lld is too large",
                        (long long)batch, (long long)length);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= c->inputs)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "token %lld is %d, must be 0 to %lld",
                            (long long)i, tokens[i], (long long)c->inputs - 1);
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > length)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "lengths[%lld] is %lld, must be 0 to %lld",
                            (long long)b, (long long)lengths[b], (long long)length);
    return LNT_OK;
}

lnt_status lnt_model_make_room(lnt_model *model, size_t batch, size_t length)
{
    lnt_network *net = &model->network;
    if (net->batch >= batch && net->length >= length) return LNT_OK;
    lnt_network_close(net);
    const lnt_status status =
        lnt_network_open(model->ctx, &model->config, &model->layout, batch, length, false, NULL, net);
    if (!status) net->packed = model->packed;
    return status;
}

lnt_status lnt_model_forward(lnt_model *model, const int32_t *tokens, int64_t batch, int64_t length,
                             const int64_t *lengths, float *logits)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_network *net = &model->network;
    lnt_status status = check_forward(model, tokens, batch, length, lengths, logits);
    if (status) return status;
    status = lnt_model_make_room(model, (size_t)batch, (size_t)length);
    if (status) return status;
    const lnt_batch in = { .batch = (size_t)batch, .length = (size_t)length, .tokens = tokens,
                           .lengths = lengths };
    net->watcher = model->watcher;
    status = lnt_network_forward(net, model->weights, &in, false, lnt_rng_make(0));
    if (status) return status;
    memcpy(logits, net->logits,
           lnt_network_rows(net, &in) * (size_t)model->config.outputs * sizeof *logits);
    return LNT_OK;
}

void lnt_model_watch(lnt_model *model, lnt_watch *watch, void *user)
{
    if (model) model->watcher = (lnt_watcher){ .watch = watch, .user = user };
}

lnt_status lnt_model_embed(lnt_model *model, const int32_t *tokens, int64_t batch, int64_t length,
                           const int64_t *lengths, float *vectors)
{
    if (!model) return LNT_ERR_ARGUMENT;
    if (model->config.output != LNT_OUTPUT_VECTOR || model->config.pooling == LNT_POOL_NONE)
        return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                        "model: it gives texts no vectors; an encoder that pools does");
    return lnt_model_forward(model, tokens, batch, length, lengths, vectors);
}

/* ---- text ---------------------------------------------------------------------------------- */

static lnt_status refuse_text(const lnt_model *model)
{
    return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                    "model: it has no tokenizer, by its task, which is %s, or since none was learned",
                    model->task);
}

lnt_status lnt_model_encode(const lnt_model *model, const char *text, size_t bytes, int32_t *tokens,
                            size_t *count)
{
    if (!model) return LNT_ERR_ARGUMENT;
    if (!text || !tokens || !count)
        return lnt_fail(model->ctx, LNT_ERR_ARGUMENT, "text, tokens and count must not be NULL");
    if (model->codec)
        return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                        "model: its tokenizer may give more tokens than bytes; use lnt_model_tokenize");
    if (model->tokenizer.kind == LNT_TOKENS_NONE) return refuse_text(model);
    const lnt_status status =
        lnt_expect_apart(model->ctx, "tokens", tokens, bytes * sizeof *tokens, "text", text, bytes);
    if (status) return status;
    *count = lnt_tokenizer_encode(&model->tokenizer, text, bytes, tokens);
    return LNT_OK;
}

lnt_status lnt_model_decode(const lnt_model *model, int32_t token, const char **text, size_t *bytes)
{
    if (!model) return LNT_ERR_ARGUMENT;
    if (!text || !bytes)
        return lnt_fail(model->ctx, LNT_ERR_ARGUMENT, "text and bytes must not be NULL");
    if (model->codec)
        return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                        "model: its tokens are no whole pieces of text; use lnt_stream_put");
    if (model->tokenizer.kind == LNT_TOKENS_NONE) return refuse_text(model);
    if (token < 0 || (size_t)token >= lnt_tokenizer_count(&model->tokenizer))
        return lnt_fail(model->ctx, LNT_ERR_ARGUMENT, "token is %d, must be 0 to %zu", token,
                        lnt_tokenizer_count(&model->tokenizer) - 1);
    *text = lnt_tokenizer_decode(&model->tokenizer, token, bytes);
    return LNT_OK;
}
