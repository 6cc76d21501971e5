/* model/import/source.c - see source.h. */
#include "model/import/source.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- opening ------------------------------------------------------------------------------- */

lnt_status lnt_source_json(lnt_ctx *ctx, const char *directory, const char *name, lnt_json *out)
{
    char path[PATH_MAX];
    struct stat at;
    lnt_file_reader reader;
    *out = (lnt_json){ 0 };
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return lnt_fail(ctx, LNT_ERR_FILE, LNT_FILE_FMT ": the path is too long", directory);
    if (stat(path, &at)) return LNT_OK;
    lnt_status status = lnt_file_open(ctx, path, &reader);
    if (status) return status;
    if (reader.size > LNT_JSON_MAX_BYTES)
        status = lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has %llu bytes, may have %d", path,
                          (unsigned long long)reader.size, LNT_JSON_MAX_BYTES);
    const size_t bytes = (size_t)reader.size;
    char *text = status ? NULL : lnt_allocate(ctx, bytes, "a JSON file");
    if (!status && !text) status = LNT_ERR_MEMORY;
    if (!status) status = lnt_file_read(&reader, text, bytes);
    if (!status) status = lnt_json_parse(ctx, path, NULL, text, bytes, out);
    lnt_release(ctx, text, bytes);
    lnt_file_close(&reader);
    return status;
}

/* general.architecture; or the first of "architectures", else "model_type". */
static void find_name(lnt_source *s)
{
    lnt_gguf_string word = { NULL, 0 };
    if (lnt_source_is_gguf(s)) {
        s->status = lnt_gguf_get_string(s->ctx, s->tensors.gguf, "general.architecture", &word);
    } else {
        const lnt_json_node *list = lnt_json_member(s->config.root, "architectures");
        const lnt_json_node *node = list && list->type == LNT_JSON_ARRAY ? list->child : NULL;
        if (!node) node = lnt_json_member(s->config.root, "model_type");
        if (node && node->type == LNT_JSON_STRING)
            word = (lnt_gguf_string){ node->text, strlen(node->text) };
        else
            s->status =
                lnt_fail(s->ctx, LNT_ERR_FORMAT,
                         LNT_FILE_FMT ": config.json has neither architectures nor model_type", s->path);
    }
    if (!s->status && word.bytes >= sizeof s->name)
        s->status = lnt_fail(s->ctx, LNT_ERR_FORMAT,
                             LNT_FILE_FMT ": the name of its architecture has %zu bytes, may have %d",
                             s->path, word.bytes, LNT_SOURCE_NAME - 1);
    if (!s->status) memcpy(s->name, word.text, word.bytes);
}

static void open_llama2c(lnt_source *s, const char *path)
{
    lnt_llama2c *file = &s->llama2c;
    s->kind = LNT_SOURCE_LLAMA2C;
    s->status = lnt_llama2c_open(s->ctx, path, file);
    if (s->status) return;
    s->path = file->path;
    s->tensors = (lnt_tensors){ .entries = file->tensors, .count = file->count, .path = file->path };
    s->status = lnt_json_parse(s->ctx, s->path, "header", file->config, strlen(file->config), &s->config);
}

/* A GGUF file or a directory. */
static void open_tensors(lnt_source *s, const char *path)
{
    s->status = lnt_tensors_open(s->ctx, path, &s->tensors);
    if (s->status || s->tensors.gguf) return;
    s->kind = LNT_SOURCE_DIRECTORY;
    s->status = lnt_source_json(s->ctx, path, "config.json", &s->config);
    if (!s->status && !s->config.root)
        s->status = lnt_fail(s->ctx, LNT_ERR_FILE, LNT_FILE_FMT ": there is no config.json", path);
}

lnt_status lnt_source_open(lnt_ctx *ctx, const char *path, lnt_source *out)
{
    *out = (lnt_source){ .ctx = ctx, .path = path };
    if (lnt_llama2c_takes(path))
        open_llama2c(out, path);
    else
        open_tensors(out, path);
    if (!out->status) find_name(out);
    const lnt_status status = out->status;
    if (status) lnt_source_close(out);
    return status;
}

void lnt_source_close(lnt_source *s)
{
    lnt_json_free(s->ctx, &s->config);
    lnt_tensors_close(s->ctx, &s->tensors); /* of llama2.c it owns nothing */
    lnt_llama2c_close(s->ctx, &s->llama2c);
}

void lnt_source_refuse(lnt_source *s, const char *format, ...)
{
    char sentence[256];
    va_list list;
    if (s->status) return;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    s->status = lnt_fail(s->ctx, LNT_ERR_UNSUPPORTED, LNT_FILE_FMT ": %s: %s", s->path, s->name, sentence);
}

/* ---- values -------------------------------------------------------------------------------- */

enum { KEY = 160 };

/* The key of a GGUF file: "general." and "tokenizer." stand as they are. */
static const char *gguf_key(const lnt_source *s, const char *key, char out[KEY])
{
    const bool whole = strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0;
    snprintf(out, KEY, "%s%s%s", whole ? "" : s->name, whole ? "" : ".", key);
    return out;
}

/* The node at a dotted key; NULL where there is none, or where it is null. */
static const lnt_json_node *json_node(const lnt_source *s, const char *key)
{
    const lnt_json_node *node = s->config.root;
    char part[KEY];
    while (node && *key) {
        const size_t bytes = strcspn(key, ".");
        snprintf(part, sizeof part, "%.*s", (int)bytes, key);
        node = lnt_json_member(node, part);
        key += bytes + (key[bytes] == '.');
    }
    return node && node->type != LNT_JSON_NULL ? node : NULL;
}

/* One value, from whichever file it is. */
typedef struct found {
    bool there;
    const lnt_json_node *node; /* of config.json */
    char key[KEY];             /* as it stands in the file */
} found;

static found find(const lnt_source *s, const char *gguf, const char *json)
{
    found f = { 0 };
    if (lnt_source_is_gguf(s)) {
        if (gguf) f.there = lnt_gguf_find(s->tensors.gguf, gguf_key(s, gguf, f.key)) != NULL;
    } else if (json) {
        snprintf(f.key, sizeof f.key, "%s", json);
        f.node = json_node(s, json);
        f.there = f.node != NULL;
    }
    return f;
}

bool lnt_source_has(const lnt_source *s, const char *gguf, const char *json)
{
    return find(s, gguf, json).there;
}

static void refuse_value(lnt_source *s, const found *f, const char *wanted)
{
    s->status = lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s must be %s", s->path, f->key, wanted);
}

/* The first of an array stands for all: GGUF may have a value for each block. */
static int64_t whole_of(lnt_source *s, const found *f)
{
    int64_t x = 0;
    const lnt_json_node *node = f->node;
    if (node && node->type == LNT_JSON_ARRAY) node = node->child;
    if (f->node && node && node->type == LNT_JSON_INTEGER) return node->integer;
    if (f->node)
        refuse_value(s, f, "a whole number");
    else
        s->status = lnt_gguf_get_integer(s->ctx, s->tensors.gguf, f->key, &x);
    return x;
}

/* What was found, in bounds. */
static int64_t bounded(lnt_source *s, const found *f, int64_t least, int64_t most)
{
    const int64_t x = whole_of(s, f);
    if (!s->status && (x < least || x > most))
        s->status = lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s is %lld, must be %lld to %lld",
                             s->path, f->key, (long long)x, (long long)least, (long long)most);
    return s->status ? least : x;
}

int64_t lnt_source_whole(lnt_source *s, const char *gguf, const char *json, int64_t least, int64_t most)
{
    if (s->status) return least;
    const found f = find(s, gguf, json);
    if (f.there) return bounded(s, &f, least, most);
    s->status =
        lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s is missing", s->path, f.key[0] ? f.key : json);
    return least;
}

int64_t lnt_source_whole_in(lnt_source *s, const char *gguf, const char *json, int64_t otherwise,
                            int64_t least, int64_t most)
{
    if (s->status) return otherwise;
    const found f = find(s, gguf, json);
    return f.there ? bounded(s, &f, least, most) : otherwise;
}

int64_t lnt_source_whole_or(lnt_source *s, const char *gguf, const char *json, int64_t otherwise)
{
    if (s->status) return otherwise;
    const found f = find(s, gguf, json);
    return f.there ? whole_of(s, &f) : otherwise;
}

double lnt_source_real_or(lnt_source *s, const char *gguf, const char *json, double otherwise)
{
    if (s->status) return otherwise;
    const found f = find(s, gguf, json);
    double x = otherwise;
    if (!f.there) return x;
    if (f.node && (f.node->type == LNT_JSON_INTEGER || f.node->type == LNT_JSON_REAL))
        x = f.node->real;
    else if (f.node)
        refuse_value(s, &f, "a number");
    else
        s->status = lnt_gguf_get_real(s->ctx, s->tensors.gguf, f.key, &x);
    if (!s->status && !isfinite(x)) refuse_value(s, &f, "a finite number");
    return x;
}

bool lnt_source_flag_or(lnt_source *s, const char *gguf, const char *json, bool otherwise)
{
    if (s->status) return otherwise;
    const found f = find(s, gguf, json);
    bool x = otherwise;
    if (!f.there) return x;
    if (f.node && (f.node->type == LNT_JSON_TRUE || f.node->type == LNT_JSON_FALSE))
        return f.node->type == LNT_JSON_TRUE;
    if (f.node)
        refuse_value(s, &f, "true or false");
    else
        s->status = lnt_gguf_get_bool(s->ctx, s->tensors.gguf, f.key, &x);
    return x;
}

lnt_source_text lnt_source_text_of(lnt_source *s, const char *gguf, const char *json)
{
    const found f = s->status ? (found){ 0 } : find(s, gguf, json);
    lnt_gguf_string text = { "", 0 };
    if (f.node && f.node->type == LNT_JSON_STRING)
        text = (lnt_gguf_string){ f.node->text, strlen(f.node->text) };
    else if (f.node)
        refuse_value(s, &f, "a text");
    else if (f.there)
        s->status = lnt_gguf_get_string(s->ctx, s->tensors.gguf, f.key, &text);
    return (lnt_source_text){ text.text, text.bytes };
}

bool lnt_source_text_is(lnt_source_text text, const char *word)
{
    return text.bytes == strlen(word) && memcmp(text.text, word, text.bytes) == 0;
}
