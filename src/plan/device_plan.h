/* plan/device_plan.h - a plan on a GPU: the plug-in's plan, and the scratch it runs in. */
#ifndef LNT_PLAN_DEVICE_PLAN_H
#define LNT_PLAN_DEVICE_PLAN_H

#include "cuda/device.h"

typedef struct lnt_device_plan {
    lnt_cuda_plan *plan; /* NULL: this plan is the CPU's */
    lnt_cuda_plan_info info;
    void *workspace;
} lnt_device_plan;

/* desc is resolved. */
lnt_status lnt_device_plan_open(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_device_plan *out);
void lnt_device_plan_close(lnt_ctx *ctx, lnt_device_plan *plan); /* a zeroed one is fine */
/* io is checked as for the CPU. */
lnt_status lnt_device_plan_forward(lnt_ctx *ctx, const lnt_device_plan *plan, const lnt_attn_io *io);
lnt_status lnt_device_plan_nonpositive(lnt_ctx *ctx, const lnt_device_plan *plan, int64_t *out);

#endif
