/* task/text.c - the next byte, or byte pair, of a text: a file, or all .txt files of a directory.
 *
 * The end of every file, the share `held_out`, is for testing.  Training takes windows at random places,
 * testing takes them in order. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "task/content.h"
#include "io/file.h"
#include "task/bpe.h"
#include "task/tasks.h"

static const lnt_field options[] = {
    { .key = "tokenizer", .kind = LNT_FIELD_CHOICE, .offset = offsetof(lnt_task_options, tokenizer),
      .choice = lnt_tokenizer_word, .first = LNT_TOKENS_BYTES },
    LNT_WHOLE_FIELD(lnt_task_options, vocabulary, 257, LNT_TOKENIZER_MOST),
    LNT_REAL_FIELD(lnt_task_options, held_out, 0, 0.9),
    { .key = NULL },
};

static void recipe(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->tokenizer = LNT_TOKENS_BYTES;
    o->vocabulary = 1024;
    o->held_out = 0.05;
    config->dim = 256;
    config->layers = 4;
    config->heads = 8;
    config->length = 256;
    config->position = LNT_POSITION_ROTARY;
    *r = lnt_recipe_default();
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct part {
    int32_t *tokens;
    size_t count, room;
} part;

typedef struct corpus {
    part part[2];      /* by split */
    char *text[2];     /* while it is read */
    size_t bytes[2], room[2];
} corpus;

static lnt_status append(lnt_ctx *ctx, corpus *c, int split, const char *data, size_t bytes)
{
    if (c->bytes[split] + bytes > c->room[split]) {
        const size_t room = 2 * (c->bytes[split] + bytes);
        char *grown = lnt_allocate(ctx, room, "the text");
        if (!grown) return LNT_ERR_MEMORY;
        if (c->bytes[split]) memcpy(grown, c->text[split], c->bytes[split]);
        lnt_release(ctx, c->text[split], c->room[split]);
        c->text[split] = grown;
        c->room[split] = room;
    }
    if (bytes) memcpy(c->text[split] + c->bytes[split], data, bytes);
    c->bytes[split] += bytes;
    return LNT_OK;
}

static lnt_status read_one(lnt_task *task, corpus *c, const char *path)
{
    lnt_content content;
    lnt_status status = lnt_content_read(task->ctx, path, &content);
    if (status) return status;
    lnt_task_add_checksum(task, content.data, content.bytes);
    const double share = task->use == LNT_USE_ALL ? 1 : task->options.held_out;
    const size_t held = (size_t)((double)content.bytes * share);
    const size_t kept = content.bytes - held;
    status = append(task->ctx, c, LNT_SPLIT_TRAIN, content.data, kept);
    if (!status) status = append(task->ctx, c, LNT_SPLIT_TEST, content.data + kept, held);
    lnt_content_free(task->ctx, &content);
    return status;
}

static int is_text(const struct dirent *e)
{
    const size_t length = strlen(e->d_name);
    return length >= 4 && !strcmp(e->d_name + length - 4, ".txt");
}

static bool is_directory(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static lnt_status read_directory(lnt_task *task, corpus *c)
{
    char path[PATH_MAX];
    struct dirent **names;
    const int count = lnt_task_scan(task, is_text, &names);
    if (count < 0) return LNT_ERR_FILE;
    lnt_status status = LNT_OK;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", task->data, names[i]->d_name);
        if (!status && !is_directory(path)) status = read_one(task, c, path);
    }
    lnt_task_scan_free(names, count);
    if (!status && c->bytes[0] + c->bytes[1] == 0)
        return lnt_fail(task->ctx, LNT_ERR_FILE, LNT_FILE_FMT ": has no .txt file with text",
                        task->data);
    return status;
}

static lnt_status read_all(lnt_task *task, corpus *c)
{
    return is_directory(task->data) ? read_directory(task, c) : read_one(task, c, task->data);
}

/* A tokenizer that need not be learned. */
static lnt_status open_bytes(lnt_task *task)
{
    if (task->options.tokenizer == LNT_TOKENS_BPE) return LNT_OK;
    return lnt_tokenizer_open(task->ctx, LNT_TOKENS_BYTES, NULL, 0, &task->tokenizer);
}

/* Unless the model brought one. */
static lnt_status open_tokenizer(lnt_task *task, const corpus *c)
{
    lnt_ctx *ctx = task->ctx;
    if (task->tokenizer.kind == LNT_TOKENS_NONE && task->use != LNT_USE_TRAINING)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "task text: the model has no tokenizer; bpe learns it from a text, in training");
    lnt_status status = task->tokenizer.kind == LNT_TOKENS_NONE ? open_bytes(task) : LNT_OK;
    if (status || task->tokenizer.kind != LNT_TOKENS_NONE) return status;
    const size_t wanted = (size_t)task->options.vocabulary - LNT_BYTE_TOKENS;
    size_t merges;
    lnt_merge *merge = lnt_allocate(ctx, wanted * sizeof *merge, "the merges");
    if (!merge) return LNT_ERR_MEMORY;
    status = lnt_bpe_learn(ctx, c->text[0], c->bytes[0], wanted, merge, &merges);
    if (!status) status = lnt_tokenizer_open(ctx, LNT_TOKENS_BPE, merge, merges, &task->tokenizer);
    lnt_release(ctx, merge, wanted * sizeof *merge);
    return status;
}

static lnt_status encode(lnt_task *task, corpus *c)
{
    lnt_status status = open_tokenizer(task, c);
    const int first = task->use == LNT_USE_TRAINING ? LNT_SPLIT_TRAIN : LNT_SPLIT_TEST;
    for (int split = first; split <= LNT_SPLIT_TEST && !status; split++) {
        part *p = &c->part[split];
        p->room = c->bytes[split];
        p->tokens = lnt_allocate(task->ctx, p->room * sizeof *p->tokens, "the tokens of the text");
        if (!p->tokens) status = LNT_ERR_MEMORY;
        else p->count = lnt_tokenizer_encode(&task->tokenizer, c->text[split], p->room, p->tokens);
    }
    return status;
}

static lnt_status check_length(const lnt_task *task, const corpus *c, const lnt_config *config)
{
    const bool trains = task->use == LNT_USE_TRAINING;
    const size_t count = c->part[trains ? LNT_SPLIT_TRAIN : LNT_SPLIT_TEST].count;
    const size_t least = trains ? (size_t)config->length + 1 : 2;
    if (count >= least) return LNT_OK;
    return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                    LNT_FILE_FMT ": has %zu tokens to %s, must have at least %zu", task->data, count,
                    trains ? "train on" : "test on", least);
}

static void close_task(lnt_task *task)
{
    corpus *c = task->own;
    for (int split = 0; split < 2; split++)
        lnt_release(task->ctx, c->part[split].tokens,
                    c->part[split].room * sizeof *c->part[split].tokens);
}

static void set_tokens(lnt_config *config, size_t count)
{
    config->input = LNT_INPUT_TOKENS;
    config->output = LNT_OUTPUT_TOKENS;
    config->inputs = config->outputs = (int64_t)count;
}

static lnt_status shape(lnt_task *task, lnt_config *config)
{
    const bool pairs = task->options.tokenizer == LNT_TOKENS_BPE;
    set_tokens(config, pairs ? (size_t)task->options.vocabulary : LNT_BYTE_TOKENS);
    return open_bytes(task);
}

static lnt_status open_task(lnt_task *task, lnt_config *config)
{
    lnt_ctx *ctx = task->ctx;
    corpus *c = task->own;
    lnt_status status = read_all(task, c);
    if (!status) status = encode(task, c);
    for (int split = 0; split < 2; split++) lnt_release(ctx, c->text[split], c->room[split]);
    if (!status) status = check_length(task, c, config);
    if (status) return status;
    set_tokens(config, lnt_tokenizer_count(&task->tokenizer));
    const size_t tested = c->part[1].count, length = (size_t)config->length;
    task->test_examples = tested > 1 ? (int64_t)((tested - 1 + length - 1) / length) : 0;
    return LNT_OK;
}

/* ---- examples ------------------------------------------------------------------------------ */

/* Window from token `start` on; past the end nothing counts. */
static void fill_one(const part *p, size_t start, size_t length, int32_t *tokens, int32_t *targets)
{
    for (size_t t = 0; t < length; t++) {
        const size_t at = start + t;
        tokens[t] = at < p->count ? p->tokens[at] : 0;
        targets[t] = at + 1 < p->count ? p->tokens[at + 1] : -1;
    }
}

static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const corpus *c = task->own;
    const part *p = &c->part[split];
    const lnt_rng rng = lnt_rng_split(task->rng, index);
    const size_t length = out->length;
    out->units = 0;
    for (size_t b = 0; b < out->batch; b++) {
        const size_t places = p->count > length ? p->count - length : 1;
        const size_t start = split == LNT_SPLIT_TEST
                                 ? ((size_t)index * out->batch + b) * length
                                 : (size_t)(lnt_rng_uniform(rng, b) * (double)places);
        int32_t *targets = out->targets + b * length;
        fill_one(p, start, length, out->tokens + b * length, targets);
        out->lengths[b] = (int64_t)length;
        for (size_t t = 0; t < length; t++) {
            size_t bytes = 0;
            if (targets[t] >= 0) lnt_tokenizer_decode(&task->tokenizer, targets[t], &bytes);
            out->units += (double)bytes;
        }
    }
}

const lnt_task_kind lnt_task_text = {
    .name = "text",
    .summary = "predict the next byte or byte pair of a text",
    .data = "a text file, or a directory of .txt files",
    .unit = "byte",
    .options = options,
    .own_bytes = sizeof(corpus),
    .recipe = recipe,
    .shape = shape,
    .open = open_task,
    .close = close_task,
    .fill = fill,
};
