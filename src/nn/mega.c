/* nn/mega.c - MEGA (Ma et al. 2023): with x' = norm(x), s the logistic function,
 *
 *     v = silu(x' W_v),  m = silu(EMA(x')),  u = s(m W_u),  z = silu(m W_z),  r = silu(m W_r)
 *     q, k = z gain_i + bias_i,   h = silu(m W_h + (attend(q, k, v) r) W_a),   y = u (h - x)
 *
 * over any mechanism; or over nn/full.c, which has MEGA's bias by distance.  With the mechanisms the
 * moving average alone tells what is near.  Dense products are 2 n dim (3 values + 2 dim +
 * heads head_dim) operations forward. */
#include "nn/mega.h"

#include "nn/activation.h"
#include "nn/dense.h"
#include "nn/ema.h"
#include "plan/plan.h"

void lnt_mega_keep(lnt_arena *arena, const lnt_mega_shape *s, size_t n, lnt_mega_kept *out)
{
    const size_t shared = s->heads * s->head_dim;
    real **const values[] = { &out->value_in, &out->value,    &out->reset_in,
                              &out->reset,    &out->attended, &out->passed };
    real **const dims[] = { &out->average, &out->smooth,       &out->gate_in,
                            &out->gate,    &out->candidate_in, &out->candidate };
    for (int i = 0; i < 6; i++) *values[i] = nn_take(arena, n, s->values);
    for (int i = 0; i < 6; i++) *dims[i] = nn_take(arena, n, s->dim);
    out->shared_in = nn_take(arena, n, shared);
    out->shared = nn_take(arena, n, shared);
    out->qk = nn_take(arena, n, 2 * shared);
}

void lnt_mega_room(lnt_arena *arena, const lnt_mega_shape *s, size_t n, size_t length,
                   size_t threads, lnt_mega_scratch *out)
{
    const size_t shared = s->heads * s->head_dim;
    for (int i = 0; i < 3; i++) out->dim[i] = nn_take(arena, n, s->dim);
    for (int i = 0; i < 3; i++) out->values[i] = nn_take(arena, n, s->values);
    out->qk = nn_take(arena, n, 2 * shared);
    out->shared = nn_take(arena, n, shared);
    out->past = nn_take(arena, threads, length * s->hidden);
}

static lnt_ema_weights ema_of(real *const *w)
{
    return (lnt_ema_weights){ w[LNT_MEGA_DELTA], w[LNT_MEGA_ALPHA], w[LNT_MEGA_BETA],
                              w[LNT_MEGA_GAMMA], w[LNT_MEGA_OMEGA] };
}

/* The heads of one half of rows [n,2,heads head_dim], which x is the first number of. */
static lnt_tensor qk_view(const lnt_mega_shape *s, const lnt_pass *pass, const real *x)
{
    return nn_heads(x, 2 * s->heads * s->head_dim, s->heads, s->head_dim, pass->batch, pass->length);
}

static lnt_tensor value_view(const lnt_mega_shape *s, const lnt_pass *pass, const real *x)
{
    return nn_heads(x, s->values, s->heads, s->values / s->heads, pass->batch, pass->length);
}

static lnt_attn_io make_io(const lnt_mega_shape *s, const lnt_pass *pass, const lnt_mega_kept *k)
{
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io),
                          .lengths_q = pass->lengths,
                          .lengths_k = pass->lengths,
                          .q = qk_view(s, pass, k->qk),
                          .k = qk_view(s, pass, k->qk + s->heads * s->head_dim),
                          .v = value_view(s, pass, k->value),
                          .out = value_view(s, pass, k->attended) };
}

/* ---- elementwise --------------------------------------------------------------------------- */

/* qk [n,2,width] = shared [n,width] gain + bias, twice. */
static void make_qk(const lnt_ctx *ctx, const real *shared, const real *gain, const real *bias,
                    real *qk, size_t n, size_t width)
{
    const int threads = lnt_threads_for(ctx, 4 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < 2 * (int64_t)n; row++) {
        const real *x = shared + (size_t)(row / 2) * width;
        const size_t which = (size_t)(row % 2) * width;
        real *y = qk + (size_t)row * width;
        for (size_t i = 0; i < width; i++) y[i] = x[i] * gain[which + i] + bias[which + i];
    }
}

/* dshared overwritten, dgain and dbias added to; a piece is some columns. */
static void qk_back(const lnt_ctx *ctx, const real *shared, const real *gain, const real *dqk,
                    real *dshared, real *dgain, real *dbias, size_t n, size_t width)
{
    const int threads = lnt_threads_for(ctx, 8 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t piece = 0; piece < nn_pieces(width, LNT_NN_COLUMNS); piece++) {
        const size_t c0 = (size_t)piece * LNT_NN_COLUMNS;
        const size_t end = c0 + nn_least(width - c0, LNT_NN_COLUMNS);
        for (size_t i = 0; i < n; i++) {
            const real *dq = dqk + 2 * i * width, *dk = dq + width, *x = shared + i * width;
            for (size_t c = c0; c < end; c++) {
                dshared[i * width + c] = dq[c] * gain[c] + dk[c] * gain[width + c];
                dgain[c] += dq[c] * x[c];
                dgain[width + c] += dk[c] * x[c];
                dbias[c] += dq[c];
                dbias[width + c] += dk[c];
            }
        }
    }
}

static void multiply(const lnt_ctx *ctx, real *y, const real *a, const real *b, size_t count)
{
    const int threads = lnt_threads_for(ctx, (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) y[i] = a[i] * b[i];
}

static void mix(const lnt_ctx *ctx, real *y, const real *x, const real *u, const real *h, size_t count)
{
    const int threads = lnt_threads_for(ctx, 3 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) y[i] = u[i] * (h[i] - x[i]);
}

/* du, dh overwritten; dx, which may be dy, added to. */
static void mix_back(const lnt_ctx *ctx, const real *x, const real *u, const real *h, const real *dy,
                     real *du, real *dh, real *dx, size_t count)
{
    const int threads = lnt_threads_for(ctx, 5 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) {
        du[i] = dy[i] * (h[i] - x[i]);
        dh[i] = dy[i] * u[i];
        dx[i] -= dh[i];
    }
}

/* ---- forward ------------------------------------------------------------------------------- */

/* Layer `param` of x and its activation. */
static void branch(const lnt_ctx *ctx, lnt_act kind, real *const *w, int param,
                   const real *x, real *before, real *after, size_t n, size_t in, size_t out)
{
    lnt_dense_forward(ctx, x, w[param], w[param + 1], before, n, in, out);
    lnt_act_forward(ctx, kind, before, after, n, out);
}

static lnt_status attend(const lnt_mega_shape *s, const lnt_attention *attention,
                         const lnt_pass *pass, real *const *w, const lnt_mega_kept *k)
{
    const lnt_attn_io io = make_io(s, pass, k);
    if (!s->full.used) return lnt_plan_forward_keeping(attention->plan, &io, k->notes);
    lnt_full_forward(pass->ctx, &s->full, k->qk, k->value, w[LNT_MEGA_DISTANCE], pass->lengths,
                     attention->scores, k->attended, pass->batch, pass->length);
    return LNT_OK;
}

lnt_status lnt_mega_forward(const lnt_mega_shape *s, const lnt_attention *attention,
                            const lnt_pass *pass, real *const *w, const real *x,
                            const real *normed, const lnt_mega_kept *k, real *y)
{
    lnt_ctx *ctx = pass->ctx;
    const size_t n = pass->batch * pass->length, dim = s->dim, values = s->values;
    const size_t shared = s->heads * s->head_dim;
    const lnt_ema_weights ema = ema_of(w);
    branch(ctx, LNT_ACT_SILU, w, LNT_MEGA_VALUE, normed, k->value_in, k->value, n, dim, values);
    lnt_ema_forward(ctx, &ema, normed, pass->lengths, k->average, pass->batch, pass->length, dim,
                    s->hidden);
    lnt_act_forward(ctx, LNT_ACT_SILU, k->average, k->smooth, n, dim);
    branch(ctx, LNT_ACT_SIGMOID, w, LNT_MEGA_GATE, k->smooth, k->gate_in, k->gate, n, dim, dim);
    branch(ctx, LNT_ACT_SILU, w, LNT_MEGA_SHARED, k->smooth, k->shared_in, k->shared, n, dim,
           shared);
    branch(ctx, LNT_ACT_SILU, w, LNT_MEGA_RESET, k->smooth, k->reset_in, k->reset, n, dim, values);
    make_qk(ctx, k->shared, w[LNT_MEGA_QK_GAIN], w[LNT_MEGA_QK_BIAS], k->qk, n, shared);
    const lnt_status status = attend(s, attention, pass, w, k);
    if (status) return status;
    multiply(ctx, k->passed, k->attended, k->reset, n * values);
    lnt_dense_forward(ctx, k->smooth, w[LNT_MEGA_CANDIDATE], w[LNT_MEGA_CANDIDATE_BIAS],
                      k->candidate_in, n, dim, dim);
    lnt_product(ctx, k->candidate_in, dim, (lnt_matrix){ k->passed, values, 1 },
                (lnt_matrix){ w[LNT_MEGA_ATTENDED], dim, 1 }, n, dim, values, true);
    lnt_act_forward(ctx, LNT_ACT_SILU, k->candidate_in, k->candidate, n, dim);
    mix(ctx, y, x, k->gate, k->candidate, n * dim);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* What goes through a backward pass unchanged. */
typedef struct back {
    const lnt_pass *pass;
    real *const *w, *const *g;
} back;

/* dy, of an activation's values, becomes that of what went into it; then dx of the layer before:
 * overwritten, or added to dx through own. */
static void branch_back(const back *b, lnt_act kind, int param, const real *x,
                        const real *before, const real *after, real *dy, real *dx, real *own,
                        size_t in, size_t out)
{
    lnt_ctx *ctx = b->pass->ctx;
    const size_t n = b->pass->batch * b->pass->length;
    lnt_act_backward(ctx, kind, before, after, dy, dy, n, out);
    lnt_dense_backward(ctx, x, b->w[param], dy, own ? own : dx, b->g[param], b->g[param + 1], n, in,
                       out);
    if (own) nn_add(ctx, dx, own, n * in);
}

static lnt_status attend_back(const back *b, const lnt_mega_shape *s,
                              const lnt_attention *attention, const lnt_mega_kept *k,
                              const real *dout, real *dqk, real *dv)
{
    const lnt_pass *pass = b->pass;
    if (s->full.used) {
        lnt_full_backward(pass->ctx, &s->full, k->qk, k->value, b->w[LNT_MEGA_DISTANCE],
                          pass->lengths, dout, attention->scores, dqk, dv, b->g[LNT_MEGA_DISTANCE],
                          pass->batch, pass->length);
        return LNT_OK;
    }
    const lnt_attn_io io = make_io(s, pass, k);
    const lnt_attn_grads grads = { .size = sizeof grads,
                                   .dout = value_view(s, pass, dout),
                                   .dq = qk_view(s, pass, dqk),
                                   .dk = qk_view(s, pass, dqk + s->heads * s->head_dim),
                                   .dv = value_view(s, pass, dv) };
    return lnt_plan_backward_kept(attention->plan, &io, &grads, k->notes);
}

lnt_status lnt_mega_backward(const lnt_mega_shape *s, const lnt_attention *attention,
                             const lnt_pass *pass, real *const *w, real *const *g, const real *x,
                             const real *normed, const lnt_mega_kept *k,
                             const lnt_mega_scratch *room, const real *dy, real *dx, real *dnormed)
{
    lnt_ctx *ctx = pass->ctx;
    const size_t n = pass->batch * pass->length, dim = s->dim, values = s->values;
    const size_t shared = s->heads * s->head_dim;
    const back b = { pass, w, g };
    real *dgate = room->dim[0], *dh = room->dim[1], *dsmooth = room->dim[2];
    real *dpassed = room->values[0], *dattended = room->values[1], *dvalue = room->values[2];
    const lnt_ema_weights ema = ema_of(w);
    const lnt_ema_grads dema = { g[LNT_MEGA_DELTA], g[LNT_MEGA_ALPHA], g[LNT_MEGA_BETA],
                                 g[LNT_MEGA_GAMMA], g[LNT_MEGA_OMEGA] };
    mix_back(ctx, x, k->gate, k->candidate, dy, dgate, dh, dx, n * dim);
    branch_back(&b, LNT_ACT_SILU, LNT_MEGA_CANDIDATE, k->smooth, k->candidate_in, k->candidate, dh,
                dsmooth, NULL, dim, dim);
    lnt_dense_backward(ctx, k->passed, w[LNT_MEGA_ATTENDED], dh, dpassed, g[LNT_MEGA_ATTENDED], NULL,
                       n, values, dim);
    multiply(ctx, dattended, dpassed, k->reset, n * values);
    multiply(ctx, dpassed, dpassed, k->attended, n * values); /* now that of the reset */
    const lnt_status status = attend_back(&b, s, attention, k, dattended, room->qk, dvalue);
    if (status) return status;
    qk_back(ctx, k->shared, w[LNT_MEGA_QK_GAIN], room->qk, room->shared, g[LNT_MEGA_QK_GAIN],
            g[LNT_MEGA_QK_BIAS], n, shared);
    real *own = dh; /* free by now */
    branch_back(&b, LNT_ACT_SILU, LNT_MEGA_RESET, k->smooth, k->reset_in, k->reset, dpassed, dsmooth,
                own, dim, values);
    branch_back(&b, LNT_ACT_SILU, LNT_MEGA_SHARED, k->smooth, k->shared_in, k->shared, room->shared,
                dsmooth, own, dim, shared);
    branch_back(&b, LNT_ACT_SIGMOID, LNT_MEGA_GATE, k->smooth, k->gate_in, k->gate, dgate, dsmooth, own,
                dim, dim);
    lnt_act_backward(ctx, LNT_ACT_SILU, k->average, k->smooth, dsmooth, dsmooth, n, dim);
    lnt_ema_backward(ctx, &ema, normed, pass->lengths, dsmooth, dnormed, &dema, room->past,
                     pass->batch, pass->length, dim, s->hidden);
    branch_back(&b, LNT_ACT_SILU, LNT_MEGA_VALUE, normed, k->value_in, k->value, dvalue, dnormed, own,
                dim, values);
    return LNT_OK;
}
