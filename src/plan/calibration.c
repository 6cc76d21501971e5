/* plan/calibration.c - what lnt_ctx_calibrate measured, as a file: JSON with the library, the machine and
 * the seconds per FLOP of each algorithm by dtype, in digits that give the same doubles again. */
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "device/device.h"
#include "io/file.h"
#include "io/json.h"
#include "io/number.h"

#define FORMAT "linnet calibration 1"
enum { MAX_BYTES = 1 << 16, MOST_SECONDS = 1 /* per FLOP */, FACTS = 5 };

typedef double rates[LNT_F64 + 1][LNT_MAX_ALGORITHMS];

/* What a file and the context that takes it have in common. */
typedef struct fact {
    const char *key, *text; /* text NULL: it is the number */
    int number;
} fact;

/* The facts of ctx in order: the format and the version decide whether the others can be read. */
static lnt_status collect(lnt_ctx *ctx, lnt_device_info *device, fact out[FACTS])
{
    *device = (lnt_device_info){ .size = sizeof *device };
    const lnt_status status = lnt_device_of(ctx)->describe(ctx, device);
    if (status) return status;
    const fact facts[FACTS] = { { "format", FORMAT, 0 },
                                { "version", lnt_version(), 0 },
                                { "isa", lnt_ctx_isa(ctx), 0 },
                                { "threads", NULL, ctx->threads },
                                { "device", device->name, 0 } };
    memcpy(out, facts, sizeof facts);
    return LNT_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_rates(const lnt_ctx *ctx, int dtype, lnt_json_text *out)
{
    const char *before = "";
    char number[LNT_NUMBER_TEXT];
    for (int i = 0; i < lnt_registry_count(); i++) {
        if (!(ctx->seconds_per_flop[dtype][i] > 0)) continue;
        lnt_json_put(out, before);
        lnt_json_put(out, "\n      ");
        lnt_json_put_string(out, lnt_algorithm_name(i));
        lnt_number_write(ctx->seconds_per_flop[dtype][i], 17, number);
        lnt_json_put(out, ": ");
        lnt_json_put(out, number);
        before = ",";
    }
}

static void put_all(const lnt_ctx *ctx, const fact facts[FACTS], lnt_json_text *out)
{
    char number[LNT_NUMBER_TEXT];
    for (int i = 0; i < FACTS; i++) {
        lnt_json_put(out, i ? ",\n  " : "{\n  ");
        lnt_json_put_string(out, facts[i].key);
        lnt_json_put(out, ": ");
        snprintf(number, sizeof number, "%d", facts[i].number);
        if (facts[i].text) lnt_json_put_string(out, facts[i].text);
        else lnt_json_put(out, number);
    }
    lnt_json_put(out, ",\n  \"seconds_per_flop\": {");
    for (int d = 0; d <= LNT_F64; d++) {
        lnt_json_put(out, d ? ",\n    " : "\n    ");
        lnt_json_put_string(out, lnt_dtype_name((lnt_dtype)d));
        lnt_json_put(out, ": {");
        put_rates(ctx, d, out);
        lnt_json_put(out, "}");
    }
    lnt_json_put(out, "\n  }\n}\n");
}

static bool is_calibrated(rates measured)
{
    for (int d = 0; d <= LNT_F64; d++)
        for (int i = 0; i < lnt_registry_count(); i++)
            if (measured[d][i] > 0) return true;
    return false;
}

static lnt_status write_text(lnt_ctx *ctx, const char *path, const lnt_json_text *text)
{
    lnt_file_writer writer;
    lnt_status status = lnt_file_create(ctx, path, &writer);
    if (!status) status = lnt_file_write(&writer, text->text, text->used);
    return status ? status : lnt_file_commit(&writer);
}

lnt_status lnt_calibration_save(lnt_ctx *ctx, const char *path)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    if (!is_calibrated(ctx->seconds_per_flop))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "ctx has no calibration to save; lnt_ctx_calibrate measures one");
    lnt_device_info device;
    fact facts[FACTS];
    lnt_status status = collect(ctx, &device, facts);
    if (status) return status;
    lnt_json_text text = { 0 };
    put_all(ctx, facts, &text);
    const size_t bytes = text.used;
    text = (lnt_json_text){ lnt_allocate(ctx, bytes, "the text of a calibration"), bytes, 0 };
    if (!text.text) return LNT_ERR_MEMORY;
    put_all(ctx, facts, &text);
    status = write_text(ctx, path, &text);
    lnt_release(ctx, text.text, bytes);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------- */

static lnt_status broken(lnt_ctx *ctx, const char *path, const char *what, const char *key,
                         const char *allowed)
{
    return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s '%.60s' %s", path, what, key, allowed);
}

static lnt_status compare(lnt_ctx *ctx, const char *path, const lnt_json_node *root, const fact *here)
{
    const lnt_json_node *node = lnt_json_member(root, here->key);
    if (!node || node->type != (here->text ? LNT_JSON_STRING : LNT_JSON_INTEGER))
        return broken(ctx, path, "its", here->key,
                      here->text ? "must be a string" : "must be a whole number");
    if (here->text && strcmp(node->text, here->text) != 0)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": its %s is '%.60s', here it is '%.60s'; calibrate again", path,
                        here->key, node->text, here->text);
    if (!here->text && node->integer != here->number)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        LNT_FILE_FMT ": its %s is %lld, here it is %d; calibrate again", path, here->key,
                        (long long)node->integer, here->number);
    return LNT_OK;
}

static lnt_status read_rates(lnt_ctx *ctx, const char *path, const lnt_json_node *of_dtype, rates out)
{
    int dtype = 0;
    while (dtype <= LNT_F64 && strcmp(of_dtype->key, lnt_dtype_name((lnt_dtype)dtype)) != 0) dtype++;
    if (dtype > LNT_F64) return broken(ctx, path, "the dtype", of_dtype->key, "is not one of the library");
    if (of_dtype->type != LNT_JSON_OBJECT)
        return broken(ctx, path, "the rates of", of_dtype->key, "must be an object");
    for (const lnt_json_node *rate = of_dtype->child; rate; rate = rate->next) {
        const int index = lnt_registry_find(rate->key);
        if (index < 0) return broken(ctx, path, "the algorithm", rate->key, "is not one of the library");
        const bool is_number = rate->type == LNT_JSON_INTEGER || rate->type == LNT_JSON_REAL;
        if (!is_number || !(rate->real > 0 && rate->real <= MOST_SECONDS))
            return broken(ctx, path, "the rate of", rate->key, "must be a number above 0 and at most 1");
        out[dtype][index] = rate->real;
    }
    return LNT_OK;
}

static lnt_status read_all(lnt_ctx *ctx, const char *path, const lnt_json_node *root, rates out)
{
    lnt_device_info device;
    fact facts[FACTS];
    lnt_status status = collect(ctx, &device, facts);
    if (status) return status;
    const lnt_json_node *format = lnt_json_member(root, "format");
    if (!format || format->type != LNT_JSON_STRING || strcmp(format->text, FORMAT) != 0)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": its 'format' must be '" FORMAT "'", path);
    for (int i = 1; i < FACTS && !status; i++) status = compare(ctx, path, root, &facts[i]);
    const lnt_json_node *measured = lnt_json_member(root, "seconds_per_flop");
    if (!status && (!measured || measured->type != LNT_JSON_OBJECT))
        status = broken(ctx, path, "its", "seconds_per_flop", "must be an object");
    if (status) return status;
    for (const lnt_json_node *d = measured->child; d && !status; d = d->next)
        status = read_rates(ctx, path, d, out);
    if (!status && !is_calibrated(out)) status = broken(ctx, path, "its", "seconds_per_flop", "has no rate");
    return status;
}

static lnt_status read_text(lnt_file_reader *reader, char *text, rates out)
{
    lnt_json json;
    lnt_status status = lnt_file_read(reader, text, (size_t)reader->size);
    if (!status) status = lnt_json_parse(reader->ctx, reader->path, NULL, text, (size_t)reader->size, &json);
    if (status) return status;
    status = read_all(reader->ctx, reader->path, json.root, out);
    lnt_json_free(reader->ctx, &json);
    return status;
}

lnt_status lnt_calibration_load(lnt_ctx *ctx, const char *path)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!path) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "path is NULL");
    rates measured = { { 0 } };
    lnt_file_reader reader;
    lnt_status status = lnt_file_open(ctx, path, &reader);
    if (status) return status;
    char *text = NULL;
    if (reader.size > MAX_BYTES)
        status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is %llu bytes, a calibration is at most %d",
                          path, (unsigned long long)reader.size, MAX_BYTES);
    else if (!(text = lnt_allocate(ctx, MAX_BYTES, "the text of a calibration"))) status = LNT_ERR_MEMORY;
    if (!status) status = read_text(&reader, text, measured);
    lnt_file_close(&reader);
    lnt_release(ctx, text, MAX_BYTES);
    if (!status) memcpy(ctx->seconds_per_flop, measured, sizeof measured);
    return status;
}
