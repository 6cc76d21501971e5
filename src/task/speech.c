/* task/speech.c - spoken digits to be recognised, without alignment in time (CTC).
 *
 * A directory holds recordings {digit}_{speaker}_{i}.wav; those with i < 5 are for testing.  An utterance
 * is one to `words` of them in sequence. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "task/mel.h"
#include "task/tasks.h"
#include "task/wav.h"

enum { DIGITS = 10, TESTED = 5 };

static const lnt_field options[] = {
    LNT_WHOLE_FIELD(lnt_task_options, words, 1, LNT_LABELS_MOST),
    { .key = NULL },
};

static void recipe(lnt_config *config, lnt_recipe *r, lnt_task_options *o)
{
    o->words = 2;
    config->kind = LNT_ENCODER;
    config->dim = 96;
    config->layers = 4;
    config->heads = 6;
    config->length = 256;
    config->position = LNT_POSITION_SINUSOIDAL;
    config->embedding = LNT_EMBEDDING_CNN; /* what is local is found by frames beside each other */
    config->dropout = 0.05;
    *r = lnt_recipe_default();
    r->steps = 2500;
    r->rate = 1.5e-3;
    r->warmup = 150;
}

typedef struct recording {
    int digit;
    bool test;
    uint64_t place; /* random: in the order of all */
    char name[64];
    size_t frames;
    float *features; /* [frames,LNT_MEL_BANDS] */
} recording;

typedef struct dataset {
    recording *recordings; /* those for testing first, in a random order */
    size_t count, tested;
} dataset;

/* ---- reading ------------------------------------------------------------------------------- */

/* Whether a name is one of ours. */
static bool parse_name(const char *name, recording *out)
{
    const char *last = strrchr(name, '_'), *dot = strrchr(name, '.');
    const size_t length = strlen(name);
    if (length >= sizeof out->name || name[0] < '0' || name[0] > '9' || name[1] != '_' || !last ||
        last == name + 1 || !dot || dot < last || strcmp(dot, ".wav") != 0)
        return false;
    char *end;
    const long number = strtol(last + 1, &end, 10);
    if (end != dot || end == last + 1 || number < 0) return false;
    *out = (recording){ .digit = name[0] - '0', .test = number < TESTED };
    memcpy(out->name, name, length + 1);
    return true;
}

static int is_recording(const struct dirent *e)
{
    recording unused;
    return parse_name(e->d_name, &unused);
}

static int tests_first(const void *a, const void *b)
{
    const recording *x = a, *y = b;
    if (x->test != y->test) return x->test ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* One order for every machine: by name first, then by random places, the tests in front. */
static lnt_status list(lnt_task *task, dataset *l)
{
    struct dirent **names;
    const lnt_rng rng = lnt_rng_make(0);
    const int count = lnt_task_scan(task, is_recording, &names);
    if (count < 0) return LNT_ERR_FILE;
    l->recordings = lnt_allocate(task->ctx, (size_t)count * sizeof *l->recordings, "the recordings");
    if (l->recordings) l->count = (size_t)count;
    for (size_t i = 0; i < l->count; i++) {
        uint32_t words[4];
        parse_name(names[i]->d_name, &l->recordings[i]);
        lnt_rng_words(rng, i, words);
        l->recordings[i].place = (uint64_t)words[0] << 20 | i;
        l->tested += l->recordings[i].test;
    }
    lnt_task_scan_free(names, count);
    if (!l->recordings) return LNT_ERR_MEMORY;
    qsort(l->recordings, l->count, sizeof *l->recordings, tests_first);
    return LNT_OK;
}

static lnt_status load(lnt_task *task, recording *r)
{
    char path[PATH_MAX];
    lnt_wav wav;
    snprintf(path, sizeof path, "%s/%s", task->data, r->name);
    lnt_status status = lnt_wav_read(task->ctx, path, &wav);
    if (status) {
        lnt_wav_free(task->ctx, &wav);
        return status;
    }
    lnt_task_add_checksum(task, r->name, strlen(r->name));
    lnt_task_add_checksum(task, &wav.rate, sizeof wav.rate);
    lnt_task_add_checksum(task, wav.samples, wav.count * sizeof *wav.samples);
    r->frames = lnt_mel_frames(wav.count, wav.rate);
    r->features = lnt_allocate(task->ctx, r->frames * LNT_MEL_BANDS * sizeof *r->features,
                               "the features of a recording");
    if (!r->features) status = LNT_ERR_MEMORY;
    else lnt_mel_features(wav.samples, wav.count, wav.rate, r->features);
    lnt_wav_free(task->ctx, &wav);
    return status;
}

static void close_task(lnt_task *task)
{
    dataset *l = task->own;
    for (size_t i = 0; i < l->count; i++)
        lnt_release(task->ctx, l->recordings[i].features,
                    l->recordings[i].frames * LNT_MEL_BANDS * sizeof(float));
    lnt_release(task->ctx, l->recordings, l->count * sizeof *l->recordings);
}

/* A word that does not fit would be neither read nor counted: the error rate would be of the others. */
static lnt_status check_length(const lnt_task *task, const dataset *l, int64_t length)
{
    const size_t words = (size_t)task->options.words;
    size_t longest = 0;
    for (size_t first = 0; first + words <= l->tested; first += words) {
        size_t frames = 0;
        for (size_t i = first; i < first + words; i++) frames += l->recordings[i].frames;
        longest = frames > longest ? frames : longest;
    }
    if ((int64_t)longest <= length) return LNT_OK;
    return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                    "task speech: model.length is %lld, must be at least %zu, the frames of the "
                    "longest %zu words for testing", (long long)length, longest, words);
}

static void set_ends(lnt_config *config)
{
    config->input = LNT_INPUT_FEATURES;
    config->inputs = LNT_MEL_BANDS;
    config->output = LNT_OUTPUT_FRAMES;
    config->outputs = DIGITS + 1;
}

static lnt_status shape(lnt_task *task, lnt_config *config)
{
    (void)task;
    set_ends(config);
    return LNT_OK;
}

static lnt_status open_task(lnt_task *task, lnt_config *config)
{
    dataset *l = task->own;
    lnt_status status = list(task, l);
    const bool trains = task->use == LNT_USE_TRAINING;
    if (!status && (l->tested == 0 || (trains && l->tested == l->count)))
        return lnt_fail(task->ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": has no recordings {digit}_{speaker}_{i}.wav %s i < 5%s",
                        task->data, trains ? "both with" : "with", trains ? " and above" : "");
    const size_t used = trains ? l->count : l->tested;
    for (size_t i = 0; i < used && !status; i++) status = load(task, &l->recordings[i]);
    if (!status) status = check_length(task, l, config->length);
    set_ends(config);
    task->test_examples = (int64_t)(l->tested / (size_t)task->options.words);
    return status;
}

/* ---- examples ------------------------------------------------------------------------------ */

/* Adds a recording to example b, if there is room; the first is cut to fit. */
static void add_word(const recording *r, lnt_sample *out, size_t b)
{
    const size_t at = (size_t)out->lengths[b], left = out->length - at;
    const size_t frames = r->frames < left ? r->frames : left;
    if (r->frames > left && at > 0) return;
    memcpy(out->features + (b * out->length + at) * LNT_MEL_BANDS, r->features,
           frames * LNT_MEL_BANDS * sizeof *r->features);
    out->lengths[b] += (int64_t)frames;
    out->targets[b * out->length + (size_t)out->labels[b]++] = r->digit + 1;
}

static void fill(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out)
{
    const dataset *l = task->own;
    const size_t words = (size_t)task->options.words, trained = l->count - l->tested;
    const lnt_rng rng = lnt_rng_split(task->rng, index);
    memset(out->features, 0, out->batch * out->length * LNT_MEL_BANDS * sizeof *out->features);
    out->units = 0;
    for (size_t b = 0; b < out->batch; b++) {
        const lnt_rng own = lnt_rng_split(rng, b);
        const size_t first = ((size_t)index * out->batch + b) * words;
        const bool test = split == LNT_SPLIT_TEST;
        const bool none = test && first + words > l->tested; /* of what is left over, whatever the batch */
        const size_t count = none   ? 0
                             : test ? words
                                    : 1 + (size_t)(lnt_rng_uniform(own, 0) * (double)words);
        out->lengths[b] = out->labels[b] = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t drawn = (size_t)(lnt_rng_uniform(own, 1 + i) * (double)trained);
            add_word(&l->recordings[test ? first + i : l->tested + drawn], out, b);
        }
        out->units += (double)out->labels[b];
    }
}

const lnt_task_kind lnt_task_speech = {
    .name = "speech",
    .summary = "recognise spoken digits",
    .data = "a directory of recordings {digit}_{speaker}_{i}.wav",
    .unit = "word",
    .options = options,
    .own_bytes = sizeof(dataset),
    .recipe = recipe,
    .shape = shape,
    .open = open_task,
    .close = close_task,
    .fill = fill,
};
