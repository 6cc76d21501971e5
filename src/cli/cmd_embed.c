/* cli/cmd_embed.c - `linnet embed`: the vectors that an encoder gives to texts, a row a line, or images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/clock.h"
#include "cli/commands.h"
#include "cli/image_run.h"
#include "cli/model.h"
#include "cli/request.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/text_input.h"

enum { AT_ONCE = 16 }; /* texts; those of like length go together */

typedef struct line {
    const char *text;
    size_t bytes, row;
    int64_t length; /* tokens */
    int32_t *tokens;
} line;

typedef struct job {
    const options *o;
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_model_info info;
    text_buffer text;
    line *lines;
    size_t count, cut; /* lines, and those that were longer than the model reads */
    float *vectors;    /* [count,outputs] */
    int64_t tokens;
    double seconds;
    image_list images;
} job;

/* The last line may end without its mark; an empty line is a text too. */
static int find_lines(job *j)
{
    const char *at = j->text.text ? j->text.text : "", *const end = at + j->text.used;
    size_t room = 1;
    for (const char *c = at; c < end; c++) room += *c == '\n';
    j->lines = calloc(room, sizeof *j->lines);
    if (!j->lines) return fail_memory(room * sizeof *j->lines);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        j->lines[j->count] = (line){ .text = at, .bytes = (size_t)(stop - at), .row = j->count };
        j->count++;
        at = stop + 1;
    }
    return j->count ? EXIT_OK : fail("there is no text");
}

static int tokenize(job *j)
{
    const size_t most = (size_t)j->info.length;
    for (size_t i = 0; i < j->count; i++) {
        line *l = &j->lines[i];
        size_t count;
        if (lnt_model_tokenize(j->model, l->text, l->bytes, LNT_TEXT_FRAMED, NULL, 0, &count))
            return fail_ctx(j->ctx);
        size_t kept = count < most ? count : most;
        l->tokens = malloc((kept + 1) * sizeof *l->tokens);
        if (!l->tokens) return fail_memory((kept + 1) * sizeof *l->tokens);
        if (lnt_model_tokenize(j->model, l->text, l->bytes, LNT_TEXT_FRAMED | LNT_TEXT_CUT, l->tokens, kept,
                               &kept))
            return fail_ctx(j->ctx);
        l->length = (int64_t)kept;
        j->tokens += l->length;
        j->cut += count > most;
    }
    return EXIT_OK;
}

static int by_length(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

/* Lines first .. first+count-1, which are in the order of their length. */
static int embed_some(job *j, size_t first, size_t count)
{
    const line *l = j->lines + first;
    const size_t longest = (size_t)l[count - 1].length, width = (size_t)j->info.outputs;
    int64_t lengths[AT_ONCE];
    int32_t *tokens = calloc(count * longest + 1, sizeof *tokens);
    float *vectors = malloc(count * width * sizeof *vectors);
    int status = tokens && vectors ? EXIT_OK : fail_memory(count * (longest + width) * sizeof *tokens);
    for (size_t i = 0; !status && i < count; i++) {
        memcpy(tokens + i * longest, l[i].tokens, (size_t)l[i].length * sizeof *tokens);
        lengths[i] = l[i].length;
    }
    if (!status && lnt_model_embed(j->model, tokens, (int64_t)count, (int64_t)longest, lengths, vectors))
        status = fail_ctx(j->ctx);
    for (size_t i = 0; !status && i < count; i++)
        memcpy(j->vectors + l[i].row * width, vectors + i * width, width * sizeof *vectors);
    free(vectors);
    free(tokens);
    return status;
}

static int embed(job *j)
{
    const size_t bytes = j->count * (size_t)j->info.outputs * sizeof *j->vectors;
    const double before = now_seconds();
    int status = EXIT_OK;
    j->vectors = malloc(bytes);
    if (!j->vectors) return fail_memory(bytes);
    qsort(j->lines, j->count, sizeof *j->lines, by_length);
    for (size_t done = j->count; !status && done;) { /* the longest first: they make the room for all */
        const size_t count = done < AT_ONCE ? done : AT_ONCE;
        progress("embed", (int)(j->count - done), (int)j->count);
        status = embed_some(j, done - count, count);
        done -= count;
    }
    progress_end();
    j->seconds = now_seconds() - before;
    return status;
}

static int write_vectors(const job *j, int64_t width)
{
    const lnt_array array = {
        .data = j->vectors, .dtype = LNT_F32, .rank = 2, .shape = { (int64_t)j->count, width }
    };
    return lnt_npy_write(j->ctx, opt_text(j->o, OPT_OUTPUT), &array) ? fail_ctx(j->ctx) : EXIT_OK;
}

static void tell(const job *j)
{
    char rate[32];
    if (opt_given(j->o, OPT_JSON)) {
        json l = json_begin(stdout);
        json_text(&l, "mechanism", j->info.mechanism);
        json_whole(&l, "texts", (int64_t)j->count);
        json_whole(&l, "dim", j->info.outputs);
        json_whole(&l, "tokens", j->tokens);
        json_whole(&l, "cut", (int64_t)j->cut);
        json_real(&l, "seconds", j->seconds);
        json_real(&l, "tokens_per_second", j->seconds > 0 ? (double)j->tokens / j->seconds : 0);
        json_end(&l);
        return;
    }
    printf("%zu texts, %lld numbers each, %s tokens/s\n", j->count, (long long)j->info.outputs,
           text_count(j->seconds > 0 ? (double)j->tokens / j->seconds : 0, rate, sizeof rate));
    if (j->cut)
        note("%zu texts are longer than the %lld tokens that the model reads, and were cut", j->cut,
             (long long)j->info.length);
}

/* ---- images ---------------------------------------------------------------------------------- */

static int take_vectors(void *user, size_t first, size_t count, const float *logits, const float *vectors)
{
    job *j = user;
    const size_t dim = (size_t)j->info.dim;
    (void)logits;
    memcpy(j->vectors + first * dim, vectors, count * dim * sizeof *vectors);
    return EXIT_OK;
}

static void tell_images(const job *j)
{
    const double count = (double)j->count;
    char rate[32];
    if (!opt_given(j->o, OPT_JSON)) {
        printf("%zu images, %lld numbers each, %s images/s\n", j->count, (long long)j->info.dim,
               text_count(count / j->seconds, rate, sizeof rate));
        return;
    }
    json l = json_begin(stdout);
    json_text(&l, "mechanism", j->info.mechanism);
    json_whole(&l, "images", (int64_t)j->count);
    json_whole(&l, "dim", j->info.dim);
    json_real(&l, "seconds", j->seconds);
    json_real(&l, "images_per_second", count / j->seconds);
    json_end(&l);
}

static int embed_images(job *j)
{
    image_run run = { .ctx = j->ctx, .model = j->model, .info = &j->info, .list = &j->images,
                      .batch = AT_ONCE, .take = take_vectors, .user = j };
    if (opt_given(j->o, OPT_TEXT) || !opt_given(j->o, OPT_FILE))
        return fail_usage("the model reads images; --file must name some");
    int status = image_list_read(opt_text(j->o, OPT_FILE), &j->images);
    if (status) return status;
    j->count = j->images.count;
    const size_t bytes = j->count * (size_t)j->info.dim * sizeof *j->vectors;
    j->vectors = malloc(bytes);
    if (!j->vectors) return fail_memory(bytes);
    status = image_run_all(&run);
    j->seconds = run.read + run.ran;
    if (!status) status = write_vectors(j, j->info.dim);
    if (!status) tell_images(j);
    return status;
}

/* ---- texts or images ------------------------------------------------------------------------- */

static int embed_texts(job *j)
{
    if (!j->info.embeds) return fail("'%s': it gives texts no vectors; an encoder does", j->o->operand[0]);
    int status = text_input_read(j->o, &j->text);
    if (!status) status = find_lines(j);
    if (!status) status = tokenize(j);
    if (!status) status = embed(j);
    if (!status) status = write_vectors(j, j->info.outputs);
    if (!status) tell(j);
    return status;
}

static int run_job(job *j)
{
    if (!opt_given(j->o, OPT_OUTPUT)) return fail_usage("-o FILE.npy must be given");
    int status = request_context(j->o, 0, &j->ctx);
    if (!status) status = model_load_as(j->o, j->ctx, j->o->operand[0], &j->model);
    if (!status && lnt_model_describe(j->model, &j->info)) status = fail_ctx(j->ctx);
    if (status) return status;
    return j->info.image ? embed_images(j) : embed_texts(j);
}

static int run(const options *o)
{
    job j = { .o = o, .info = { .size = sizeof j.info } };
    const int status = run_job(&j);
    for (size_t i = 0; j.lines && i < j.count; i++) free(j.lines[i].tokens);
    image_list_free(&j.images);
    free(j.lines);
    free(j.vectors);
    free(j.text.text);
    lnt_model_destroy(j.model);
    lnt_ctx_destroy(j.ctx);
    return status;
}

const command cmd_embed = {
    .name = "embed",
    .bit = CMD_EMBED,
    .usage = "MODEL (--text TEXT | --file FILE) -o E.npy [options]",
    .summary = "Compute the vectors that an encoder gives to texts, a row a line, or to images",
    .details = "\n"
               "MODEL is an encoder: a directory as Hugging Face and sentence-transformers lay it out, or a\n"
               "GGUF file.  Its own files say how tokens are pooled and whether a vector has length 1.\n"
               "A text longer than the model reads is cut.\n"
               "For a model of images (ViT, DeiT) --file is a PNG or JPEG file, a text that names an image\n"
               "a line, or a directory of images; a row an image: its first token, or what the pooler makes\n"
               "of that.\n",
    .operands = 1,
    .run = run,
};
