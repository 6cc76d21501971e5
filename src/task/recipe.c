/* task/recipe.c - see recipe.h.  The rate rises linearly over the first `warmup` steps, then follows
 * its schedule. */
#include "task/recipe.h"

#include <math.h>

LNT_WORDS(optimizer_word, "adamw", "radam", "lamb")
LNT_WORDS(schedule_word, "constant", "cosine", "step")
LNT_WORDS(dtype_word, "f32", "bf16")

#define WHOLE(k, low, high) LNT_WHOLE_FIELD(lnt_recipe, k, low, high)
#define REAL(k, low, high) LNT_REAL_FIELD(lnt_recipe, k, low, high)
#define CHOICE(k, words) LNT_CHOICE_FIELD(lnt_recipe, k, words)

const lnt_field lnt_recipe_fields[] = {
    WHOLE(steps, 1, LNT_STEPS_MOST),
    WHOLE(batch, 1, 65536),
    WHOLE(accumulate, 1, 4096),
    CHOICE(optimizer, optimizer_word),
    CHOICE(schedule, schedule_word),
    REAL(rate, 0, 10),
    REAL(rate_last, 0, 10),
    WHOLE(warmup, 0, 1e9),
    WHOLE(drop_at, 0, 1e9),
    REAL(beta1, 0, 0.9999),
    REAL(beta2, 0, 0.999999),
    REAL(eps, 1e-16, 1),
    REAL(decay, 0, 10),
    REAL(clip, 0, 1e9),
    WHOLE(seed, 0, (double)INT64_MAX),
    WHOLE(eval_every, 0, 1e9),
    WHOLE(eval_batches, 1, 1e9),
    WHOLE(save_every, 0, 1e9),
    CHOICE(dtype, dtype_word),
    CHOICE(compute, dtype_word),
    { .key = NULL },
};

lnt_recipe lnt_recipe_default(void)
{
    return (lnt_recipe){ .steps = 1000, .batch = 16, .accumulate = 1, .rate = 1e-3,
                         .rate_last = 1e-4, .schedule = LNT_SCHEDULE_COSINE, .warmup = 50,
                         .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.01, .clip = 1,
                         .seed = 1, .eval_every = 250, .eval_batches = 20, .save_every = 250 };
}

double lnt_recipe_rate(const lnt_recipe *r, int64_t step)
{
    if (step <= r->warmup) return r->rate * (double)step / (double)r->warmup;
    if (r->schedule == LNT_SCHEDULE_STEP) return step < r->drop_at ? r->rate : r->rate_last;
    if (r->schedule == LNT_SCHEDULE_CONSTANT || r->steps <= r->warmup) return r->rate;
    const double done = (double)(step - r->warmup) / (double)(r->steps - r->warmup);
    const double bound = done < 1 ? done : 1;
    return r->rate_last + (r->rate - r->rate_last) * (1 + cos(3.141592653589793 * bound)) / 2;
}
