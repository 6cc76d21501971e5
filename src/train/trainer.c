/* train/trainer.c - one training step: batches forward and backward, gradient clipping, the optimiser.
 *
 * Every random number is a function of the seed and the number of the step, and every sum has one order, so
 * the same seed gives the same bits on any number of threads, in one run or in several. */
#include "train/trainer.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/struct.h"
#include "cpu/tiles/tiles.h"
#include "nn/optimiser.h"
#include "train/sample.h"

static void lay_out(lnt_trainer *t, lnt_arena *arena, bool training)
{
    const size_t size = training ? t->model->layout.size : 0;
    const size_t batch = (size_t)t->recipe.batch, length = (size_t)t->model->config.length;
    t->grads = lnt_arena_take(arena, size, t->lanes.count * sizeof *t->grads);
    t->mean = lnt_arena_take(arena, size, sizeof *t->mean);
    t->square = lnt_arena_take(arena, size, sizeof *t->square);
    t->scores = lnt_arena_take(arena, t->lanes.count, sizeof *t->scores);
    lnt_sample_take(arena, &t->model->config, batch, length, &t->sample);
    t->order = lnt_arena_take(arena, batch, sizeof *t->order);
    t->workers = lnt_arena_take(arena, t->lanes.workers, sizeof *t->workers);
    for (size_t i = 0; i < t->lanes.workers; i++) {
        lnt_worker w = { .ctx = *t->ctx };
        w.ctx.bf16 = training && t->recipe.compute;
        lnt_sample_take(arena, &t->model->config, t->lanes.slice, length, &w.part);
        lnt_loss_take_scratch(arena, &t->model->config, t->lanes.slice, length, &w.scratch);
        if (t->workers) t->workers[i] = w;
    }
}

static lnt_status open_worker(lnt_trainer *t, lnt_worker *w, bool training)
{
    const lnt_model *m = t->model;
    assert(!training || !m->packed);
    if (t->lanes.count > 1) w->ctx.threads = 1;
    const lnt_status status = lnt_network_open(&w->ctx, &m->config, &m->layout, t->lanes.slice,
                                               (size_t)m->config.length, training, NULL, &w->network);
    w->network.packed = m->packed;
    return status ? lnt_fail(t->ctx, status, "%s", w->ctx.error) : LNT_OK;
}

static void close_memory(lnt_trainer *t)
{
    for (size_t i = 0; t->workers && i < t->lanes.workers; i++)
        lnt_network_close(&t->workers[i].network);
    lnt_arena_close(t->ctx, &t->memory);
}

/* Without tiles bf16 would be slower than f32. */
static lnt_status check_compute(lnt_ctx *ctx, const lnt_recipe *recipe)
{
    if (!recipe->compute || lnt_tile_kernels_get(ctx->isa)) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    "train.compute is bf16, which needs AMX and the system's leave to use it, and the "
                    "instruction set is %s; any CPU computes in f32",
                    lnt_ctx_isa(ctx));
}

lnt_status lnt_trainer_open(lnt_ctx *ctx, lnt_model *model, lnt_task *task,
                            const lnt_recipe *recipe, bool training, lnt_trainer **out)
{
    *out = NULL;
    lnt_status status = training ? check_compute(ctx, recipe) : LNT_OK;
    if (status) return status;
    lnt_trainer *t = lnt_allocate(ctx, sizeof *t, "the trainer");
    if (!t) return LNT_ERR_MEMORY;
    *t = (lnt_trainer){ .ctx = ctx, .model = model, .task = *task, .recipe = *recipe };
    t->lanes = lnt_lanes_cut(model, (size_t)recipe->batch);
    lnt_arena counting = { 0 };
    lay_out(t, &counting, training);
    status = lnt_arena_open(ctx, &counting, training ? "training" : "a batch of tests", &t->memory);
    if (!status) lay_out(t, &t->memory, training);
    for (size_t i = 0; !status && i < t->lanes.workers; i++)
        status = open_worker(t, &t->workers[i], training);
    if (status) {
        close_memory(t);
        lnt_release(ctx, t, sizeof *t);
        return status;
    }
    for (size_t b = 0; b < t->lanes.batch; b++)
        t->order[b] = (lnt_example){ (size_t)model->config.length, b }; /* until there is a batch */
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
    close_memory(t);
    lnt_task_close(&t->task);
    lnt_model_destroy(t->model);
    lnt_release(ctx, t, sizeof *t);
}

const lnt_model *lnt_trainer_model(const lnt_trainer *t) { return t ? t->model : NULL; }

lnt_dtype lnt_trainer_dtype(const lnt_trainer *t) { return t && t->recipe.dtype ? LNT_BF16 : LNT_F32; }

lnt_status lnt_trainer_set_dtype(lnt_trainer *t, lnt_dtype dtype)
{
    if (!t) return LNT_ERR_ARGUMENT;
    const lnt_status status = lnt_model_check_dtype(t->ctx, dtype);
    if (!status) t->recipe.dtype = dtype == LNT_BF16;
    return status;
}

/* ---- one step ------------------------------------------------------------------------------ */

/* A batch on its way through the lanes. */
typedef struct pass {
    lnt_trainer *t;
    double weight; /* of a target in the loss */
    bool gradient; /* else forward only */
    bool first;    /* of those whose gradients are summed */
    lnt_rng rng;
} pass;

static void clear(const lnt_ctx *ctx, float *x, size_t size)
{
    enum { PIECE = 1 << 14 };
    const int threads = lnt_threads_for(ctx, (double)size);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(size, PIECE); p++) {
        const size_t at = (size_t)p * PIECE;
        memset(x + at, 0, nn_least(size - at, PIECE) * sizeof *x);
    }
}

/* Of the last batch, without padding. */
static size_t tokens_of(const lnt_trainer *t)
{
    size_t sum = 0;
    for (size_t b = 0; b < t->lanes.batch; b++) sum += t->order[b].length;
    return sum;
}

static lnt_status run_network(const pass *p, const lnt_slice *s, float *grads)
{
    const lnt_trainer *t = p->t;
    lnt_network *net = &s->worker->network;
    lnt_sample *part = &s->worker->part;
    lnt_sample_gather(&t->sample, &t->model->config, t->order + s->first, s->count, part);
    const lnt_batch in = lnt_sample_batch(part);
    const lnt_rng rng = lnt_rng_split(p->rng, s->first);
    const float *weights = t->model->weights;
    const lnt_status status = lnt_network_forward(net, weights, &in, p->gradient, rng);
    if (status) return status;
    lnt_loss(net, part, p->gradient, p->weight, &s->worker->scratch, &t->scores[s->lane]);
    return p->gradient ? lnt_network_backward(net, weights, grads, &in, true, rng) : LNT_OK;
}

static void run_slice(const lnt_slice *s, void *arg)
{
    const pass *p = arg;
    const size_t size = p->t->model->layout.size;
    float *grads = p->gradient ? p->t->grads + s->lane * size : NULL;
    if (grads && p->first && s->opens) clear(&s->worker->ctx, grads, size);
    if (!s->worker->status) s->worker->status = run_network(p, s, grads);
}

static lnt_status run_batch(lnt_trainer *t, pass p, lnt_split split, uint64_t index, lnt_score *score)
{
    t->task.kind->fill(&t->task, split, index, &t->sample);
    lnt_sample_order(&t->sample, t->order);
    p.weight *= lnt_loss_weight(&t->model->config, &t->sample);
    memset(t->scores, 0, t->lanes.count * sizeof *t->scores);
    for (size_t i = 0; i < t->lanes.workers; i++) t->workers[i].status = LNT_OK;
    lnt_lanes_each(&t->lanes, t->order, t->workers, run_slice, &p);
    for (size_t i = 0; i < t->lanes.workers; i++)
        if (t->workers[i].status)
            return lnt_fail(t->ctx, t->workers[i].status, "%s", t->workers[i].ctx.error);
    for (size_t lane = 0; lane < t->lanes.count; lane++) lnt_score_add(score, &t->scores[lane]);
    score->units += t->sample.units;
    return LNT_OK;
}

/* Onto the first lane's. */
static void sum_gradients(lnt_trainer *t)
{
    enum { PIECE = 1 << 12 };
    const size_t size = t->model->layout.size;
    const kernels *ker = nn_kernels(t->ctx);
    const int threads = lnt_threads_for(t->ctx, (double)size * (double)t->lanes.count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t p = 0; p < nn_pieces(size, PIECE); p++) {
        float *sum = t->grads + (size_t)p * PIECE;
        const size_t count = nn_least(size - (size_t)p * PIECE, PIECE);
        for (size_t lane = 1; lane < t->lanes.count; lane++)
            ker->axpy(sum, 1, sum + lane * size, count);
    }
}

/* LAMB goes by the length of the weights: a bias, which begins at 0, would stay there. */
static lnt_optimiser optimiser_of(const lnt_recipe *r, const lnt_param *param)
{
    return r->optimizer == LNT_LAMB && !param->decays ? LNT_ADAMW : (lnt_optimiser)r->optimizer;
}

static void update(lnt_trainer *t, double factor)
{
    const lnt_recipe *r = &t->recipe;
    const lnt_layout *layout = &t->model->layout;
    lnt_update u = { .step = t->step, .rate = lnt_recipe_rate(r, t->step), .beta1 = r->beta1,
                     .beta2 = r->beta2, .eps = r->eps, .factor = factor };
    for (size_t i = 0; i < layout->entry_count; i++) {
        const lnt_layout_entry *e = &layout->entries[i];
        if (!e->count) continue;
        u.kind = optimiser_of(r, &e->param);
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
    const lnt_struct kind = LNT_STRUCT(lnt_step_report, step);
    if (lnt_struct_check(t->ctx, kind, "step report", report)) return LNT_ERR_ARGUMENT;
    lnt_score score = { 0 };
    size_t tokens = 0;
    for (int64_t i = 0; i < t->recipe.accumulate; i++) {
        const uint64_t index = (uint64_t)(t->step * t->recipe.accumulate + i);
        const pass p = { .t = t, .weight = 1 / (double)t->recipe.accumulate, .gradient = true,
                         .first = i == 0,
                         .rng = lnt_rng_split(lnt_rng_make((uint64_t)t->recipe.seed + 1), index) };
        const lnt_status status = run_batch(t, p, LNT_SPLIT_TRAIN, index, &score);
        if (status) return status;
        tokens += tokens_of(t);
    }
    sum_gradients(t);
    const double norm = sqrt(lnt_square_sum(t->ctx, t->grads, t->model->layout.size));
    const double factor = t->recipe.clip > 0 && norm > t->recipe.clip ? t->recipe.clip / norm : 1;
    if (!isfinite(norm) || !isfinite(score.loss))
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT,
                        "step %lld: the loss or its gradient is not finite%s", (long long)t->step + 1,
                        t->step ? "; try a lower rate"
                                : " with the weights it begins with; try other options of attention");
    if (factor * norm > sqrt(FLT_MAX)) /* of which the optimiser keeps squares */
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT,
                        "step %lld: the gradient is %g long, must be at most %g; try to clip it",
                        (long long)t->step + 1, factor * norm, sqrt(FLT_MAX));
    t->step++;
    update(t, factor);
    const lnt_score_report s = report_of(t, &score);
    const lnt_step_report told = { .size = sizeof told,
                                   .step = t->step,
                                   .tokens = (int64_t)tokens,
                                   .rate = lnt_recipe_rate(&t->recipe, t->step),
                                   .gradient = norm,
                                   .loss = s.loss,
                                   .accuracy = s.accuracy,
                                   .bits = s.bits,
                                   .error_rate = s.error_rate,
                                   .targets = s.targets };
    lnt_struct_give(&told, report);
    return LNT_OK;
}

lnt_status lnt_trainer_evaluate(const lnt_trainer *trainer, int64_t batches, lnt_score_report *report)
{
    lnt_trainer *t = (lnt_trainer *)(uintptr_t)trainer; /* its buffers; what a step reads stays */
    if (!t) return LNT_ERR_ARGUMENT;
    const lnt_struct kind = LNT_STRUCT(lnt_score_report, loss);
    if (lnt_struct_check(t->ctx, kind, "score report", report)) return LNT_ERR_ARGUMENT;
    if (batches < 0)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "batches is %lld, must be 0 (all) or more",
                        (long long)batches);
    const int64_t batch = t->recipe.batch, examples = t->task.test_examples;
    const int64_t most = examples / batch + (examples % batch != 0);
    lnt_score score = { 0 };
    if (batches == 0 && examples == INT64_MAX) batches = t->recipe.eval_batches;
    if (batches == 0 || batches > most) batches = most;
    if (batches == 0)
        return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "task %s: there is nothing to test on",
                        t->task.kind->name);
    for (int64_t i = 0; i < batches; i++) {
        const pass p = { .t = t, .weight = 1 };
        const lnt_status status = run_batch(t, p, LNT_SPLIT_TEST, (uint64_t)i, &score);
        if (status) return status;
    }
    const lnt_score_report told = report_of(t, &score);
    lnt_struct_give(&told, report);
    return LNT_OK;
}

lnt_status lnt_trainer_describe(const lnt_trainer *t, lnt_trainer_info *out)
{
    if (!t) return LNT_ERR_ARGUMENT;
    const lnt_struct kind = LNT_STRUCT(lnt_trainer_info, steps);
    if (lnt_struct_check(t->ctx, kind, "trainer info", out)) return LNT_ERR_ARGUMENT;
    const lnt_trainer_info info = { .size = sizeof info,
                                .task = t->task.kind->name,
                                .step = t->step,
                                .steps = t->recipe.steps,
                                .eval_every = t->recipe.eval_every,
                                .eval_batches = t->recipe.eval_batches,
                                .save_every = t->recipe.save_every,
                                .parameters = (int64_t)t->model->layout.parameters,
                                .tests = t->task.test_examples > 0 };
    lnt_struct_give(&info, out);
    return LNT_OK;
}
