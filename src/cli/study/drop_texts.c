/* cli/study/drop_texts.c - texts for the study drop-in: so many words each, from a file or from a directory
 * of .txt files. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/study/drop_in.h"
#include "cli/text_buffer.h"

/* Texts on their way to tokens. */
typedef struct reading {
    lnt_ctx *ctx;
    const lnt_model *model;
    int64_t words, wanted, most; /* tokens of a text at most */
    int32_t *text[DROP_TEXTS];
    drop_texts *out;
} reading;

static int is_text(const struct dirent *entry)
{
    const size_t bytes = strlen(entry->d_name);
    return bytes > 4 && !strcmp(entry->d_name + bytes - 4, ".txt");
}

/* The end of the word that begins at or after `at`; NULL: there is none. */
static const char *word_end(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at)) at++;
    if (at == end) return NULL;
    while (at < end && !isspace((unsigned char)*at)) at++;
    return at;
}

static int tokenize(lnt_ctx *ctx, const lnt_model *model, const char *text, size_t bytes, int32_t **tokens,
                    size_t *count)
{
    *tokens = NULL;
    if (lnt_model_tokenize(model, text, bytes, LNT_TEXT_FRAMED | LNT_TEXT_VERBATIM, NULL, 0, count))
        return fail_ctx(ctx);
    *tokens = malloc((*count + 1) * sizeof **tokens);
    if (!*tokens) return fail_memory((*count + 1) * sizeof **tokens);
    if (lnt_model_tokenize(model, text, bytes, LNT_TEXT_FRAMED | LNT_TEXT_VERBATIM, *tokens, *count, count))
        return fail_ctx(ctx);
    return EXIT_OK;
}

/* One text more.  Of one that is too long the token that ends it is kept. */
static int add_text(reading *r, const char *text, size_t bytes)
{
    drop_texts *out = r->out;
    size_t count;
    int32_t *tokens;
    const int status = tokenize(r->ctx, r->model, text, bytes, &tokens, &count);
    r->text[out->count] = tokens;
    if (status || count == 0) return status;
    if ((int64_t)count > r->most) {
        tokens[r->most - 1] = tokens[count - 1];
        count = (size_t)r->most;
    }
    out->lengths[out->count++] = (int64_t)count;
    if ((int64_t)count > out->longest) out->longest = (int64_t)count;
    return EXIT_OK;
}

/* At most `most` texts of a file. */
static int cut_file(reading *r, const char *path, int64_t most)
{
    text_buffer file = { 0 };
    int status = text_buffer_read(&file, path);
    const char *at = file.text, *end = file.text ? file.text + file.used : NULL;
    while (!status && at && most-- > 0 && r->out->count < r->wanted) {
        const char *last = at;
        for (int64_t w = 0; w < r->words && last; w++) last = word_end(last, end);
        if (last) status = add_text(r, at, (size_t)(last - at));
        at = last;
    }
    free(file.text);
    return status;
}

static int cut_directory(reading *r, const char *path)
{
    struct dirent **names;
    char inside[PATH_MAX];
    int status = EXIT_OK;
    const int count = scandir(path, &names, is_text, alphasort);
    if (count < 0) return fail("--data: cannot read the directory '%s'", path);
    for (int i = 0; i < count; i++) {
        const bool fits = snprintf(inside, sizeof inside, "%s/%s", path, names[i]->d_name) < PATH_MAX;
        if (!status && fits && r->out->count < r->wanted) status = cut_file(r, inside, 1);
        free(names[i]);
    }
    free(names);
    return status;
}

/* Rows of one length, the rest of each filled with token 0. */
static int join(reading *r)
{
    drop_texts *out = r->out;
    const size_t numbers = (size_t)(out->count * out->longest);
    out->tokens = calloc(numbers, sizeof *out->tokens);
    if (!out->tokens) return fail_memory(numbers * sizeof *out->tokens);
    for (int64_t t = 0; t < out->count; t++)
        memcpy(out->tokens + t * out->longest, r->text[t], (size_t)out->lengths[t] * sizeof *out->tokens);
    return EXIT_OK;
}

int drop_texts_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t words, int64_t count,
                    drop_texts *out)
{
    const char *path = opt_text(o, OPT_DATA);
    struct stat at;
    lnt_model_info info = { .size = sizeof info };
    *out = (drop_texts){ 0 };
    if (lnt_model_describe(model, &info)) return fail_ctx(ctx);
    reading r = {
        .ctx = ctx, .model = model, .words = words, .wanted = count, .out = out,
        .most = info.positions ? info.positions : info.length
    };
    int status =
        !stat(path, &at) && S_ISDIR(at.st_mode) ? cut_directory(&r, path) : cut_file(&r, path, count);
    if (!status && out->count < 2)
        status = fail("--data: '%s' has %s of %lld words, at least two texts are compared", path,
                      out->count ? "one text" : "no text", (long long)words);
    if (!status) status = join(&r);
    for (int i = 0; i < DROP_TEXTS; i++) free(r.text[i]);
    return status;
}

int drop_stream_open(const options *o, lnt_ctx *ctx, const lnt_model *model, int64_t count, int32_t **out)
{
    const char *path = opt_text(o, OPT_DATA);
    text_buffer file = { 0 };
    size_t found = 0;
    *out = NULL;
    int status = text_buffer_read(&file, path);
    const size_t most = (size_t)count * 16; /* bytes; more in a token there will not be */
    const size_t bytes = file.used < most ? file.used : most;
    if (!status) status = tokenize(ctx, model, file.text ? file.text : "", bytes, out, &found);
    free(file.text);
    if (!status && (int64_t)found < count)
        status = fail("--data: '%s' has %zu tokens, %lld are needed", path, found, (long long)count);
    if (!status) return EXIT_OK;
    free(*out);
    *out = NULL;
    return status;
}
