/* device/plugin_device.h - the device of a plug-in: its table of plugin.h behind that of device.h. */
#ifndef LNT_DEVICE_PLUGIN_DEVICE_H
#define LNT_DEVICE_PLUGIN_DEVICE_H

#include "device/device.h"
#include "device/plugin.h"

typedef struct lnt_plugin {
    struct lnt_device device; /* first: a context points to it */
    void *library;     /* as dlopen gave it */
    const lnt_cuda_api *api;
    lnt_cuda_device *handle;
} lnt_plugin;

/* A plan of the plug-in, with the scratch it runs in. */
typedef struct lnt_plugin_plan {
    lnt_ctx *ctx;
    lnt_cuda_plan *plan;
    lnt_cuda_plan_info info;
    int64_t batch;
    int64_t reported; /* rows of the plug-in's count that a report has told */
    void *workspace; /* for the larger of the two passes */
    size_t workspace_bytes;
    float *dtemperature; /* [heads] on the device, where backward may be asked for it; else NULL */
    size_t dtemperature_bytes;
} lnt_plugin_plan;

/* States: S [B,K,D,m] and z [B,K,D] in the memory of the device, without gaps. */
typedef struct lnt_plugin_state {
    lnt_plugin_plan plan; /* for its steps */
    const lnt_attn_desc *p;
    lnt_tensor tensor[2]; /* s, z */
    size_t bytes[2];
    int64_t *seen;        /* [batch] on the device: tokens */
    const int64_t *index; /* [selected] on the device; NULL: each sequence is its own */
    int64_t selected;
    const char *algorithm; /* that ran last; NULL: none */
} lnt_plugin_state;

/* device->library and ->api, or the sentence that says what is missing: find.c. */
lnt_status lnt_plugin_find(lnt_ctx *ctx, lnt_plugin *plugin);

lnt_status lnt_plugin_open(lnt_ctx *ctx, int ordinal, const struct lnt_device **out);
void lnt_plugin_close(lnt_ctx *ctx); /* the context's device, which is gone then */

static inline const lnt_plugin *lnt_plugin_of(const lnt_ctx *ctx)
{
    return (const lnt_plugin *)(const void *)ctx->device;
}

/* LNT_OK, or the status with the plug-in's sentence as the context's. */
lnt_status lnt_plugin_told(lnt_ctx *ctx, lnt_status status);

/* Without its scratch, and with it; a failure leaves *out as if it had ended. */
lnt_status lnt_plugin_plan_begin(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm,
                                 lnt_plugin_plan *out);
lnt_status lnt_plugin_plan_make(lnt_ctx *ctx, const lnt_attn_desc *p, const char *algorithm,
                                lnt_plugin_plan *out);
void lnt_plugin_plan_end(lnt_plugin_plan *plan); /* a zeroed one is fine */
lnt_cuda_io lnt_plugin_plan_io(const lnt_plugin_plan *plan); /* scratch and stream; the rest is empty */
lnt_status lnt_plugin_plan_report(lnt_plugin_plan *plan, lnt_report *out);

/* For the plug-in, each sequence its own. */
lnt_cuda_states lnt_plugin_slots(const lnt_device_state *state);

extern const lnt_device_plans lnt_plugin_plans;
extern const lnt_device_states lnt_plugin_states;

#endif
