/* train/products.c - times the dense products of a training step alone: for every matrix w [in,out] and n
 * rows,
 *
 *     y = x w,   dx = dy w^T,   dw += x^T dy
 *
 * 6 n in out operations per matrix, by the product that the layers call.  They run once as whole batches on
 * all threads, with all padding, and once divided as in the last step, with little padding.  The factors
 * are closer in the cache than those of a step, whose own products take up to a twentieth longer. */
#include "train/products.h"

#include <math.h>

#include "core/clock.h"
#include "nn/conv.h"
#include "nn/product.h"
#include "train/trainer.h"

/* A matrix as the network uses it: `taps` products of each kind, without dx where none is asked. */
typedef struct use {
    size_t in, out, taps;
    bool inward;   /* dx is wanted */
    bool by_token; /* else one row for a sequence */
} use;

/* What entry i of the layout is used for; taps 0: no product. */
static use use_of(const lnt_trainer *t, size_t i)
{
    const lnt_config *c = &t->model->config;
    const lnt_param *p = &t->model->layout.entries[i].param;
    const bool head_by_token = c->output != LNT_OUTPUT_CLASS;
    use u = { .in = p->shape[0], .out = p->shape[1], .taps = 1, .inward = true, .by_token = true };
    if (!p->name || !p->decays || i == LNT_PARAM_POSITION) return (use){ 0 };
    if (i == LNT_PARAM_HEAD) u.by_token = head_by_token;
    if (i == LNT_PARAM_EMBED && c->tied) { /* seen the other way, it is the head */
        u.in = p->shape[1];
        u.out = p->shape[0];
        u.by_token = head_by_token;
    } else if (i == LNT_PARAM_EMBED) {
        if (c->input != LNT_INPUT_FEATURES) return (use){ 0 };
        u.inward = false;
    }
    if (p->rank == 3) u = (use){ p->shape[1], p->shape[2], LNT_CONV_TAPS, true, true };
    return u;
}

/* ---- how many operations ------------------------------------------------------------------- */

double lnt_trainer_product_flops(const lnt_trainer *t)
{
    const double sequences = (double)t->recipe.batch * (double)t->recipe.accumulate;
    double sum = 0;
    for (size_t i = 0; i < t->model->layout.entry_count; i++) {
        const use u = use_of(t, i);
        const double rows = u.by_token ? sequences * (double)t->model->config.length : sequences;
        sum += (double)u.taps * (u.inward ? 6 : 4) * rows * (double)u.in * (double)u.out;
    }
    return sum;
}

double lnt_trainer_attention_flops(const lnt_trainer *t)
{
    const lnt_network *net = &t->workers[0].network;
    const double slices = (double)t->recipe.batch * (double)t->recipe.accumulate / (double)net->batch;
    double sum = 0;
    for (size_t l = 0; l < (size_t)t->model->config.layers; l++) {
        const lnt_plan *plan = lnt_network_kind(net, l)->attention.plan;
        lnt_plan_info info = { .size = sizeof info };
        if (!plan || lnt_plan_describe(plan, &info)) return (double)NAN;
        sum += info.flops + info.flops_backward;
    }
    return slices * sum;
}

/* ---- how long they take -------------------------------------------------------------------- */

typedef struct scratch {
    float *x, *y, *dx; /* [rows,in], [rows,out], [rows,in]: large enough for any */
} scratch;

/* What goes through a matrix. */
typedef struct extent {
    size_t sequences, tokens;
} extent;

static size_t rows_of(const use *u, extent of) { return u->by_token ? of.tokens : of.sequences; }

static void take_scratch(const lnt_trainer *t, lnt_arena *arena, size_t sequences, scratch *out)
{
    const extent most = { sequences, sequences * (size_t)t->model->config.length };
    size_t x = 0, y = 0;
    for (size_t i = 0; i < t->model->layout.entry_count; i++) {
        const use u = use_of(t, i);
        const size_t rows = rows_of(&u, most);
        if (rows * u.in > x) x = rows * u.in;
        if (rows * u.out > y) y = rows * u.out;
    }
    out->x = lnt_arena_take(arena, x, sizeof *out->x);
    out->dx = lnt_arena_take(arena, x, sizeof *out->dx);
    out->y = lnt_arena_take(arena, y, sizeof *out->y);
    for (size_t i = 0; out->x && i < x; i++) out->x[i] = (float)(i % 7) - 3;
}

static void multiply(const lnt_ctx *ctx, const use *u, size_t rows, const float *w, float *dw,
                     const scratch *r)
{
    const lnt_matrix x = nn_rows(r->x, u->in), y = nn_rows(r->y, u->out);
    for (size_t tap = 0; tap < u->taps; tap++, w += u->in * u->out, dw += u->in * u->out) {
        lnt_product(ctx, r->y, u->out, x, nn_rows(w, u->out), rows, u->out, u->in, tap > 0);
        if (u->inward)
            lnt_product(ctx, r->dx, u->in, y, nn_transposed(nn_rows(w, u->out)), rows, u->in, u->out,
                        tap > 0);
        lnt_product(ctx, dw, u->out, nn_transposed(nn_rows(r->x, u->in)), y, u->in, u->out, rows, false);
    }
}

/* dw overwritten. */
static void multiply_all(const lnt_trainer *t, const lnt_ctx *ctx, extent of, float *dw,
                         const scratch *r)
{
    for (size_t i = 0; i < t->model->layout.entry_count; i++) {
        const use u = use_of(t, i);
        const size_t at = t->model->layout.entries[i].offset;
        if (u.taps)
            multiply(ctx, &u, rows_of(&u, of), t->model->weights + at, dw + at, r);
    }
}

typedef struct job {
    const lnt_trainer *t;
    scratch *scratches; /* [workers] */
} job;

static void multiply_slice(const lnt_slice *s, void *arg)
{
    const job *j = arg;
    const extent padded = { s->count, s->count * j->t->order[s->first].length };
    multiply_all(j->t, &s->worker->ctx, padded, j->t->grads + s->lane * j->t->model->layout.size,
                 &j->scratches[s->worker - j->t->workers]);
}

static double time_whole(const lnt_trainer *t, const scratch *r)
{
    const extent all = { t->lanes.batch, t->lanes.batch * (size_t)t->model->config.length };
    const double start = lnt_clock();
    for (int64_t part = 0; part < t->recipe.accumulate; part++)
        multiply_all(t, t->ctx, all, t->grads, r);
    return lnt_clock() - start;
}

static double time_cut(const lnt_trainer *t, scratch *scratches)
{
    const double start = lnt_clock();
    for (int64_t part = 0; part < t->recipe.accumulate; part++)
        lnt_lanes_each(&t->lanes, t->order, t->workers, multiply_slice, &(job){ t, scratches });
    return lnt_clock() - start;
}

/* scratches: the batch's, which is that of a single lane too; then those of the workers, each for a slice. */
static scratch *lay_out(const lnt_trainer *t, lnt_arena *arena)
{
    const size_t workers = t->lanes.count > 1 ? t->lanes.workers : 0;
    scratch *scratches = lnt_arena_take(arena, workers + 1, sizeof *scratches), own;
    for (size_t i = 0; i <= workers; i++)
        take_scratch(t, arena, i ? t->lanes.slice : t->lanes.batch, scratches ? &scratches[i] : &own);
    return scratches;
}

/* Whether the step had the batch as a whole. */
static bool is_uncut(const lnt_trainer *t)
{
    const size_t shortest = t->order[t->lanes.batch - 1].length;
    return t->lanes.count == 1 && shortest == (size_t)t->model->config.length;
}

lnt_status lnt_trainer_time_products(lnt_trainer *t, double *whole, double *cut)
{
    lnt_arena counting = { 0 }, memory;
    lay_out(t, &counting);
    const lnt_status status = lnt_arena_open(t->ctx, &counting, "the products of a step", &memory);
    if (status) return status;
    scratch *scratches = lay_out(t, &memory);
    time_whole(t, scratches); /* brings the memory in */
    *whole = time_whole(t, scratches);
    scratch *parts = t->lanes.count > 1 ? scratches + 1 : scratches;
    if (!is_uncut(t)) time_cut(t, parts);
    *cut = is_uncut(t) ? *whole : time_cut(t, parts);
    lnt_arena_close(t->ctx, &memory);
    return LNT_OK;
}
