/* task/listops.c - nested operations on lists of digits, to be evaluated (Nangia, Bowman 2018):
 *
 *     [MAX 4 [MIN 2 8 ] 0 7 ]  ->  7
 *
 * A node is an operator (MIN MAX MED SM) with probability 1/4 while its depth is below `depth`, else a
 * digit; an operator takes 2 to 10 nodes.  MED truncates, SM is the sum modulo 10.  Examples outside the
 * wanted lengths are discarded. */
#include <string.h>

#include "nn/optimiser.h"
#include "task/tasks.h"

enum { DIGITS = 10, OPERATORS = 4, CLOSE = DIGITS + OPERATORS, WORDS = CLOSE + 1, ARGUMENTS = 10 };
enum { MIN, MAX, MED, SM };
enum { ATTEMPTS = 100000 };

static const lnt_field options[] = {
    LNT_WHOLE_FIELD(lnt_task_options, shortest, 4, 1 << 20),
    LNT_WHOLE_FIELD(lnt_task_options, longest, 4, 1 << 20),
    LNT_WHOLE_FIELD(lnt_task_options, depth, 1, 30),
    { .key = NULL },
};

static void recipe(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->shortest = 500;
    o->longest = 2000;
    o->depth = 10;
    config->kind = LNT_ENCODER;
    config->dim = 512;
    config->layers = 4;
    config->heads = 8;
    config->ff = 1024;
    config->drop_path = 0.05;
    *r = (lnt_recipe){ .steps = 5000, .batch = 32, .accumulate = 1, .optimizer = LNT_LAMB,
                       .schedule = LNT_SCHEDULE_COSINE, .rate = 1e-3, .rate_last = 0, .warmup = 250,
                       .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .decay = 1e-3, .clip = 1,
                       .seed = 1, .eval_every = 500, .eval_batches = 16, .save_every = 500 };
}

/* An expression in the making: its words, and random numbers one after another. */
typedef struct writer {
    lnt_rng rng;
    uint64_t drawn;
    int32_t *words;
    size_t used, most;
    int64_t depth;
    bool full;
} writer;

static int draw(writer *w, int count)
{
    return (int)(lnt_rng_uniform(w->rng, w->drawn++) * count);
}

static void put(writer *w, int word)
{
    if (w->used == w->most) w->full = true;
    else w->words[w->used++] = word;
}

static int median(int *x, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j && x[j - 1] > x[j]; j--) {
            const int swap = x[j];
            x[j] = x[j - 1];
            x[j - 1] = swap;
        }
    return count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

static int apply(int operation, int *x, int count)
{
    int least = x[0], most = x[0], sum = 0;
    for (int i = 0; i < count; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        sum += x[i];
    }
    switch (operation) {
    case MIN: return least;
    case MAX: return most;
    case SM: return sum % 10;
    default: return median(x, count);
    }
}

/* Writes a node and returns its value; recursion ends at the depth. */
static int node(writer *w, int64_t depth)
{
    int x[ARGUMENTS] = { 0 };
    if (w->full) return 0;
    if (depth >= w->depth || draw(w, 4) != 0) {
        const int digit = draw(w, DIGITS);
        put(w, digit);
        return digit;
    }
    const int operation = draw(w, OPERATORS), count = 2 + draw(w, ARGUMENTS - 1);
    put(w, DIGITS + operation);
    for (int i = 0; i < count; i++) x[i] = node(w, depth + 1);
    put(w, CLOSE);
    return apply(operation, x, count);
}

/* Whether one of so many attempts gave an expression of a length that is wanted. */
static bool fill_one(const lnt_task *task, lnt_rng rng, int32_t *tokens, size_t length,
                     int64_t *used, int32_t *value, uint64_t attempts)
{
    const size_t shortest = (size_t)task->options.shortest;
    for (uint64_t attempt = 0; attempt < attempts; attempt++) {
        writer w = { .rng = lnt_rng_split(rng, attempt), .words = tokens, .most = length,
                     .depth = task->options.depth };
        *value = node(&w, 0);
        if (w.full || w.used < shortest) continue;
        memset(tokens + w.used, 0, (length - w.used) * sizeof *tokens);
        *used = (int64_t)w.used;
        return true;
    }
    return false;
}

/* Refuses lengths that no expression has, which `fill` would look for for ever. */
static lnt_status check_lengths(const lnt_task *task)
{
    const lnt_task_options *o = &task->options;
    const size_t bytes = (size_t)o->longest * sizeof(int32_t);
    int64_t used;
    int32_t value;
    int32_t *tokens = lnt_allocate(task->ctx, bytes, "an expression");
    if (!tokens) return LNT_ERR_MEMORY;
    const bool found =
        fill_one(task, task->rng, tokens, (size_t)o->longest, &used, &value, ATTEMPTS);
    lnt_release(task->ctx, tokens, bytes);
    if (found) return LNT_OK;
    return lnt_fail(task->ctx, LNT_ERR_ARGUMENT,
                    "task listops: no expression of %lld to %lld words and depth %lld was found",
                    (long long)o->shortest, (long long)o->longest, (long long)o->depth);
}

static lnt_status open_task(lnt_task *task, lnt_config *config)
{
    const lnt_task_options *o = &task->options;
    if (o->shortest > o->longest)
        return lnt_fail(task->ctx, LNT_ERR_ARGUMENT,
                        "task listops: shortest is %lld, must be at most longest, which is %lld",
                        (long long)o->shortest, (long long)o->longest);
    config->length = o->longest;
    config->input = LNT_INPUT_TOKENS;
    config->output = LNT_OUTPUT_CLASS;
    config->inputs = WORDS;
    config->outputs = DIGITS;
    return check_lengths(task);
}

static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const lnt_rng rng = lnt_rng_split(lnt_rng_split(task->rng, (uint64_t)split), index);
    out->units = (double)out->batch;
#pragma omp parallel for schedule(dynamic) num_threads(task->ctx->threads)
    for (int64_t b = 0; b < (int64_t)out->batch; b++)
        fill_one(task, lnt_rng_split(rng, (uint64_t)b), out->tokens + (size_t)b * out->length,
                 out->length, &out->lengths[b], &out->targets[b], UINT64_MAX);
}

const lnt_task_kind lnt_task_listops = {
    .name = "listops",
    .summary = "evaluate nested operations on lists of digits",
    .unit = "expression",
    .fixes_length = true,
    .options = options,
    .recipe = recipe,
    .open = open_task,
    .fill = fill,
};
