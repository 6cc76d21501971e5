/* plan/device_run.h - a run on a GPU.  Arguments are checked, as for the CPU. */
#ifndef LNT_PLAN_DEVICE_RUN_H
#define LNT_PLAN_DEVICE_RUN_H

#include "device/device_plan.h"

lnt_status lnt_device_forward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io);
lnt_status lnt_device_backward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io,
                               const lnt_attn_grads *grads);

#endif
