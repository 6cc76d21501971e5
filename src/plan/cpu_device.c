/* plan/cpu_device.c - the CPU as a device: its memory is the host's, its plans are the algorithms of the
 * registry in scratch of their own, its states those of attention/state. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/cur/cur.h"
#include "attention/registry.h"
#include "attention/state/state.h"
#include "plan/measure.h"
#include "plan/plan.h"

static lnt_plan *own(const lnt_device_plan *plan) { return (lnt_plan *)(uintptr_t)plan; }

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t tokens_at_a_time(const lnt_algo *algo, const lnt_attn_desc *p)
{
    if (algo->chunk) return algo->chunk(p);
    return algo->tile ? algo->tile : 1;
}

/* Of what is kept: the scores (of cur the eigenvectors), then two numbers for every query. */
static size_t statistics_bytes(const lnt_algo *algo, const lnt_attn_desc *p)
{
    const size_t number = p->dtype == LNT_F64 ? sizeof(double) : sizeof(float);
    size_t queries, bytes;
    if (!p->backward || !algo->keeps) return 0;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, (size_t)p->length_q, &queries) ||
        !lnt_size_product(queries, 2, number, &bytes))
        return SIZE_MAX;
    return bytes;
}

static size_t scores_bytes(const lnt_algo *algo, const lnt_attn_desc *p)
{
    return algo->kept ? algo->kept(p) : 0;
}

/* The planner always chooses: the rates of this device are built in. */
static lnt_status describe_plan(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm,
                                const lnt_algo **out, lnt_plan_info *info)
{
    if (strchr(algorithm, ':'))
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "algorithm '%s': an algorithm has forms on a GPU only; leave out the colon and what "
                        "follows",
                        algorithm);
    const lnt_algo *algo = *out = lnt_registry_get(lnt_registry_find(algorithm), p->dtype);
    info->algorithm = algo->name;
    info->form = "";
    info->chunk = tokens_at_a_time(algo, p);
    info->state_bytes = lnt_state_predict(p, p->length_k);
    if (__builtin_add_overflow(statistics_bytes(algo, p), scores_bytes(algo, p), &info->kept_bytes))
        info->kept_bytes = SIZE_MAX;
    return LNT_OK;
}

static lnt_status predict(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan_info *info)
{
    const lnt_algo *algo;
    const lnt_status status = describe_plan(ctx, p, algorithm, &algo, info);
    return status ? status : lnt_workspace_count(ctx, p, algo, &info->workspace_bytes);
}

static lnt_status open_plan(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan *plan,
                            lnt_device_plan **out, lnt_plan_info *info)
{
    *out = (lnt_device_plan *)(void *)plan;
    lnt_status status = describe_plan(ctx, p, algorithm, &plan->algo, info);
    if (!status) status = lnt_workspace_make_room(&plan->work, &plan->algo, 1);
    info->workspace_bytes = plan->work.memory.capacity;
    return status;
}

static void keep_report(lnt_report *report, const lnt_run *run)
{
    report->nonpositive += run->nonpositive;
    report->divergent += run->divergent;
    if (isfinite(run->rank)) report->rank = report->rank > 0 ? fmin(report->rank, run->rank) : run->rank;
}

static lnt_status report(lnt_device_plan *plan, lnt_report *out)
{
    *out = own(plan)->report;
    own(plan)->report = (lnt_report){ .size = sizeof *out };
    return LNT_OK;
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

static lnt_run make_run(const lnt_plan *plan, const lnt_device_run *given)
{
    const lnt_attn_desc *p = &plan->work.p;
    lnt_run run = lnt_workspace_run(&plan->work, given->io, given->sequences);
    char *const kept = given->io->kept;
    const size_t scores = scores_bytes(plan->algo, p);
    if (kept && scores) run.kept = kept;
    if (kept && statistics_bytes(plan->algo, p)) run.statistics = kept + scores;
    return run;
}

static lnt_status end_forward(lnt_plan *plan, const lnt_device_run *given, lnt_run *run)
{
    if (!is_idle(given->io)) plan->algo->forward(run);
    lnt_state_advance(given->io, given->sequences);
    keep_report(&plan->report, run);
    return LNT_OK;
}

static lnt_status forward(lnt_device_plan *plan, const lnt_device_run *given)
{
    lnt_run run = make_run(own(plan), given);
    return end_forward(own(plan), given, &run);
}

static lnt_status partial(lnt_device_plan *plan, const lnt_device_run *given, const lnt_partial *into)
{
    lnt_run run = make_run(own(plan), given);
    run.partial = into;
    run.kept = run.statistics = NULL;
    return end_forward(own(plan), given, &run);
}

static lnt_status backward(lnt_device_plan *plan, const lnt_device_run *given)
{
    lnt_run run = make_run(own(plan), given);
    run.grads = given->grads;
    own(plan)->algo->backward(&run);
    run.nonpositive = 0; /* forward has told */
    keep_report(&own(plan)->report, &run);
    return LNT_OK;
}

static lnt_status landmarks(lnt_device_plan *of, const lnt_device_run *run, int64_t s, int64_t h,
                            int64_t *queries, int64_t *keys, int64_t *count)
{
    const lnt_plan *plan = own(of);
    const lnt_attn_desc *p = &plan->work.p;
    const lnt_sequence seq = lnt_io_sequence(run->io, s);
    *count = lnt_cur_mode_of(p, &seq) == LNT_CUR_LANDMARKS ? p->cur.landmarks : 0;
    if (!*count) return LNT_OK;
    /* The scratch of a thread has room for more than this. */
    const size_t M = (size_t)p->cur.landmarks;
    int64_t *own = (int64_t *)(void *)plan->work.scratch;
    lnt_landmark_choose(plan->work.ctx, p, run->io, &seq, h, own, own + M, (double *)(void *)(own + 2 * M));
    for (size_t i = 0; i < M && queries; i++) queries[i] = own[i];
    for (size_t i = 0; i < M && keys; i++) keys[i] = own[M + i];
    return LNT_OK;
}

static const lnt_device_plans cpu_plans = { .predict = predict,
                                            .open = open_plan,
                                            .report = report,
                                            .forward = forward,
                                            .backward = backward,
                                            .partial = partial,
                                            .landmarks = landmarks };

/* ---- memory and planning --------------------------------------------------------------------- */

static lnt_status describe(lnt_ctx *ctx, lnt_device_info *info)
{
    snprintf(info->name, sizeof info->name, "%s", lnt_ctx_isa(ctx));
    return LNT_OK;
}

static lnt_status allocate(lnt_ctx *ctx, size_t bytes, void **out)
{
    *out = lnt_allocate(ctx, bytes, "device memory");
    return *out ? LNT_OK : LNT_ERR_MEMORY;
}

static lnt_status copy(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    (void)ctx;
    memcpy(to, from, bytes);
    return LNT_OK;
}

/* A head for every thread; one dtype tells of all. */
static lnt_status calibration(lnt_ctx *ctx, lnt_dtype dtype, lnt_calibration *out)
{
    *out = (lnt_calibration){ dtype == LNT_F32 ? ctx->threads : 0, 512, 64 };
    return LNT_OK;
}

static lnt_dtype rate_dtype(const lnt_attn_desc *p, bool by_state)
{
    (void)p;
    (void)by_state;
    return LNT_F32;
}

static const lnt_device_ops cpu_ops = { .host_memory = true,
                                        .describe = describe,
                                        .measure_flops = lnt_cpu_measure_flops,
                                        .measure_bandwidth = lnt_cpu_measure_bandwidth,
                                        .allocate = allocate,
                                        .release = lnt_release,
                                        .write = copy,
                                        .read = copy,
                                        .rated = true,
                                        .calibration = calibration,
                                        .rate_dtype = rate_dtype,
                                        .plans = &cpu_plans,
                                        .states = &lnt_cpu_states };

const struct lnt_device lnt_device_cpu = { .ops = &cpu_ops, .name = "cpu" };
