/* io/gguf.c - opens a GGUF file: one walk over its metadata, one over its list of tensors, and two sorts,
 * which find what is there twice or overlaps.  O(n log n) in keys and tensors, O(1) in their data.
 *
 * The walk reads through a cursor that refuses to pass the end of the file, and counts are held against
 * the bytes that are left before anything is allocated for them. */
#include "io/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is little-endian and is not swapped here");

enum {
    KEY_BYTES = 8 + 1 + 4 + 1,        /* of the shortest key with its value */
    TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* of the shortest line of the list */
    MAX_NAME = 65535,                 /* bytes of a key or name, by the format */
    MAX_VERSION = 3,
    MIN_ALIGNMENT = 8,
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20
};

static const struct {
    uint32_t number; /* in the file */
    lnt_storage storage;
} types[] = {
    { 0, LNT_STORAGE_F32 },   { 1, LNT_STORAGE_F16 },   { 30, LNT_STORAGE_BF16 }, { 8, LNT_STORAGE_Q8_0 },
    { 2, LNT_STORAGE_Q4_0 },  { 3, LNT_STORAGE_Q4_1 },  { 6, LNT_STORAGE_Q5_0 },  { 7, LNT_STORAGE_Q5_1 },
    { 10, LNT_STORAGE_Q2_K }, { 11, LNT_STORAGE_Q3_K }, { 12, LNT_STORAGE_Q4_K }, { 13, LNT_STORAGE_Q5_K },
    { 14, LNT_STORAGE_Q6_K },
};
/* A name from a file as it may stand in a sentence; lnt_fail sees to what no terminal should obey. */
#define SHOWN(name) ((name).bytes < 60 ? (int)(name).bytes : 60), (name).text
#define KNOWN_TYPES "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1 and q2_k to q6_k"

typedef struct cursor {
    lnt_ctx *ctx;
    const char *path;
    const unsigned char *data;
    size_t at, bytes;
} cursor;

static size_t left(const cursor *c) { return c->bytes - c->at; }

static lnt_status broken(const cursor *c, const char *reason)
{
    return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ", byte %zu: %s", c->path, c->at, reason);
}

/* The sentence begins with the thing that is wrong: key 'x', or tensor 'x'. */
static lnt_status bad(const cursor *c, const char *kind, lnt_gguf_string name, const char *reason)
{
    return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s '%.*s': %s", c->path, kind,
                    SHOWN(name), reason);
}

/* The next bytes; NULL, with a sentence and LNT_ERR_FORMAT to return, if the file has not so many. */
static const unsigned char *take(cursor *c, size_t bytes)
{
    const unsigned char *at = c->data + c->at;
    if (bytes > left(c)) {
        broken(c, "the file ends in the middle of its metadata");
        return NULL;
    }
    c->at += bytes;
    return at;
}

static lnt_status take_number(cursor *c, void *out, size_t bytes)
{
    const unsigned char *at = take(c, bytes);
    if (!at) return LNT_ERR_FORMAT;
    memcpy(out, at, bytes);
    return LNT_OK;
}

static lnt_status take_u32(cursor *c, uint32_t *out)
{
    *out = 0;
    return take_number(c, out, sizeof *out);
}

static lnt_status take_u64(cursor *c, uint64_t *out)
{
    *out = 0;
    return take_number(c, out, sizeof *out);
}

static lnt_status take_string(cursor *c, lnt_gguf_string *out)
{
    uint64_t bytes;
    const lnt_status status = take_u64(c, &bytes);
    if (status) return status;
    if (bytes > left(c)) return broken(c, "a string is said to be longer than the file");
    *out = (lnt_gguf_string){ (const char *)take(c, (size_t)bytes), (size_t)bytes };
    return LNT_OK;
}

/* Of a key or a tensor. */
static lnt_status take_name(cursor *c, lnt_gguf_string *out)
{
    const lnt_status status = take_string(c, out);
    if (status) return status;
    if (!out->bytes || out->bytes > MAX_NAME || memchr(out->text, 0, out->bytes))
        return broken(c, "a name before it is empty, has a NUL inside or more than 65535 bytes");
    return LNT_OK;
}

/* How many there are of what takes at least `least` bytes each. */
static lnt_status take_count(cursor *c, const char *what, uint64_t count, size_t least)
{
    if (count > left(c) / least || count > LNT_GGUF_MAX_COUNT)
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": it is said to have %" PRIu64 " %s, more than its %zu bytes can hold "
                                     "or the %d that are allowed",
                        c->path, count, what, c->bytes, LNT_GGUF_MAX_COUNT);
    return LNT_OK;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static lnt_status take_value(cursor *c, lnt_gguf_type type, int depth, lnt_gguf_value *out);

static lnt_status take_type(cursor *c, lnt_gguf_type *out)
{
    uint32_t type;
    const lnt_status status = take_u32(c, &type);
    if (status) return status;
    if (type >= LNT_GGUF_TYPES) return broken(c, "a value of an unknown type before it");
    *out = (lnt_gguf_type)type;
    return LNT_OK;
}

static lnt_status take_elements(cursor *c, uint64_t count, int depth, lnt_gguf_value *out)
{
    const size_t size = lnt_gguf_size(out->element);
    const size_t least = size ? size : out->element == LNT_GGUF_STRING ? 8 : 12;
    if (count > left(c) / least) return broken(c, "an array is said to be longer than the file");
    const size_t begin = c->at;
    out->data = c->data + begin;
    out->count = (size_t)count;
    lnt_status status = LNT_OK;
    if (size) c->at += out->count * size;
    for (size_t i = 0; !size && i < out->count && !status; i++) {
        lnt_gguf_value inner;
        status = take_value(c, out->element, depth + 1, &inner);
    }
    out->bytes = c->at - begin;
    return status;
}

static lnt_status take_value(cursor *c, lnt_gguf_type type, int depth, lnt_gguf_value *out)
{
    *out = (lnt_gguf_value){ .type = type };
    lnt_status status;
    if (type == LNT_GGUF_STRING) {
        lnt_gguf_string string = { 0 };
        status = take_string(c, &string);
        out->data = (const unsigned char *)string.text;
        out->bytes = string.bytes;
        return status;
    }
    if (type == LNT_GGUF_ARRAY) {
        if (depth == LNT_GGUF_MAX_DEPTH) return broken(c, "arrays in arrays, more than 4 deep");
        uint64_t count;
        status = take_type(c, &out->element);
        if (!status) status = take_u64(c, &count);
        return status ? status : take_elements(c, count, depth, out);
    }
    out->bytes = lnt_gguf_size(type);
    out->data = take(c, out->bytes);
    return out->data ? LNT_OK : LNT_ERR_FORMAT;
}

static int by_key(const void *a, const void *b)
{
    const lnt_gguf_key *x = a, *y = b;
    return lnt_gguf_compare(x->name, y->name);
}

static lnt_status read_keys(cursor *c, uint64_t count, lnt_gguf *out)
{
    lnt_status status = take_count(c, "keys", count, KEY_BYTES);
    if (status) return status;
    out->keys = lnt_allocate(c->ctx, (size_t)count * sizeof *out->keys, "the keys of a GGUF file");
    if (!out->keys) return LNT_ERR_MEMORY;
    out->key_count = (size_t)count;
    for (size_t i = 0; i < out->key_count; i++) {
        lnt_gguf_key *key = &out->keys[i];
        lnt_gguf_type type = LNT_GGUF_U8;
        status = take_name(c, &key->name);
        if (!status) status = take_type(c, &type);
        if (!status) status = take_value(c, type, 0, &key->value);
        if (status) return status;
        if (type == LNT_GGUF_BOOL && *key->value.data > 1)
            return bad(c, "key", key->name, "a boolean is neither 0 nor 1");
    }
    qsort(out->keys, out->key_count, sizeof *out->keys, by_key);
    for (size_t i = 1; i < out->key_count; i++)
        if (by_key(&out->keys[i - 1], &out->keys[i]) == 0)
            return bad(c, "key", out->keys[i].name, "it is there twice");
    return LNT_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

typedef struct line { /* of the list of tensors */
    lnt_gguf_string name;
    uint32_t rank, type;
    uint64_t extents[LNT_GGUF_MAX_RANK], offset;
} line;

static lnt_status take_line(cursor *c, line *out)
{
    *out = (line){ 0 };
    lnt_status status = take_name(c, &out->name);
    if (!status) status = take_u32(c, &out->rank);
    if (status) return status;
    if (out->rank > LNT_GGUF_MAX_RANK)
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%.*s' has rank %" PRIu32 ", at most %d is known", c->path,
                        SHOWN(out->name), out->rank, LNT_GGUF_MAX_RANK);
    for (uint32_t i = 0; i < out->rank && !status; i++) status = take_u64(c, &out->extents[i]);
    if (!status) status = take_u32(c, &out->type);
    if (!status) status = take_u64(c, &out->offset);
    return status;
}

static lnt_status find_storage(const cursor *c, const line *l, lnt_storage *out)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].number == l->type) {
            *out = types[i].storage;
            return LNT_OK;
        }
    return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": type %" PRIu32 " of tensor '%.*s' is not known; known are " KNOWN_TYPES,
                    c->path, l->type, SHOWN(l->name));
}

/* Storage, shape and bytes of a tensor; false if they do not fit memory. */
static bool set_shape(const line *l, lnt_stored *t)
{
    size_t count = 1;
    t->rank = (int)l->rank;
    for (uint32_t i = 0; i < l->rank; i++) {
        if (l->extents[i] > INT64_MAX || !lnt_size_product(count, (size_t)l->extents[i], 1, &count))
            return false;
        t->shape[l->rank - 1 - i] = (int64_t)l->extents[i];
    }
    return lnt_size_product(count / lnt_storage_numbers(t->storage), lnt_storage_bytes(t->storage), 1,
                            &t->bytes);
}

/* data: where they begin in the file; past its end where it has none. */
static lnt_status read_tensor(const cursor *c, const line *l, size_t data, size_t alignment, lnt_stored *t)
{
    const lnt_status status = find_storage(c, l, &t->storage);
    if (status) return status;
    t->type = lnt_storage_name(t->storage);
    for (uint32_t i = 0; i < l->rank; i++)
        if (!l->extents[i]) return bad(c, "tensor", l->name, "an extent is 0, must be 1 or more");
    const uint64_t row = l->rank ? l->extents[0] : 1;
    if (row % lnt_storage_numbers(t->storage))
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": tensor '%.*s': rows of %" PRIu64 " numbers are not made of the "
                                     "blocks of %zu that %s has",
                        c->path, SHOWN(l->name), row, lnt_storage_numbers(t->storage), t->type);
    if (l->offset % alignment)
        return bad(c, "tensor", l->name, "its offset is not a multiple of the file's alignment");
    const size_t room = data < c->bytes ? c->bytes - data : 0;
    if (!set_shape(l, t) || l->offset > room || t->bytes > room - l->offset)
        return bad(c, "tensor", l->name, "it reaches past the end of the file");
    t->data = c->data + data + l->offset;
    return LNT_OK;
}

static lnt_status read_alignment(const cursor *c, const lnt_gguf *gguf, size_t *out)
{
    static const char key[] = "general.alignment";
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (lnt_gguf_find(gguf, key)) {
        const lnt_status status = lnt_gguf_get_integer(c->ctx, gguf, key, &alignment);
        if (status) return status;
    }
    if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": %s is %" PRId64 ", must be a power of two from %d to %d", c->path,
                        key, alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
    *out = (size_t)alignment;
    return LNT_OK;
}

/* Walks over the list to size what it needs and to find where it ends, and comes back. */
static lnt_status allocate_tensors(cursor *c, uint64_t count, lnt_gguf *out, size_t *end)
{
    lnt_status status = take_count(c, "tensors", count, TENSOR_BYTES);
    const size_t begin = c->at;
    for (uint64_t i = 0; i < count && !status; i++) {
        line l;
        status = take_line(c, &l);
        out->names_bytes += l.name.bytes + 1;
    }
    if (status) return status;
    *end = c->at;
    c->at = begin;
    out->names = lnt_allocate(c->ctx, out->names_bytes, "the names of tensors");
    out->tensors = lnt_allocate(c->ctx, (size_t)count * sizeof *out->tensors, "a list of tensors");
    out->tensor_room = (size_t)count;
    return out->names && out->tensors ? LNT_OK : LNT_ERR_MEMORY;
}

static int by_data(const void *a, const void *b)
{
    const lnt_stored *x = a, *y = b;
    const unsigned char *p = x->data, *q = y->data;
    return (p > q) - (p < q);
}

static int by_name(const void *a, const void *b)
{
    const lnt_stored *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* No two tensors share a name or a byte.  Leaves them by name. */
static lnt_status check_apart(const cursor *c, lnt_gguf *gguf)
{
    lnt_stored *t = gguf->tensors;
    const size_t n = gguf->tensor_count;
    qsort(t, n, sizeof *t, by_data);
    for (size_t i = 1; i < n; i++)
        if ((const unsigned char *)t[i].data < (const unsigned char *)t[i - 1].data + t[i - 1].bytes)
            return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensors '%.60s' and '%.60s' overlap",
                            c->path, t[i - 1].name, t[i].name);
    qsort(t, n, sizeof *t, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&t[i - 1], &t[i]) == 0)
            return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": tensor '%.60s' is there twice", c->path,
                            t[i].name);
    return LNT_OK;
}

static lnt_status read_tensors(cursor *c, uint64_t count, lnt_gguf *out)
{
    size_t alignment = DEFAULT_ALIGNMENT, end = 0, used = 0;
    lnt_status status = read_alignment(c, out, &alignment);
    if (!status) status = allocate_tensors(c, count, out, &end);
    if (status) return status;
    const size_t data = (end + alignment - 1) / alignment * alignment;
    for (; out->tensor_count < out->tensor_room; out->tensor_count++) {
        lnt_stored *t = &out->tensors[out->tensor_count];
        *t = (lnt_stored){ .name = out->names + used };
        line l;
        status = take_line(c, &l);
        if (status) return status;
        if (l.name.bytes >= out->names_bytes - used)
            return broken(c, "the file has changed while it was read");
        memcpy(out->names + used, l.name.text, l.name.bytes);
        used += l.name.bytes;
        out->names[used++] = 0;
        status = read_tensor(c, &l, data, alignment, t);
        if (status) return status;
    }
    return check_apart(c, out);
}

/* ---- the file ------------------------------------------------------------------------------ */

static lnt_status read_version(cursor *c)
{
    uint32_t version;
    if (left(c) < 4 || memcmp(take(c, 4), "GGUF", 4) != 0)
        return lnt_fail(c->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": no GGUF file: it does not begin with 'GGUF'",
                        c->path);
    const lnt_status status = take_u32(c, &version);
    if (status) return status;
    if (version && !(version & 0xffff))
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": a big-endian GGUF file; only little-endian ones are read", c->path);
    if (version < 2 || version > MAX_VERSION)
        return lnt_fail(c->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": version %" PRIu32 " of GGUF is not known; known are 2 and %d",
                        c->path, version, MAX_VERSION);
    return LNT_OK;
}

lnt_status lnt_gguf_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes, lnt_gguf *out)
{
    *out = (lnt_gguf){ .path = path };
    cursor c = { .ctx = ctx, .path = path, .data = file, .bytes = bytes };
    uint64_t tensors, keys;
    lnt_status status = read_version(&c);
    if (!status) status = take_u64(&c, &tensors);
    if (!status) status = take_u64(&c, &keys);
    if (!status) status = read_keys(&c, keys, out);
    if (!status) status = read_tensors(&c, tensors, out);
    if (status) lnt_gguf_close(ctx, out);
    return status;
}

lnt_status lnt_gguf_open(lnt_ctx *ctx, const char *path, lnt_gguf *out)
{
    lnt_map map;
    lnt_status status = lnt_map_open(ctx, path, &map);
    if (!status) status = lnt_gguf_parse(ctx, path, map.data, map.bytes, out);
    else *out = (lnt_gguf){ 0 };
    if (status) lnt_map_close(&map);
    else out->map = map;
    return status;
}

void lnt_gguf_close(lnt_ctx *ctx, lnt_gguf *gguf)
{
    lnt_release(ctx, gguf->keys, gguf->key_count * sizeof *gguf->keys);
    lnt_release(ctx, gguf->tensors, gguf->tensor_room * sizeof *gguf->tensors);
    lnt_release(ctx, gguf->names, gguf->names_bytes);
    lnt_map_close(&gguf->map);
    *gguf = (lnt_gguf){ 0 };
}
