/* task/mnist.c - images pixel by pixel, from the idx files of MNIST (plain or gzipped): to be generated,
 * each pixel from those before it, or to be classified.
 *
 * A directory holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte, each with or without .gz. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "task/content.h"
#include "io/file.h"
#include "nn/logistics.h"
#include "nn/optimiser.h"
#include "task/tasks.h"

enum { START = 256, CLASSES = 10, SIDE = 28, /* of MNIST's own */
       IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801 };

static const lnt_field options[] = {
    LNT_WHOLE_FIELD(lnt_task_options, shrink, 1, 14),
    { .key = NULL },
};

static void recipe_draw(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->shrink = 1;
    config->dim = 256;
    config->layers = 8;
    config->heads = 8;
    *r = lnt_recipe_default();
    r->optimizer = LNT_RADAM;
    r->schedule = LNT_SCHEDULE_CONSTANT;
    r->rate = 1e-4;
    r->warmup = 0;
    r->batch = 10;
    r->decay = 0;
}

static void recipe_class(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->shrink = 1;
    config->kind = LNT_ENCODER;
    config->dim = 128;
    config->layers = 4;
    config->heads = 4;
    *r = lnt_recipe_default();
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct split_data {
    lnt_content images, labels;
    size_t count;
} split_data;

typedef struct dataset {
    split_data split[2];
    size_t side, shrink, shrunk; /* pixels each way, before and after */
    bool classify;
} dataset;

static uint32_t big32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static lnt_status read_idx(lnt_task *task, const char *name, uint32_t magic, lnt_content *out)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", task->data, name);
    if (access(path, F_OK)) {
        snprintf(path, sizeof path, "%s/%s.gz", task->data, name);
        if (access(path, F_OK))
            return lnt_fail(task->ctx, LNT_ERR_FILE,
                            "cannot read " LNT_FILE_FMT ": it has neither %s nor %s.gz", task->data, name,
                            name);
    }
    const lnt_status status = lnt_content_read(task->ctx, path, out);
    if (status) return status;
    lnt_task_add_checksum(task, out->data, out->bytes);
    const size_t header = magic == IMAGES_MAGIC ? 16 : 8;
    if (out->bytes < header || big32(out->data) != magic)
        return lnt_fail(task->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is no idx file of %s", path,
                        magic == IMAGES_MAGIC ? "images" : "labels");
    const uint64_t each = magic == IMAGES_MAGIC
                              ? (uint64_t)big32(out->data + 8) * big32(out->data + 12)
                              : 1;
    if (each > 1 << 20 || (uint64_t)big32(out->data + 4) * each != out->bytes - header)
        return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": has another size than its header says", path);
    return LNT_OK;
}

static lnt_status read_split(lnt_task *task, dataset *a, int split)
{
    static const char *const names[2][2] = {
        { "train-images-idx3-ubyte", "train-labels-idx1-ubyte" },
        { "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" }
    };
    split_data *d = &a->split[split];
    lnt_status status = read_idx(task, names[split][0], IMAGES_MAGIC, &d->images);
    if (!status) status = read_idx(task, names[split][1], LABELS_MAGIC, &d->labels);
    if (status) return status;
    d->count = big32(d->images.data + 4);
    const size_t side = big32(d->images.data + 8), wide = big32(d->images.data + 12);
    if (d->count == 0 || big32(d->labels.data + 4) != d->count)
        return lnt_fail(task->ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": %s has %zu images, %s %lu labels",
                        task->data, names[split][0], d->count, names[split][1],
                        (unsigned long)big32(d->labels.data + 4));
    if (side == 0 || wide != side || (a->side && side != a->side))
        return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": images of %s are %zu x %zu, must be square%s", task->data,
                        names[split][0], side, wide, a->side ? ", and as large as those to train on" : "");
    a->side = side;
    for (size_t i = 0; a->classify && i < d->count; i++)
        if ((unsigned char)d->labels.data[8 + i] >= CLASSES)
            return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                            LNT_FILE_FMT ": label %zu of %s is %d, must be 0 to %d", task->data, i,
                            names[split][1], (unsigned char)d->labels.data[8 + i], CLASSES - 1);
    return LNT_OK;
}

static void set_ends(lnt_config *config, bool classify, size_t side)
{
    config->length = (int64_t)(side * side);
    config->input = LNT_INPUT_TOKENS;
    config->inputs = classify ? START : START + 1;
    config->output = classify ? LNT_OUTPUT_CLASS : LNT_OUTPUT_LOGISTICS;
    config->outputs = classify ? CLASSES : LNT_LOGISTICS_WIDTH;
}

static bool classifies(const lnt_task *task) { return task->kind == &lnt_task_mnist_class; }

static lnt_status shape(lnt_task *task, lnt_config *config)
{
    set_ends(config, classifies(task), SIDE / (size_t)task->options.shrink);
    return LNT_OK;
}

static lnt_status open_task(lnt_task *task, lnt_config *config)
{
    dataset *a = task->own;
    a->classify = classifies(task);
    a->shrink = (size_t)task->options.shrink;
    lnt_status status = task->use == LNT_USE_TRAINING ? read_split(task, a, LNT_SPLIT_TRAIN) : LNT_OK;
    if (!status) status = read_split(task, a, LNT_SPLIT_TEST);
    if (!status && a->shrink > a->side)
        status = lnt_fail(task->ctx, LNT_ERR_ARGUMENT,
                          "task %s: shrink is %zu, must be at most the %zu pixels of a side",
                          task->kind->name, a->shrink, a->side);
    if (status) return status;
    a->shrunk = a->side / a->shrink;
    set_ends(config, a->classify, a->shrunk);
    task->test_examples = (int64_t)a->split[1].count;
    return LNT_OK;
}

static void close_task(lnt_task *task)
{
    dataset *a = task->own;
    for (int split = 0; split < 2; split++) {
        lnt_content_free(task->ctx, &a->split[split].images);
        lnt_content_free(task->ctx, &a->split[split].labels);
    }
}

/* ---- examples ------------------------------------------------------------------------------ */

/* Pixel i of an image, the mean of shrink x shrink of them. */
static int32_t pixel(const dataset *a, const unsigned char *image, size_t i)
{
    const size_t y0 = i / a->shrunk * a->shrink, x0 = i % a->shrunk * a->shrink;
    unsigned sum = 0;
    for (size_t y = 0; y < a->shrink; y++)
        for (size_t x = 0; x < a->shrink; x++) sum += image[(y0 + y) * a->side + x0 + x];
    return (int32_t)(sum / (unsigned)(a->shrink * a->shrink));
}

static void fill_one(const dataset *a, const split_data *d, size_t which, size_t length,
                     int32_t *tokens, int32_t *targets)
{
    const unsigned char *image =
        (const unsigned char *)d->images.data + 16 + which * a->side * a->side;
    for (size_t i = 0; i < length; i++) {
        const int32_t p = pixel(a, image, i);
        if (a->classify) {
            tokens[i] = p;
            continue;
        }
        targets[i] = p;
        if (i == 0) tokens[0] = START;
        if (i + 1 < length) tokens[i + 1] = p;
    }
    if (a->classify) *targets = (unsigned char)d->labels.data[8 + which];
}

static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const dataset *a = task->own;
    const split_data *d = &a->split[split];
    const lnt_rng rng = lnt_rng_split(task->rng, index);
    out->units = 0;
    for (size_t b = 0; b < out->batch; b++) {
        const size_t at = (size_t)index * out->batch + b;
        const bool none = split == LNT_SPLIT_TEST && at >= d->count;
        const size_t which = none                      ? 0
                             : split == LNT_SPLIT_TEST ? at
                                                       : (size_t)(lnt_rng_uniform(rng, b) *
                                                                  (double)d->count);
        int32_t *targets = out->targets + b * (a->classify ? 1 : out->length);
        fill_one(a, d, which, out->length, out->tokens + b * out->length, targets);
        out->lengths[b] = (int64_t)out->length;
        for (size_t i = 0; none && i < (a->classify ? 1 : out->length); i++) targets[i] = -1;
        if (!none) out->units += a->classify ? 1 : (double)out->length;
    }
}

const lnt_task_kind lnt_task_mnist = {
    .name = "mnist",
    .summary = "draw images pixel by pixel",
    .data = "a directory with the idx files of MNIST",
    .unit = "dim",
    .fixes_length = true,
    .options = options,
    .own_bytes = sizeof(dataset),
    .recipe = recipe_draw,
    .shape = shape,
    .open = open_task,
    .close = close_task,
    .fill = fill,
};

const lnt_task_kind lnt_task_mnist_class = {
    .name = "mnist-class",
    .summary = "classify images, read pixel by pixel",
    .data = "a directory with the idx files of MNIST",
    .unit = "image",
    .fixes_length = true,
    .options = options,
    .own_bytes = sizeof(dataset),
    .recipe = recipe_class,
    .shape = shape,
    .open = open_task,
    .close = close_task,
    .fill = fill,
};
