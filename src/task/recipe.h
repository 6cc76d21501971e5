/* task/recipe.h - how a model is trained: section "train" of a config. */
#ifndef LNT_TASK_RECIPE_H
#define LNT_TASK_RECIPE_H

#include "model/fields.h"

typedef enum lnt_schedule {
    LNT_SCHEDULE_CONSTANT = 0,
    LNT_SCHEDULE_COSINE = 1, /* from rate to rate_last at the last step */
    LNT_SCHEDULE_STEP = 2    /* rate, and rate_last from step drop_at on */
} lnt_schedule;

enum { LNT_STEPS_MOST = 1000000000 };

typedef struct lnt_recipe {
    int64_t steps, batch, accumulate;
    int optimizer, schedule;
    double rate, rate_last;
    int64_t warmup, drop_at;
    double beta1, beta2, eps, decay, clip;
    int64_t seed;
    int64_t eval_every, eval_batches, save_every; /* 0: at the end only */
    int dtype; /* of the model's file; 0: f32, 1: bf16 */
    int compute; /* to which the factors of layers' products are rounded; as above */
} lnt_recipe;

extern const lnt_field lnt_recipe_fields[];

lnt_recipe lnt_recipe_default(void);

/* The rate of a step, from 1 on. */
double lnt_recipe_rate(const lnt_recipe *recipe, int64_t step);

#endif
