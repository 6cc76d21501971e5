/* cli/classification.c - see classification.h.  The loss is that of the class an image is of, in nats. */
#include "cli/classification.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/image_run.h"
#include "cli/show/amount.h"
#include "cli/show/json.h"
#include "cli/show/report.h"

enum { AT_ONCE = 16, TOP = 5 };

typedef struct job {
    const options *o;
    const lnt_model *model;
    const lnt_model_info *info;
    image_list list;
    int64_t *class_of; /* [list.folder_count] */
    float *logits;     /* [list.count,outputs]: for --logits; NULL: not wanted */
    double nats;
    int64_t right, among; /* images whose class is the likeliest, and one of TOP */
} job;

/* ---- classes by name ----------------------------------------------------------------------- */

/* Whether `name` is a label, or one of the synonyms "tabby, tabby cat". */
static bool is_named(const char *label, const char *name)
{
    const size_t bytes = strlen(name);
    if (!label) return false;
    if (strcmp(label, name) == 0) return true;
    for (const char *at = label;; at += 2) {
        const char *end = strstr(at, ", ");
        const size_t part = end ? (size_t)(end - at) : strlen(at);
        if (part == bytes && memcmp(at, name, bytes) == 0) return true;
        if (!end) return false;
        at = end;
    }
}

/* By its label; else by its number.  -1: it is none. */
static int64_t find_class(const job *j, const char *name)
{
    char *end;
    for (int64_t i = 0; i < j->info->outputs; i++)
        if (is_named(lnt_model_label(j->model, i), name)) return i;
    const long long number = *name >= '0' && *name <= '9' ? strtoll(name, &end, 10) : -1;
    return number >= 0 && !*end && number < j->info->outputs ? number : -1;
}

static int find_classes(job *j)
{
    const size_t bytes = j->list.folder_count * sizeof *j->class_of;
    if (!bytes) return EXIT_OK;
    j->class_of = malloc(bytes);
    if (!j->class_of) return fail_memory(bytes);
    for (size_t i = 0; i < j->list.folder_count; i++) {
        j->class_of[i] = find_class(j, j->list.folders[i]);
        if (j->class_of[i] < 0)
            return fail(
                "'%.300s/%s': is neither the label of a class of the model nor a number from 0 to %lld",
                opt_text(j->o, OPT_DATA), j->list.folders[i], (long long)j->info->outputs - 1);
    }
    return EXIT_OK;
}

/* ---- logits to what is said ---------------------------------------------------------------- */

/* log of the sum of e^logit. */
static double log_sum(const float *logits, int64_t count)
{
    double sum = 0;
    float most = -HUGE_VALF; /* in float: gcc 12 for ARM breaks off upon fmax of what it converts */
    for (int64_t i = 0; i < count; i++) most = fmaxf(most, logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - (double)most);
    return (double)most + log(sum);
}

/* The likeliest classes, the first of equal ones first; how many there are. */
static int find_top(const float *logits, int64_t count, int32_t top[TOP])
{
    int found = 0;
    for (int64_t i = 0; i < count; i++) {
        int at = found < TOP ? found++ : TOP;
        for (; at > 0 && logits[i] > logits[top[at - 1]]; at--)
            if (at < TOP) top[at] = top[at - 1];
        if (at < TOP) top[at] = (int32_t)i;
    }
    return found;
}

/* The name of a class, or its number put into text. */
static const char *name_of(const job *j, int64_t index, char text[32])
{
    const char *label = lnt_model_label(j->model, index);
    snprintf(text, 32, "%lld", (long long)index);
    return label ? label : text;
}

static void tell_one(const job *j, const char *path, const float *logits)
{
    const double sum = log_sum(logits, j->info->outputs);
    int32_t top[TOP];
    char text[TOP][32];
    const char *names[TOP];
    double shares[TOP];
    const int count = find_top(logits, j->info->outputs, top);
    for (int i = 0; i < count; i++) {
        names[i] = name_of(j, top[i], text[i]);
        shares[i] = exp(logits[top[i]] - sum);
    }
    if (opt_given(j->o, OPT_JSON)) {
        json line = json_begin(stdout);
        json_text(&line, "image", path);
        json_text(&line, "mechanism", j->info->mechanism);
        json_wholes(&line, "classes", top, (size_t)count);
        json_texts(&line, "labels", names, count);
        json_reals(&line, "probabilities", shares, count);
        json_end(&line);
        return;
    }
    printf("%s\n", path);
    for (int i = 0; i < count; i++) printf("  %6.2f %%  %s\n", 100 * shares[i], names[i]);
}

static void count_one(job *j, int64_t class_of, const float *logits)
{
    int32_t top[TOP];
    const int count = find_top(logits, j->info->outputs, top);
    j->nats += log_sum(logits, j->info->outputs) - logits[class_of];
    j->right += top[0] == class_of;
    for (int i = 0; i < count; i++) j->among += top[i] == class_of;
}

static int take(void *user, size_t first, size_t count, const float *logits, const float *vectors)
{
    job *j = user;
    const size_t outputs = (size_t)j->info->outputs;
    (void)vectors;
    for (size_t i = 0; i < count; i++) {
        const size_t image = first + i;
        if (j->class_of)
            count_one(j, j->class_of[j->list.folder[image]], logits + i * outputs);
        else
            tell_one(j, j->list.path[image], logits + i * outputs);
    }
    if (j->logits) memcpy(j->logits + first * outputs, logits, count * outputs * sizeof *logits);
    return EXIT_OK;
}

static void tell_all(const job *j, const image_run *run)
{
    const lnt_model_info *info = j->info;
    const double count = (double)j->list.count, seconds = run->read + run->ran;
    char parameters[32], rate[32];
    if (opt_given(j->o, OPT_JSON)) {
        json line = json_begin(stdout);
        json_text(&line, "architecture", info->architecture);
        json_text(&line, "mechanism", info->mechanism);
        json_text(&line, "storage", info->storage);
        json_whole(&line, "parameters", info->parameters);
        json_whole(&line, "images", (int64_t)j->list.count);
        json_real(&line, "loss", j->nats / count);
        json_real(&line, "accuracy", (double)j->right / count);
        json_real(&line, "accuracy_top5", (double)j->among / count);
        json_real(&line, "seconds", seconds);
        json_real(&line, "images_per_second", count / seconds);
        json_end(&line);
        return;
    }
    printf("%s, %s, %s parameters in %s\n", info->architecture, info->mechanism,
           text_count((double)info->parameters, parameters, sizeof parameters), info->storage);
    printf("accuracy    %.2f %%, %.2f %% among the likeliest %d\n", 100 * (double)j->right / count,
           100 * (double)j->among / count, TOP);
    printf("loss        %.4f nats an image\n", j->nats / count);
    printf("over        %zu images of %zu classes, %s a second\n", j->list.count, j->list.folder_count,
           text_count(count / seconds, rate, sizeof rate));
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int make_logits(job *j, lnt_array *out)
{
    const size_t bytes = j->list.count * (size_t)j->info->outputs * sizeof *j->logits;
    if (!opt_given(j->o, OPT_LOGITS)) return EXIT_OK;
    j->logits = malloc(bytes);
    *out = (lnt_array){
        .data = j->logits, .dtype = LNT_F32, .rank = 2, .shape = { (int64_t)j->list.count, j->info->outputs }
    };
    return j->logits ? EXIT_OK : fail_memory(bytes);
}

static int run_job(job *j, lnt_ctx *ctx, lnt_model *model)
{
    image_run run = { .ctx = ctx,
                      .model = model,
                      .info = j->info,
                      .list = &j->list,
                      .batch = opt_whole(j->o, OPT_BATCH, AT_ONCE),
                      .take = take,
                      .user = j };
    lnt_array logits = { 0 };
    int status = image_list_read(opt_text(j->o, OPT_DATA), &j->list);
    if (!status) status = find_classes(j);
    if (!status) status = make_logits(j, &logits);
    if (!status) status = image_run_all(&run);
    if (!status && j->logits && lnt_npy_write(ctx, opt_text(j->o, OPT_LOGITS), &logits))
        status = fail_ctx(ctx);
    if (!status && j->class_of) tell_all(j, &run);
    return status;
}

int classification(const options *o, lnt_ctx *ctx, lnt_model *model, const lnt_model_info *info)
{
    static const option_id of_texts[] = { OPT_TOKEN_IDS, OPT_LAST,     OPT_LENGTH,
                                          OPT_BATCHES,   OPT_HELD_OUT, OPTION_COUNT };
    const option_id foreign = options_first_of(o, of_texts);
    job j = { .o = o, .model = model, .info = info };
    if (foreign != OPTION_COUNT)
        return fail_usage("%s is for texts, and the model reads images", option_name(foreign));
    if (!info->classifies) return fail("'%s': names no classes; see 'linnet embed'", o->operand[0]);
    if (!opt_given(o, OPT_DATA)) return fail_usage("--data must name an image, or a directory of images");
    const int status = run_job(&j, ctx, model);
    image_list_free(&j.list);
    free(j.class_of);
    free(j.logits);
    return status;
}
