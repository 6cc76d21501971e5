/* plan/devices.c - the devices there are: the CPU, which a context begins with, and those of a plug-in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/plugin_device.h"
#include "plan/plan.h"

lnt_status lnt_ctx_create(const lnt_ctx_options *options, lnt_ctx **out)
{
    return lnt_ctx_make(options, &lnt_device_cpu, out);
}

static lnt_status open_cpu(lnt_ctx *ctx, int ordinal, const struct lnt_device **out)
{
    (void)ctx;
    (void)ordinal;
    *out = &lnt_device_cpu;
    return LNT_OK;
}

static const struct device_row {
    const char *name;
    bool numbered; /* "name:1" is the second, "name" the first */
    lnt_status (*open)(lnt_ctx *ctx, int ordinal, const struct lnt_device **out);
    void (*close)(lnt_ctx *ctx); /* of ctx->device; NULL: nothing is to be closed */
} devices[] = { { "cpu", false, open_cpu, NULL }, { "cuda", true, lnt_plugin_open, lnt_plugin_close } };

enum { DEVICES = sizeof devices / sizeof devices[0] };

/* "cuda" is 0, "cuda:1" is 1; -1: it is not of this row. */
static int ordinal_of(const struct device_row *row, const char *device)
{
    const size_t length = strlen(row->name);
    if (strncmp(device, row->name, length) != 0) return -1;
    const char *rest = device + length;
    if (!*rest) return 0;
    if (!row->numbered || rest[0] != ':' || rest[1] < '0' || rest[1] > '9') return -1;
    char *end;
    const long ordinal = strtol(rest + 1, &end, 10);
    return *end || ordinal > 1023 ? -1 : (int)ordinal;
}

static lnt_status refuse(lnt_ctx *ctx, const char *device)
{
    char known[128] = "";
    for (int i = 0, n = 0; i < DEVICES && n < (int)sizeof known; i++)
        n += snprintf(known + n, sizeof known - (size_t)n, devices[i].numbered ? "%s%s, %s:N" : "%s%s",
                      i ? ", " : "", devices[i].name, devices[i].name);
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is '%.80s', must be one of %s", device, known);
}

lnt_status lnt_ctx_set_device(lnt_ctx *ctx, const char *device)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!device) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is NULL");
    int row = 0, ordinal = -1;
    while (row < DEVICES && (ordinal = ordinal_of(&devices[row], device)) < 0) row++;
    if (row == DEVICES) return refuse(ctx, device);
    if (ctx->users)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "device: the context has %lld plans, states and models, which must go first",
                        (long long)ctx->users);
    const struct lnt_device *opened;
    const lnt_status status = devices[row].open(ctx, ordinal, &opened);
    if (status) return status;
    if (ctx->device_close) ctx->device_close(ctx);
    ctx->device = opened;
    ctx->device_close = devices[row].close;
    ctx->stream = NULL;
    memset(ctx->seconds_per_flop, 0, sizeof ctx->seconds_per_flop); /* measured elsewhere */
    return LNT_OK;
}
