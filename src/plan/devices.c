/* plan/devices.c - the devices there are: the CPU, which a context begins with, and those of a plug-in. */
#include <stdlib.h>
#include <string.h>

#include "device/plugin_device.h"
#include "plan/plan.h"

lnt_status lnt_ctx_create(const lnt_ctx_options *options, lnt_ctx **out)
{
    return lnt_ctx_make(options, &lnt_device_cpu, out);
}

/* "cuda" is 0, "cuda:1" is 1; -1: neither. */
static int ordinal_of(const char *device)
{
    if (!strcmp(device, "cuda")) return 0;
    if (strncmp(device, "cuda:", 5) != 0 || device[5] < '0' || device[5] > '9') return -1;
    char *end;
    const long ordinal = strtol(device + 5, &end, 10);
    return *end || ordinal > 1023 ? -1 : (int)ordinal;
}

lnt_status lnt_ctx_set_device(lnt_ctx *ctx, const char *device)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!device) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is NULL");
    const int ordinal = ordinal_of(device);
    if (ordinal < 0 && strcmp(device, "cpu") != 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is '%.80s', must be cpu, cuda or cuda:N",
                        device);
    if (ctx->engines)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "device: the context has %lld plans, states and models, which must go first",
                        (long long)ctx->engines);
    const struct lnt_device *opened = &lnt_device_cpu;
    const lnt_status status = ordinal < 0 ? LNT_OK : lnt_plugin_open(ctx, ordinal, &opened);
    if (status) return status;
    if (ctx->device_close) ctx->device_close(ctx);
    ctx->device = opened;
    ctx->device_close = ordinal < 0 ? NULL : lnt_plugin_close;
    ctx->stream = NULL;
    memset(ctx->seconds_per_flop, 0, sizeof ctx->seconds_per_flop); /* measured elsewhere */
    return LNT_OK;
}
