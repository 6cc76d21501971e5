/* plan/plan.c - a problem, the algorithm chosen for it and its scratch, ready to run. */
#include "plan/plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/cur/cur.h"
#include "attention/state/device_state.h"
#include "attention/partial.h"
#include "core/struct.h"
#include "core/tensor.h"
#include "plan/device_run.h"
#include "plan/planner.h"
#include "attention/registry.h"

struct lnt_plan {
    lnt_engine engine;
    int index; /* in the registry */
    const lnt_algo *algo;
    lnt_device_plan device; /* of a context with a GPU; the engine has no scratch then */
    int64_t nonpositive, divergent;
    double rank;
};

/* A plan on the GPU.  *index is the planner's choice, -1: none; and becomes the plug-in's, which may
 * not have it.  What the caller named it must have. */
static lnt_status open_on_device(lnt_ctx *ctx, const lnt_attn_desc *p, lnt_plan *plan, int *index)
{
    lnt_attn_desc wanted = *p;
    wanted.algorithm = *index < 0 ? NULL : lnt_algorithm_name(*index);
    lnt_status status = lnt_device_plan_open(ctx, &wanted, &plan->device);
    if (status) return status;
    const char *name = plan->device.info.algorithm;
    const int found = lnt_registry_find(name);
    if (found < 0 || (p->algorithm && found != *index))
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: %s has %s for this problem",
                          wanted.algorithm ? wanted.algorithm : lnt_mechanism_name(p->mechanism),
                          ctx->device->name, name);
    *index = found;
    if (!status) status = lnt_engine_open(ctx, p, NULL, 0, &plan->engine);
    if (status) lnt_device_plan_close(ctx, &plan->device);
    return status;
}

static lnt_status open_plan(lnt_ctx *ctx, const lnt_attn_desc *p, lnt_plan *plan)
{
    int index = 0;
    lnt_status status = lnt_planner_choose(ctx, p, &index);
    if (!status && ctx->device) status = open_on_device(ctx, p, plan, &index);
    if (status) return status;
    plan->index = index;
    plan->algo = lnt_registry_get(index, p->dtype);
    return ctx->device ? LNT_OK : lnt_engine_open(ctx, p, &plan->algo, 1, &plan->engine);
}

lnt_status lnt_plan_create(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_plan **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    lnt_attn_desc p;
    lnt_status status = lnt_problem_resolve(ctx, desc, &p);
    if (!status && p.mechanism == LNT_LINEAR && p.decay && !p.causal)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                          "decay: weights by age need an order; set causal, or leave decay out");
    if (status) return status;
    lnt_plan *plan = lnt_allocate(ctx, sizeof *plan, "the plan");
    if (!plan) return LNT_ERR_MEMORY;
    *plan = (lnt_plan){ .index = 0 };
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
    lnt_ctx *ctx = plan->engine.ctx;
    lnt_device_plan_close(ctx, &plan->device);
    lnt_engine_close(&plan->engine);
    lnt_release(ctx, plan, sizeof *plan);
}

lnt_status lnt_plan_set_temperature(lnt_plan *plan, const double *temperature)
{
    lnt_ctx *ctx = plan->engine.ctx;
    const lnt_attn_desc *p = &plan->engine.p;
    assert(p->taylor.temperature);
    memcpy((double *)(uintptr_t)p->taylor.temperature, temperature, (size_t)p->heads * sizeof *temperature);
    if (!plan->device.plan || !p->heads) return LNT_OK;
    return lnt_device_told(ctx, ctx->device->api->set_temperature(plan->device.plan, temperature,
                                                                  ctx->stream));
}

/* ---- running --------------------------------------------------------------------------------- */

static lnt_status check_state(const lnt_plan *plan, const char *name, const lnt_state *state)
{
    lnt_ctx *ctx = plan->engine.ctx;
    if (!state) return LNT_OK;
    if (!plan->engine.p.state)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: the plan was made with state 0", name);
    if (lnt_state_on_device(state) != (plan->device.plan != NULL))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: is %s a GPU, the plan is %s", name,
                        lnt_state_on_device(state) ? "on" : "not on",
                        plan->device.plan ? "on one" : "not");
    if (state->index)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "%s: an index is selected, and a plan takes sequences in their order", name);
    return LNT_OK;
}

/* io becomes the caller's, whole. */
static lnt_status check_io(const lnt_plan *plan, const lnt_attn_io *given, lnt_attn_io *io, bool with_out,
                           int64_t *sequences)
{
    lnt_status status = lnt_io_take(plan->engine.ctx, given, io);
    lnt_attn_io known = *io;
    if (plan->device.plan) known.lengths_q = known.lengths_k = NULL; /* they are on the device */
    if (!status) status = lnt_io_check(plan->engine.ctx, &plan->engine.p, &known, with_out, sequences);
    if (!status) status = check_state(plan, "state_in", io->state_in);
    return status ? status : check_state(plan, "state_out", io->state_out);
}

/* A run over a checked io, whose states then have all their tokens in their sums. */
static lnt_run open_run(const lnt_plan *plan, const lnt_attn_io *io, int64_t sequences)
{
    lnt_state_settle(io->state_in);
    lnt_state_settle(io->state_out);
    return lnt_engine_run(&plan->engine, io, sequences);
}

/* What there is to tell of pseudo-inverses. */
static void keep_inverses(lnt_plan *plan, const lnt_run *run)
{
    plan->divergent = run->divergent;
    plan->rank = isfinite(run->rank) ? run->rank : 0;
}

static void keep_reports(lnt_plan *plan, const lnt_run *run)
{
    plan->nonpositive = run->nonpositive;
    keep_inverses(plan, run);
}

static bool is_empty(const lnt_tensor *t)
{
    return !t->shape[0] || !t->shape[1] || !t->shape[2] || !t->shape[3];
}

/* No row to write and no key to remember, however many sequences there are of that. */
static bool is_idle(const lnt_attn_io *io)
{
    return is_empty(&io->q) && is_empty(&io->k) && !io->state_out;
}

/* Of what is kept: the scores (of cur the eigenvectors), then two numbers for every query. */
static size_t statistics_bytes(const lnt_plan *plan)
{
    const lnt_attn_desc *p = &plan->engine.p;
    const size_t number = p->dtype == LNT_F64 ? sizeof(double) : sizeof(float);
    size_t queries, bytes;
    if (plan->device.plan || !p->backward || !plan->algo->keeps) return 0;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, (size_t)p->length_q, &queries) ||
        !lnt_size_product(queries, 2, number, &bytes))
        return SIZE_MAX;
    return bytes;
}

static size_t scores_bytes(const lnt_plan *plan)
{
    const bool none = plan->device.plan || !plan->algo->kept;
    return none ? 0 : plan->algo->kept(&plan->engine.p);
}

size_t lnt_plan_kept_bytes(const lnt_plan *plan)
{
    size_t bytes;
    return __builtin_add_overflow(statistics_bytes(plan), scores_bytes(plan), &bytes) ? SIZE_MAX : bytes;
}

/* NULL: nothing is kept. */
static void set_kept(const lnt_plan *plan, lnt_run *run, void *kept)
{
    if (!kept) return;
    if (statistics_bytes(plan)) run->statistics = (char *)kept + scores_bytes(plan);
    if (scores_bytes(plan)) run->kept = kept;
}

lnt_status lnt_plan_forward_keeping(lnt_plan *plan, const lnt_attn_io *given, void *kept)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io whole;
    const lnt_attn_io *io = &whole;
    const lnt_status status = check_io(plan, given, &whole, true, &sequences);
    if (status) return status;
    if (plan->device.plan) return lnt_device_forward(plan->engine.ctx, &plan->device, io);
    lnt_run run = open_run(plan, io, sequences);
    set_kept(plan, &run, kept);
    if (!is_idle(io)) plan->algo->forward(&run);
    lnt_state_advance(io, sequences);
    keep_reports(plan, &run);
    return LNT_OK;
}

lnt_status lnt_plan_forward(lnt_plan *plan, const lnt_attn_io *io)
{
    return lnt_plan_forward_keeping(plan, io, NULL);
}

static lnt_status check_host(const lnt_plan *plan, const char *what)
{
    if (!plan->device.plan) return LNT_OK;
    return lnt_fail(plan->engine.ctx, LNT_ERR_UNSUPPORTED, "%s: on the cpu only, not on %s", what,
                    plan->engine.ctx->device->name);
}

static lnt_status check_partial(lnt_plan *plan, const lnt_attn_io *io, const lnt_partial *partial)
{
    lnt_ctx *ctx = plan->engine.ctx;
    const lnt_attn_desc *p = &plan->engine.p;
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
    if (io->sequences || io->lengths_q)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "partial: lengths_q and packed sequences are not taken; run them one by one");
    return LNT_OK;
}

lnt_status lnt_plan_partial(lnt_plan *plan, const lnt_attn_io *given, const lnt_partial *answer)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io whole;
    const lnt_attn_io *io = &whole;
    lnt_partial parts;
    const lnt_partial *partial = &parts;
    lnt_status status = check_host(plan, "partial");
    if (!status) status = check_io(plan, given, &whole, false, &sequences);
    if (!status) status = lnt_partial_take(plan->engine.ctx, "partial", answer, &parts);
    if (!status) status = check_partial(plan, io, partial);
    if (status) return status;
    lnt_run run = open_run(plan, io, sequences);
    run.partial = partial;
    if (!is_idle(io)) plan->algo->forward(&run);
    lnt_state_advance(io, sequences);
    keep_reports(plan, &run);
    return LNT_OK;
}

/* g becomes the caller's, whole. */
static lnt_status check_grads(lnt_plan *plan, const lnt_attn_io *io, const lnt_attn_grads *given,
                              lnt_attn_grads *g, int64_t sequences)
{
    lnt_ctx *ctx = plan->engine.ctx;
    const lnt_attn_desc *p = &plan->engine.p;
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
    return status;
}

lnt_status lnt_plan_backward_kept(lnt_plan *plan, const lnt_attn_io *given,
                                  const lnt_attn_grads *given_grads, const void *kept)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    int64_t sequences;
    lnt_attn_io whole;
    lnt_attn_grads whole_grads;
    const lnt_attn_io *io = &whole;
    const lnt_attn_grads *grads = &whole_grads;
    lnt_status status = check_io(plan, given, &whole, kept != NULL, &sequences);
    if (!status) status = check_grads(plan, io, given_grads, &whole_grads, sequences);
    if (status) return status;
    if (plan->device.plan) return lnt_device_backward(plan->engine.ctx, &plan->device, io, grads);
    lnt_state_settle(grads->dstate_out);
    lnt_state_settle(grads->dstate_in);
    lnt_run run = open_run(plan, io, sequences);
    run.grads = grads;
    set_kept(plan, &run, (void *)(uintptr_t)kept);
    plan->algo->backward(&run);
    keep_inverses(plan, &run);
    return LNT_OK;
}

lnt_status lnt_plan_backward(lnt_plan *plan, const lnt_attn_io *io, const lnt_attn_grads *grads)
{
    return lnt_plan_backward_kept(plan, io, grads, NULL);
}

int64_t lnt_plan_nonpositive(const lnt_plan *plan)
{
    if (!plan) return 0;
    return plan->device.plan ? lnt_device_plan_nonpositive(plan->engine.ctx, &plan->device)
                             : plan->nonpositive;
}

int64_t lnt_plan_divergent(const lnt_plan *plan) { return plan ? plan->divergent : 0; }
double lnt_plan_rank(const lnt_plan *plan) { return plan ? plan->rank : 0; }

lnt_status lnt_plan_landmarks(lnt_plan *plan, const lnt_attn_io *given, int64_t s, int64_t h,
                              int64_t *queries, int64_t *keys, int64_t *count)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = plan->engine.ctx;
    const lnt_attn_desc *p = &plan->engine.p;
    int64_t sequences;
    if (!count) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "count is NULL");
    if (p->mechanism != LNT_CUR)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "landmarks: %s has none; cur has",
                        lnt_mechanism_name(p->mechanism));
    lnt_status status = check_host(plan, "landmarks");
    lnt_attn_io whole;
    const lnt_attn_io *io = &whole;
    if (!status) status = check_io(plan, given, &whole, false, &sequences);
    if (status) return status;
    if (s < 0 || s >= sequences || h < 0 || h >= p->heads)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "landmarks: sequence %lld, head %lld; there are %lld and %lld",
                        (long long)s, (long long)h, (long long)sequences, (long long)p->heads);
    const lnt_sequence seq = lnt_io_sequence(io, s);
    *count = lnt_cur_mode_of(p, &seq) == LNT_CUR_LANDMARKS ? p->cur.landmarks : 0;
    if (!*count) return LNT_OK;
    /* The scratch of a thread has room for more than this. */
    const size_t M = (size_t)p->cur.landmarks;
    int64_t *own = (int64_t *)(void *)plan->engine.scratch;
    lnt_landmark_choose(ctx, p, io, &seq, h, own, own + M, (double *)(void *)(own + 2 * M));
    for (size_t i = 0; i < M && queries; i++) queries[i] = own[i];
    for (size_t i = 0; i < M && keys; i++) keys[i] = own[M + i];
    return LNT_OK;
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

static int64_t tokens_at_a_time(const lnt_algo *algo, const lnt_attn_desc *p)
{
    if (algo->chunk) return algo->chunk(p);
    return algo->tile ? algo->tile : 1;
}

lnt_status lnt_plan_describe(const lnt_plan *plan, lnt_plan_info *out)
{
    if (!plan) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = plan->engine.ctx;
    const lnt_attn_desc *p = &plan->engine.p;
    const lnt_status status = lnt_struct_check(ctx, LNT_STRUCT(lnt_plan_info, algorithm), "info", out);
    if (status) return status;
    const double nq = (double)p->length_q, nk = (double)p->length_k;
    const double D = (double)lnt_problem_width(p), m = (double)p->dim_value;
    const double width = (double)lnt_score_width(p);
    const bool state = plan->algo->takes_state, cur = p->mechanism == LNT_CUR;
    const bool direct_only = cur || p->mechanism == LNT_SOFTMAX;
    lnt_attn_desc softmax = *p;
    softmax.mechanism = LNT_SOFTMAX;
    const lnt_cuda_plan_info *device = plan->device.plan ? &plan->device.info : NULL;
    const lnt_plan_info info = {
        .size = sizeof info,
        .algorithm = plan->algo->name,
        .chunk = device ? device->segment : tokens_at_a_time(plan->algo, p),
        .flops = cur ? lnt_cur_flops(p) : state ? counted(p, lnt_state_flops(p))
                                                 : lnt_direct_flops(p),
        .flops_backward = cur     ? lnt_cur_flops_backward(p)
                          : state ? counted(p, lnt_state_flops_backward(p))
                                  : lnt_direct_flops_backward(p),
        .flops_direct = lnt_direct_flops(p),
        .flops_state = counted(p, lnt_state_flops(p)),
        .entries_direct = nq * nk + nk * (width + m) + nq * m,
        .entries_state = direct_only ? 0 : counted(p, D * m + D + nk * (width + m) + nq * m),
        .seconds = lnt_planner_seconds(ctx, plan->index, p),
        .crossover_speed = lnt_planner_crossover(ctx, p),
        .workspace_bytes = device ? plan->device.workspace_bytes : plan->engine.memory.capacity,
        .state_elements = counted(p, lnt_state_elements(p, p->length_k)),
        .state_bytes = device ? (size_t)p->batch * device->state_bytes
                              : lnt_state_predict(p, p->length_k),
        .flops_per_token = counted(p, step_flops(p)),
        .kv_cache_elements = lnt_state_elements(&softmax, p->length_k)
    };
    lnt_struct_give(&info, out);
    return LNT_OK;
}
