/* cli/measure/verify.c - compares a computation with the definition in double before it is timed.
 *
 * Forward and step compare rows with lnt_reference_row.  Backward draws a random direction u for every input
 * and compares, for L = sum dout.y,
 *
 *     dL.u  with  (L(x + h u) - L(x - h u)) / 2h,   relative to |dL|.
 *
 * The entries of u are independent and normal, so the expected square of the difference is |error of the
 * gradient|^2: the same relative error as that of the rows.  A single u may by chance give twice as much or
 * nothing, so several are averaged. */
#include <math.h>
#include <stdlib.h>

#include "cli/arrays/device.h"
#include "cli/arrays/tensors.h"
#include "cli/measure/workload.h"
#include "cli/show/report.h"

enum {
    SAMPLED_ROWS = 7,    /* per sampled head */
    LANDMARK_ROWS = 3,   /* the same for cur, each of whose rows costs as much as all landmarks */
    SAMPLED_HEADS = 3,   /* per sampled sequence */
    STEP_TOKENS = 17,
    BACKWARD_LENGTH = 256,
    DIRECTIONS = 8,      /* the error is known to a quarter of itself */
    LANDMARK_DIRECTIONS = 1,
    BACKWARD_ROWS = 256  /* rows with a gradient, of all heads: each is computed twice in double */
};

/* How far an answer may be from that of the keys and values before a cache rounded them. */
static double cache_tolerance(lnt_cache cache)
{
    switch (cache) {
    case LNT_CACHE_SAME: break;
    case LNT_CACHE_F16: return 1e-3;
    case LNT_CACHE_BF16: return 1e-2;
    case LNT_CACHE_Q8: return 2e-2;
    }
    return 0;
}

static double tolerance(lnt_dtype dtype, pass_kind pass)
{
    const bool backward = pass == PASS_BACKWARD;
    switch (dtype) {
    case LNT_F64: return backward ? 1e-6 : 1e-12; /* the difference quotient is good to 1e-8 */
    case LNT_F32: return backward ? 1e-3 : 1e-5;
    case LNT_F16: return backward ? 1e-2 : 2e-3;
    case LNT_BF16: return backward ? 5e-2 : 1e-2;
    }
    return 0;
}

/* Sums of squares, of the difference and of the reference. */
typedef struct deviation {
    double difference, reference;
} deviation;

static double relative(deviation d)
{
    return d.reference > 0 ? sqrt(d.difference / d.reference) : sqrt(d.difference);
}

/* Adds row i of head h; row [m] is scratch. */
static lnt_status compare_row(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io,
                              int64_t b, int64_t h, int64_t i, double *row, deviation *sum)
{
    const lnt_status status = lnt_reference_row(ctx, desc, io, b, h, i, row);
    for (int64_t c = 0; c < desc->dim_value && !status; c++) {
        const double difference = lnt_tensor_get(&io->out, b, h, i, c) - row[c];
        sum->difference += difference * difference;
        sum->reference += row[c] * row[c];
    }
    return status;
}

/* Index s of `samples` spread over 0 .. extent-1, both ends included. */
static int64_t spread(int64_t s, int64_t samples, int64_t extent)
{
    return samples < 2 ? 0 : s * (extent - 1) / (samples - 1);
}

/* Both ends and some between, in sequences, heads and rows; `rows` of them per head. */
static lnt_status compare_sample(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io,
                                 int64_t rows, double *row, deviation *sum)
{
    const int64_t *s = io->q.shape;
    const int64_t bs = s[0] < 2 ? s[0] : 2, hs = s[1] < SAMPLED_HEADS ? s[1] : SAMPLED_HEADS;
    const int64_t is = s[2] < rows ? s[2] : rows;
    lnt_status status = LNT_OK;
    for (int64_t b = 0; b < bs && !status; b++)
        for (int64_t h = 0; h < hs && !status; h++)
            for (int64_t i = 0; i < is && !status; i++)
                status = compare_row(ctx, desc, io, spread(b, bs, s[0]), spread(h, hs, s[1]),
                                     spread(i, is, s[2]), row, sum);
    return status;
}

/* One token after another. */
static lnt_status run_steps(lnt_state *state, const workload *w)
{
    lnt_status status = LNT_OK;
    for (int64_t i = 0; i < w->q.shape[2] && !status; i++) {
        const lnt_tensor q = tensor_rows(&w->q, i, 1), k = tensor_rows(&w->k, i, 1);
        const lnt_tensor v = tensor_rows(&w->v, i, 1), out = tensor_rows(&w->out, i, 1);
        status = lnt_state_step(state, &q, &k, &v, &out);
    }
    return status;
}

/* Fills the outputs of w; backward runs after forward, as in training. */
static lnt_status compute(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, const workload *w)
{
    lnt_plan *plan = NULL;
    lnt_state *state = NULL;
    workload there;
    lnt_status status = pass == PASS_STEP ? lnt_state_create(ctx, desc, &state)
                                          : lnt_plan_create(ctx, desc, &plan);
    if (status) return status;
    status = workload_place(ctx, w, &there);
    const lnt_attn_io io = workload_io(&there);
    const lnt_attn_grads grads = workload_grads(&there);
    if (!status) status = state ? run_steps(state, &there) : lnt_plan_forward(plan, &io);
    if (!status && pass == PASS_BACKWARD) status = lnt_plan_backward(plan, &io, &grads);
    const lnt_tensor *const from[] = { &there.out, &there.dq, &there.dk, &there.dv };
    const lnt_tensor *const to[] = { &w->out, &w->dq, &w->dk, &w->dv };
    for (int i = 0; i < (pass == PASS_BACKWARD ? 4 : 1) && !status; i++)
        status = device_fetch(ctx, from[i], to[i]);
    workload_leave(ctx, &there);
    lnt_plan_destroy(plan);
    lnt_state_destroy(state);
    return status;
}

/* Of a forward pass, or of steps. */
static lnt_status forward_deviation(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass,
                                    const workload *w, double *row, double *error)
{
    deviation sum = { 0, 0 };
    const lnt_attn_io io = workload_io(w);
    const int64_t rows = pass == PASS_STEP              ? STEP_TOKENS
                         : desc->mechanism == LNT_CUR ? LANDMARK_ROWS
                                                      : SAMPLED_ROWS;
    lnt_status status = compute(ctx, desc, pass, w);
    if (!status) status = compare_sample(ctx, desc, &io, rows, row, &sum);
    *error = relative(sum);
    return status;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* Rows of dout that are not zero: all, or one in `every`, which meets all places of a tile. */
static int64_t row_stride(const lnt_tensor *dout)
{
    const int64_t rows = dout->shape[0] * dout->shape[1] * dout->shape[2];
    return rows <= BACKWARD_ROWS ? 1 : rows / BACKWARD_ROWS | 1;
}

/* Sets the rows of dout that do not count to zero. */
static void thin_out(const lnt_tensor *dout)
{
    const int64_t *s = dout->shape, every = row_stride(dout);
    for (int64_t r = 0; r < s[0] * s[1] * s[2]; r++)
        for (int64_t c = 0; c < s[3] && r % every; c++)
            lnt_tensor_set(dout, r / s[2] / s[1], r / s[2] % s[1], r % s[2], c, 0);
}

/* L = sum dout.y at the inputs of io, by the definition. */
static lnt_status loss(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io,
                       const lnt_tensor *dout, double *row, double *out)
{
    const int64_t *s = dout->shape, every = row_stride(dout);
    lnt_status status = LNT_OK;
    *out = 0;
    for (int64_t r = 0; r < s[0] * s[1] * s[2] && !status; r += every) {
        const int64_t b = r / s[2] / s[1], h = r / s[2] % s[1], i = r % s[2];
        status = lnt_reference_row(ctx, desc, io, b, h, i, row);
        for (int64_t c = 0; c < s[3]; c++) *out += lnt_tensor_get(dout, b, h, i, c) * row[c];
    }
    return status;
}

/* to = x + h u, with x of any dtype and the others in double. */
static void shift(const lnt_tensor *x, const lnt_tensor *u, double h, const lnt_tensor *to)
{
    const int64_t n = tensor_elements(u);
    const double *direction = u->data;
    double *moved = to->data;
    tensor_convert(x, to);
    for (int64_t i = 0; i < n; i++) moved[i] += h * direction[i];
}

/* sum g.u and sum g.g */
static void project(const lnt_tensor *g, const lnt_tensor *u, double *along, double *square)
{
    const int64_t *s = g->shape;
    const double *direction = u->data;
    for (int64_t b = 0; b < s[0]; b++)
        for (int64_t h = 0; h < s[1]; h++)
            for (int64_t n = 0; n < s[2]; n++)
                for (int64_t d = 0; d < s[3]; d++) {
                    const double x = lnt_tensor_get(g, b, h, n, d);
                    *along += x * *direction++;
                    *square += x * x;
                }
}

/* Adds the difference along u to sum.  u [q, k, v] and x [q, k, v]: double, shaped as q, k, v. */
static lnt_status compare_along(lnt_ctx *ctx, const lnt_attn_desc *desc, const workload *w,
                                const workload *u, const workload *x, double *row, deviation *sum)
{
    /* So small that the kink of relu is hardly ever crossed; rounding still leaves 8 digits. */
    const double h = 1e-7;
    const lnt_attn_io io = workload_io(x);
    lnt_attn_desc exact = *desc;
    double at[2], along = 0;
    exact.dtype = LNT_F64;
    for (int side = 0; side < 2; side++) {
        const double by = side ? h : -h;
        shift(&w->q, &u->q, by, &x->q);
        shift(&w->k, &u->k, by, &x->k);
        shift(&w->v, &u->v, by, &x->v);
        const lnt_status status = loss(ctx, &exact, &io, &w->dout, row, &at[side]);
        if (status) return status;
    }
    project(&w->dq, &u->q, &along, &sum->reference);
    project(&w->dk, &u->k, &along, &sum->reference);
    project(&w->dv, &u->v, &along, &sum->reference);
    const double difference = along - (at[1] - at[0]) / (2 * h);
    sum->difference += difference * difference;
    return LNT_OK;
}

static int backward_deviation(lnt_ctx *ctx, const lnt_attn_desc *desc, const workload *w,
                              double *row, double *error)
{
    workload x = { .q.data = NULL };
    deviation sum = { 0, 0 };
    lnt_attn_desc directions = *desc;
    directions.dtype = LNT_F64;
    directions.mechanism = LNT_SOFTMAX; /* plain normal numbers */
    const int64_t n = w->q.shape[2];
    const int several = desc->mechanism == LNT_CUR ? LANDMARK_DIRECTIONS : DIRECTIONS;
    thin_out(&w->dout);
    int status = workload_make(ctx, &directions, n, false, &x);
    if (!status && compute(ctx, desc, PASS_BACKWARD, w)) status = fail_ctx(ctx);
    for (int i = 0; i < several && !status; i++) {
        workload u = { .q.data = NULL };
        directions.seed++;
        status = workload_make(ctx, &directions, n, false, &u);
        if (!status && compare_along(ctx, desc, w, &u, &x, row, &sum)) status = fail_ctx(ctx);
        workload_free(&u);
    }
    workload_free(&x);
    *error = relative(sum);
    return status;
}

/* ---- all passes ---------------------------------------------------------------------------- */

static int64_t verified_length(const lnt_attn_desc *desc, pass_kind pass)
{
    const int64_t n = desc->length_q;
    if (pass == PASS_STEP && desc->mechanism == LNT_HYBRID) /* some leave the window */
        return desc->hybrid.window + desc->hybrid.sink + 3 * STEP_TOKENS;
    if (pass == PASS_STEP) return STEP_TOKENS;
    return pass == PASS_BACKWARD && n > BACKWARD_LENGTH ? BACKWARD_LENGTH : n;
}

/* The pins below n, into pin [MAX_PINS]; returns how many. */
static int64_t pins_below(const lnt_attn_desc *desc, int64_t n, int64_t *pin)
{
    int64_t count = 0;
    for (int64_t i = 0; i < desc->cur.pins; i++)
        if (desc->cur.pin[i] < n) pin[count++] = desc->cur.pin[i];
    return count;
}

int workload_verify(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, double *error)
{
    workload w;
    int64_t pin[MAX_PINS];
    lnt_attn_desc part = *desc;
    part.length_q = part.length_k = verified_length(desc, pass);
    part.cur.pins = pins_below(desc, part.length_q, pin);
    part.cur.pin = pin;
    *error = NAN;
    double *row = calloc((size_t)desc->dim_value, sizeof *row);
    if (!row) return fail_memory((size_t)desc->dim_value * sizeof *row);
    int status = workload_make(ctx, &part, part.length_q, pass == PASS_BACKWARD, &w);
    if (!status && pass == PASS_BACKWARD)
        status = backward_deviation(ctx, &part, &w, row, error);
    else if (!status && forward_deviation(ctx, &part, pass, &w, row, error))
        status = fail_ctx(ctx);
    workload_free(&w);
    free(row);
    const double own = tolerance(desc->dtype, pass), cache = cache_tolerance(desc->softmax.cache);
    const double allowed = cache > own ? cache : own;
    if (status || *error <= allowed) return status;
    return fail("%s %s is wrong, so it is not timed: relative error %.3g, allowed %.0e",
                lnt_mechanism_name(desc->mechanism), option_choice(OPT_PASS, (int)pass), *error,
                allowed);
}
