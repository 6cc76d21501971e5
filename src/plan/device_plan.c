/* plan/device_plan.c - plans of the plug-in. */
#include "plan/device_plan.h"

lnt_status lnt_device_plan_open(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_device_plan *out)
{
    const lnt_device *d = ctx->device;
    *out = (lnt_device_plan){ .info.size = sizeof out->info };
    lnt_status status = d->api->plan_create(d->handle, desc, &out->plan);
    if (!status) status = d->api->plan_describe(out->plan, &out->info);
    if (status) {
        status = lnt_device_told(ctx, status);
        lnt_device_plan_close(ctx, out);
        return status;
    }
    status = lnt_device_allocate(ctx, out->info.workspace_bytes, &out->workspace);
    if (status) lnt_device_plan_close(ctx, out);
    return status;
}

void lnt_device_plan_close(lnt_ctx *ctx, lnt_device_plan *plan)
{
    if (!plan->plan) return;
    lnt_device_release(ctx, plan->workspace, plan->info.workspace_bytes);
    ctx->device->api->plan_destroy(plan->plan);
    plan->plan = NULL;
}

lnt_status lnt_device_plan_forward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io)
{
    if (io->lengths_q || io->lengths_k || io->sequences)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "%s: lengths and packed sequences are not taken yet", ctx->device->name);
    const lnt_cuda_io on_device = { .size = sizeof on_device,
                                    .q = io->q,
                                    .k = io->k,
                                    .v = io->v,
                                    .out = io->out,
                                    .workspace = plan->workspace,
                                    .workspace_bytes = plan->info.workspace_bytes,
                                    .stream = ctx->stream };
    return lnt_device_told(ctx, ctx->device->api->forward(plan->plan, &on_device));
}

lnt_status lnt_device_plan_nonpositive(lnt_ctx *ctx, const lnt_device_plan *plan, int64_t *out)
{
    return lnt_device_told(ctx, ctx->device->api->nonpositive(plan->plan, ctx->stream, out));
}
