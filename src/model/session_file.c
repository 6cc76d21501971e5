/* model/session_file.c - sessions as .safetensors: the tensors of every layer's state and the logits of the
 * next token, and the last tokens that it was fed.  The metadata holds the config of the model, a checksum of
 * its weights, how a cache is stored unless that is in f32, and the note. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/state/state.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "io/crc64.h"
#include "io/file.h"
#include "model/session.h"

#define FORMAT "linnet session 1"
enum { NAME = 48, NUMBER = 24 };

static int64_t rows_of(const lnt_session *s, const lnt_state *state, int i)
{
    const int64_t room = state->tensor[i].shape[2];
    return state->kind->grows && room ? lnt_state_rows(&state->work.p, s->tokens) : room;
}

static void weights_checksum(const lnt_model *m, char out[NUMBER])
{
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, m->weights, m->layout.size * sizeof *m->weights);
    for (size_t i = 0; m->packed && i < m->layout.entry_count; i++)
        lnt_crc64_add(&crc, m->packed[i].memory, m->packed[i].bytes);
    snprintf(out, NUMBER, "%016" PRIx64, lnt_crc64_finish(&crc));
}

static void entry_name(size_t layer, const lnt_state *state, int i, char out[NAME])
{
    snprintf(out, NAME, "layers.%zu.%s", layer, state->kind->names[i]);
}

/* ---- saving -------------------------------------------------------------------------------- */

typedef struct file_tensors {
    lnt_st_entry *entries;
    char (*names)[NAME];
    size_t room, count;
} file_tensors;

static lnt_status add_tensor(const lnt_session *s, file_tensors *p, size_t l, int i)
{
    const lnt_state *state = s->states[l];
    const lnt_tensor *t = &state->tensor[i];
    const int64_t rows = rows_of(s, state, i);
    lnt_st_entry *e = &p->entries[p->count];
    int64_t columns;
    if (!t->shape[2]) return LNT_OK;
    entry_name(l, state, i, p->names[p->count]);
    const lnt_st_dtype dtype = lnt_state_stored(state, t, &columns);
    *e = (lnt_st_entry){ .name = p->names[p->count], .dtype = dtype, .rank = 4,
                         .shape = { t->shape[0], t->shape[1], rows, columns } };
    e->bytes = (size_t)(t->shape[0] * t->shape[1] * rows * t->shape[3]) * lnt_dtype_size(t->dtype);
    void *data = lnt_allocate(s->model->ctx, e->bytes, "a state to be saved");
    if (!data) return LNT_ERR_MEMORY;
    e->data = data;
    p->count++;
    lnt_tensor_pack(t, rows, data);
    return LNT_OK;
}

/* The last tokens, the newest first; none where an older file had none. */
static lnt_status add_recent(const lnt_session *s, file_tensors *p)
{
    const lnt_recent *r = &s->recent;
    const size_t count = r->fed < LNT_RECENT_TOKENS ? (size_t)r->fed : LNT_RECENT_TOKENS;
    if (!count) return LNT_OK;
    lnt_st_entry *e = &p->entries[p->count];
    *e = (lnt_st_entry){ .name = "recent", .dtype = LNT_ST_I32, .rank = 2,
                         .shape = { (int64_t)s->batch, (int64_t)count },
                         .bytes = s->batch * count * sizeof(int32_t) };
    int32_t *data = lnt_allocate(s->model->ctx, e->bytes, "the last tokens to be saved");
    if (!data) return LNT_ERR_MEMORY;
    e->data = data;
    p->count++;
    for (size_t b = 0; b < s->batch; b++) lnt_recent_last(r, b, count, data + b * count);
    return LNT_OK;
}

static lnt_status write_tensors(lnt_session *s, const char *path, file_tensors *p)
{
    const lnt_model *m = s->model;
    char tokens[NUMBER], weights[NUMBER];
    lnt_status status = LNT_OK;
    for (size_t l = 0; !status && l < (size_t)m->config.layers; l++) {
        lnt_state_settle(s->states[l]);
        for (int i = 0; !status && i < LNT_STATE_SAVED; i++) status = add_tensor(s, p, l, i);
    }
    if (!status) status = add_recent(s, p);
    if (status) return status;
    p->entries[p->count] = (lnt_st_entry){
        .name = "logits", .dtype = LNT_ST_F32, .rank = 2,
        .shape = { (int64_t)s->batch, m->config.outputs }, .data = s->logits,
        .bytes = s->batch * (size_t)m->config.outputs * sizeof *s->logits
    };
    snprintf(tokens, sizeof tokens, "%" PRId64, s->tokens);
    weights_checksum(m, weights);
    lnt_st_meta meta[6] = { { "format", FORMAT }, { "config", m->text }, { "tokens", tokens },
                            { "weights", weights } };
    size_t count = 4;
    if (s->cache != LNT_CACHE_SAME) meta[count++] = (lnt_st_meta){ "cache", lnt_cache_name(s->cache) };
    if (s->note) meta[count++] = (lnt_st_meta){ "note", s->note };
    return lnt_safetensors_write(m->ctx, path, p->entries, p->count + 1, meta, count);
}

lnt_status lnt_session_save(lnt_session *s, const char *path)
{
    if (!s) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = s->model->ctx;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    if (!s->tokens) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "session: nothing was fed yet to save");
    file_tensors p = { .room = (size_t)s->model->config.layers * LNT_STATE_SAVED + 2 };
    p.entries = lnt_allocate(ctx, p.room * sizeof *p.entries, "the tensors of a session");
    p.names = lnt_allocate(ctx, p.room * sizeof *p.names, "their names");
    const lnt_status status = p.entries && p.names ? write_tensors(s, path, &p) : LNT_ERR_MEMORY;
    for (size_t i = 0; i < p.count; i++)
        lnt_release(ctx, (void *)(uintptr_t)p.entries[i].data, p.entries[i].bytes);
    lnt_release(ctx, p.entries, p.room * sizeof *p.entries);
    lnt_release(ctx, p.names, p.room * sizeof *p.names);
    return status;
}

/* ---- loading ------------------------------------------------------------------------------- */

static lnt_status find(const lnt_session *s, const char *path, const lnt_safetensors *st, const char *name,
                       lnt_st_dtype dtype, int rank, const int64_t *shape, const lnt_st_entry **out)
{
    const lnt_st_entry *e = lnt_safetensors_find(st, name);
    bool good = e && e->rank == rank && e->dtype == dtype;
    for (int axis = 0; good && axis < rank; axis++) good = e->shape[axis] == shape[axis];
    *out = e;
    return good ? LNT_OK
                : lnt_fail(s->model->ctx, LNT_ERR_FORMAT,
                           LNT_FILE_FMT ": tensor '%s' is missing or has another shape or type", path, name);
}

/* Tensor i of layer l, of so many sequences; NULL where the state has none. */
static lnt_status find_tensor(const lnt_session *s, const char *path, const lnt_safetensors *st,
                              int64_t batch, size_t l, int i, const lnt_st_entry **out)
{
    const lnt_tensor *t = &s->states[l]->tensor[i];
    char name[NAME];
    int64_t columns;
    *out = NULL;
    if (!t->shape[2]) return LNT_OK;
    entry_name(l, s->states[l], i, name);
    const lnt_st_dtype dtype = lnt_state_stored(s->states[l], t, &columns);
    return find(s, path, st, name, dtype, 4,
                (int64_t[]){ batch, t->shape[1], rows_of(s, s->states[l], i), columns }, out);
}

static lnt_status find_logits(const lnt_session *s, const char *path, const lnt_safetensors *st,
                              int64_t batch, const lnt_st_entry **out)
{
    return find(s, path, st, "logits", LNT_ST_F32, 2, (int64_t[]){ batch, s->model->config.outputs }, out);
}

/* Before room is made for what the file claims, it must hold it.  s has any number of sequences. */
static lnt_status check_tensors(const lnt_session *s, const char *path, const lnt_safetensors *st,
                                int64_t batch)
{
    const lnt_st_entry *unused;
    lnt_status status = find_logits(s, path, st, batch, &unused);
    for (size_t l = 0; !status && l < (size_t)s->model->config.layers; l++)
        for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
            status = find_tensor(s, path, st, batch, l, i, &unused);
    return status;
}

static lnt_status fill_layer(lnt_session *s, const char *path, const lnt_safetensors *st, size_t l)
{
    lnt_state *state = s->states[l];
    const lnt_st_entry *e[LNT_STATE_SAVED] = { 0 };
    lnt_status status = LNT_OK;
    for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
        status = find_tensor(s, path, st, (int64_t)s->batch, l, i, &e[i]);
    if (!status) status = lnt_state_reserve(state, s->tokens);
    for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
        if (e[i]) lnt_tensor_unpack(&state->tensor[i], rows_of(s, state, i), e[i]->data);
    for (size_t b = 0; !status && b < s->batch; b++) {
        state->tokens[b] = s->tokens;
        state->held[b] = lnt_state_rows(&state->work.p, s->tokens);
    }
    return status;
}

/* They are absent in files of before 0.2. */
static lnt_status fill_recent(lnt_session *s, const char *path, const lnt_safetensors *st)
{
    const lnt_st_entry *e = lnt_safetensors_find(st, "recent");
    if (!e) return LNT_OK;
    const int64_t batch = (int64_t)s->batch, count = e->shape[1];
    if (e->rank != 2 || e->dtype != LNT_ST_I32 || e->shape[0] != batch || count < 1 ||
        count > LNT_RECENT_TOKENS)
        return lnt_fail(s->model->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor 'recent' has another shape", path);
    int32_t *column = lnt_allocate(s->model->ctx, s->batch * sizeof *column, "tokens of all sequences");
    if (!column) return LNT_ERR_MEMORY;
    for (int64_t i = count - 1; i >= 0; i--) {
        for (int64_t b = 0; b < batch; b++) column[b] = ((const int32_t *)e->data)[b * count + i];
        lnt_recent_add(&s->recent, column, 1);
    }
    lnt_release(s->model->ctx, column, s->batch * sizeof *column);
    return LNT_OK;
}

static lnt_status fill(lnt_session *s, const char *path, const lnt_safetensors *st)
{
    const lnt_st_entry *logits;
    lnt_status status = find_logits(s, path, st, (int64_t)s->batch, &logits);
    if (!status) memcpy(s->logits, logits->data, logits->bytes);
    for (size_t l = 0; !status && l < (size_t)s->model->config.layers; l++)
        status = fill_layer(s, path, st, l);
    if (!status) status = fill_recent(s, path, st);
    if (!status) status = lnt_session_set_note(s, lnt_safetensors_meta(st, "note"));
    return status;
}

/* What the metadata says of a session. */
typedef struct numbers {
    int64_t batch, tokens;
    lnt_session_options options;
} numbers;

/* Files of a cache in f32, and earlier ones, say nothing of it. */
static lnt_status read_cache(const lnt_model *m, const char *path, const lnt_safetensors *st, lnt_cache *out)
{
    const char *name = lnt_safetensors_meta(st, "cache");
    *out = LNT_CACHE_SAME;
    while (name && lnt_cache_name(*out) && strcmp(name, lnt_cache_name(*out)) != 0)
        *out = (lnt_cache)(*out + 1);
    return lnt_cache_name(*out)
               ? LNT_OK
               : lnt_fail(m->ctx, LNT_ERR_FORMAT,
                          LNT_FILE_FMT ": cache is '%.40s', must be same, f16, bf16 or q8", path, name);
}

/* The session's numbers from the metadata, once it belongs to this model. */
static lnt_status read_meta(const lnt_model *m, const char *path, const lnt_safetensors *st, numbers *out)
{
    const char *format = lnt_safetensors_meta(st, "format");
    const char *config = lnt_safetensors_meta(st, "config");
    const char *text = lnt_safetensors_meta(st, "tokens");
    const char *weights = lnt_safetensors_meta(st, "weights"); /* earlier files have none */
    const lnt_st_entry *logits = lnt_safetensors_find(st, "logits");
    if (!format || strcmp(format, FORMAT) != 0 || !config || !text || !logits || logits->rank != 2 ||
        logits->shape[0] < 1 || sscanf(text, "%" SCNd64, &out->tokens) != 1 || out->tokens < 1 ||
        out->tokens > INT64_C(1) << 50)
        return lnt_fail(m->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is not a session of linnet", path);
    if (strcmp(config, m->text) != 0)
        return lnt_fail(m->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": belongs to a model with another config", path);
    char own[NUMBER];
    weights_checksum(m, own);
    if (weights && strcmp(weights, own) != 0)
        return lnt_fail(m->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": belongs to a model with other weights", path);
    out->batch = logits->shape[0];
    out->options = (lnt_session_options){ .size = sizeof out->options };
    return read_cache(m, path, st, &out->options.cache);
}

/* A session of so many sequences that has room for what the file holds. */
static lnt_status open_session(const lnt_model *model, const char *path, const lnt_safetensors *st,
                               const numbers *n, lnt_session **out)
{
    lnt_status status = lnt_session_create_with(model, 1, &n->options, out);
    if (status) return status;
    (*out)->tokens = n->tokens;
    status = check_tensors(*out, path, st, n->batch);
    if (status || n->batch == 1) return status;
    lnt_session_destroy(*out);
    status = lnt_session_create_with(model, n->batch, &n->options, out);
    if (!status) (*out)->tokens = n->tokens;
    return status;
}

lnt_status lnt_session_load(const lnt_model *model, const char *path, lnt_session **out)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if (!path || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path and out must not be NULL");
    *out = NULL;
    lnt_safetensors st;
    numbers n;
    lnt_session *s = NULL;
    lnt_status status = lnt_safetensors_read(ctx, path, &st);
    if (status) return status;
    status = read_meta(model, path, &st, &n);
    if (!status) status = open_session(model, path, &st, &n, &s);
    if (!status) status = fill(s, path, &st);
    lnt_safetensors_free(ctx, &st);
    if (status) lnt_session_destroy(s);
    else *out = s;
    return status;
}
