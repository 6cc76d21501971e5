/* model/import/vocabulary.c - see vocabulary.h.  GGUF keeps a tokenizer in its metadata; a directory has
 * tokenizer.json, and the template in tokenizer_config.json or chat_template.jinja; llama2.c's is a file
 * beside the model, and it has no template. */
#include "model/import/vocabulary.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

/* ---- GGUF ---------------------------------------------------------------------------------- */

#define KEY(name) "tokenizer.ggml." name

/* Arrays of a GGUF file, unpacked for the time a codec is opened. */
typedef struct arrays {
    lnt_ctx *ctx;
    lnt_text *token, *merge;
    float *score;
    int32_t *type;
    size_t tokens, merges;
} arrays;

static void release(arrays *a)
{
    lnt_release(a->ctx, a->token, a->tokens * sizeof *a->token);
    lnt_release(a->ctx, a->merge, a->merges * sizeof *a->merge);
    lnt_release(a->ctx, a->score, a->tokens * sizeof *a->score);
    lnt_release(a->ctx, a->type, a->tokens * sizeof *a->type);
}

/* The strings of an array that must be there, [*count]. */
static lnt_text *read_strings(lnt_source *s, const char *key, size_t *count)
{
    lnt_gguf_value list;
    s->status = lnt_gguf_get_array(s->ctx, s->tensors.gguf, key, LNT_GGUF_STRING, &list);
    if (s->status) return NULL;
    lnt_text *out = lnt_allocate(s->ctx, list.count * sizeof *out, "the tokens of a vocabulary");
    if (!out) {
        s->status = LNT_ERR_MEMORY;
        return NULL;
    }
    *count = list.count;
    lnt_gguf_string text;
    for (size_t i = 0; i < *count && lnt_gguf_next_string(&list, &text); i++)
        out[i] = (lnt_text){ text.text, text.bytes };
    return out;
}

/* An array of numbers, one a token; false where it is absent. */
static bool find_numbers(lnt_source *s, const char *key, lnt_gguf_type element, size_t tokens,
                         lnt_gguf_value *list)
{
    if (s->status || !lnt_gguf_find(s->tensors.gguf, key)) return false;
    s->status = lnt_gguf_get_array(s->ctx, s->tensors.gguf, key, element, list);
    if (!s->status && list->count != tokens)
        s->status = lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s has %zu numbers for %zu tokens",
                             s->path, key, list->count, tokens);
    return !s->status;
}

static void *room_for(lnt_source *s, size_t count, size_t size)
{
    void *memory = lnt_allocate(s->ctx, count * size, "the numbers of a vocabulary");
    if (!memory) s->status = LNT_ERR_MEMORY;
    return memory;
}

static void read_arrays(lnt_source *s, arrays *a)
{
    lnt_gguf_value list;
    a->token = read_strings(s, KEY("tokens"), &a->tokens);
    if (!s->status && lnt_gguf_find(s->tensors.gguf, KEY("merges")))
        a->merge = read_strings(s, KEY("merges"), &a->merges);
    if (find_numbers(s, KEY("scores"), LNT_GGUF_F64, a->tokens, &list) &&
        (a->score = room_for(s, a->tokens, sizeof *a->score)))
        for (size_t i = 0; i < a->tokens; i++) a->score[i] = (float)lnt_gguf_real_at(&list, i);
    if (find_numbers(s, KEY("token_type"), LNT_GGUF_I64, a->tokens, &list) &&
        (a->type = room_for(s, a->tokens, sizeof *a->type)))
        for (size_t i = 0; i < a->tokens; i++) a->type[i] = (int32_t)lnt_gguf_integer_at(&list, i);
}

static lnt_text text_at(lnt_source *s, const char *key)
{
    const lnt_source_text text = lnt_source_text_of(s, key, NULL);
    return (lnt_text){ text.text, text.bytes };
}

static lnt_said said(lnt_source *s, const char *key)
{
    if (!lnt_source_has(s, key, NULL)) return LNT_UNSAID;
    return lnt_source_flag_or(s, key, NULL, false) ? LNT_SAID_YES : LNT_SAID_NO;
}

static void open_gguf(lnt_source *s, lnt_codec **out)
{
    arrays a = { .ctx = s->ctx };
    read_arrays(s, &a);
#define TOKEN(name) lnt_source_whole_or(s, KEY(name "_token_id"), NULL, LNT_NO_TOKEN)
    const lnt_vocabulary v = { .path = s->path,
                               .model = text_at(s, KEY("model")),
                               .pre = text_at(s, KEY("pre")),
                               .count = a.tokens,
                               .token = a.token,
                               .score = a.score,
                               .type = a.type,
                               .merges = a.merges,
                               .merge = a.merge,
                               .charsmap = { NULL, 0 },
                               .bos = TOKEN("bos"),
                               .eos = TOKEN("eos"),
                               .unknown = TOKEN("unknown"),
                               .separator = TOKEN("seperator"), /* as the format spells it */
                               .padding = TOKEN("padding"),
                               .classify = TOKEN("cls"),
                               .mask = TOKEN("mask"),
                               .add_bos = said(s, KEY("add_bos_token")),
                               .add_eos = said(s, KEY("add_eos_token")),
                               .add_space_prefix = said(s, KEY("add_space_prefix")),
                               .remove_extra_whitespaces = said(s, KEY("remove_extra_whitespaces")) };
#undef TOKEN
    if (!s->status) s->status = lnt_codec_open_vocabulary(s->ctx, &v, out);
    release(&a);
}

/* ---- the file to open it from again ----------------------------------------------------------- */

/* Bytes in the making: without `to` they are counted. */
typedef struct blob {
    char *to;
    size_t used;
} blob;

static void put(blob *b, const void *from, size_t count)
{
    if (b->to) memcpy(b->to + b->used, from, count);
    b->used += count;
}

static void put_u32(blob *b, uint32_t value) { put(b, &value, sizeof value); }
static void put_u64(blob *b, uint64_t value) { put(b, &value, sizeof value); }

static bool is_ours(const lnt_gguf_key *key)
{
    return key->name.bytes > strlen(KEY("")) && memcmp(key->name.text, KEY(""), strlen(KEY(""))) == 0;
}

static void put_key(blob *b, const lnt_gguf_key *key)
{
    const lnt_gguf_value *v = &key->value;
    put_u64(b, key->name.bytes);
    put(b, key->name.text, key->name.bytes);
    put_u32(b, (uint32_t)v->type);
    if (v->type == LNT_GGUF_ARRAY) put_u32(b, (uint32_t)v->element);
    if (v->type == LNT_GGUF_ARRAY) put_u64(b, v->count);
    if (v->type == LNT_GGUF_STRING) put_u64(b, v->bytes);
    put(b, v->data, v->bytes);
}

/* A GGUF file without tensors: the keys of the tokenizer, as they are. */
static void put_gguf(blob *b, const lnt_gguf *gguf)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < gguf->key_count; i++) keys += is_ours(&gguf->keys[i]);
    put(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, 0);
    put_u64(b, keys);
    for (size_t i = 0; i < gguf->key_count; i++)
        if (is_ours(&gguf->keys[i])) put_key(b, &gguf->keys[i]);
}

static void keep_gguf(lnt_source *s, lnt_codec_file *file)
{
    blob b = { NULL, 0 };
    put_gguf(&b, s->tensors.gguf);
    char *data = lnt_allocate(s->ctx, b.used, "a tokenizer to be saved");
    if (!data) {
        s->status = LNT_ERR_MEMORY;
        return;
    }
    *file = (lnt_codec_file){ LNT_TOKENIZER_GGUF, data, b.used };
    b = (blob){ data, 0 };
    put_gguf(&b, s->tensors.gguf);
}

/* The bytes of a file that was read once, and so is not too large. */
static void keep_file(lnt_source *s, const char *path, const char *name, lnt_codec_file *file)
{
    lnt_file_reader reader;
    s->status = lnt_file_open(s->ctx, path, &reader);
    if (s->status) return;
    const size_t size = (size_t)reader.size;
    char *data = lnt_allocate(s->ctx, size, "a tokenizer to be saved");
    s->status = data ? lnt_file_read(&reader, data, size) : LNT_ERR_MEMORY;
    lnt_file_close(&reader);
    if (s->status) lnt_release(s->ctx, data, size);
    else *file = (lnt_codec_file){ name, data, size };
}

/* ---- llama2.c ------------------------------------------------------------------------------ */

static void open_llama2c(lnt_source *s, const char *given, lnt_codec **out, lnt_codec_file *file)
{
    char beside[PATH_MAX] = "";
    const lnt_stored *embed = lnt_tensors_find(&s->tensors, "embed_tokens.weight");
    if (!given) s->status = lnt_llama2c_tokenizer(s->ctx, s->path, beside);
    const char *path = given ? given : beside;
    if (s->status || !*path) return;
    s->status = lnt_codec_open_llama2c(s->ctx, path, (size_t)embed->shape[0], out);
    if (!s->status) keep_file(s, path, LNT_TOKENIZER_LLAMA2C, file);
}

/* ---- all of them --------------------------------------------------------------------------- */

static void open_directory(lnt_source *s, lnt_codec **out, lnt_codec_file *file)
{
    char path[PATH_MAX];
    struct stat at;
    snprintf(path, sizeof path, "%.*s/tokenizer.json", PATH_MAX - 32, s->path);
    if (stat(path, &at)) return;
    s->status = lnt_codec_open_directory(s->ctx, s->path, out);
    if (!s->status) keep_file(s, path, LNT_TOKENIZER_JSON, file);
}

lnt_status lnt_vocabulary_open(lnt_source *s, const char *given, lnt_codec **out, lnt_codec_file *file)
{
    *out = NULL;
    *file = (lnt_codec_file){ 0 };
    if (s->status) return s->status;
    if (given && s->kind != LNT_SOURCE_LLAMA2C)
        return s->status = lnt_fail(s->ctx, LNT_ERR_UNSUPPORTED,
                                    LNT_FILE_FMT ": has its tokenizer with it, and takes no other", s->path);
    if (s->kind == LNT_SOURCE_LLAMA2C) {
        open_llama2c(s, given, out, file);
    } else if (!lnt_source_is_gguf(s)) {
        open_directory(s, out, file);
    } else if (lnt_source_has(s, KEY("model"), NULL)) {
        open_gguf(s, out);
        if (!s->status) keep_gguf(s, file);
    }
    if (s->status) {
        lnt_codec_close(*out);
        *out = NULL;
    }
    return s->status;
}

lnt_status lnt_vocabulary_reopen(lnt_ctx *ctx, const char *path, const lnt_codec_file *file, lnt_codec **out)
{
    *out = NULL;
    if (strcmp(file->name, LNT_TOKENIZER_JSON) == 0)
        return lnt_codec_open_json(ctx, path, file->data, file->bytes, out);
    if (strcmp(file->name, LNT_TOKENIZER_LLAMA2C) == 0)
        return lnt_codec_parse_llama2c(ctx, path, file->data, file->bytes, LNT_ALL_TOKENS, out);
    lnt_gguf gguf;
    lnt_source s = { .ctx = ctx, .path = path };
    s.status = lnt_gguf_parse(ctx, path, file->data, file->bytes, &gguf);
    if (s.status) return s.status;
    s.tensors.gguf = &gguf;
    open_gguf(&s, out);
    lnt_gguf_close(ctx, &gguf);
    return s.status;
}

/* ---- the chat template --------------------------------------------------------------------- */

static lnt_status copy_text(lnt_source *s, const char *from, size_t bytes, char **text, size_t *count)
{
    *text = lnt_allocate(s->ctx, bytes + 1, "the chat template");
    if (!*text) return s->status = LNT_ERR_MEMORY;
    memcpy(*text, from, bytes);
    (*text)[bytes] = '\0';
    *count = bytes;
    return LNT_OK;
}

/* The file chat_template.jinja, which newer directories have. */
static lnt_status read_file(lnt_source *s, const char *path, char **text, size_t *bytes)
{
    enum { MOST = 1 << 20 };
    lnt_file_reader reader;
    s->status = lnt_file_open(s->ctx, path, &reader);
    if (s->status) return s->status;
    if (reader.size > MOST)
        s->status = lnt_fail(s->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": has %llu bytes, may have %d", path,
                             (unsigned long long)reader.size, MOST);
    if (!s->status) {
        *bytes = (size_t)reader.size;
        *text = lnt_allocate(s->ctx, *bytes + 1, "the chat template");
        s->status = *text ? lnt_file_read(&reader, *text, *bytes) : LNT_ERR_MEMORY;
        if (*text) (*text)[*bytes] = '\0';
    }
    lnt_file_close(&reader);
    return s->status;
}

/* "chat_template" of tokenizer_config.json: a text, or a list of named ones, of which "default" is taken. */
static lnt_status read_config(lnt_source *s, char **text, size_t *bytes)
{
    lnt_json json;
    s->status = lnt_source_json(s->ctx, s->path, "tokenizer_config.json", &json);
    if (s->status) return s->status;
    const lnt_json_node *node = json.root ? lnt_json_member(json.root, "chat_template") : NULL;
    if (node && node->type == LNT_JSON_ARRAY) {
        const lnt_json_node *found = NULL;
        for (const lnt_json_node *each = node->child; each; each = each->next) {
            const lnt_json_node *name = lnt_json_member(each, "name");
            if (name && name->type == LNT_JSON_STRING && strcmp(name->text, "default") == 0)
                found = lnt_json_member(each, "template");
        }
        node = found;
    }
    if (node && node->type == LNT_JSON_STRING) copy_text(s, node->text, strlen(node->text), text, bytes);
    lnt_json_free(s->ctx, &json);
    return s->status;
}

lnt_status lnt_vocabulary_template(lnt_source *s, char **text, size_t *bytes)
{
    char path[PATH_MAX];
    struct stat at;
    *text = NULL;
    *bytes = 0;
    if (s->status) return s->status;
    if (lnt_source_is_gguf(s)) {
        const lnt_source_text found = lnt_source_text_of(s, "tokenizer.chat_template", NULL);
        return found.bytes && !s->status ? copy_text(s, found.text, found.bytes, text, bytes) : s->status;
    }
    if (s->kind == LNT_SOURCE_LLAMA2C) return LNT_OK;
    snprintf(path, sizeof path, "%.*s/chat_template.jinja", PATH_MAX - 32, s->path);
    return stat(path, &at) ? read_config(s, text, bytes) : read_file(s, path, text, bytes);
}
