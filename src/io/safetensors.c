/* io/safetensors.c - the .safetensors format: written with a checksum, read as hostile input. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/crc64.h"
#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors are little-endian and are not swapped here");

#define METADATA "__metadata__"
#define CHECKSUM "linnet.checksum"
#define CHECKSUM_KIND "linnet.checksum.kind"
#define CRC64_XZ "crc64-xz"
#define DIGITS_ZERO "0000000000000000"

enum { PREFIX_BYTES = 8, DIGITS = 16, DATA_ALIGN = 64, SHOWN_BYTES = 64 };

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
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

/* A name from a file as it may stand in a sentence: short, and nothing a terminal would obey. */
static const char *shown(const char *name, char out[SHOWN_BYTES])
{
    size_t n = 0;
    for (; name[n] && n < SHOWN_BYTES - 1; n++)
        out[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    out[n] = 0;
    return out;
}

static bool shape_bytes(const lnt_st_entry *e, size_t *bytes)
{
    return lnt_shape_bytes(dtypes[e->dtype].size, e->shape, e->rank, bytes);
}

/* ---- writing ------------------------------------------------------------------------------- */

static lnt_status check_entry(lnt_ctx *ctx, const lnt_st_entry *e, size_t index)
{
    if (!e->name || !lnt_json_is_utf8(e->name) || strcmp(e->name, METADATA) == 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: the name of array %zu is not UTF-8, or is " METADATA, index);
    if ((unsigned)e->dtype >= DTYPE_COUNT)
        return lnt_fail(ctx, LNT_ERR_DTYPE, "safetensors: array '%.60s' has the unknown dtype %d",
                        e->name, (int)e->dtype);
    if (e->rank < 0 || e->rank > LNT_ST_MAX_RANK)
        return lnt_fail(ctx, LNT_ERR_SHAPE,
                        "safetensors: array '%.60s' has rank %d, must be 0 to %d", e->name, e->rank,
                        LNT_ST_MAX_RANK);
    for (int i = 0; i < e->rank; i++)
        if (e->shape[i] < 0)
            return lnt_fail(ctx, LNT_ERR_SHAPE,
                            "safetensors: array '%.60s', extent %d is %" PRId64
                            ", must not be negative",
                            e->name, i, e->shape[i]);
    size_t bytes;
    if (!shape_bytes(e, &bytes) || bytes != e->bytes || (bytes && !e->data))
        return lnt_fail(ctx, LNT_ERR_SHAPE,
                        "safetensors: array '%.60s' has %zu bytes, which is not its shape in %s",
                        e->name, e->data ? e->bytes : 0, dtypes[e->dtype].name);
    return LNT_OK;
}

static lnt_status check_input(lnt_ctx *ctx, const lnt_st_entry *entries, size_t entry_count,
                              const lnt_st_meta *meta, size_t meta_count)
{
    if (entry_count > LNT_ST_MAX_COUNT || meta_count > LNT_ST_MAX_COUNT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: %zu arrays and %zu metadata, at most %d of each", entry_count,
                        meta_count, LNT_ST_MAX_COUNT);
    for (size_t i = 0; i < entry_count; i++) {
        const lnt_status status = check_entry(ctx, &entries[i], i);
        if (status) return status;
        for (size_t j = 0; j < i; j++)
            if (strcmp(entries[i].name, entries[j].name) == 0)
                return lnt_fail(ctx, LNT_ERR_ARGUMENT, "safetensors: two arrays are named '%.60s'",
                                entries[i].name);
    }
    for (size_t i = 0; i < meta_count; i++) {
        const char *key = meta[i].key, *value = meta[i].value;
        if (!key || !value || !lnt_json_is_utf8(key) || !lnt_json_is_utf8(value))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "safetensors: key or value of metadata %zu is not UTF-8", i);
        bool taken = strcmp(key, CHECKSUM) == 0 || strcmp(key, CHECKSUM_KIND) == 0;
        for (size_t j = 0; j < i; j++) taken = taken || strcmp(key, meta[j].key) == 0;
        if (taken)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "safetensors: metadata key '%.60s' is taken",
                            key);
    }
    return LNT_OK;
}

/* Calls visit for every entry in the order of the data: wide elements first, so that each array is
 * aligned to its element although there may be no gaps. */
static lnt_status each_in_order(const lnt_st_entry *entries, size_t count,
                                lnt_status (*visit)(void *user, const lnt_st_entry *entry),
                                void *user)
{
    for (size_t size = 8; size; size /= 2)
        for (size_t i = 0; i < count; i++) {
            if (dtypes[entries[i].dtype].size != size) continue;
            const lnt_status status = visit(user, &entries[i]);
            if (status) return status;
        }
    return LNT_OK;
}

typedef struct header_text {
    lnt_json_text json;
    uint64_t offset;    /* of the next array in the data */
    size_t digits_from; /* where the checksum stands in json.text */
} header_text;

static void put_integer(lnt_json_text *out, const char *before, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    lnt_json_put(out, before);
    lnt_json_put(out, digits);
}

static lnt_status put_entry(void *user, const lnt_st_entry *e)
{
    header_text *h = user;
    lnt_json_put(&h->json, ",");
    lnt_json_put_string(&h->json, e->name);
    lnt_json_put(&h->json, ":{\"dtype\":");
    lnt_json_put_string(&h->json, dtypes[e->dtype].name);
    lnt_json_put(&h->json, ",\"shape\":[");
    for (int i = 0; i < e->rank; i++)
        put_integer(&h->json, i ? "," : "", (uint64_t)e->shape[i]);
    put_integer(&h->json, "],\"data_offsets\":[", h->offset);
    h->offset += e->bytes;
    put_integer(&h->json, ",", h->offset);
    lnt_json_put(&h->json, "]}");
    return LNT_OK;
}

static void put_header(header_text *h, const lnt_st_entry *entries, size_t entry_count,
                       const lnt_st_meta *meta, size_t meta_count)
{
    lnt_json_put(&h->json, "{\"" METADATA "\":{\"" CHECKSUM "\":\"");
    h->digits_from = h->json.used;
    lnt_json_put(&h->json, DIGITS_ZERO "\",\"" CHECKSUM_KIND "\":\"" CRC64_XZ "\"");
    for (size_t i = 0; i < meta_count; i++) {
        lnt_json_put(&h->json, ",");
        lnt_json_put_string(&h->json, meta[i].key);
        lnt_json_put(&h->json, ":");
        lnt_json_put_string(&h->json, meta[i].value);
    }
    lnt_json_put(&h->json, "}");
    each_in_order(entries, entry_count, put_entry, h);
    lnt_json_put(&h->json, "}");
    while ((PREFIX_BYTES + h->json.used) % DATA_ALIGN) lnt_json_put(&h->json, " ");
}

static lnt_status sum_entry(void *user, const lnt_st_entry *e)
{
    lnt_crc64_add(user, e->data, e->bytes);
    return LNT_OK;
}

static lnt_status write_entry(void *user, const lnt_st_entry *e)
{
    return lnt_file_write(user, e->data, e->bytes);
}

static void put_digits(uint64_t checksum, char out[DIGITS + 1])
{
    snprintf(out, DIGITS + 1, "%016" PRIx64, checksum);
}

static lnt_status write_file(lnt_ctx *ctx, const char *path, header_text *h,
                             const lnt_st_entry *entries, size_t entry_count)
{
    const uint64_t length = h->json.used;
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, &length, sizeof length);
    lnt_crc64_add(&crc, h->json.text, h->json.used);
    each_in_order(entries, entry_count, sum_entry, &crc);
    char digits[DIGITS + 1];
    put_digits(lnt_crc64_finish(&crc), digits);
    memcpy(h->json.text + h->digits_from, digits, DIGITS);

    lnt_file_writer file;
    lnt_status status = lnt_file_create(ctx, path, &file);
    if (!status) status = lnt_file_write(&file, &length, sizeof length);
    if (!status) status = lnt_file_write(&file, h->json.text, h->json.used);
    if (!status) status = each_in_order(entries, entry_count, write_entry, &file);
    return status ? status : lnt_file_commit(&file);
}

lnt_status lnt_safetensors_write(lnt_ctx *ctx, const char *path, const lnt_st_entry *entries,
                                 size_t entry_count, const lnt_st_meta *meta, size_t meta_count)
{
    lnt_status status = check_input(ctx, entries, entry_count, meta, meta_count);
    if (status) return status;
    header_text counted = { 0 };
    put_header(&counted, entries, entry_count, meta, meta_count);
    const size_t bytes = counted.json.used;
    if (bytes > LNT_JSON_MAX_BYTES)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: names and metadata take %zu bytes, at most %d", bytes,
                        LNT_JSON_MAX_BYTES);
    header_text h = { .json.capacity = bytes };
    h.json.text = lnt_allocate(ctx, bytes, "a safetensors header");
    if (!h.json.text) return LNT_ERR_MEMORY;
    put_header(&h, entries, entry_count, meta, meta_count);
    status = write_file(ctx, path, &h, entries, entry_count);
    lnt_release(ctx, h.json.text, bytes);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct source {
    lnt_ctx *ctx;
    const char *path;
    lnt_file_reader file;
    char *text; /* the header as it stands in the file */
    size_t text_bytes;
} source;

static lnt_status bad_array(const source *s, const char *name, const char *reason)
{
    char text[SHOWN_BYTES];
    return lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": array '%s': %s", s->path,
                    shown(name, text), reason);
}

static lnt_status read_header(source *s, lnt_safetensors *out)
{
    uint64_t length;
    if (s->file.size < PREFIX_BYTES)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": %" PRIu64 " bytes are too few for a .safetensors file",
                        s->path, s->file.size);
    lnt_status status = lnt_file_read(&s->file, &length, sizeof length);
    if (status) return status;
    if (length > LNT_JSON_MAX_BYTES || length > s->file.size - PREFIX_BYTES)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": no .safetensors file, or a damaged one: the header is said to have "
                                     "%" PRIu64 " bytes, the file has %" PRIu64 " and %d are allowed",
                        s->path, length, s->file.size, LNT_JSON_MAX_BYTES);
    s->text = lnt_allocate(s->ctx, (size_t)length, "a safetensors header");
    if (!s->text) return LNT_ERR_MEMORY;
    s->text_bytes = (size_t)length;
    status = lnt_file_read(&s->file, s->text, s->text_bytes);
    if (!status)
        status = lnt_json_parse(s->ctx, s->path, "JSON header", s->text, s->text_bytes,
                                &out->header);
    if (status) return status;
    if (s->text[0] != '{') /* the format allows no space before it */
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the header does not begin with '{'", s->path);
    return LNT_OK;
}

/* Room for everything the header tells of, and for the data that follow it. */
static lnt_status allocate_parts(const source *s, lnt_safetensors *out)
{
    const lnt_json_node *root = out->header.root, *meta = lnt_json_member(root, METADATA);
    const uint64_t left = s->file.size - s->file.offset;
    if (left > SIZE_MAX)
        return lnt_fail(s->ctx, LNT_ERR_MEMORY,
                        LNT_FILE_FMT ": %" PRIu64 " bytes are more than memory can address",
                        s->path, left);
    out->entries = lnt_allocate(s->ctx, root->count * sizeof *out->entries, "a list of arrays");
    if (!out->entries) return LNT_ERR_MEMORY;
    out->entry_room = root->count;
    if (meta) {
        out->meta = lnt_allocate(s->ctx, meta->count * sizeof *out->meta, "metadata");
        if (!out->meta) return LNT_ERR_MEMORY;
        out->meta_room = meta->count;
    }
    out->data = lnt_allocate(s->ctx, (size_t)left, "the arrays of a safetensors file");
    if (!out->data) return LNT_ERR_MEMORY;
    out->data_bytes = (size_t)left;
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
    for (int i = 0; i < DTYPE_COUNT; i++)
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

static lnt_status read_entry(const source *s, const lnt_safetensors *st, const lnt_json_node *node,
                             lnt_st_entry *e)
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
    if ((uint64_t)at[1] > st->data_bytes)
        return bad_array(s, node->key, "data_offsets reach past the end of the file");
    if (!shape_bytes(e, &e->bytes) || e->bytes != (size_t)(at[1] - at[0]))
        return bad_array(s, node->key, "data_offsets do not span what shape and dtype take");
    if ((size_t)at[0] % dtypes[e->dtype].size)
        return bad_array(s, node->key, "data_offsets must be a multiple of the element size");
    e->data = st->data + at[0];
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
        const lnt_status status = read_entry(s, out, c, &out->entries[out->entry_count]);
        if (status) return status;
        out->entry_count++;
    }
    qsort(out->entries, out->entry_count, sizeof *out->entries, by_data);
    const char *end = out->data;
    for (size_t i = 0; i < out->entry_count; i++) {
        const lnt_st_entry *e = &out->entries[i];
        if ((const char *)e->data != end)
            return bad_array(s, e->name, "it overlaps the array before it, or leaves a gap");
        end += e->bytes;
    }
    if (end != out->data + out->data_bytes)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": %zu bytes of data, the arrays take %zu", s->path,
                        out->data_bytes, (size_t)(end - out->data));
    return LNT_OK;
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
    char *raw = s->text + sum->offset + 1, digits[DIGITS + 1];
    if (memcmp(raw, sum->text, DIGITS) == 0) memcpy(raw, DIGITS_ZERO, DIGITS);
    const uint64_t length = s->text_bytes;
    lnt_crc64 crc;
    lnt_crc64_init(&crc);
    lnt_crc64_add(&crc, &length, sizeof length);
    lnt_crc64_add(&crc, s->text, s->text_bytes);
    lnt_crc64_add(&crc, st->data, st->data_bytes);
    put_digits(lnt_crc64_finish(&crc), digits);
    if (strcmp(digits, sum->text) != 0)
        return lnt_fail(s->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": the file is damaged, its checksum does not match (another "
                                     "program that writes it leaves metadata " CHECKSUM "* out)",
                        s->path);
    return LNT_OK;
}

lnt_status lnt_safetensors_read(lnt_ctx *ctx, const char *path, lnt_safetensors *out)
{
    *out = (lnt_safetensors){ 0 };
    source s = { .ctx = ctx, .path = path };
    lnt_status status = lnt_file_open(ctx, path, &s.file);
    if (!status) status = read_header(&s, out);
    if (!status) status = allocate_parts(&s, out);
    if (!status) status = read_meta(&s, out);
    if (!status) status = read_entries(&s, out);
    if (!status) status = lnt_file_read(&s.file, out->data, out->data_bytes);
    if (!status) status = check_checksum(&s, out);
    lnt_file_close(&s.file);
    lnt_release(ctx, s.text, s.text_bytes);
    if (status) lnt_safetensors_free(ctx, out);
    return status;
}

void lnt_safetensors_free(lnt_ctx *ctx, lnt_safetensors *st)
{
    lnt_release(ctx, st->entries, st->entry_room * sizeof *st->entries);
    lnt_release(ctx, st->meta, st->meta_room * sizeof *st->meta);
    lnt_release(ctx, st->data, st->data_bytes);
    lnt_json_free(ctx, &st->header);
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
