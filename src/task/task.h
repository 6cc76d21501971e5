/* task/task.h - what a model learns: batches of examples with their targets, one file per task.
 *
 * An example depends only on the task's data, its seed, the split and the example's number.  So a resumed run
 * continues with the same examples, on any number of threads. */
#ifndef LNT_TASK_TASK_H
#define LNT_TASK_TASK_H

#include <dirent.h>

#include "core/rng.h"
#include "model/fields.h"
#include "model/config.h"
#include "model/tokenizer.h"
#include "task/recipe.h"

enum { LNT_LABELS_MOST = 16 }; /* of an utterance */

typedef enum lnt_split { LNT_SPLIT_TRAIN = 0, LNT_SPLIT_TEST = 1 } lnt_split;

/* What a task is opened for. */
typedef enum lnt_use {
    LNT_USE_TRAINING = 0,
    LNT_USE_TESTS, /* upon what training leaves out: no other data need be there */
    LNT_USE_ALL    /* tests, of text upon all of it */
} lnt_use;

/* Section "task" of a config; each task has its own of these. */
typedef struct lnt_task_options {
    int64_t symbols;              /* copy */
    int whole;                    /* copy: the first word counts too */
    int64_t shortest, longest;    /* listops: of an example */
    int64_t depth;                /* listops */
    int tokenizer;                /* text */
    int64_t vocabulary;           /* text, with bpe */
    double held_out;              /* text: the share at the end of every file that is for testing */
    int64_t shrink;               /* mnist: pixels averaged to one, each way */
    int64_t words;                /* speech: at most, in an utterance */
} lnt_task_options;

/* A batch and its answers. */
typedef struct lnt_sample {
    size_t batch, length; /* as planned; all examples are padded to length */
    int32_t *tokens;      /* [batch,length]; or */
    float *features;      /* [batch,length,inputs] */
    int64_t *lengths;     /* [batch] */
    int32_t *targets;     /* [batch,length]; a class: [batch]; negative: does not count */
    int64_t *labels;      /* [batch]: how many targets an utterance has, of room for `length` */
    double units;         /* bytes or pixels that the targets stand for */
} lnt_sample;

typedef struct lnt_task lnt_task;

typedef struct lnt_task_kind {
    const char *name, *summary;
    const char *data;         /* what --data names; NULL: nothing */
    const char *unit;         /* what bits are counted by: "byte", "dim"; NULL: "token" */
    bool fixes_length;        /* of sequences: a config's is not looked at */
    const lnt_field *options; /* those it takes */
    size_t own_bytes;         /* of task->own, which open finds zeroed; 0: none */
    /* The recipe of the paper, before the user's config. */
    void (*recipe)(lnt_config *config, lnt_recipe *recipe, lnt_task_options *options);
    /* What open sets, without the data; NULL: open reads none. */
    lnt_status (*shape)(lnt_task *task, lnt_config *config);
    /* Reads the data; sets what goes in and out of the model, its length where that is fixed, and the
     * tokenizer where there is none. */
    lnt_status (*open)(lnt_task *task, lnt_config *config);
    void (*close)(lnt_task *task);
    /* Batch number `index`.  Of LNT_SPLIT_TEST there are test_examples. */
    void (*fill)(const lnt_task *task, lnt_split split, uint64_t index, lnt_sample *out);
} lnt_task_kind;

struct lnt_task {
    lnt_ctx *ctx;
    const lnt_task_kind *kind;
    lnt_task_options options;
    lnt_use use;
    const char *data; /* the caller's */
    lnt_rng rng;
    lnt_tokenizer tokenizer; /* given, or made by open */
    int64_t test_examples;   /* INT64_MAX: as many as are wanted */
    uint64_t data_checksum;  /* of all that was read, to recognise it */
    void *own;               /* kind->own_bytes of the kind's; NULL: not opened with data */
};

/* NULL: there is no such task. */
const lnt_task_kind *lnt_task_find(const char *name);

/* task->kind, ctx, options, use, data, rng are set; tokenizer where it is known. */
lnt_status lnt_task_open(lnt_task *task, lnt_config *config);
/* As open, but without data: there will be no examples. */
lnt_status lnt_task_shape(lnt_task *task, lnt_config *config);
void lnt_task_close(lnt_task *task);
/* The names in the task's directory that `wanted` takes, sorted; their number, or -1 with a sentence. */
int lnt_task_scan(const lnt_task *task, int (*wanted)(const struct dirent *entry), struct dirent ***names);
void lnt_task_scan_free(struct dirent **names, int count);
/* Adds what open read, in an order that does not change, to data_checksum. */
void lnt_task_add_checksum(lnt_task *task, const void *data, size_t bytes);

#endif
