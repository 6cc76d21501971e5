/* train/trainer.h - the internals of a trainer. */
#ifndef LNT_TRAIN_TRAINER_H
#define LNT_TRAIN_TRAINER_H

#include "train/lanes.h"

struct lnt_trainer {
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_task task;
    lnt_recipe recipe;
    int64_t step; /* done so far */
    lnt_lanes lanes;
    lnt_arena memory; /* of what follows */
    float *grads;         /* [lanes,layout.size]: what each adds to the gradient, the first then the sum */
    float *mean, *square; /* [layout.size]: the optimiser's two means */
    lnt_score *scores;    /* [lanes] */
    lnt_sample sample;
    lnt_example *order;     /* [batch]: of the sample's sequences through the lanes */
    lnt_worker *workers;  /* [lanes.workers] */
};

/* Takes over the task, which is open, and the model, both on success only. */
lnt_status lnt_trainer_open(lnt_ctx *ctx, lnt_model *model, lnt_task *task,
                            const lnt_recipe *recipe, bool training, lnt_trainer **out);

#endif
