/* plan/plan.c - the public calls of plans: a problem and the algorithm chosen for it, what a caller gives
 * checked; the device runs it (cpu_device.c, device/plugin_plan.c). */
#include "plan/plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mask.h"
#include "attention/partial.h"
#include "attention/registry.h"
#include "attention/state/state.h"
#include "core/overlap.h"
#include "core/struct.h"
#include "core/tensor.h"
#include "plan/planner.h"

static const lnt_device_plans *device_of(const lnt_plan *plan)
{
    return lnt_device_of(plan->work.ctx)->plans;
}

static void close_own(lnt_plan *plan)
{
    if (device_of(plan)->close) device_of(plan)->close(plan->own);
}

/* Resolved, and what plans do not take refused. */
static lnt_status resolve(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_attn_desc *p)
{
    const lnt_status status = lnt_problem_resolve(ctx, desc, p);
    if (status || p->mechanism != LNT_LINEAR || !p->decay || p->causal) return status;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                    "decay: weights by age need an order; set causal, or leave decay out");
}

enum { NAME_CAPACITY = 80 };

/* What the planner would take of p, and the form that p asks for; NULL: it leaves the choice to the
 * device. */
static lnt_status choose(lnt_ctx *ctx, const lnt_attn_desc *p, char name[NAME_CAPACITY], const char **wanted)
{
    int index;
    const char *form = p->algorithm ? strchr(p->algorithm, ':') : NULL;
    const lnt_status status = lnt_planner_choose(ctx, p, &index);
    if (status) return status;
    *wanted = index < 0 ? NULL : name;
    if (*wanted) snprintf(name, NAME_CAPACITY, "%s%s", lnt_algorithm_name(index), form ? form : "");
    return LNT_OK;
}

/* The index of what the device took instead; what the caller named it must have. */
static lnt_status find_taken(lnt_ctx *ctx, const lnt_attn_desc *p, const char *wanted, const char *taken,
                             int *index)
{
    *index = lnt_registry_find(taken);
    if (*index >= 0 && (!p->algorithm || !strncmp(taken, wanted, strlen(taken)))) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: %s has %s for this problem",
                    wanted ? wanted : lnt_mechanism_name(p->mechanism), ctx->device->name, taken);
}

static lnt_status open_plan(lnt_ctx *ctx, const lnt_attn_desc *p, lnt_plan *plan)
{
    char name[NAME_CAPACITY];
    const char *wanted;
    lnt_status status = choose(ctx, p, name, &wanted);
    if (!status) status = lnt_workspace_open(ctx, p, &plan->work);
    if (status) return status;
    status = device_of(plan)->open(ctx, &plan->work.p, wanted, plan, &plan->own, &plan->info);
    if (!status) {
        status = find_taken(ctx, p, wanted, plan->info.algorithm, &plan->index);
        if (status) close_own(plan);
    }
    if (status) lnt_workspace_close(&plan->work);
    return status;
}

lnt_status lnt_plan_create(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_plan **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    lnt_attn_desc p;
    lnt_status status = resolve(ctx, desc, &p);
    if (status) return status;
    lnt_plan *plan = lnt_allocate(ctx, sizeof *plan, "the plan");
    if (!plan) return LNT_ERR_MEMORY;
    *plan = (lnt_plan){ .info.size = sizeof plan->info, .report.size = sizeof plan->report };
    status = open_plan(ctx, &p, plan);
    if (status) {
        lnt_release(ctx, plan, sizeof *plan);
        return status;
    }
    *out = plan;
    return LNT_OK;
}

void lnt_plan_destroy(lnt_plan *plan)
{
    if (!plan) return;
    lnt_ctx *ctx = plan->work.ctx;
    close_own(plan);
    lnt_workspace_close(&plan->work);
    lnt_release(ctx, plan, sizeof *plan);
}

lnt_status lnt_plan_set_temperature(lnt_plan *plan, const double *temperature)
{
    const lnt_attn_desc *p = &plan->work.p;
    assert(p->taylor.temperature);
    memcpy((double *)(uintptr_t)p->taylor.temperature, temperature, (size_t)p->heads * sizeof *temperature);
    const bool told = p->heads && device_of(plan)->set_temperature;
    return told ? device_of(plan)->set_temperature(plan->own, temperature) : LNT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static lnt_status check_state(const lnt_plan *plan, const char *name, const lnt_state *state)
{
    lnt_ctx *ctx = plan->work.ctx;
    if (!state) return LNT_OK;
    if (!plan->work.p.state)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: the plan was made with state 0", name);
    if (!lnt_device_same(ctx, state->work.ctx))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: is on %s, the plan is on %s", name,
                        state->work.ctx->device->name, ctx->device->name);
    if (state->index)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "%s: an index is selected, and a plan takes sequences in their order", name);
    return LNT_OK;
}

static lnt_status check_kept(const lnt_plan *plan, const lnt_attn_io *io)
{
    if (!io->kept || io->kept_bytes >= plan->info.kept_bytes) return LNT_OK;
    return lnt_fail(plan->work.ctx, LNT_ERR_ARGUMENT, "kept_bytes is %zu, must be at least %zu",
                    io->kept_bytes, plan->info.kept_bytes);
}

/* io becomes the caller's, whole; `out` is looked at where it is written, and where it was kept. */
static lnt_status check_io(const lnt_plan *plan, const lnt_attn_io *given, lnt_attn_io *io, bool with_out,
                           int64_t *sequences)
{
    lnt_ctx *ctx = plan->work.ctx;
    lnt_status status = lnt_io_take(ctx, given, io);
    lnt_attn_io known = *io;
    if (!lnt_device_of(ctx)->host_memory) known.lengths_q = known.lengths_k = NULL; /* nobody looks there */
    if (!status)
        status = lnt_io_check(ctx, &plan->work.p, &known, with_out || io->kept, sequences);
    if (!status) status = check_kept(plan, io);
    if (!status) status = check_state(plan, "state_in", io->state_in);
    return status ? status : check_state(plan, "state_out", io->state_out);
}

/* What the device has of a state, whose tokens are all in its sums then. */
static lnt_device_state *own_of(lnt_state *state)
{
    lnt_state_settle(state);
    return state ? state->own : NULL;
}

/* A run of checked arguments. */
static lnt_device_run make_run(const lnt_attn_io *io, const lnt_attn_grads *grads, int64_t sequences)
{
    return (lnt_device_run){ .io = io,
                             .grads = grads,
                             .sequences = sequences,
                             .state_in = own_of(io->state_in),
                             .state_out = own_of(io->state_out),
                             .dstate_out = grads ? own_of(grads->dstate_out) : NULL,
                             .dstate_in = grads ? own_of(grads->dstate_in) : NULL };
}

lnt_status lnt_plan_forward(lnt_plan *plan, const lnt_attn_io *given)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io io;
    const lnt_status status = check_io(plan, given, &io, true, &sequences);
    if (status) return status;
    const lnt_device_run run = make_run(&io, NULL, sequences);
    return device_of(plan)->forward(plan->own, &run);
}

static lnt_status check_partial(lnt_plan *plan, const lnt_attn_io *io, const lnt_partial *partial)
{
    lnt_ctx *ctx = plan->work.ctx;
    const lnt_attn_desc *p = &plan->work.p;
    if (p->mechanism == LNT_CUR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: answers of cur over some of the keys cannot be added");
    if (p->mechanism == LNT_HYBRID)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: which keys are near in hybrid depends on how many come after them");
    lnt_status status = lnt_partial_check(ctx, "partial", partial);
    if (!status)
        status = lnt_tensor_expect(ctx, "partial num", &partial->num, io->q.shape[0], p->heads,
                                   io->q.shape[2], p->dim_value);
    if (status) return status;
    const lnt_dtype want = p->dtype == LNT_F64 ? LNT_F64 : LNT_F32;
    if (partial->num.dtype != want)
        return lnt_fail(ctx, LNT_ERR_DTYPE, "partial: dtype is %s, must be %s",
                        lnt_dtype_name(partial->num.dtype), lnt_dtype_name(want));
    if (!partial->max.data != (p->mechanism != LNT_SOFTMAX))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "partial max must be given for softmax and only then");
    if (p->mechanism == LNT_LINEAR && p->decay)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: with decay a key's weight depends on the keys after it");
    if (p->mechanism == LNT_TAYLOR && p->taylor.output_norm)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: output_norm needs the keys of all parts; leave it out");
    if (p->taylor.center_mean)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: center_mean needs the keys of all parts; give center instead");
    if (p->mechanism == LNT_SOFTMAX && (p->softmax.window || p->softmax.slopes))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: %s needs to know where keys stand, and a part of them does not tell",
                        p->softmax.window ? "window" : "slopes");
    if (io->sequences || io->lengths_q)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: lengths_q and packed sequences are not taken; run them one by one");
    const lnt_tensor mask = lnt_mask_memory(&io->mask);
    const lnt_named_tensor read[] = { { "q", &io->q }, { "k", &io->k }, { "v", &io->v }, { "mask", &mask } };
    return lnt_partial_apart(ctx, "partial", partial, read, 4);
}

lnt_status lnt_plan_partial(lnt_plan *plan, const lnt_attn_io *given, const lnt_partial *given_partial)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io io;
    lnt_partial partial;
    if (!device_of(plan)->partial) return lnt_device_lacks(plan->work.ctx, "partial");
    lnt_status status = check_io(plan, given, &io, false, &sequences);
    if (!status) status = lnt_partial_take(plan->work.ctx, "partial", given_partial, &partial);
    if (!status) status = check_partial(plan, &io, &partial);
    if (status) return status;
    const lnt_device_run run = make_run(&io, NULL, sequences);
    return device_of(plan)->partial(plan->own, &run, &partial);
}

/* g becomes the caller's, whole. */
static lnt_status check_grads(lnt_plan *plan, const lnt_attn_io *io, const lnt_attn_grads *given,
                              lnt_attn_grads *g, int64_t sequences)
{
    lnt_ctx *ctx = plan->work.ctx;
    const lnt_attn_desc *p = &plan->work.p;
    if (!p->backward)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "backward: the plan was made with backward 0");
    *g = (lnt_attn_grads){ .size = sizeof *g };
    lnt_status status = lnt_struct_take(ctx, LNT_STRUCT(lnt_attn_grads, dv), "grads", given, g);
    if (status) return status;
    const int64_t B = io->q.shape[0], nq = io->q.shape[2], nk = io->k.shape[2];
    const struct {
        const char *name;
        const lnt_tensor *t;
        int64_t heads, length, dim;
    } want[] = { { "dout", &g->dout, p->heads, nq, p->dim_value },
                 { "dq", &g->dq, p->heads, nq, p->dim },
                 { "dk", &g->dk, p->kv_heads, nk, p->dim },
                 { "dv", &g->dv, p->kv_heads, nk, p->dim_value } };
    for (size_t i = 0; i < 4; i++) {
        status = lnt_tensor_expect(ctx, want[i].name, want[i].t, B, want[i].heads, want[i].length,
                                   want[i].dim);
        if (status) return status;
        if (want[i].t->dtype != p->dtype)
            return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype is %s, the plan's is %s", want[i].name,
                            lnt_dtype_name(want[i].t->dtype), lnt_dtype_name(p->dtype));
    }
    if (g->dtemperature && p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "dtemperature needs normalize taylorshift");
    status = check_state(plan, "dstate_out", g->dstate_out);
    if (!status) status = check_state(plan, "dstate_in", g->dstate_in);
    if (!status && g->dstate_out) status = lnt_state_fits(ctx, "dstate_out", g->dstate_out, p, sequences);
    if (!status && g->dstate_in)
        status = lnt_state_fits(ctx, "dstate_in", g->dstate_in, p, sequences);
    if (!status && g->dstate_in &&
        (g->dstate_in == g->dstate_out || g->dstate_in == io->state_in || g->dstate_in == io->state_out))
        status = lnt_fail(ctx, LNT_ERR_ARGUMENT,
                          "dstate_in is written, must not be dstate_out, state_in or state_out");
    const lnt_tensor mask = lnt_mask_memory(&io->mask);
    const lnt_named_tensor read[] = { { "q", &io->q }, { "k", &io->k }, { "v", &io->v },
                                      { "dout", &g->dout }, { "mask", &mask }, { "out", &io->out } };
    const lnt_named_tensor written[] = { { "dq", &g->dq }, { "dk", &g->dk }, { "dv", &g->dv } };
    for (int i = 0; i < 3 && !status; i++) {
        status = lnt_tensor_expect_apart(ctx, written[i], read, io->kept ? 6 : 5);
        if (!status) status = lnt_tensor_expect_apart(ctx, written[i], written + i + 1, 2 - i);
    }
    return status;
}

lnt_status lnt_plan_backward(lnt_plan *plan, const lnt_attn_io *given, const lnt_attn_grads *given_grads)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io io;
    lnt_attn_grads grads;
    lnt_status status = check_io(plan, given, &io, false, &sequences);
    if (!status) status = check_grads(plan, &io, given_grads, &grads, sequences);
    if (status) return status;
    const lnt_device_run run = make_run(&io, &grads, sequences);
    return device_of(plan)->backward(plan->own, &run);
}

lnt_status lnt_plan_report(lnt_plan *plan, lnt_report *out)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    lnt_report own = { .size = sizeof own };
    lnt_status status =
        lnt_struct_check(plan->work.ctx, LNT_STRUCT(lnt_report, nonpositive), "report", out);
    if (!status) status = device_of(plan)->report(plan->own, &own);
    if (!status) lnt_struct_give(&own, out);
    return status;
}

lnt_status lnt_plan_landmarks(const lnt_plan *plan, const lnt_attn_io *given, int64_t s, int64_t h,
                              int64_t *queries, int64_t *keys, int64_t *count)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = plan->work.ctx;
    const lnt_attn_desc *p = &plan->work.p;
    int64_t sequences;
    if (!count) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is NULL");
    if (p->mechanism != LNT_CUR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "landmarks: %s has none; cur has",
                        lnt_mechanism_name(p->mechanism));
    if (!device_of(plan)->landmarks) return lnt_device_lacks(ctx, "landmarks");
    lnt_attn_io io;
    const lnt_status status = check_io(plan, given, &io, false, &sequences);
    if (status) return status;
    if (s < 0 || s >= sequences || h < 0 || h >= p->heads)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "landmarks: sequence %lld, head %lld; there are %lld and %lld",
                        (long long)s, (long long)h, (long long)sequences, (long long)p->heads);
    const lnt_device_run run = make_run(&io, NULL, sequences);
    return device_of(plan)->landmarks(plan->own, &run, s, h, queries, keys, count);
}

/* ---- describing ------------------------------------------------------------------------------ */

/* A figure of the state form, where its width can be counted. */
static double counted(const lnt_attn_desc *p, double figure)
{
    return lnt_problem_countable(p) ? figure : NAN;
}

/* One token, all heads, through the state: adding it and reading once. */
static double step_flops(const lnt_attn_desc *p)
{
    lnt_attn_desc one = *p;
    one.batch = 1;
    one.causal = 1;
    one.length_q = 1;
    if (p->mechanism == LNT_CUR) return 0;
    one.length_k = p->mechanism == LNT_HYBRID ? p->hybrid.window + p->hybrid.sink + 1
                                              : 1; /* one of them far */
    if (p->length_k > 0 && (p->mechanism == LNT_SOFTMAX || p->length_k < one.length_k))
        one.length_k = p->length_k;
    return p->mechanism == LNT_SOFTMAX ? lnt_direct_flops(&one) : lnt_state_flops(&one);
}

/* What the device has told of a plan of p, and all else. */
static lnt_plan_info describe(const lnt_ctx *ctx, const lnt_attn_desc *p, int index, lnt_plan_info info)
{
    const double nq = (double)p->length_q, nk = (double)p->length_k;
    const double D = (double)lnt_problem_width(p), m = (double)p->dim_value;
    const double width = (double)lnt_score_width(p);
    const bool state = lnt_registry_get(index, p->dtype)->takes_state, cur = p->mechanism == LNT_CUR;
    const bool direct_only = cur || p->mechanism == LNT_SOFTMAX;
    lnt_attn_desc softmax = *p;
    softmax.mechanism = LNT_SOFTMAX;
    info.flops = cur ? lnt_cur_flops(p) : state ? counted(p, lnt_state_flops(p))
                                                 : lnt_direct_flops(p);
    info.flops_backward = cur     ? lnt_cur_flops_backward(p)
                          : state ? counted(p, lnt_state_flops_backward(p))
                                  : lnt_direct_flops_backward(p);
    info.flops_direct = lnt_direct_flops(p);
    info.flops_state = counted(p, lnt_state_flops(p));
    info.entries_direct = nq * nk + nk * (width + m) + nq * m;
    info.entries_state = direct_only ? 0 : counted(p, D * m + D + nk * (width + m) + nq * m);
    info.seconds = lnt_planner_seconds(ctx, index, p);
    info.crossover_speed = lnt_planner_crossover(ctx, p);
    info.state_elements = counted(p, lnt_state_elements(p, p->length_k));
    info.flops_per_token = counted(p, step_flops(p));
    info.kv_cache_elements = lnt_state_elements(&softmax, p->length_k);
    return info;
}

static lnt_status check_info(lnt_ctx *ctx, const lnt_plan_info *out)
{
    return lnt_struct_check(ctx, LNT_STRUCT(lnt_plan_info, algorithm), "info", out);
}

lnt_status lnt_plan_describe(const lnt_plan *plan, lnt_plan_info *out)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    const lnt_status status = check_info(plan->work.ctx, out);
    if (status) return status;
    const lnt_plan_info info = describe(plan->work.ctx, &plan->work.p, plan->index, plan->info);
    lnt_struct_give(&info, out);
    return LNT_OK;
}

lnt_status lnt_plan_predict(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_plan_info *out)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    lnt_attn_desc p;
    char name[NAME_CAPACITY];
    const char *wanted;
    int index;
    lnt_plan_info info = { .size = sizeof info };
    lnt_status status = check_info(ctx, out);
    if (!status) status = resolve(ctx, desc, &p);
    if (!status) status = choose(ctx, &p, name, &wanted);
    if (!status) status = lnt_device_of(ctx)->plans->predict(ctx, &p, wanted, &info);
    if (!status) status = find_taken(ctx, &p, wanted, info.algorithm, &index);
    if (status) return status;
    info = describe(ctx, &p, index, info);
    lnt_struct_give(&info, out);
    return LNT_OK;
}
