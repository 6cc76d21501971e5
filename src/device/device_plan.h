/* device/device_plan.h - a plan of the plug-in, with the scratch it runs in. */
#ifndef LNT_DEVICE_DEVICE_PLAN_H
#define LNT_DEVICE_DEVICE_PLAN_H

#include "device/device.h"

typedef struct lnt_device_plan {
    lnt_cuda_plan *plan; /* NULL: there is none, all is on the CPU */
    lnt_cuda_plan_info info;
    void *workspace; /* for the larger of the two passes */
    size_t workspace_bytes;
    float *dtemperature; /* [heads] on the device, where backward may be asked for it; else NULL */
    size_t dtemperature_bytes;
} lnt_device_plan;

/* desc is resolved; its algorithm is asked for. */
lnt_status lnt_device_plan_open(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_device_plan *out);
void lnt_device_plan_close(lnt_ctx *ctx, lnt_device_plan *plan); /* a zeroed one is fine */

/* Scratch and stream of a run; the rest is empty. */
lnt_cuda_io lnt_device_plan_io(const lnt_ctx *ctx, const lnt_device_plan *plan);

/* Of all runs so far; waits for the stream.  -1: that failed. */
int64_t lnt_device_plan_nonpositive(lnt_ctx *ctx, const lnt_device_plan *plan);

#endif
