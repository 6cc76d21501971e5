/* cli/image_run.h - runs a model over images, a few at once. */
#ifndef LNT_CLI_IMAGE_RUN_H
#define LNT_CLI_IMAGE_RUN_H

#include "cli/image_list.h"
#include "linnet/model.h"

typedef struct image_run {
    lnt_ctx *ctx;
    lnt_model *model;
    const lnt_model_info *info;
    const image_list *list;
    int64_t batch;    /* images at once */
    double read, ran; /* seconds: of files to pixels, and of the model */
    /* Takes what the model made of images first .. first+count-1: logits [count,outputs], NULL of a model
     * that does not classify; vectors [count,dim].  EXIT_OK, or one sentence and another status. */
    int (*take)(void *user, size_t first, size_t count, const float *logits, const float *vectors);
    void *user;
} image_run;

/* EXIT_OK, or one sentence and another status. */
int image_run_all(image_run *run);

#endif
