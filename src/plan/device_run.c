/* plan/device_run.c - what the plug-in is given of a run. */
#include "plan/device_run.h"

#include <string.h>

#include "attention/state/device_state.h"

/* io for the plug-in; its states point into `states`, before and after. */
static lnt_status translate(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io,
                            lnt_cuda_states states[2], lnt_cuda_io *out)
{
    if (io->sequences)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "packed sequences: on the cpu only, not on %s; pad them and give lengths",
                        ctx->device->name);
    *out = lnt_device_plan_io(ctx, plan);
    out->q = io->q;
    out->k = io->k;
    out->v = io->v;
    out->out = io->out;
    out->lengths_q = io->lengths_q;
    out->lengths_k = io->lengths_k;
    const lnt_state *const given[2] = { io->state_in, io->state_out };
    for (int i = 0; i < 2; i++)
        if (given[i]) states[i] = lnt_device_state_view(given[i]);
    if (io->state_in) out->state_in = &states[0];
    if (io->state_out) out->state_out = &states[1];
    return LNT_OK;
}

static bool has_work(const lnt_attn_io *io) { return io->q.shape[0] > 0 && io->q.shape[1] > 0; }

lnt_status lnt_device_forward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io)
{
    lnt_cuda_states states[2];
    lnt_cuda_io run;
    const lnt_status status = translate(ctx, plan, io, states, &run);
    if (status || !has_work(io)) return status;
    return lnt_device_told(ctx, ctx->device->api->forward(plan->plan, &run));
}

/* The gradient of the temperature, f32 on the device, as the caller takes it.  The numbers come into
 * the upper half of `out`, where number h is read before out[h] is written over it. */
static lnt_status read_temperature(lnt_ctx *ctx, const lnt_device_plan *plan, double *out)
{
    const size_t heads = plan->dtemperature_bytes / sizeof(float);
    char *upper = (char *)out + plan->dtemperature_bytes;
    const lnt_status status =
        lnt_device_read(ctx, upper, plan->dtemperature, plan->dtemperature_bytes);
    for (size_t h = 0; h < heads && !status; h++) {
        float x;
        memcpy(&x, upper + h * sizeof x, sizeof x);
        out[h] = (double)x;
    }
    return status;
}

lnt_status lnt_device_backward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io,
                               const lnt_attn_grads *grads)
{
    lnt_cuda_states states[2], gradients[2];
    lnt_cuda_io run;
    lnt_status status = translate(ctx, plan, io, states, &run);
    if (!status && !ctx->device->api->backward)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "backward: on the cpu only, not on %s",
                          ctx->device->name);
    if (status || !has_work(io)) return status;
    lnt_cuda_grads on_device = { .size = sizeof on_device,
                                 .dout = grads->dout,
                                 .dq = grads->dq,
                                 .dk = grads->dk,
                                 .dv = grads->dv,
                                 .dtemperature = grads->dtemperature ? plan->dtemperature : NULL,
                                 .after_forward = grads->after_forward };
    if (grads->dstate_out) {
        gradients[0] = lnt_device_state_view(grads->dstate_out);
        on_device.dstate_out = &gradients[0];
    }
    if (grads->dstate_in) {
        gradients[1] = lnt_device_state_view(grads->dstate_in);
        on_device.dstate_in = &gradients[1];
    }
    status = lnt_device_told(ctx, ctx->device->api->backward(plan->plan, &run, &on_device));
    if (status || !grads->dtemperature) return status;
    return read_temperature(ctx, plan, grads->dtemperature);
}
