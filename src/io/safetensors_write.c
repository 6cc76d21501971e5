/* io/safetensors_write.c - writes .safetensors files with a checksum, whole or not at all.
 *
 * The data are read twice: for the checksum, which stands before them, and to be written.  Data that are made
 * while they are written are made once, and the checksum is put in its place at the end. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/crc64.h"
#include "io/file.h"
#include "io/safetensors_form.h"

enum { DATA_ALIGN = 64 };

static lnt_status check_entry(lnt_ctx *ctx, const lnt_st_entry *e, size_t index, bool made)
{
    if (!e->name || !lnt_json_is_utf8(e->name) || strcmp(e->name, METADATA) == 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: the name of array %zu is not UTF-8, or is " METADATA, index);
    if ((unsigned)e->dtype >= LNT_ST_DTYPES)
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
    if (!lnt_shape_bytes(lnt_st_dtype_size(e->dtype), e->shape, e->rank, &bytes) || bytes != e->bytes ||
        (bytes && !e->data && !made))
        return lnt_fail(ctx, LNT_ERR_SHAPE,
                        "safetensors: array '%.60s' has %zu bytes, which is not its shape in %s",
                        e->name, e->data || made ? e->bytes : 0, lnt_st_dtype_name(e->dtype));
    return LNT_OK;
}

static lnt_status check_input(lnt_ctx *ctx, const lnt_st_entry *entries, size_t entry_count,
                              const lnt_st_meta *meta, size_t meta_count, bool made)
{
    if (entry_count > LNT_ST_MAX_COUNT || meta_count > LNT_ST_MAX_COUNT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: %zu arrays and %zu metadata, at most %d of each", entry_count,
                        meta_count, LNT_ST_MAX_COUNT);
    for (size_t i = 0; i < entry_count; i++) {
        const lnt_status status = check_entry(ctx, &entries[i], i, made);
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
            if (lnt_st_dtype_size(entries[i].dtype) != size) continue;
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
    lnt_json_put_string(&h->json, lnt_st_dtype_name(e->dtype));
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
    lnt_st_put_digits(lnt_crc64_finish(&crc), digits);
    memcpy(h->json.text + h->digits_from, digits, DIGITS);

    lnt_file_writer file;
    lnt_status status = lnt_file_create(ctx, path, &file);
    if (!status) status = lnt_file_write(&file, &length, sizeof length);
    if (!status) status = lnt_file_write(&file, h->json.text, h->json.used);
    if (!status) status = each_in_order(entries, entry_count, write_entry, &file);
    return status ? status : lnt_file_commit(&file);
}

/* ---- data that are made ---------------------------------------------------------------------- */

struct lnt_st_sink {
    lnt_file_writer file;
    lnt_crc64 crc;
    size_t rest; /* bytes of the array that are still to come */
    /* What each array is made by. */
    const lnt_st_entry *entries;
    lnt_st_make make;
    void *user;
};

lnt_status lnt_st_put(lnt_st_sink *sink, const void *data, size_t bytes)
{
    assert(bytes <= sink->rest);
    sink->rest -= bytes;
    lnt_crc64_add(&sink->crc, data, bytes);
    return lnt_file_write(&sink->file, data, bytes);
}

static lnt_status make_entry(void *user, const lnt_st_entry *e)
{
    lnt_st_sink *sink = user;
    sink->rest = e->bytes;
    if (e->data || !e->bytes) return lnt_st_put(sink, e->data, e->bytes);
    const lnt_status status = sink->make(sink->user, (size_t)(e - sink->entries), sink);
    assert(status || !sink->rest);
    return status;
}

static lnt_status write_made(lnt_st_sink *sink, const header_text *h, size_t entry_count)
{
    const uint64_t length = h->json.used;
    char digits[DIGITS + 1];
    lnt_crc64_init(&sink->crc);
    sink->rest = sizeof length + h->json.used;
    lnt_status status = lnt_st_put(sink, &length, sizeof length);
    if (!status) status = lnt_st_put(sink, h->json.text, h->json.used);
    if (!status) status = each_in_order(sink->entries, entry_count, make_entry, sink);
    lnt_st_put_digits(lnt_crc64_finish(&sink->crc), digits);
    if (!status) status = lnt_file_patch(&sink->file, sizeof length + h->digits_from, digits, DIGITS);
    return status ? status : lnt_file_commit(&sink->file);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Checks, and the header; the caller releases h->json.capacity bytes of its text. */
static lnt_status open_header(lnt_ctx *ctx, const lnt_st_entry *entries, size_t entry_count,
                              const lnt_st_meta *meta, size_t meta_count, bool made, header_text *h)
{
    const lnt_status status = check_input(ctx, entries, entry_count, meta, meta_count, made);
    if (status) return status;
    header_text counted = { 0 };
    put_header(&counted, entries, entry_count, meta, meta_count);
    const size_t bytes = counted.json.used;
    if (bytes > LNT_JSON_MAX_BYTES)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "safetensors: names and metadata take %zu bytes, at most %d", bytes,
                        LNT_JSON_MAX_BYTES);
    *h = (header_text){ .json.capacity = bytes };
    h->json.text = lnt_allocate(ctx, bytes, "a safetensors header");
    if (!h->json.text) return LNT_ERR_MEMORY;
    put_header(h, entries, entry_count, meta, meta_count);
    return LNT_OK;
}

lnt_status lnt_safetensors_write(lnt_ctx *ctx, const char *path, const lnt_st_entry *entries,
                                 size_t entry_count, const lnt_st_meta *meta, size_t meta_count)
{
    header_text h;
    lnt_status status = open_header(ctx, entries, entry_count, meta, meta_count, false, &h);
    if (status) return status;
    status = write_file(ctx, path, &h, entries, entry_count);
    lnt_release(ctx, h.json.text, h.json.capacity);
    return status;
}

lnt_status lnt_safetensors_write_made(lnt_ctx *ctx, const char *path, const lnt_st_entry *entries,
                                      size_t entry_count, const lnt_st_meta *meta, size_t meta_count,
                                      lnt_st_make make, void *user)
{
    header_text h;
    lnt_st_sink sink = { .entries = entries, .make = make, .user = user };
    lnt_status status = open_header(ctx, entries, entry_count, meta, meta_count, true, &h);
    if (status) return status;
    status = lnt_file_create(ctx, path, &sink.file);
    if (!status) status = lnt_file_patch(&sink.file, 0, NULL, 0); /* whether it can, before all the work */
    if (!status) status = write_made(&sink, &h, entry_count);
    if (status) lnt_file_abort(&sink.file);
    lnt_release(ctx, h.json.text, h.json.capacity);
    return status;
}
