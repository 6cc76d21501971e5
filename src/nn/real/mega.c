/* nn/real/mega.c - MEGA (Ma et al. 2023): with x' = norm(x), s the logistic function,
 *
 *     v = silu(x' W_v),  m = silu(EMA(x')),  u = s(m W_u),  z = silu(m W_z),  r = silu(m W_r)
 *     q, k = z gain_i + bias_i,   h = silu(m W_h + (attend(q, k, v) r) W_a),   y = u (h - x)
 *
 * attend is any mechanism, or nn/full.c, which has MEGA's bias by distance.  With a mechanism only the moving
 * average carries position.  Dense products are 2 n dim (3 values + 2 dim + heads head_dim) operations
 * forward. */
#include "nn/mega.h"

#include "nn/activation.h"
#include "nn/dense.h"
#include "nn/ema.h"
#include "plan/plan.h"

void lnt_mega_take_kept(lnt_arena *arena, const lnt_mega_shape *s, size_t n, lnt_mega_kept *out)
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

void lnt_mega_take_scratch(lnt_arena *arena, const lnt_mega_shape *s, size_t n, size_t length,
                   size_t threads, lnt_mega_scratch *out)
{
    const size_t shared = s->heads * s->head_dim;
    for (int i = 0; i < 3; i++) out->dim[i] = nn_take(arena, n, s->dim);
    for (int i = 0; i < 3; i++) out->values[i] = nn_take(arena, n, s->values);
    out->qk = nn_take(arena, n, 2 * shared);
    out->shared = nn_take(arena, n, shared);
    out->past = nn_take(arena, threads, length * s->hidden);
}

static real *grad_of(const lnt_mega *m, int param) { return m->g ? m->g[param] : NULL; }

static lnt_ema ema_layer(const lnt_mega *m)
{
    return (lnt_ema){ .width = m->shape.dim, .hidden = m->shape.hidden,
                      .delta = m->w[LNT_MEGA_DELTA], .ddelta = grad_of(m, LNT_MEGA_DELTA),
                      .alpha = m->w[LNT_MEGA_ALPHA], .dalpha = grad_of(m, LNT_MEGA_ALPHA),
                      .beta = m->w[LNT_MEGA_BETA], .dbeta = grad_of(m, LNT_MEGA_BETA),
                      .gamma = m->w[LNT_MEGA_GAMMA], .dgamma = grad_of(m, LNT_MEGA_GAMMA),
                      .omega = m->w[LNT_MEGA_OMEGA], .domega = grad_of(m, LNT_MEGA_OMEGA) };
}

static lnt_full full_layer(const lnt_mega *m)
{
    return (lnt_full){ .shape = &m->shape.full, .bias = m->w[LNT_MEGA_DISTANCE],
                       .dbias = grad_of(m, LNT_MEGA_DISTANCE) };
}

static size_t shared_width(const lnt_mega *m) { return m->shape.heads * m->shape.head_dim; }

/* The heads of one half of rows [n,2,heads head_dim], which x is the first number of. */
static lnt_tensor qk_view(const lnt_pass *pass, const lnt_mega *m, const real *x)
{
    return nn_heads(pass, x, 2 * shared_width(m), m->shape.heads, m->shape.head_dim);
}

static lnt_tensor value_view(const lnt_pass *pass, const lnt_mega *m, const real *x)
{
    const size_t values = m->shape.values, heads = m->shape.heads;
    return nn_heads(pass, x, values, heads, values / heads);
}

static lnt_attn_io make_io(const lnt_pass *pass, const lnt_mega *m)
{
    const lnt_mega_kept *k = m->kept;
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io),
                          .lengths_q = pass->lengths,
                          .lengths_k = pass->lengths,
                          .q = qk_view(pass, m, k->qk),
                          .k = qk_view(pass, m, k->qk + shared_width(m)),
                          .v = value_view(pass, m, k->value),
                          .out = value_view(pass, m, k->attended),
                          .kept = k->attention,
                          .kept_bytes = m->attention->kept };
}

/* ---- elementwise --------------------------------------------------------------------------- */

/* qk [n,2,width] = shared [n,width] gain + bias, twice. */
static void make_qk(const lnt_pass *pass, const lnt_mega *m)
{
    const real *gain = m->w[LNT_MEGA_QK_GAIN], *bias = m->w[LNT_MEGA_QK_BIAS];
    const real *shared = m->kept->shared;
    real *qk = m->kept->qk;
    const size_t n = nn_tokens(pass), width = shared_width(m);
    const int threads = lnt_threads_for(pass->ctx, 4 * (double)n * (double)width);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < 2 * (int64_t)n; row++) {
        const real *x = shared + (size_t)(row / 2) * width;
        const size_t which = (size_t)(row % 2) * width;
        real *y = qk + (size_t)row * width;
        for (size_t i = 0; i < width; i++) y[i] = x[i] * gain[which + i] + bias[which + i];
    }
}

/* From scratch->qk to scratch->shared; a piece is some columns. */
static void qk_back(const lnt_pass *pass, const lnt_mega *m)
{
    const real *gain = m->w[LNT_MEGA_QK_GAIN], *shared = m->kept->shared, *dqk = m->scratch->qk;
    real *dgain = m->g[LNT_MEGA_QK_GAIN], *dbias = m->g[LNT_MEGA_QK_BIAS], *dshared = m->scratch->shared;
    const size_t n = nn_tokens(pass), width = shared_width(m);
    const int threads = lnt_threads_for(pass->ctx, 8 * (double)n * (double)width);
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

static void mix(const lnt_pass *pass, const lnt_mega *m, const real *x, real *y)
{
    const real *u = m->kept->gate, *h = m->kept->candidate;
    const size_t count = nn_tokens(pass) * m->shape.dim;
    const int threads = lnt_threads_for(pass->ctx, 3 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) y[i] = u[i] * (h[i] - x[i]);
}

/* du, dh overwritten; dx, which may be dy, added to. */
static void mix_back(const lnt_pass *pass, const lnt_mega *m, const real *x, const real *dy, real *du,
                     real *dh, real *dx)
{
    const real *u = m->kept->gate, *h = m->kept->candidate;
    const size_t count = nn_tokens(pass) * m->shape.dim;
    const int threads = lnt_threads_for(pass->ctx, 5 * (double)count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)count; i++) {
        du[i] = dy[i] * (h[i] - x[i]);
        dh[i] = dy[i] * u[i];
        dx[i] -= dh[i];
    }
}

/* ---- branches ------------------------------------------------------------------------------ */

/* A dense layer and its activation, with what is kept before it and after it, [n,out]. */
typedef struct branch {
    lnt_act kind;
    size_t out;
    real *before, *after;
} branch;

static branch branch_of(const lnt_mega *m, int param)
{
    const lnt_mega_kept *k = m->kept;
    const size_t dim = m->shape.dim, values = m->shape.values;
    switch (param) {
    case LNT_MEGA_VALUE: return (branch){ LNT_ACT_SILU, values, k->value_in, k->value };
    case LNT_MEGA_GATE: return (branch){ LNT_ACT_SIGMOID, dim, k->gate_in, k->gate };
    case LNT_MEGA_SHARED: return (branch){ LNT_ACT_SILU, shared_width(m), k->shared_in, k->shared };
    case LNT_MEGA_RESET: return (branch){ LNT_ACT_SILU, values, k->reset_in, k->reset };
    default: return (branch){ LNT_ACT_SILU, dim, k->candidate_in, k->candidate };
    }
}

static void branch_forward(const lnt_pass *pass, const lnt_mega *m, int param, const real *x)
{
    const branch b = branch_of(m, param);
    const lnt_dense dense = lnt_dense_of(m->w, m->g, param, m->shape.dim, b.out);
    const size_t n = nn_tokens(pass);
    lnt_dense_forward(pass->ctx, &dense, x, b.before, n);
    lnt_act_forward(pass->ctx, b.kind, b.before, b.after, n, b.out);
}

/* dy, of an activation's values, becomes that of what went into it; then dx of the layer before:
 * overwritten, or added to dx through own. */
static void branch_back(const lnt_pass *pass, const lnt_mega *m, int param, const real *x, real *dy,
                        real *dx, real *own)
{
    const branch b = branch_of(m, param);
    const lnt_dense dense = lnt_dense_of(m->w, m->g, param, m->shape.dim, b.out);
    const size_t n = nn_tokens(pass);
    lnt_act_backward(pass->ctx, b.kind, b.before, b.after, dy, dy, n, b.out);
    lnt_dense_backward(pass->ctx, &dense, x, dy, own ? own : dx, n);
    if (own) nn_add(pass->ctx, dx, own, n * dense.in);
}

/* ---- forward ------------------------------------------------------------------------------- */

static lnt_status attend(const lnt_pass *pass, const lnt_mega *m)
{
    const lnt_mega_kept *k = m->kept;
    if (m->shape.full.used) {
        const lnt_full full = full_layer(m);
        lnt_full_forward(pass, &full, k->qk, k->value, k->attended, m->attention->scores);
        return LNT_OK;
    }
    const lnt_attn_io io = make_io(pass, m);
    return lnt_plan_forward(m->attention->plan, &io);
}

lnt_status lnt_mega_forward(const lnt_pass *pass, const lnt_mega *m, const real *x,
                            const real *normed, real *y)
{
    lnt_ctx *ctx = pass->ctx;
    const lnt_mega_kept *k = m->kept;
    const size_t n = nn_tokens(pass), dim = m->shape.dim, values = m->shape.values;
    const lnt_ema ema = ema_layer(m);
    const lnt_dense candidate = lnt_dense_of(m->w, m->g, LNT_MEGA_CANDIDATE, dim, dim);
    branch_forward(pass, m, LNT_MEGA_VALUE, normed);
    lnt_ema_forward(pass, &ema, normed, k->average);
    lnt_act_forward(ctx, LNT_ACT_SILU, k->average, k->smooth, n, dim);
    branch_forward(pass, m, LNT_MEGA_GATE, k->smooth);
    branch_forward(pass, m, LNT_MEGA_SHARED, k->smooth);
    branch_forward(pass, m, LNT_MEGA_RESET, k->smooth);
    make_qk(pass, m);
    const lnt_status status = attend(pass, m);
    if (status) return status;
    multiply(ctx, k->passed, k->attended, k->reset, n * values);
    lnt_dense_forward(ctx, &candidate, k->smooth, k->candidate_in, n);
    lnt_product(ctx, k->candidate_in, dim, nn_rows(k->passed, values),
                nn_rows(m->w[LNT_MEGA_ATTENDED], dim), n, dim, values, true);
    lnt_act_forward(ctx, LNT_ACT_SILU, k->candidate_in, k->candidate, n, dim);
    mix(pass, m, x, y);
    return LNT_OK;
}

/* ---- backward ------------------------------------------------------------------------------ */

static lnt_status attend_back(const lnt_pass *pass, const lnt_mega *m, const real *dout, real *dqk,
                              real *dv)
{
    const lnt_mega_kept *k = m->kept;
    if (m->shape.full.used) {
        const lnt_full full = full_layer(m);
        lnt_full_backward(pass, &full, k->qk, k->value, dout, dqk, dv, m->attention->scores);
        return LNT_OK;
    }
    const lnt_attn_io io = make_io(pass, m);
    const lnt_attn_grads grads = { .size = sizeof grads,
                                   .dout = value_view(pass, m, dout),
                                   .dq = qk_view(pass, m, dqk),
                                   .dk = qk_view(pass, m, dqk + shared_width(m)),
                                   .dv = value_view(pass, m, dv) };
    return lnt_plan_backward(m->attention->plan, &io, &grads);
}

lnt_status lnt_mega_backward(const lnt_pass *pass, const lnt_mega *m, const real *x,
                             const real *normed, const real *dy, real *dx, real *dnormed)
{
    lnt_ctx *ctx = pass->ctx;
    const lnt_mega_kept *k = m->kept;
    const lnt_mega_scratch *scratch = m->scratch;
    const size_t n = nn_tokens(pass), dim = m->shape.dim, values = m->shape.values;
    real *dgate = scratch->dim[0], *dh = scratch->dim[1], *dsmooth = scratch->dim[2];
    real *dpassed = scratch->values[0], *dattended = scratch->values[1], *dvalue = scratch->values[2];
    const lnt_ema ema = ema_layer(m);
    const lnt_dense attended = { .in = values, .out = dim, .w = m->w[LNT_MEGA_ATTENDED],
                                 .dw = m->g[LNT_MEGA_ATTENDED] };
    mix_back(pass, m, x, dy, dgate, dh, dx);
    branch_back(pass, m, LNT_MEGA_CANDIDATE, k->smooth, dh, dsmooth, NULL);
    lnt_dense_backward(ctx, &attended, k->passed, dh, dpassed, n);
    multiply(ctx, dattended, dpassed, k->reset, n * values);
    multiply(ctx, dpassed, dpassed, k->attended, n * values); /* now that of the reset */
    const lnt_status status = attend_back(pass, m, dattended, scratch->qk, dvalue);
    if (status) return status;
    qk_back(pass, m);
    real *own = dh; /* free by now */
    branch_back(pass, m, LNT_MEGA_RESET, k->smooth, dpassed, dsmooth, own);
    branch_back(pass, m, LNT_MEGA_SHARED, k->smooth, scratch->shared, dsmooth, own);
    branch_back(pass, m, LNT_MEGA_GATE, k->smooth, dgate, dsmooth, own);
    lnt_act_backward(ctx, LNT_ACT_SILU, k->average, k->smooth, dsmooth, dsmooth, n, dim);
    lnt_ema_backward(pass, &ema, normed, dsmooth, dnormed, scratch->past);
    branch_back(pass, m, LNT_MEGA_VALUE, normed, dvalue, dnormed, own);
    return LNT_OK;
}
