/* cli/measure/measure.c - times one pass of one problem beside the peaks of this machine.
 *
 * Useful operations and moved bytes are those that the mathematics needs, not those of an algorithm.  A pass
 * moves inputs and outputs once.  A step reads the state and, unless it is a cache, writes it. */
#include "cli/measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arrays/device.h"
#include "cli/arrays/tensors.h"
#include "cli/clock.h"
#include "cli/measure/order.h"
#include "cli/measure/step.h"
#include "cli/measure/workload.h"
#include "cli/show/report.h"

enum { MIN_SAMPLES = 3, MAX_SAMPLES = 200, STEP_ROWS = 64 };
static const double BENCH_SECONDS = 0.7, STEP_SAMPLE_SECONDS = 2e-3;

/* What is timed, ready to run. */
typedef struct trial {
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    pass_kind pass;
    workload host, data; /* as it was made; where it is computed */
    lnt_plan *plan;
    lnt_plan_info info;
    lnt_state *state;
    int64_t runs;  /* per sample; of a step, steps */
    int64_t row;   /* next token of data */
    const char *stepped; /* the algorithm that a step ran */
} trial;

static bool grows(const trial *t) { return t->desc.mechanism == LNT_SOFTMAX; }

/* ---- making a trial ------------------------------------------------------------------------ */

/* Whether what a step costs depends on how many tokens there were: hybrid has to fill its window. */
static bool is_cheaper_when_new(const trial *t)
{
    return grows(t) || t->desc.mechanism == LNT_HYBRID;
}

/* Whether it costs more step by step, from `length` tokens on. */
static bool changes(const trial *t)
{
    return grows(t) || (is_cheaper_when_new(t) &&
                        t->desc.length_k <= t->desc.hybrid.window + t->desc.hybrid.sink);
}

/* A state that remembers `length` tokens, where that changes what a step costs. */
static lnt_status fill_state(trial *t)
{
    lnt_status status = lnt_state_create(t->ctx, &t->desc, &t->state);
    for (int64_t at = 0; at < t->desc.length_k && is_cheaper_when_new(t) && !status; at += STEP_ROWS) {
        const int64_t left = t->desc.length_k - at, n = left < STEP_ROWS ? left : STEP_ROWS;
        const lnt_tensor k = tensor_rows(&t->data.k, 0, n), v = tensor_rows(&t->data.v, 0, n);
        status = lnt_state_append(t->state, &k, &v);
    }
    return status;
}

static int plan_trial(trial *t)
{
    if (t->pass == PASS_STEP) t->desc.causal = 1;
    t->desc.backward = t->pass == PASS_BACKWARD;
    t->info = (lnt_plan_info){ .size = sizeof t->info };
    lnt_attn_desc planned = t->desc;
    /* Only for its figures; a GPU may step in types that it has no whole pass for. */
    if (t->pass == PASS_STEP && device_is_apart(t->ctx)) planned.length_q = planned.length_k = 0;
    if (lnt_plan_create(t->ctx, &planned, &t->plan) || lnt_plan_describe(t->plan, &t->info))
        return fail_ctx(t->ctx);
    return EXIT_OK;
}

/* A token of all heads together, as the layer before hands it over; the numbers are random anyway. */
static void lay_by_token(lnt_tensor *x)
{
    x->stride[1] = x->shape[3];
    x->stride[0] = x->shape[1] * x->stride[1];
    x->stride[2] = x->shape[0] * x->stride[0];
}

static int fill_trial(trial *t)
{
    const bool step = t->pass == PASS_STEP;
    const int status = workload_make(t->ctx, &t->desc, step ? STEP_ROWS : t->desc.length_q,
                                     t->pass == PASS_BACKWARD, &t->host);
    if (status) return status;
    if (workload_place(t->ctx, &t->host, &t->data)) return fail_ctx(t->ctx);
    if (!step) return EXIT_OK;
    lnt_tensor *tokens[] = { &t->data.q, &t->data.k, &t->data.v, &t->data.out };
    for (int i = 0; i < 4; i++) lay_by_token(tokens[i]);
    return fill_state(t) ? fail_ctx(t->ctx) : EXIT_OK;
}

static void close_trial(trial *t)
{
    lnt_state_destroy(t->state);
    lnt_plan_destroy(t->plan);
    workload_leave(t->ctx, &t->data);
    workload_free(&t->host);
}

/* ---- timing -------------------------------------------------------------------------------- */

/* One token for every sequence. */
static lnt_status one_step(trial *t, lnt_state *state)
{
    const workload *w = &t->data;
    const int64_t i = t->row++ % STEP_ROWS;
    const lnt_tensor q = tensor_rows(&w->q, i, 1), k = tensor_rows(&w->k, i, 1);
    const lnt_tensor v = tensor_rows(&w->v, i, 1), out = tensor_rows(&w->out, i, 1);
    return lnt_state_step(state, &q, &k, &v, &out);
}

/* Seconds a step.  A state that changes with them is measured on a copy: every sample starts alike. */
static lnt_status sample_steps(trial *t, double *seconds)
{
    lnt_state *state = t->state;
    lnt_status status = changes(t) ? lnt_state_fork(t->state, &state) : LNT_OK;
    if (status) return status;
    if (changes(t)) status = lnt_state_reserve(state, t->desc.length_k + t->runs);
    const double start = now_seconds();
    for (int64_t i = 0; i < t->runs && !status; i++) status = one_step(t, state);
    if (!status) status = lnt_ctx_synchronize(t->ctx);
    *seconds = (now_seconds() - start) / (double)t->runs;
    t->stepped = lnt_state_algorithm(state);
    if (state != t->state) lnt_state_destroy(state);
    return status;
}

static lnt_status sample(trial *t, double *seconds)
{
    const lnt_attn_io io = workload_io(&t->data);
    const lnt_attn_grads grads = workload_grads(&t->data);
    if (t->pass == PASS_STEP) return sample_steps(t, seconds);
    lnt_status status = LNT_OK;
    const double start = now_seconds();
    for (int64_t i = 0; i < t->runs && !status; i++)
        status = t->pass == PASS_FORWARD ? lnt_plan_forward(t->plan, &io)
                                         : lnt_plan_backward(t->plan, &io, &grads);
    if (!status) status = lnt_ctx_synchronize(t->ctx);
    *seconds = (now_seconds() - start) / (double)t->runs;
    return status;
}

/* First runs: caches and clocks warm, the output that backward reads computed, and as many steps
 * to a sample as a clock can measure (for a state that changes few, so that it stays about its size).  A
 * GPU starts work later than it is told to, so there any run takes part in such a sample. */
static lnt_status warm_up(trial *t)
{
    const int64_t most = changes(t) ? t->desc.length_k / 16 + 1 : INT64_C(1) << 20;
    const lnt_attn_io io = workload_io(&t->data);
    double seconds = 0;
    t->runs = 1;
    lnt_status status = t->pass == PASS_BACKWARD ? lnt_plan_forward(t->plan, &io) : LNT_OK;
    if (!status) status = sample(t, &seconds);
    const bool several = t->pass == PASS_STEP || device_is_apart(t->ctx);
    while (several && !status && t->runs < most &&
           seconds * (double)t->runs < STEP_SAMPLE_SECONDS) {
        t->runs = 2 * t->runs < most ? 2 * t->runs : most;
        status = sample(t, &seconds);
    }
    return status;
}

typedef struct timing {
    double least, median;
} timing;

/* Samples for `budget` seconds, and a few even if they take several times that. */
static lnt_status time_trial(trial *t, double budget, timing *out)
{
    double samples[MAX_SAMPLES], elapsed = 0;
    size_t count = 0;
    lnt_status status = warm_up(t);
    const double start = now_seconds();
    while (!status && count < MAX_SAMPLES &&
           (elapsed < budget || (count < MIN_SAMPLES && elapsed < 7 * budget))) {
        status = sample(t, &samples[count++]);
        elapsed = now_seconds() - start;
    }
    if (status) return status;
    out->median = median_of(samples, count);
    out->least = samples[0];
    return LNT_OK;
}

/* ---- what was done in that time ------------------------------------------------------------ */

static double useful_flops(const trial *t)
{
    switch (t->pass) {
    case PASS_FORWARD: return t->info.flops;
    case PASS_BACKWARD: return t->info.flops_backward;
    case PASS_STEP: return step_flops(&t->desc, &t->info);
    }
    return 0;
}

static double moved_bytes(const trial *t)
{
    const workload *w = &t->data;
    const double vectors = tensor_bytes(&w->q) + tensor_bytes(&w->k) + tensor_bytes(&w->v) +
                           tensor_bytes(&w->out);
    switch (t->pass) {
    case PASS_FORWARD: return vectors;
    case PASS_BACKWARD:
        return vectors + tensor_bytes(&w->dout) + tensor_bytes(&w->dq) + tensor_bytes(&w->dk) +
               tensor_bytes(&w->dv);
    case PASS_STEP: return step_bytes(&t->desc, &t->info);
    }
    return 0;
}

/* Raises the peaks in *out to what the machine gives now: taken before and after the timing, so
 * that a slow moment does not flatter us. */
static lnt_status measure_peaks(const trial *t, measurement *out)
{
    const double most = 256e6; /* a larger footprint is in main memory all the same */
    const double least = device_is_apart(t->ctx) ? most : 4096; /* a GPU is not filled by less */
    const double footprint = t->pass == PASS_STEP ? step_state_bytes(&t->desc, &t->info)
                                                  : moved_bytes(t);
    double gflops = 0, gbytes = 0;
    lnt_status status = lnt_measure_flops(t->ctx, t->desc.dtype, &gflops);
    if (!status)
        status = lnt_measure_bandwidth(t->ctx, (size_t)fmin(fmax(footprint, least), most), &gbytes);
    out->peak_gflops = fmax(out->peak_gflops, gflops);
    out->peak_gbytes = fmax(out->peak_gbytes, gbytes);
    return status;
}

/* For how long a pass is timed: tests, which look at all but the times, ask for less. */
static int read_budget(double *seconds)
{
    const char *text = getenv("LINNET_BENCH_SECONDS");
    char *end;
    *seconds = text ? strtod(text, &end) : BENCH_SECONDS;
    if (!text || (end != text && !*end && *seconds > 0 && isfinite(*seconds))) return EXIT_OK;
    return fail_usage("LINNET_BENCH_SECONDS: '%s' is not a finite number above 0", text);
}

static int run_trial(trial *t, double budget, measurement *out)
{
    timing time;
    lnt_status status = measure_peaks(t, out);
    if (!status) status = time_trial(t, budget, &time);
    if (!status) status = measure_peaks(t, out);
    if (status) return fail_ctx(t->ctx);
    snprintf(out->algorithm, sizeof out->algorithm, "%s",
             t->pass == PASS_STEP ? t->stepped : t->info.algorithm);
    out->seconds = time.median;
    const double tokens = (double)t->desc.batch *
                          (t->pass == PASS_STEP ? 1 : (double)t->desc.length_q);
    out->ns_per_token = 1e9 * out->seconds / tokens;
    out->gflops = 1e-9 * useful_flops(t) / out->seconds;
    out->gbytes = 1e-9 * moved_bytes(t) / out->seconds;
    return EXIT_OK;
}

/* Verifies the algorithm that will be timed, which a shorter problem might not choose. */
static int verify_trial(const trial *t, measurement *out)
{
    lnt_attn_desc desc = t->desc;
    if (t->pass != PASS_STEP) desc.algorithm = t->info.algorithm;
    return workload_verify(t->ctx, &desc, t->pass, &out->relative_error);
}

int measure(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, measurement *out)
{
    trial t = { .ctx = ctx, .desc = *desc, .pass = pass };
    double budget;
    *out = (measurement){ .pass = pass,
                          .device = device_word(ctx),
                          .apart = device_is_apart(ctx),
                          .isa = lnt_ctx_isa(ctx),
                          .threads = lnt_ctx_threads(ctx) };
    int status = read_budget(&budget);
    if (!status) status = plan_trial(&t);
    if (!status) status = verify_trial(&t, out);
    if (!status) status = fill_trial(&t); /* after: both at once would need twice the memory */
    if (!status) status = run_trial(&t, budget, out);
    out->desc = t.desc;
    close_trial(&t);
    return status;
}

/* The scratch of a plan in state form holds the state; the others go back to the keys and values. */
static double held_bytes(const trial *t)
{
    const bool quadratic = grows(t) || strstr(t->info.algorithm, "/direct");
    const double cache = step_cache_bytes(&t->desc, &t->info);
    if (t->pass == PASS_STEP) return grows(t) ? cache : (double)t->info.state_bytes;
    return (quadratic ? cache : 0) + (double)t->info.workspace_bytes;
}

int measure_cost(lnt_ctx *ctx, const lnt_attn_desc *desc, pass_kind pass, double budget,
                 run_cost *out)
{
    trial t = { .ctx = ctx, .desc = *desc, .pass = pass };
    timing time = { 0, 0 };
    int status = plan_trial(&t);
    if (!status) status = fill_trial(&t);
    if (!status && time_trial(&t, budget, &time)) status = fail_ctx(ctx);
    if (!status) *out = (run_cost){ .seconds = time.least, .memory = held_bytes(&t) };
    close_trial(&t);
    return status;
}
