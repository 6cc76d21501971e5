/* device/device_plan.c - making and asking plans of the plug-in. */
#include "device/device_plan.h"

lnt_status lnt_device_plan_open(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_device_plan *out)
{
    const lnt_device *d = ctx->device;
    lnt_attn_desc p = *desc;
    /* Where there is nothing to do the plug-in is not called; it need not know such sizes. */
    if (!p.batch) p.batch = 1;
    if (!p.heads) p.heads = p.kv_heads = 1;
    *out = (lnt_device_plan){ .info.size = sizeof out->info };
    lnt_status status = lnt_device_told(ctx, d->api->plan_create(d->handle, &p, &out->plan));
    if (!status) status = lnt_device_told(ctx, d->api->plan_describe(out->plan, &out->info));
    const size_t forward = out->info.workspace_bytes, backward = out->info.backward_bytes;
    out->workspace_bytes = forward > backward ? forward : backward;
    if (!status) status = lnt_device_allocate(ctx, out->workspace_bytes, &out->workspace);
    if (!status && p.backward && p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) {
        void *memory;
        out->dtemperature_bytes = (size_t)p.heads * sizeof(float);
        status = lnt_device_allocate(ctx, out->dtemperature_bytes, &memory);
        if (!status) out->dtemperature = memory;
    }
    if (status) lnt_device_plan_close(ctx, out);
    return status;
}

void lnt_device_plan_close(lnt_ctx *ctx, lnt_device_plan *plan)
{
    if (!plan->plan) return;
    lnt_device_release(ctx, plan->workspace, plan->workspace_bytes);
    lnt_device_release(ctx, plan->dtemperature, plan->dtemperature_bytes);
    ctx->device->api->plan_destroy(plan->plan);
    plan->plan = NULL;
}

lnt_cuda_io lnt_device_plan_io(const lnt_ctx *ctx, const lnt_device_plan *plan)
{
    return (lnt_cuda_io){ .size = sizeof(lnt_cuda_io),
                          .workspace = plan->workspace,
                          .workspace_bytes = plan->workspace_bytes,
                          .stream = ctx->stream };
}

int64_t lnt_device_plan_nonpositive(lnt_ctx *ctx, const lnt_device_plan *plan)
{
    int64_t counted = 0;
    const lnt_device *d = ctx->device;
    const lnt_status status =
        lnt_device_told(ctx, d->api->nonpositive(plan->plan, ctx->stream, &counted));
    return status ? -1 : counted;
}
