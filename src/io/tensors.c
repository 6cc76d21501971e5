/* io/tensors.c - the tensors of GGUF files, .safetensors files and directories of them, in one list by
 * name.
 *
 * O(n log n) in tensors; a tensor is found by halving.  Of an index in JSON only "weight_map" is taken:
 * each of its files is mapped once, and has the tensors that the index has in it. */
#include "io/tensors.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

#define FILE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"

typedef struct own {
    lnt_gguf gguf;
    lnt_safetensors *files;
    lnt_stored *entries;
    size_t file_count, file_room, count, room;
    size_t path_bytes;
    char path[]; /* what was given */
} own;

static int by_name(const void *a, const void *b)
{
    const lnt_stored *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* ---- one file ------------------------------------------------------------------------------ */

static lnt_stored stored_from(const lnt_st_entry *e)
{
    lnt_stored out = { .name = e->name, .type = lnt_st_dtype_name(e->dtype), .storage = LNT_STORAGES,
                       .rank = e->rank, .data = e->data, .bytes = e->bytes };
    _Static_assert(sizeof out.shape == sizeof e->shape, "of the same rank");
    memcpy(out.shape, e->shape, sizeof out.shape);
    if (e->dtype == LNT_ST_F32) out.storage = LNT_STORAGE_F32;
    if (e->dtype == LNT_ST_F16) out.storage = LNT_STORAGE_F16;
    if (e->dtype == LNT_ST_BF16) out.storage = LNT_STORAGE_BF16;
    return out;
}

static lnt_status allocate_files(lnt_ctx *ctx, own *o, size_t count)
{
    o->files = lnt_allocate(ctx, count * sizeof *o->files, "a list of files");
    if (!o->files) return LNT_ERR_MEMORY;
    o->file_room = count;
    return LNT_OK;
}

static lnt_status allocate_entries(lnt_ctx *ctx, own *o, size_t count)
{
    o->entries = lnt_allocate(ctx, count * sizeof *o->entries, "a list of tensors");
    if (!o->entries) return LNT_ERR_MEMORY;
    o->room = count;
    return LNT_OK;
}

static lnt_status open_safetensors(lnt_ctx *ctx, const char *path, own *o)
{
    lnt_status status = allocate_files(ctx, o, 1);
    if (!status) status = lnt_safetensors_map(ctx, path, o->files);
    if (status) return status;
    o->file_count = 1;
    status = allocate_entries(ctx, o, o->files->entry_count);
    if (status) return status;
    for (; o->count < o->room; o->count++) o->entries[o->count] = stored_from(&o->files->entries[o->count]);
    qsort(o->entries, o->count, sizeof *o->entries, by_name);
    return LNT_OK;
}

static lnt_status begins_as_gguf(lnt_ctx *ctx, const char *path, bool *out)
{
    char begin[4] = { 0 };
    lnt_file_reader file;
    lnt_status status = lnt_file_open(ctx, path, &file);
    if (!status && file.size >= sizeof begin) status = lnt_file_read(&file, begin, sizeof begin);
    lnt_file_close(&file);
    *out = memcmp(begin, "GGUF", sizeof begin) == 0;
    return status;
}

/* Large models come cut into several GGUF files, each of which says so. */
static lnt_status open_gguf(lnt_ctx *ctx, own *o)
{
    int64_t parts = 1;
    lnt_status status = lnt_gguf_open(ctx, o->path, &o->gguf);
    if (!status && lnt_gguf_find(&o->gguf, "split.count"))
        status = lnt_gguf_get_integer(ctx, &o->gguf, "split.count", &parts);
    if (status || parts <= 1) return status;
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": one of %lld parts of a model; merge them into one file first", o->path,
                    (long long)parts);
}

static lnt_status open_file(lnt_ctx *ctx, own *o)
{
    bool gguf;
    const lnt_status status = begins_as_gguf(ctx, o->path, &gguf);
    if (status) return status;
    return gguf ? open_gguf(ctx, o) : open_safetensors(ctx, o->path, o);
}

/* ---- a directory --------------------------------------------------------------------------- */

typedef struct shards { /* the "weight_map" of one */
    lnt_json json;
    char path[PATH_MAX];          /* of the index, then of one of its files after the other */
    const lnt_json_node **places; /* a tensor's key with its file's name, by key */
    const char **files;           /* their names, in order, each once */
    size_t count, file_count;
} shards;

static lnt_status join(lnt_ctx *ctx, const char *folder, const char *name, char out[PATH_MAX])
{
    const int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (length < PATH_MAX) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_FILE, "cannot read " LNT_FILE_FMT ": %s", out, strerror(ENAMETOOLONG));
}

static int by_key(const void *a, const void *b)
{
    const lnt_json_node *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* A file beside the index, and nothing that leads elsewhere. */
static bool is_file_name(const lnt_json_node *node)
{
    return node->type == LNT_JSON_STRING && *node->text && !strchr(node->text, '/') &&
           strcmp(node->text, ".") != 0 && strcmp(node->text, "..") != 0;
}

static lnt_status read_places(lnt_ctx *ctx, shards *x)
{
    const lnt_json_node *map = lnt_json_member(x->json.root, "weight_map");
    if (!map || map->type != LNT_JSON_OBJECT)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": there is no object 'weight_map'", x->path);
    x->count = map->count;
    x->places = lnt_allocate(ctx, x->count * sizeof *x->places, "an index of tensors");
    x->files = lnt_allocate(ctx, x->count * sizeof *x->files, "an index of files");
    if (!x->places || !x->files) return LNT_ERR_MEMORY;
    size_t n = 0;
    for (const lnt_json_node *c = map->child; c; c = c->next, n++) {
        if (!is_file_name(c))
            return lnt_fail(ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": the place of tensor '%.60s' must be the name of a file in the "
                                         "same directory",
                            x->path, c->key);
        x->places[n] = c;
        x->files[n] = c->text;
    }
    qsort(x->places, n, sizeof *x->places, by_key);
    qsort(x->files, n, sizeof *x->files, by_text);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(x->files[i], x->files[i - 1]) != 0) x->files[x->file_count++] = x->files[i];
    return LNT_OK;
}

/* The tensors of file number f that the index has there. */
static void take_entries(const shards *x, size_t f, own *o)
{
    const lnt_safetensors *st = &o->files[f];
    for (size_t i = 0; i < st->entry_count; i++) {
        const lnt_json_node wanted = { .key = st->entries[i].name }, *key = &wanted;
        const lnt_json_node *const *place = bsearch(&key, x->places, x->count, sizeof *x->places, by_key);
        if (place && strcmp((*place)->text, x->files[f]) == 0)
            o->entries[o->count++] = stored_from(&st->entries[i]);
    }
}

/* Every tensor of the index was found: there are as many, and no name is twice in the index or in a file.
 * */
static lnt_status check_complete(lnt_ctx *ctx, const shards *x, const own *o)
{
    if (o->count == x->count) return LNT_OK;
    size_t i = 0;
    while (i < o->count && strcmp(o->entries[i].name, x->places[i]->key) == 0) i++;
    return lnt_fail(ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": tensor '%.60s' is not in '%.60s', where the index has it", o->path,
                    x->places[i]->key, x->places[i]->text);
}

static lnt_status read_index(lnt_ctx *ctx, own *o, shards *x)
{
    lnt_map map;
    lnt_status status = lnt_map_open(ctx, x->path, &map);
    if (status) return status;
    status = lnt_json_parse(ctx, x->path, NULL, (const char *)map.data, map.bytes, &x->json);
    lnt_map_close(&map);
    if (!status) status = read_places(ctx, x);
    if (!status) status = allocate_files(ctx, o, x->file_count);
    if (!status) status = allocate_entries(ctx, o, x->count);
    for (size_t f = 0; f < x->file_count && !status; f++) {
        status = join(ctx, o->path, x->files[f], x->path);
        if (!status) status = lnt_safetensors_map(ctx, x->path, &o->files[f]);
        if (status) break;
        o->file_count++;
        take_entries(x, f, o);
    }
    if (status) return status;
    qsort(o->entries, o->count, sizeof *o->entries, by_name);
    return check_complete(ctx, x, o);
}

static lnt_status open_directory(lnt_ctx *ctx, own *o)
{
    shards x = { .count = 0 };
    struct stat st;
    lnt_status status = join(ctx, o->path, FILE_NAME, x.path);
    if (status) return status;
    if (stat(x.path, &st) == 0) return open_safetensors(ctx, x.path, o);
    status = join(ctx, o->path, INDEX_NAME, x.path);
    if (status) return status;
    if (stat(x.path, &st) != 0)
        return lnt_fail(ctx, LNT_ERR_FILE,
                        "cannot read " LNT_FILE_FMT
                        ": the directory has neither " FILE_NAME " nor " INDEX_NAME,
                        o->path);
    status = read_index(ctx, o, &x);
    lnt_release(ctx, x.places, x.count * sizeof *x.places);
    lnt_release(ctx, x.files, x.count * sizeof *x.files);
    lnt_json_free(ctx, &x.json);
    return status;
}

/* ---- all of them --------------------------------------------------------------------------- */

static void free_own(lnt_ctx *ctx, own *o)
{
    if (!o) return;
    for (size_t f = 0; f < o->file_count; f++) lnt_safetensors_free(ctx, &o->files[f]);
    lnt_release(ctx, o->files, o->file_room * sizeof *o->files);
    lnt_release(ctx, o->entries, o->room * sizeof *o->entries);
    lnt_gguf_close(ctx, &o->gguf);
    lnt_release(ctx, o, sizeof *o + o->path_bytes);
}

lnt_status lnt_tensors_open(lnt_ctx *ctx, const char *path, lnt_tensors *out)
{
    *out = (lnt_tensors){ 0 };
    const size_t bytes = strlen(path) + 1;
    own *o = lnt_allocate(ctx, sizeof *o + bytes, "the tensors of a model");
    if (!o) return LNT_ERR_MEMORY;
    *o = (own){ .path_bytes = bytes };
    memcpy(o->path, path, bytes);
    struct stat st;
    const bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const lnt_status status = directory ? open_directory(ctx, o) : open_file(ctx, o);
    if (status) {
        free_own(ctx, o);
        return status;
    }
    const bool gguf = o->gguf.path != NULL;
    *out = (lnt_tensors){ .entries = gguf ? o->gguf.tensors : o->entries,
                          .count = gguf ? o->gguf.tensor_count : o->count,
                          .gguf = gguf ? &o->gguf : NULL,
                          .safetensors = o->file_count == 1 ? o->files : NULL, .path = o->path, .own = o };
    return LNT_OK;
}

void lnt_tensors_close(lnt_ctx *ctx, lnt_tensors *tensors)
{
    free_own(ctx, tensors->own);
    *tensors = (lnt_tensors){ 0 };
}

const lnt_stored *lnt_tensors_find(const lnt_tensors *tensors, const char *name)
{
    const lnt_stored key = { .name = name };
    return tensors->count ? bsearch(&key, tensors->entries, tensors->count, sizeof key, by_name) : NULL;
}

lnt_status lnt_tensors_need(lnt_ctx *ctx, const lnt_tensors *tensors, const char *name,
                            const lnt_stored **out)
{
    *out = lnt_tensors_find(tensors, name);
    if (!*out)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": there is no tensor '%.60s'", tensors->path,
                        name);
    if ((*out)->storage == LNT_STORAGES)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%.60s' is of %s, must be of F32, F16 or BF16", tensors->path,
                        name, (*out)->type);
    return LNT_OK;
}
