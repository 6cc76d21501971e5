/* train/trainer.c - one step: batches forward and back, the gradient cut to `clip`, the optimiser.
 *
 * Everything random is a function of the seed and the number of the step, and every sum has one
 * order: the same seed gives the same bits, on any number of threads, in one run or in several. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "nn/optimiser.h"
#include "train/sample.h"

static void lay_out(lnt_trainer *t, lnt_arena *arena, bool training)
{
    const size_t size = training ? t->model->layout.size : 0;
    const size_t batch = (size_t)t->recipe.batch, length = (size_t)t->model->config.length;
    t->grads = lnt_arena_take(arena, size, sizeof *t->grads);
    t->mean = lnt_arena_take(arena, size, sizeof *t->mean);
    t->square = lnt_arena_take(arena, size, sizeof *t->square);
    lnt_sample_take(arena, &t->model->config, batch, length, &t->sample);
    lnt_loss_take(arena, &t->model->config, batch, length, &t->room);
}

lnt_status lnt_trainer_open(lnt_ctx *ctx, lnt_model *model, lnt_task *task,
                            const lnt_recipe *recipe, bool training, lnt_trainer **out)
{
    *out = NULL;
    lnt_trainer *t = lnt_allocate(ctx, sizeof *t, "the trainer");
    if (!t) return LNT_ERR_MEMORY;
    *t = (lnt_trainer){ .ctx = ctx, .model = model, .task = *task, .recipe = *recipe };
    lnt_arena counting = { 0 };
    lay_out(t, &counting, training);
    lnt_status status = lnt_arena_open(ctx, &counting, "training", &t->memory);
    if (!status) {
        lay_out(t, &t->memory, training);
        status = lnt_network_open(ctx, &model->config, &model->layout, (size_t)recipe->batch,
                                  (size_t)model->config.length, training, NULL, &t->network);
    }
    if (status) {
        lnt_arena_close(ctx, &t->memory);
        lnt_release(ctx, t, sizeof *t);
        return status;
    }
    if (training) {
        memset(t->mean, 0, model->layout.size * sizeof *t->mean);
        memset(t->square, 0, model->layout.size * sizeof *t->square);
    }
    *task = (lnt_task){ 0 };
    *out = t;
    return LNT_OK;
}

void lnt_trainer_destroy(lnt_trainer *t)
{
    if (!t) return;
    lnt_ctx *ctx = t->ctx;
    lnt_network_close(&t->network);
    lnt_arena_close(ctx, &t->memory);
    lnt_task_close(&t->task);
    lnt_model_destroy(t->model);
    lnt_release(ctx, t, sizeof *t);
}

const lnt_model *lnt_trainer_model(const lnt_trainer *t) { return t ? t->model : NULL; }

/* ---- one step ------------------------------------------------------------------------------ */

static void clear_gradients(lnt_trainer *t)
{
    enum { PIECE = 1 << 14 };
    const size_t size = t->model->layout.size;
    const int threads = lnt_threads_for(t->ctx, (double)size);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(size, PIECE); p++) {
        const size_t at = (size_t)p * PIECE;
        memset(t->grads + at, 0, nn_least(size - at, PIECE) * sizeof *t->grads);
    }
}

static lnt_status add_gradient(lnt_trainer *t, uint64_t index, lnt_score *score)
{
    const lnt_rng rng = lnt_rng_split(lnt_rng_make((uint64_t)t->recipe.seed + 1), index);
    t->task.kind->fill(&t->task, LNT_SPLIT_TRAIN, index, &t->sample);
    const lnt_batch in = lnt_sample_batch(&t->sample);
    const float *weights = t->model->weights;
    lnt_status status = lnt_network_forward(&t->network, weights, &in, true, rng);
    if (status) return status;
    lnt_loss(&t->network, &t->sample, true, 1 / (double)t->recipe.accumulate, &t->room, score);
    return lnt_network_backward(&t->network, weights, t->grads, &in, true, rng);
}

static void update(lnt_trainer *t, double factor)
{
    const lnt_recipe *r = &t->recipe;
    const lnt_layout *layout = &t->model->layout;
    lnt_update u = { .kind = (lnt_optimiser)r->optimizer, .step = t->step,
                     .rate = lnt_recipe_rate(r, t->step), .beta1 = r->beta1, .beta2 = r->beta2,
                     .eps = r->eps, .factor = factor };
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        if (!e->count) continue;
        u.decay = e->param.decays ? r->decay : 0;
        lnt_optimiser_update(t->ctx, &u, t->model->weights + e->offset, t->grads + e->offset,
                             t->mean + e->offset, t->square + e->offset, e->count);
    }
}

static lnt_score_report report_of(const lnt_trainer *t, const lnt_score *s)
{
    const double ln2 = 0.6931471805599453;
    const bool frames = t->model->config.output == LNT_OUTPUT_FRAMES;
    const bool hits = !frames && t->model->config.output != LNT_OUTPUT_LOGISTICS;
    return (lnt_score_report){ .size = sizeof(lnt_score_report),
                               .loss = s->targets > 0 ? s->loss / s->targets : NAN,
                               .accuracy = hits && s->targets > 0 ? s->hits / s->targets : NAN,
                               .bits = s->units > 0 ? s->loss / s->units / ln2 : NAN,
                               .error_rate = s->words > 0 ? s->edits / s->words : NAN,
                               .targets = (int64_t)s->targets,
                               .unit = t->task.kind->unit ? t->task.kind->unit : "token" };
}

lnt_status lnt_trainer_step(lnt_trainer *t, lnt_step_report *report)
{
    if (!t) return LNT_ERR_ARGUMENT;
    if (!report || report->size != sizeof *report)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "step report: size must be %zu", sizeof *report);
    lnt_score score = { 0 };
    clear_gradients(t);
    for (int64_t i = 0; i < t->recipe.accumulate; i++) {
        const uint64_t index = (uint64_t)(t->step * t->recipe.accumulate + i);
        const lnt_status status = add_gradient(t, index, &score);
        if (status) return status;
    }
    const double norm = sqrt(lnt_square_sum(t->ctx, t->grads, t->model->layout.size));
    if (!isfinite(norm) || !isfinite(score.loss))
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT,
                        "step %lld: the loss or its gradient is not finite; try a lower rate",
                        (long long)t->step + 1);
    t->step++;
    update(t, t->recipe.clip > 0 && norm > t->recipe.clip ? t->recipe.clip / norm : 1);
    const int64_t sequences = t->recipe.batch * t->recipe.accumulate;
    *report = (lnt_step_report){ .size = sizeof *report,
                                 .step = t->step,
                                 .rate = lnt_recipe_rate(&t->recipe, t->step),
                                 .gradient = norm,
                                 .tokens = sequences * t->model->config.length,
                                 .score = report_of(t, &score) };
    return LNT_OK;
}

lnt_status lnt_trainer_evaluate(lnt_trainer *t, int64_t batches, lnt_score_report *report)
{
    if (!t) return LNT_ERR_ARGUMENT;
    if (!report || report->size != sizeof *report)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "score report: size must be %zu", sizeof *report);
    const int64_t batch = t->recipe.batch, examples = t->task.test_examples;
    const int64_t most = examples / batch + (examples % batch != 0);
    lnt_score score = { 0 };
    if (batches <= 0 && examples == INT64_MAX) batches = t->recipe.eval_batches;
    if (batches <= 0 || batches > most) batches = most;
    if (batches == 0)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "task %s: there is nothing to test on",
                        t->task.kind->name);
    for (int64_t i = 0; i < batches; i++) {
        t->task.kind->fill(&t->task, LNT_SPLIT_TEST, (uint64_t)i, &t->sample);
        const lnt_batch in = lnt_sample_batch(&t->sample);
        const lnt_status status = lnt_network_forward(&t->network, t->model->weights, &in, false,
                                                      lnt_rng_make(0));
        if (status) return status;
        lnt_loss(&t->network, &t->sample, false, 1, &t->room, &score);
    }
    *report = report_of(t, &score);
    return LNT_OK;
}

lnt_status lnt_trainer_describe(const lnt_trainer *t, lnt_trainer_info *info)
{
    if (!t) return LNT_ERR_ARGUMENT;
    if (!info || info->size != sizeof *info)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "trainer info: size must be %zu", sizeof *info);
    *info = (lnt_trainer_info){ .size = sizeof *info,
                                .task = t->task.kind->name,
                                .step = t->step,
                                .steps = t->recipe.steps,
                                .eval_every = t->recipe.eval_every,
                                .eval_batches = t->recipe.eval_batches,
                                .save_every = t->recipe.save_every,
                                .parameters = (int64_t)t->model->layout.parameters,
                                .tests = t->task.test_examples > 0 };
    return LNT_OK;
}
