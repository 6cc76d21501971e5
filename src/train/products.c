/* train/products.c - the dense products of a step and nothing else: for every matrix w [in,out] that
 * n rows go through,
 *
 *     y = x w,   dx = dy w^T,   dw += x^T dy
 *
 * 6 n in out operations a matrix, by the product the layers themselves call.  What is multiplied is
 * not what a step multiplies, and lies nearer: a step's own products take up to a twentieth longer. */
#include "nn/conv.h"
#include "nn/product.h"
#include "plan/clock.h"
#include "train/trainer.h"

/* A matrix as the network uses it: `taps` products of each kind, without dx where none is asked. */
typedef struct use {
    size_t in, out, rows, taps;
    bool inward; /* dx is wanted */
} use;

/* What entry i of the layout is used for; taps 0: no product. */
static use use_of(const lnt_trainer *t, size_t i)
{
    const lnt_config *c = &t->model->config;
    const lnt_param *p = &t->model->layout.entries[i].param;
    const size_t n = (size_t)(t->recipe.batch * c->length);
    const size_t head_rows = c->output == LNT_OUTPUT_CLASS ? (size_t)t->recipe.batch : n;
    use u = { .in = p->shape[0], .out = p->shape[1], .rows = n, .taps = 1, .inward = true };
    if (!p->name || !p->decays || i == LNT_PARAM_POSITION) return (use){ 0 };
    if (i == LNT_PARAM_HEAD) u.rows = head_rows;
    if (i == LNT_PARAM_EMBED && c->tied) { /* seen the other way, it is the head */
        u.in = p->shape[1];
        u.out = p->shape[0];
        u.rows = head_rows;
    } else if (i == LNT_PARAM_EMBED) {
        if (c->input != LNT_INPUT_FEATURES) return (use){ 0 };
        u.inward = false;
    }
    if (p->rank == 3) u = (use){ p->shape[1], p->shape[2], n, LNT_CONV_TAPS, true };
    return u;
}

typedef struct room {
    float *x, *y, *dx; /* [rows,in], [rows,out], [rows,in]: large enough for any */
} room;

static void lay_out(const lnt_trainer *t, lnt_arena *arena, room *out)
{
    size_t x = 0, y = 0;
    for (size_t i = 0; i < t->model->layout.entry_count; i++) {
        const use u = use_of(t, i);
        if (u.rows * u.in > x) x = u.rows * u.in;
        if (u.rows * u.out > y) y = u.rows * u.out;
    }
    out->x = lnt_arena_take(arena, x, sizeof *out->x);
    out->dx = lnt_arena_take(arena, x, sizeof *out->dx);
    out->y = lnt_arena_take(arena, y, sizeof *out->y);
    for (size_t i = 0; out->x && i < x; i++) out->x[i] = (float)(i % 7) - 3;
}

static void multiply(const lnt_trainer *t, const use *u, const float *w, float *dw, const room *r)
{
    const lnt_matrix x = { r->x, u->in, 1 }, y = { r->y, u->out, 1 };
    for (size_t tap = 0; tap < u->taps; tap++, w += u->in * u->out, dw += u->in * u->out) {
        lnt_product(t->ctx, r->y, u->out, x, (lnt_matrix){ w, u->out, 1 }, u->rows, u->out, u->in,
                    tap > 0);
        if (u->inward)
            lnt_product(t->ctx, r->dx, u->in, y, (lnt_matrix){ w, 1, u->out }, u->rows, u->in,
                        u->out, tap > 0);
        lnt_product(t->ctx, dw, u->out, (lnt_matrix){ r->x, 1, u->in }, y, u->in, u->out, u->rows,
                    false);
    }
}

static double run(const lnt_trainer *t, const room *r)
{
    const double start = lnt_clock();
    for (int64_t part = 0; part < t->recipe.accumulate; part++)
        for (size_t i = 0; i < t->model->layout.entry_count; i++) {
            const use u = use_of(t, i);
            const size_t at = t->model->layout.entries[i].offset;
            if (u.taps) multiply(t, &u, t->model->weights + at, t->grads + at, r);
        }
    return lnt_clock() - start;
}

lnt_status lnt_trainer_time_products(lnt_trainer *t, double *seconds)
{
    if (!t) return LNT_ERR_ARGUMENT;
    if (!seconds) return lnt_fail(t->ctx, LNT_ERR_ARGUMENT, "seconds must not be NULL");
    lnt_arena counting = { 0 }, memory;
    room r;
    lay_out(t, &counting, &r);
    const lnt_status status = lnt_arena_open(t->ctx, &counting, "the products of a step", &memory);
    if (status) return status;
    lay_out(t, &memory, &r);
    run(t, &r); /* brings the memory in */
    *seconds = run(t, &r);
    lnt_arena_close(t->ctx, &memory);
    return LNT_OK;
}
