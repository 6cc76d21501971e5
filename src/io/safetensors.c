/* io/safetensors.c - reads .safetensors files as hostile input: into memory, or in place through a map.
 *
 * O(header); the arrays cost their copy where there is one, and their checksum where they have one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/threads.h"
#include "io/crc64.h"
#include "io/file.h"
#include "io/safetensors_form.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors are little-endian and are not swapped here");

enum { SHOWN_BYTES = 64, MAX_ALIGN = 8 };

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [LNT_ST_F32] = { "F32", 4 }, [LNT_ST_F64] = { "F64", 8 },   [LNT_ST_F16] = { "F16", 2 },
    [LNT_ST_BF16] = { "BF16", 2 }, [LNT_ST_I64] = { "I64", 8 }, [LNT_ST_I32] = { "I32", 4 },
    [LNT_ST_I16] = { "I16", 2 }, [LNT_ST_I8] = { "I8", 1 },     [LNT_ST_U64] = { "U64", 8 },
    [LNT_ST_U32] = { "U32", 4 }, [LNT_ST_U16] = { "U16", 2 },   [LNT_ST_U8] = { "U8", 1 },
    [LNT_ST_BOOL] = { "BOOL", 1 },
};

const char *lnt_st_dtype_name(lnt_st_dtype dtype) { return dtypes[dtype].name; }
size_t lnt_st_dtype_size(lnt_st_dtype dtype) { return dtypes[dtype].size; }

void lnt_st_put_digits(uint64_t checksum, char out[DIGITS + 1])
{
    snprintf(out, DIGITS + 1, "%016" PRIx64, checksum);
}

/* A name from a file as it may stand in a sentence: short, and nothing a terminal would obey. */
static const char *shown(const char *name, char out[SHOWN_BYTES])
{
    size_t n = 0;
    for (; name[n] && n < SHOWN_BYTES - 1; n++)
        out[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    out[n] = 0;
    return out;
}

typedef struct source {
    lnt_ctx *ctx;
    const char *path;
    const char *text; /* the header as it stands in the file */
    size_t text_bytes;
    const char *data; /* the arrays */
    size_t data_bytes;
} source;

static lnt_status bad_array(const source *s, const char *name, const char *reason)
{
    char text[SHOWN_BYTES];
    return lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": array '%s': %s", s->path,
                    shown(name, text), reason);
}

/* Sets the lengths of header and arrays from the first bytes of a file of `size` bytes. */
static lnt_status set_lengths(source *s, uint64_t length, uint64_t size)
{
    if (length > LNT_JSON_MAX_BYTES || length > size - PREFIX_BYTES)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": no .safetensors file, or a damaged one: the header is said to have "
                                     "%" PRIu64 " bytes, the file has %" PRIu64 " and %d are allowed",
                        s->path, length, size, LNT_JSON_MAX_BYTES);
    s->text_bytes = (size_t)length;
    if (size - PREFIX_BYTES - length > SIZE_MAX)
        return lnt_fail(s->ctx, LNT_ERR_MEMORY,
                        LNT_FILE_FMT ": %" PRIu64 " bytes are more than memory can address", s->path, size);
    s->data_bytes = (size_t)(size - PREFIX_BYTES - length);
    return LNT_OK;
}

static lnt_status too_short(const source *s, uint64_t size)
{
    return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": %" PRIu64 " bytes are too few for a .safetensors file", s->path, size);
}

static lnt_status read_header(const source *s, lnt_safetensors *out)
{
    const lnt_status status =
        lnt_json_parse(s->ctx, s->path, "JSON header", s->text, s->text_bytes, &out->header);
    if (status) return status;
    if (s->text[0] != '{') /* the format allows no space before it */
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the header does not begin with '{'", s->path);
    return LNT_OK;
}

/* Room for everything the header tells of. */
static lnt_status allocate_parts(const source *s, lnt_safetensors *out)
{
    const lnt_json_node *root = out->header.root, *meta = lnt_json_member(root, METADATA);
    out->entries = lnt_allocate(s->ctx, root->count * sizeof *out->entries, "a list of arrays");
    if (!out->entries) return LNT_ERR_MEMORY;
    out->entry_room = root->count;
    if (meta) {
        out->meta = lnt_allocate(s->ctx, meta->count * sizeof *out->meta, "metadata");
        if (!out->meta) return LNT_ERR_MEMORY;
        out->meta_room = meta->count;
    }
    return LNT_OK;
}

/* Room of our own for the arrays. */
static lnt_status allocate_copy(source *s, lnt_safetensors *out)
{
    out->copy = lnt_allocate(s->ctx, s->data_bytes, "the arrays of a safetensors file");
    if (!out->copy) return LNT_ERR_MEMORY;
    out->copy_bytes = s->data_bytes;
    s->data = out->copy;
    return LNT_OK;
}

static lnt_status read_meta(const source *s, lnt_safetensors *out)
{
    const lnt_json_node *meta = lnt_json_member(out->header.root, METADATA);
    if (!meta) return LNT_OK;
    if (meta->type != LNT_JSON_OBJECT)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": " METADATA " is not an object",
                        s->path);
    for (const lnt_json_node *c = meta->child; c; c = c->next) {
        char text[SHOWN_BYTES];
        if (c->type != LNT_JSON_STRING)
            return lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": metadata '%s' is not a string",
                            s->path, shown(c->key, text));
        if (strcmp(c->key, CHECKSUM) == 0 || strcmp(c->key, CHECKSUM_KIND) == 0) continue;
        out->meta[out->meta_count++] = (lnt_st_meta){ c->key, c->text };
    }
    return LNT_OK;
}

static lnt_status read_dtype(const source *s, const char *name, const char *dtype,
                             lnt_st_dtype *out)
{
    for (int i = 0; i < LNT_ST_DTYPES; i++)
        if (strcmp(dtype, dtypes[i].name) == 0) {
            *out = (lnt_st_dtype)i;
            return LNT_OK;
        }
    char text[SHOWN_BYTES], found[SHOWN_BYTES];
    return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": array '%s': unknown dtype '%s', allowed are BOOL, "
                                 "I8 to I64, U8 to U64, F16, BF16, F32, F64",
                    s->path, shown(name, text), shown(dtype, found));
}

/* Integers >= 0 of an array node, at most `room` of them; -1 if it is anything else. */
static int read_integers(const lnt_json_node *node, int64_t *out, int room)
{
    int n = 0;
    if (node->type != LNT_JSON_ARRAY || node->count > (size_t)room) return -1;
    for (const lnt_json_node *c = node->child; c; c = c->next) {
        if (c->type != LNT_JSON_INTEGER || c->integer < 0) return -1;
        out[n++] = c->integer;
    }
    return n;
}

static lnt_status read_entry(const source *s, const lnt_json_node *node, lnt_st_entry *e)
{
    const lnt_json_node *dtype = lnt_json_member(node, "dtype"),
                        *shape = lnt_json_member(node, "shape"),
                        *offsets = lnt_json_member(node, "data_offsets");
    *e = (lnt_st_entry){ .name = node->key };
    if (!dtype || !shape || !offsets || node->count != 3 || dtype->type != LNT_JSON_STRING)
        return bad_array(s, node->key, "must have dtype, shape, data_offsets and nothing else");
    const lnt_status status = read_dtype(s, node->key, dtype->text, &e->dtype);
    if (status) return status;
    e->rank = read_integers(shape, e->shape, LNT_ST_MAX_RANK);
    if (e->rank < 0) return bad_array(s, node->key, "shape must be at most 8 integers from 0");
    int64_t at[2];
    if (read_integers(offsets, at, 2) != 2 || at[0] > at[1])
        return bad_array(s, node->key, "data_offsets must be two integers from 0, in order");
    if ((uint64_t)at[1] > s->data_bytes)
        return bad_array(s, node->key, "data_offsets reach past the end of the file");
    if (!lnt_shape_bytes(dtypes[e->dtype].size, e->shape, e->rank, &e->bytes) ||
        e->bytes != (size_t)(at[1] - at[0]))
        return bad_array(s, node->key, "data_offsets do not span what shape and dtype take");
    if ((size_t)at[0] % dtypes[e->dtype].size)
        return bad_array(s, node->key, "data_offsets must be a multiple of the element size");
    e->data = s->data + at[0];
    return LNT_OK;
}

static int by_data(const void *a, const void *b)
{
    const lnt_st_entry *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    if (p != q) return p < q ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones before what starts there */
}

static lnt_status read_entries(const source *s, lnt_safetensors *out)
{
    for (const lnt_json_node *c = out->header.root->child; c; c = c->next) {
        if (strcmp(c->key, METADATA) == 0) continue;
        const lnt_status status = read_entry(s, c, &out->entries[out->entry_count]);
        if (status) return status;
        out->entry_count++;
    }
    qsort(out->entries, out->entry_count, sizeof *out->entries, by_data);
    const char *end = s->data;
    for (size_t i = 0; i < out->entry_count; i++) {
        const lnt_st_entry *e = &out->entries[i];
        if ((const char *)e->data != end)
            return bad_array(s, e->name, "it overlaps the array before it, or leaves a gap");
        end += e->bytes;
    }
    if (end != s->data + s->data_bytes)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": %zu bytes of data, the arrays take %zu", s->path,
                        s->data_bytes, (size_t)(end - s->data));
    return LNT_OK;
}

/* A piece of the data for each thread, put together at the end. */
static void add_data(const source *s, lnt_crc64 *crc)
{
    enum { PIECES = 64, LEAST = 1 << 20 }; /* bytes that are worth a thread */
    const size_t worth = s->data_bytes / LEAST + 1;
    const size_t threads = (size_t)lnt_threads_for(s->ctx, (double)s->data_bytes);
    const size_t count = threads < worth ? threads : worth, pieces = count < PIECES ? count : PIECES;
    const size_t each = s->data_bytes / pieces, last = s->data_bytes - (pieces - 1) * each;
    uint64_t value[PIECES];
#pragma omp parallel for schedule(static) num_threads((int)pieces)
    for (int64_t i = 0; i < (int64_t)pieces; i++) {
        lnt_crc64 own = *crc;
        if (i) own.value = 0;
        lnt_crc64_add(&own, s->data + (size_t)i * each, (size_t)i + 1 < pieces ? each : last);
        value[i] = own.value;
    }
    crc->value = value[0];
    for (size_t i = 1; i < pieces; i++)
        crc->value = lnt_crc64_multiply(crc->value, lnt_crc64_shift(i + 1 < pieces ? each : last)) ^ value[i];
}

static lnt_status check_checksum(const source *s, const lnt_safetensors *st)
{
    const lnt_json_node *meta = lnt_json_member(st->header.root, METADATA);
    const lnt_json_node *sum = meta ? lnt_json_member(meta, CHECKSUM) : NULL,
                        *kind = meta ? lnt_json_member(meta, CHECKSUM_KIND) : NULL;
    if (!sum && !kind) return LNT_OK;
    if (!sum || !kind || strcmp(kind->text, CRC64_XZ) != 0 || strlen(sum->text) != DIGITS)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": metadata " CHECKSUM " and " CHECKSUM_KIND
                                     " must be 16 digits and '" CRC64_XZ "'",
                        s->path);
    const uint64_t length = s->text_bytes;
    const size_t begin = sum->offset + 1, end = begin + DIGITS; /* the digits, unless they are escapes */
    const bool plain = memcmp(s->text + begin, sum->text, DIGITS) == 0;
    char digits[DIGITS + 1];
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, &length, sizeof length);
    lnt_crc64_add(&crc, s->text, begin);
    lnt_crc64_add(&crc, plain ? DIGITS_ZERO : s->text + begin, DIGITS);
    lnt_crc64_add(&crc, s->text + end, s->text_bytes - end);
    add_data(s, &crc);
    lnt_st_put_digits(lnt_crc64_finish(&crc), digits);
    if (strcmp(digits, sum->text) != 0)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the file is damaged, its checksum does not match (another "
                                     "program that writes it leaves metadata " CHECKSUM "* out)",
                        s->path);
    return LNT_OK;
}

/* Once header and data have their places, and before the data are there. */
static lnt_status read_parts(const source *s, lnt_safetensors *out)
{
    lnt_status status = allocate_parts(s, out);
    if (!status) status = read_meta(s, out);
    if (!status) status = read_entries(s, out);
    return status;
}

static lnt_status read_file(lnt_file_reader *file, source *s, char **text, lnt_safetensors *out)
{
    uint64_t length;
    if (file->size < PREFIX_BYTES) return too_short(s, file->size);
    lnt_status status = lnt_file_read(file, &length, sizeof length);
    if (!status) status = set_lengths(s, length, file->size);
    if (status) return status;
    s->text = *text = lnt_allocate(s->ctx, s->text_bytes, "a safetensors header");
    if (!*text) return LNT_ERR_MEMORY;
    status = lnt_file_read(file, *text, s->text_bytes);
    if (!status) status = read_header(s, out);
    if (!status) status = allocate_copy(s, out);
    if (!status) status = read_parts(s, out);
    if (!status) status = lnt_file_read(file, out->copy, out->copy_bytes);
    return status ? status : check_checksum(s, out);
}

lnt_status lnt_safetensors_read(lnt_ctx *ctx, const char *path, lnt_safetensors *out)
{
    *out = (lnt_safetensors){ 0 };
    source s = { .ctx = ctx, .path = path };
    lnt_file_reader file;
    char *text = NULL;
    lnt_status status = lnt_file_open(ctx, path, &file);
    if (!status) status = read_file(&file, &s, &text, out);
    lnt_file_close(&file);
    lnt_release(ctx, text, s.text_bytes);
    if (status) lnt_safetensors_free(ctx, out);
    return status;
}

static lnt_status parse(source *s, const char *file, size_t bytes, lnt_safetensors *out)
{
    uint64_t length;
    if (bytes < PREFIX_BYTES) return too_short(s, bytes);
    memcpy(&length, file, sizeof length);
    lnt_status status = set_lengths(s, length, bytes);
    if (status) return status;
    s->text = file + PREFIX_BYTES;
    s->data = s->text + s->text_bytes;
    status = read_header(s, out);
    if (!status && (uintptr_t)s->data % MAX_ALIGN) {
        const char *from = s->data;
        status = allocate_copy(s, out);
        if (!status) memcpy(out->copy, from, s->data_bytes);
    }
    if (!status) status = read_parts(s, out);
    return status ? status : check_checksum(s, out);
}

lnt_status lnt_safetensors_parse(lnt_ctx *ctx, const char *path, const void *file, size_t bytes,
                                 lnt_safetensors *out)
{
    *out = (lnt_safetensors){ 0 };
    source s = { .ctx = ctx, .path = path };
    const lnt_status status = parse(&s, file, bytes, out);
    if (status) lnt_safetensors_free(ctx, out);
    return status;
}

lnt_status lnt_safetensors_map(lnt_ctx *ctx, const char *path, lnt_safetensors *out)
{
    lnt_map map;
    *out = (lnt_safetensors){ 0 };
    lnt_status status = lnt_map_open(ctx, path, &map);
    if (!status) status = lnt_safetensors_parse(ctx, path, map.data, map.bytes, out);
    if (status || out->copy) lnt_map_close(&map);
    else out->map = map;
    return status;
}

void lnt_safetensors_free(lnt_ctx *ctx, lnt_safetensors *st)
{
    lnt_release(ctx, st->entries, st->entry_room * sizeof *st->entries);
    lnt_release(ctx, st->meta, st->meta_room * sizeof *st->meta);
    lnt_release(ctx, st->copy, st->copy_bytes);
    lnt_json_free(ctx, &st->header);
    lnt_map_close(&st->map);
    *st = (lnt_safetensors){ 0 };
}

const lnt_st_entry *lnt_safetensors_find(const lnt_safetensors *st, const char *name)
{
    for (size_t i = 0; i < st->entry_count; i++)
        if (strcmp(st->entries[i].name, name) == 0) return &st->entries[i];
    return NULL;
}

const char *lnt_safetensors_meta(const lnt_safetensors *st, const char *key)
{
    for (size_t i = 0; i < st->meta_count; i++)
        if (strcmp(st->meta[i].key, key) == 0) return st->meta[i].value;
    return NULL;
}
