/* train/trainer.h - the inside of a trainer. */
#ifndef LNT_TRAIN_TRAINER_H
#define LNT_TRAIN_TRAINER_H

#include "model/model.h"
#include "train/loss.h"

struct lnt_trainer {
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_task task;
    lnt_recipe recipe;
    int64_t step; /* done so far */
    lnt_network network;
    lnt_arena memory; /* of what follows */
    float *grads, *mean, *square; /* [layout.size]: gradient, and the optimiser's two means */
    lnt_sample sample;
    lnt_loss_room room;
};

/* Takes over the task, which is open, and the model, both on success only. */
lnt_status lnt_trainer_open(lnt_ctx *ctx, lnt_model *model, lnt_task *task,
                            const lnt_recipe *recipe, bool training, lnt_trainer **out);

#endif
