/* device/plugin_plan.c - plans of a plug-in, and what it is given of a run. */
#include <string.h>

#include "device/plugin_device.h"

static lnt_plugin_plan *own(const lnt_device_plan *plan) { return (lnt_plugin_plan *)(uintptr_t)plan; }

static const lnt_cuda_api *api_of(const lnt_plugin_plan *plan) { return lnt_plugin_of(plan->ctx)->api; }

lnt_status lnt_plugin_plan_begin(lnt_ctx *ctx, const lnt_attn_desc *desc, const char *algorithm,
                                 lnt_plugin_plan *out)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    lnt_attn_desc p = *desc;
    p.algorithm = algorithm;
    /* Where there is nothing to do the plug-in is not called; it need not know such sizes. */
    if (!p.batch) p.batch = 1;
    if (!p.heads) p.heads = p.kv_heads = 1;
    *out = (lnt_plugin_plan){ .ctx = ctx, .batch = desc->batch, .info.size = sizeof out->info };
    lnt_status status = lnt_plugin_told(ctx, d->api->plan_create(d->handle, &p, &out->plan));
    if (!status) status = lnt_plugin_told(ctx, d->api->plan_describe(out->plan, &out->info));
    const size_t forward = out->info.workspace_bytes, backward = out->info.backward_bytes;
    out->workspace_bytes = forward > backward ? forward : backward;
    if (p.backward && p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT)
        out->dtemperature_bytes = (size_t)p.heads * sizeof(float);
    if (status) lnt_plugin_plan_end(out);
    return status;
}

lnt_status lnt_plugin_plan_make(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm,
                                lnt_plugin_plan *out)
{
    void *dtemperature = NULL;
    lnt_status status = lnt_plugin_plan_begin(ctx, p, algorithm, out);
    if (status) return status;
    status = lnt_device_allocate(ctx, out->workspace_bytes, &out->workspace);
    if (!status && out->dtemperature_bytes)
        status = lnt_device_allocate(ctx, out->dtemperature_bytes, &dtemperature);
    out->dtemperature = dtemperature;
    if (status) lnt_plugin_plan_end(out);
    return status;
}

void lnt_plugin_plan_end(lnt_plugin_plan *plan)
{
    if (!plan->plan) return;
    lnt_device_release(plan->ctx, plan->workspace, plan->workspace_bytes);
    lnt_device_release(plan->ctx, plan->dtemperature, plan->dtemperature_bytes);
    api_of(plan)->plan_destroy(plan->plan);
    plan->plan = NULL;
}

lnt_cuda_io lnt_plugin_plan_io(const lnt_plugin_plan *plan)
{
    return (lnt_cuda_io){ .size = sizeof(lnt_cuda_io),
                          .workspace = plan->workspace,
                          .workspace_bytes = plan->workspace_bytes,
                          .stream = plan->ctx->stream };
}

lnt_status lnt_plugin_plan_report(lnt_plugin_plan *plan, lnt_report *out)
{
    int64_t counted = 0;
    const lnt_status status =
        lnt_plugin_told(plan->ctx, api_of(plan)->nonpositive(plan->plan, plan->ctx->stream, &counted));
    if (status) return status;
    out->nonpositive = counted - plan->reported;
    plan->reported = counted;
    return LNT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What is kept is the workspace, which forward leaves to backward. */
static void describe(const lnt_plugin_plan *plan, lnt_plan_info *info)
{
    info->algorithm = plan->info.algorithm;
    info->form = plan->info.form;
    info->chunk = plan->info.segment;
    info->workspace_bytes = plan->workspace_bytes;
    info->kept_bytes = plan->info.leaves ? plan->workspace_bytes : 0;
    info->state_bytes = (size_t)plan->batch * plan->info.state_bytes;
}

static lnt_status predict(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan_info *info)
{
    lnt_plugin_plan plan;
    const lnt_status status = lnt_plugin_plan_begin(ctx, p, algorithm, &plan);
    if (!status) describe(&plan, info);
    lnt_plugin_plan_end(&plan);
    return status;
}

static lnt_status open_plan(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm, lnt_plan *whole,
                            lnt_device_plan **out, lnt_plan_info *info)
{
    (void)whole;
    lnt_plugin_plan *plan = lnt_allocate(ctx, sizeof *plan, "the plan");
    if (!plan) return LNT_ERR_MEMORY;
    const lnt_status status = lnt_plugin_plan_make(ctx, p, algorithm, plan);
    if (status) lnt_release(ctx, plan, sizeof *plan);
    else describe(plan, info);
    *out = status ? NULL : (lnt_device_plan *)(void *)plan;
    return status;
}

static void close_plan(lnt_device_plan *plan)
{
    lnt_plugin_plan_end(own(plan));
    lnt_release(own(plan)->ctx, plan, sizeof *own(plan));
}

static lnt_status set_temperature(lnt_device_plan *plan, const double *temperature)
{
    const lnt_plugin_plan *o = own(plan);
    return lnt_plugin_told(o->ctx, api_of(o)->set_temperature(o->plan, temperature, o->ctx->stream));
}

static lnt_status report(lnt_device_plan *plan, lnt_report *out)
{
    return lnt_plugin_plan_report(own(plan), out);
}

/* Whether the run is in memory of the caller's, which forward leaves to backward. */
static bool keeps(const lnt_plugin_plan *plan, const lnt_device_run *run)
{
    return plan->info.leaves && run->io->kept;
}

/* run's io for the plug-in; its states are in states[2], before and after. */
static lnt_status translate(const lnt_plugin_plan *plan, const lnt_device_run *run,
                            lnt_cuda_states states[2], lnt_cuda_io *out)
{
    const lnt_attn_io *io = run->io;
    if (io->sequences)
        return lnt_fail(plan->ctx, LNT_ERR_UNSUPPORTED,
                        "packed sequences: on the cpu only, not on %s; pad them and give lengths",
                        plan->ctx->device->name);
    if (io->mask.data)
        return lnt_fail(plan->ctx, LNT_ERR_UNSUPPORTED, "mask: on the cpu only, not on %s",
                        plan->ctx->device->name);
    *out = lnt_plugin_plan_io(plan);
    if (keeps(plan, run)) out->workspace = io->kept;
    out->q = io->q;
    out->k = io->k;
    out->v = io->v;
    out->out = io->out;
    out->lengths_q = io->lengths_q;
    out->lengths_k = io->lengths_k;
    if (run->state_in) states[0] = lnt_plugin_slots(run->state_in), out->state_in = &states[0];
    if (run->state_out) states[1] = lnt_plugin_slots(run->state_out), out->state_out = &states[1];
    return LNT_OK;
}

static bool has_work(const lnt_attn_io *io) { return io->q.shape[0] > 0 && io->q.shape[1] > 0; }

static lnt_status forward(lnt_device_plan *plan, const lnt_device_run *run)
{
    const lnt_plugin_plan *o = own(plan);
    lnt_cuda_states states[2];
    lnt_cuda_io io;
    const lnt_status status = translate(o, run, states, &io);
    if (status || !has_work(run->io)) return status;
    return lnt_plugin_told(o->ctx, api_of(o)->forward(o->plan, &io));
}

/* The gradient of the temperature, f32 on the device, as the caller takes it.  The numbers come into
 * the upper half of `out`, where number h is read before out[h] is written over it. */
static lnt_status read_temperature(const lnt_plugin_plan *plan, double *out)
{
    const size_t heads = plan->dtemperature_bytes / sizeof(float);
    char *upper = (char *)out + plan->dtemperature_bytes;
    const lnt_status status =
        lnt_device_read(plan->ctx, upper, plan->dtemperature, plan->dtemperature_bytes);
    for (size_t h = 0; h < heads && !status; h++) {
        float x;
        memcpy(&x, upper + h * sizeof x, sizeof x);
        out[h] = (double)x;
    }
    return status;
}

static lnt_status backward(lnt_device_plan *plan, const lnt_device_run *run)
{
    const lnt_plugin_plan *o = own(plan);
    const lnt_attn_grads *grads = run->grads;
    lnt_cuda_states states[2], gradients[2];
    lnt_cuda_io io;
    lnt_status status = translate(o, run, states, &io);
    if (!status && !api_of(o)->backward) status = lnt_device_lacks(o->ctx, "backward");
    if (status || !has_work(run->io)) return status;
    lnt_cuda_grads given = { .size = sizeof given,
                             .dout = grads->dout,
                             .dq = grads->dq,
                             .dk = grads->dk,
                             .dv = grads->dv,
                             .dtemperature = grads->dtemperature ? o->dtemperature : NULL,
                             .after_forward = keeps(o, run) };
    if (run->dstate_out) gradients[0] = lnt_plugin_slots(run->dstate_out), given.dstate_out = &gradients[0];
    if (run->dstate_in) gradients[1] = lnt_plugin_slots(run->dstate_in), given.dstate_in = &gradients[1];
    status = lnt_plugin_told(o->ctx, api_of(o)->backward(o->plan, &io, &given));
    return status || !grads->dtemperature ? status : read_temperature(o, grads->dtemperature);
}

const lnt_device_plans lnt_plugin_plans = { .predict = predict,
                                            .open = open_plan,
                                            .close = close_plan,
                                            .set_temperature = set_temperature,
                                            .report = report,
                                            .forward = forward,
                                            .backward = backward };
