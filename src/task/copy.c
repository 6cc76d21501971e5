/* task/copy.c - a word of random symbols, a separator, and the word again (Katharopoulos et al. 2020,
 * section 4.1).  The loss counts the second word, which can be known; with `whole` it counts all after the
 * first 0.
 *
 *     0 w1 w2 ... wl 0 w1 w2 ... wl        l uniform in 1 .. (length - 1) / 2
 */
#include <string.h>

#include "nn/optimiser.h"
#include "task/tasks.h"

static const lnt_field options[] = {
    LNT_WHOLE_FIELD(lnt_task_options, symbols, 1, 65536),
    { .key = "whole", .kind = LNT_FIELD_FLAG, .offset = offsetof(lnt_task_options, whole) },
    { .key = NULL },
};

static void recipe(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->symbols = 10;
    config->dim = 64;
    config->layers = 4;
    config->heads = 8;
    config->length = 128;
    *r = (lnt_recipe){ .steps = 6000, .batch = 64, .accumulate = 1, .optimizer = LNT_RADAM,
                       .schedule = LNT_SCHEDULE_STEP, .rate = 1e-3, .rate_last = 1e-4,
                       .drop_at = 3000, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 1,
                       .seed = 1, .eval_every = 500, .eval_batches = 10, .save_every = 500 };
}

static lnt_status open_task(lnt_task *task, lnt_config *config)
{
    if (config->length < 3)
        return lnt_fail(task->ctx, LNT_ERR_ARGUMENT,
                        "task copy: model.length is %lld, must be at least 3",
                        (long long)config->length);
    config->input = LNT_INPUT_TOKENS;
    config->output = LNT_OUTPUT_TOKENS;
    config->inputs = config->outputs = task->options.symbols + 1;
    return LNT_OK;
}

/* Returns the example's own length. */
static int64_t fill_one(const lnt_task *task, lnt_rng rng, size_t length, int32_t *tokens,
                        int32_t *targets)
{
    const size_t most = (length - 1) / 2;
    const size_t word = 1 + (size_t)(lnt_rng_uniform(rng, 0) * (double)most);
    memset(tokens, 0, length * sizeof *tokens);
    for (size_t i = 0; i < length; i++) targets[i] = -1;
    for (size_t i = 1; i <= word; i++) {
        const double u = lnt_rng_uniform(rng, i);
        tokens[i] = 1 + (int32_t)(u * (double)task->options.symbols);
        if (word + 1 + i < length) tokens[word + 1 + i] = tokens[i];
    }
    for (size_t i = task->options.whole ? 0 : word + 1; i < 2 * word; i++) targets[i] = tokens[i + 1];
    targets[2 * word] = tokens[word]; /* which may have no place among the tokens */
    return (int64_t)(2 * word + 1);
}

static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const lnt_rng rng = lnt_rng_split(lnt_rng_split(task->rng, (uint64_t)split), index);
    out->units = 0;
    for (size_t b = 0; b < out->batch; b++) {
        const size_t at = b * out->length;
        out->lengths[b] =
            fill_one(task, lnt_rng_split(rng, b), out->length, out->tokens + at, out->targets + at);
        for (size_t t = 0; t < out->length; t++) out->units += out->targets[at + t] >= 0;
    }
}

const lnt_task_kind lnt_task_copy = {
    .name = "copy",
    .summary = "repeat a word of random symbols",
    .options = options,
    .recipe = recipe,
    .open = open_task,
    .fill = fill,
};
