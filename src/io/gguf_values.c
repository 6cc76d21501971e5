/* io/gguf_values.c - the metadata of a GGUF file by key: found by halving, O(log n), and read as what it
 * must be.
 *
 * Numbers stand in the file without alignment, so they are copied out byte by byte. */
#include <assert.h>
#include <string.h>

#include "io/file.h"
#include "io/gguf.h"

static const struct {
    const char *name; /* as it stands in a sentence */
    size_t size;
    bool integer;
} types[] = {
    [LNT_GGUF_U8] = { "an integer", 1, true },    [LNT_GGUF_I8] = { "an integer", 1, true },
    [LNT_GGUF_U16] = { "an integer", 2, true },   [LNT_GGUF_I16] = { "an integer", 2, true },
    [LNT_GGUF_U32] = { "an integer", 4, true },   [LNT_GGUF_I32] = { "an integer", 4, true },
    [LNT_GGUF_F32] = { "a real number", 4, false }, [LNT_GGUF_BOOL] = { "a boolean", 1, false },
    [LNT_GGUF_STRING] = { "a string", 0, false }, [LNT_GGUF_ARRAY] = { "an array", 0, false },
    [LNT_GGUF_U64] = { "an integer", 8, true },   [LNT_GGUF_I64] = { "an integer", 8, true },
    [LNT_GGUF_F64] = { "a real number", 8, false },
};

size_t lnt_gguf_size(lnt_gguf_type type) { return types[type].size; }

int lnt_gguf_compare(lnt_gguf_string a, lnt_gguf_string b)
{
    const int order = memcmp(a.text, b.text, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

const lnt_gguf_value *lnt_gguf_find(const lnt_gguf *gguf, const char *key)
{
    const lnt_gguf_string name = { key, strlen(key) };
    size_t low = 0, high = gguf->key_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = lnt_gguf_compare(name, gguf->keys[middle].name);
        if (order == 0) return &gguf->keys[middle].value;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

static bool is_real(lnt_gguf_type type) { return type == LNT_GGUF_F32 || type == LNT_GGUF_F64; }

static lnt_status wrong(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, const char *want)
{
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": key '%.60s' is missing", gguf->path, key);
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": key '%.60s' is %s, must be %s", gguf->path, key,
                    types[value->type].name, want);
}

/* Of an integer or a boolean; false if int64_t cannot hold it. */
static bool integer_from(lnt_gguf_type type, const unsigned char *at, int64_t *out)
{
    uint64_t bits = 0;
    const size_t size = types[type].size;
    memcpy(&bits, at, size);
    if (type == LNT_GGUF_U64 && bits > INT64_MAX) return false;
    const int rest = 64 - 8 * (int)size;
    const bool sign = type == LNT_GGUF_I8 || type == LNT_GGUF_I16 || type == LNT_GGUF_I32;
    if (sign && bits >> (63 - rest) & 1) bits |= ~UINT64_C(0) << (64 - rest);
    *out = (int64_t)bits;
    return true;
}

static double real_from(lnt_gguf_type type, const unsigned char *at)
{
    float narrow;
    double wide;
    uint64_t bits;
    int64_t integer;
    if (type == LNT_GGUF_F32) return memcpy(&narrow, at, sizeof narrow), (double)narrow;
    if (type == LNT_GGUF_F64) return memcpy(&wide, at, sizeof wide), wide;
    if (integer_from(type, at, &integer)) return (double)integer;
    return memcpy(&bits, at, sizeof bits), (double)bits;
}

lnt_status lnt_gguf_get_string(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, lnt_gguf_string *out)
{
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value || value->type != LNT_GGUF_STRING) return wrong(ctx, gguf, key, "a string");
    *out = (lnt_gguf_string){ (const char *)value->data, value->bytes };
    return LNT_OK;
}

lnt_status lnt_gguf_get_integer(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, int64_t *out)
{
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value || !types[value->type].integer) return wrong(ctx, gguf, key, "an integer");
    return integer_from(value->type, value->data, out) ? LNT_OK : wrong(ctx, gguf, key, "one below 2^63");
}

lnt_status lnt_gguf_get_real(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, double *out)
{
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value || !(types[value->type].integer || is_real(value->type)))
        return wrong(ctx, gguf, key, "a number");
    *out = real_from(value->type, value->data);
    return LNT_OK;
}

lnt_status lnt_gguf_get_bool(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, bool *out)
{
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value || value->type != LNT_GGUF_BOOL) return wrong(ctx, gguf, key, "a boolean");
    *out = *value->data != 0;
    return LNT_OK;
}

lnt_status lnt_gguf_get_array(lnt_ctx *ctx, const lnt_gguf *gguf, const char *key, lnt_gguf_type element,
                              lnt_gguf_value *out)
{
    assert(element == LNT_GGUF_STRING || element == LNT_GGUF_I64 || element == LNT_GGUF_F64);
    const char *want = element == LNT_GGUF_STRING ? "an array of strings"
                       : element == LNT_GGUF_I64  ? "an array of integers"
                                                  : "an array of numbers";
    const lnt_gguf_value *value = lnt_gguf_find(gguf, key);
    if (!value || value->type != LNT_GGUF_ARRAY) return wrong(ctx, gguf, key, want);
    const lnt_gguf_type found = value->element;
    const bool integer = types[found].integer || found == LNT_GGUF_BOOL;
    if (element == LNT_GGUF_STRING ? found != LNT_GGUF_STRING
                                   : !integer && !(element == LNT_GGUF_F64 && is_real(found)))
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": key '%.60s' is an array of which each is %s, must be %s", gguf->path,
                        key, types[found].name, want);
    *out = *value;
    return LNT_OK;
}

int64_t lnt_gguf_integer_at(const lnt_gguf_value *array, size_t i)
{
    assert(array->type == LNT_GGUF_ARRAY && i < array->count && types[array->element].size);
    int64_t value;
    if (!integer_from(array->element, array->data + i * types[array->element].size, &value)) return INT64_MAX;
    return value;
}

double lnt_gguf_real_at(const lnt_gguf_value *array, size_t i)
{
    assert(array->type == LNT_GGUF_ARRAY && i < array->count && types[array->element].size);
    return real_from(array->element, array->data + i * types[array->element].size);
}

bool lnt_gguf_next_string(lnt_gguf_value *rest, lnt_gguf_string *out)
{
    assert(rest->type == LNT_GGUF_ARRAY && rest->element == LNT_GGUF_STRING);
    uint64_t bytes;
    if (!rest->count || rest->bytes < sizeof bytes) return false;
    memcpy(&bytes, rest->data, sizeof bytes);
    if (bytes > rest->bytes - sizeof bytes) return false; /* the file was written in place since */
    *out = (lnt_gguf_string){ (const char *)rest->data + sizeof bytes, (size_t)bytes };
    rest->data += sizeof bytes + bytes;
    rest->bytes -= sizeof bytes + (size_t)bytes;
    rest->count--;
    return true;
}
