/* attention/state/state_file.c - states as .safetensors: the tensors, the token counts, and metadata that
 * says what they belong to.  Loading compares that metadata with the descriptor, word for word. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/linear/feature.h"
#include "attention/state/state.h"
#include "core/tensor.h"
#include "io/file.h"
#include "io/number.h"
#include "io/safetensors.h"

enum { META_COUNT = 13, META_TEXT = 40, NUMBER_TEXT = 26 };

/* Whether a state has a tensor i to save. */
static bool has(const lnt_state *state, int i)
{
    return i < LNT_STATE_PUBLIC || lnt_state_view(state, i).shape[2] > 0;
}

/* The metadata a state of p has. */
typedef struct metadata {
    lnt_st_meta entry[META_COUNT];
    size_t count;
    char text[META_COUNT][META_TEXT];
    char *list[2]; /* decay, center; from the context */
    size_t list_bytes[2], lists;
} metadata;

static void add(metadata *meta, const char *key, const char *value)
{
    meta->entry[meta->count++] = (lnt_st_meta){ key, value };
}

static void add_number(metadata *meta, const char *key, int64_t value)
{
    char *text = meta->text[meta->count];
    snprintf(text, META_TEXT, "%" PRId64, value);
    add(meta, key, text);
}

/* Unsigned: a seed may have all of its 64 bits. */
static void add_seed(metadata *meta, uint64_t seed)
{
    char *text = meta->text[meta->count];
    snprintf(text, META_TEXT, "%" PRIu64, seed);
    add(meta, "seed", text);
}

/* Two lists at most; none where numbers is NULL. */
static lnt_status add_list(lnt_ctx *ctx, metadata *meta, const char *key, const double *numbers,
                           int64_t count)
{
    if (!numbers) return LNT_OK;
    const size_t bytes = (size_t)count * NUMBER_TEXT + 1;
    char *text = lnt_allocate(ctx, bytes, "numbers as text");
    if (!text) return LNT_ERR_MEMORY;
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        char number[LNT_NUMBER_TEXT];
        lnt_number_write(numbers[i], 17, number);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? "," : "", number);
    }
    add(meta, key, text);
    meta->list[meta->lists] = text;
    meta->list_bytes[meta->lists++] = bytes;
    return LNT_OK;
}

static void free_lists(lnt_ctx *ctx, const metadata *meta)
{
    for (size_t i = 0; i < meta->lists; i++) lnt_release(ctx, meta->list[i], meta->list_bytes[i]);
}

static lnt_status describe(lnt_ctx *ctx, const lnt_attn_desc *p, metadata *meta)
{
    *meta = (metadata){ 0 };
    add(meta, "format", "linnet state 1");
    add(meta, "mechanism", lnt_mechanism_name(p->mechanism));
    add_number(meta, "kv_heads", p->kv_heads);
    add_number(meta, "dim", p->dim);
    add_number(meta, "dim_value", p->dim_value);
    if (p->compensated) add(meta, "compensated", "1");
    if (p->mechanism == LNT_SOFTMAX && p->softmax.window) add_number(meta, "window", p->softmax.window);
    if (p->softmax.cache) add(meta, "cache", lnt_cache_name(p->softmax.cache));
    if (p->mechanism == LNT_HYBRID) {
        add(meta, "far", lnt_mechanism_name(p->hybrid.far));
        add_number(meta, "window", p->hybrid.window);
        add_number(meta, "sink", p->hybrid.sink);
    }
    const lnt_status status = add_list(ctx, meta, "decay", p->decay, p->kv_heads);
    if (status) return status;
    if (lnt_problem_sums(p) == LNT_TAYLOR) {
        add_number(meta, "terms", p->taylor.terms);
        add(meta, "normalize", lnt_normalize_name(p->taylor.normalize));
        return add_list(ctx, meta, "center", p->taylor.center, p->kv_heads * p->dim);
    }
    if (lnt_problem_sums(p) != LNT_LINEAR) return LNT_OK;
    add(meta, "feature_map", lnt_feature_map_name(p->linear.feature_map));
    if (lnt_feature_is_random(p->linear.feature_map)) {
        add_number(meta, "features", p->linear.features);
        add_seed(meta, p->seed);
    }
    return LNT_OK;
}

lnt_st_dtype lnt_state_stored(const lnt_state *state, const lnt_tensor *t, int64_t *columns)
{
    *columns = t->shape[3];
    if (state->work.p.softmax.cache == LNT_CACHE_Q8) {
        *columns *= (int64_t)lnt_dtype_size(t->dtype);
        return LNT_ST_U8;
    }
    switch (t->dtype) {
    case LNT_F16: return LNT_ST_F16;
    case LNT_BF16: return LNT_ST_BF16;
    case LNT_F64: return LNT_ST_F64;
    case LNT_F32: break;
    }
    return LNT_ST_F32;
}

/* ---- save ------------------------------------------------------------------------------------ */

/* Tensor i without padding and without room that is not used; `most` rows are in a cache. */
static lnt_status pack(const lnt_state *state, int i, int64_t most, lnt_st_entry *entry)
{
    const lnt_tensor t = lnt_state_view(state, i);
    const int64_t rows = state->kind->grows ? most : t.shape[2];
    const size_t row = (size_t)t.shape[3] * lnt_dtype_size(t.dtype);
    int64_t columns;
    const lnt_st_dtype dtype = lnt_state_stored(state, &t, &columns);
    *entry = (lnt_st_entry){ .name = state->kind->names[i],
                             .dtype = dtype,
                             .rank = 4,
                             .shape = { t.shape[0], t.shape[1], rows, columns },
                             .bytes = (size_t)(t.shape[0] * t.shape[1] * rows) * row };
    void *data = lnt_allocate(state->work.ctx, entry->bytes, "packing the state");
    if (!data) return LNT_ERR_MEMORY;
    entry->data = data;
    return lnt_state_device(state)->states->pack(state->own, i, rows, data);
}

/* The token counts. */
static lnt_status pack_tokens(const lnt_state *state, lnt_st_entry *entry, int64_t *most)
{
    const int64_t batch = state->work.p.batch;
    *entry = (lnt_st_entry){ .name = "tokens",
                             .dtype = LNT_ST_I64,
                             .rank = 1,
                             .shape = { batch },
                             .bytes = (size_t)batch * sizeof(int64_t) };
    int64_t *tokens = lnt_allocate(state->work.ctx, entry->bytes, "packing the state");
    if (!tokens) return LNT_ERR_MEMORY;
    entry->data = tokens;
    const lnt_status status = lnt_state_device(state)->states->tokens(state->own, 0, batch, tokens);
    *most = 0;
    for (int64_t b = 0; b < batch && !status; b++)
        if (tokens[b] > *most) *most = tokens[b];
    return status;
}

lnt_status lnt_state_save(lnt_state *state, const char *path)
{
    if (!state) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = state->work.ctx;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    metadata meta;
    lnt_st_entry entries[LNT_STATE_SAVED + 1] = { 0 }, counted = { 0 };
    int64_t most;
    lnt_state_settle(state);
    lnt_status status = describe(ctx, &state->work.p, &meta);
    if (!status) status = pack_tokens(state, &counted, &most);
    if (!status) most = lnt_state_rows(&state->work.p, most);
    size_t count = 0;
    for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
        if (has(state, i)) status = pack(state, i, most, &entries[count++]);
    entries[count++] = counted;
    if (!status)
        status = lnt_safetensors_write(ctx, path, entries, count, meta.entry, meta.count);
    for (size_t i = 0; i < count; i++)
        lnt_release(ctx, (void *)(uintptr_t)entries[i].data, entries[i].bytes);
    free_lists(ctx, &meta);
    return status;
}

/* ---- load ------------------------------------------------------------------------------------ */

static lnt_status check_metadata(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                                 const metadata *want)
{
    for (size_t i = 0; i < want->count; i++) {
        const char *key = want->entry[i].key, *expected = want->entry[i].value;
        const char *found = lnt_safetensors_meta(st, key);
        if (!found || strcmp(found, expected) != 0)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": %s is %s%.40s%s, expected '%.40s'", path, key,
                            found ? "'" : "", found ? found : "not given", found ? "'" : "", expected);
    }
    static const char *const optional[] = { "decay", "center", "compensated", "window", "cache" };
    for (int i = 0; i < 5; i++) {
        bool wanted = false;
        for (size_t j = 0; j < want->count; j++) wanted |= !strcmp(want->entry[j].key, optional[i]);
        if (!wanted && lnt_safetensors_meta(st, optional[i]))
            return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has a %s of %.40s, expected none",
                            path, optional[i], lnt_safetensors_meta(st, optional[i]));
    }
    return LNT_OK;
}

static lnt_status find(lnt_ctx *ctx, const char *path, const lnt_safetensors *st, const char *name,
                       lnt_st_dtype dtype, int rank, const int64_t *shape, const lnt_st_entry **out)
{
    const lnt_st_entry *entry = lnt_safetensors_find(st, name);
    if (!entry) return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has no tensor '%s'", path, name);
    if (entry->dtype != dtype)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%s' has another dtype than the state", path, name);
    bool same = entry->rank == rank;
    for (int i = 0; same && i < rank; i++) same = shape[i] < 0 || entry->shape[i] == shape[i];
    if (!same)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%s' has another shape than the state", path, name);
    *out = entry;
    return LNT_OK;
}

/* The token counts of the file, and the largest of them. */
static lnt_status find_tokens(lnt_ctx *ctx, const char *path, const lnt_safetensors *st, int64_t batch,
                              const lnt_st_entry **out, int64_t *most)
{
    const lnt_status status = find(ctx, path, st, "tokens", LNT_ST_I64, 1, &batch, out);
    *most = 0;
    for (int64_t b = 0; b < batch && !status; b++) {
        int64_t tokens;
        memcpy(&tokens, (const char *)(*out)->data + (size_t)b * sizeof tokens, sizeof tokens);
        if (tokens < 0 || tokens > LNT_MAX_EXTENT)
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": sequence %lld has %lld tokens, must have 0 to 2^40", path,
                            (long long)b, (long long)tokens);
        if (tokens > *most) *most = tokens;
    }
    return status;
}

/* Tensor i of the file; a cache must hold what its token counts claim. */
static lnt_status find_tensor(lnt_ctx *ctx, const char *path, const lnt_safetensors *st,
                              const lnt_state *state, int i, int64_t most, const lnt_st_entry **out)
{
    const lnt_tensor t = lnt_state_view(state, i);
    const bool grows = state->kind->grows;
    int64_t columns;
    const lnt_st_dtype dtype = lnt_state_stored(state, &t, &columns);
    const int64_t shape[4] = { t.shape[0], t.shape[1], grows ? -1 : t.shape[2], columns };
    const lnt_status status = find(ctx, path, st, state->kind->names[i], dtype, 4, shape, out);
    if (status || !grows || (*out)->shape[2] == most) return status;
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": does not hold the %lld tokens it counts",
                    path, (long long)most);
}

/* Every tensor is checked before room is made for it: the file is hostile. */
static lnt_status fill(lnt_ctx *ctx, const char *path, const lnt_safetensors *st, lnt_state *state)
{
    int64_t most;
    const lnt_st_entry *entries[LNT_STATE_SAVED], *counted;
    lnt_status status = find_tokens(ctx, path, st, state->work.p.batch, &counted, &most);
    most = lnt_state_rows(&state->work.p, most);
    for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
        if (has(state, i)) status = find_tensor(ctx, path, st, state, i, most, &entries[i]);
    if (!status) status = lnt_state_reserve(state, most);
    const lnt_device_states *device = lnt_state_device(state)->states;
    if (!status) status = device->set_tokens(state->own, counted->data);
    for (int i = 0; !status && i < LNT_STATE_SAVED; i++)
        if (has(state, i))
            status = device->unpack(state->own, i, entries[i]->shape[2], entries[i]->data);
    return status;
}

lnt_status lnt_state_load(lnt_ctx *ctx, const lnt_attn_desc *desc, const char *path,
                          lnt_state **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    lnt_attn_desc p;
    lnt_status status = lnt_problem_resolve(ctx, desc, &p);
    if (status) return status;
    lnt_safetensors st = { 0 };
    metadata want = { 0 };
    lnt_state *state = NULL;
    status = lnt_safetensors_read(ctx, path, &st);
    if (status) return status;
    status = describe(ctx, &p, &want);
    if (!status) status = check_metadata(ctx, path, &st, &want);
    if (!status) status = lnt_state_make(ctx, &p, p.length_k, &state);
    if (!status) status = fill(ctx, path, &st, state);
    free_lists(ctx, &want);
    lnt_safetensors_free(ctx, &st);
    if (status) {
        lnt_state_destroy(state);
        return status;
    }
    *out = state;
    return LNT_OK;
}
