/* device/device.c - the public calls about the device of a context: choosing it, its memory, its stream. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/struct.h"
#include "device/plugin_device.h"

lnt_status lnt_device_lacks(lnt_ctx *ctx, const char *what)
{
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: on the cpu only, not on %s", what, ctx->device->name);
}

bool lnt_device_same(const lnt_ctx *a, const lnt_ctx *b)
{
    return !strcmp(a->device->name, b->device->name);
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

const char *lnt_ctx_device(const lnt_ctx *ctx) { return ctx ? ctx->device->name : "cpu"; }

lnt_status lnt_device_describe(lnt_ctx *ctx, lnt_device_info *info)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    lnt_status status = lnt_struct_check(ctx, LNT_STRUCT(lnt_device_info, name), "info", info);
    lnt_device_info own = { .size = sizeof own, .host_memory = lnt_device_of(ctx)->host_memory };
    if (!status) status = lnt_device_of(ctx)->describe(ctx, &own);
    if (!status) lnt_struct_give(&own, info);
    return status;
}

lnt_status lnt_ctx_set_stream(lnt_ctx *ctx, void *stream)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    ctx->stream = stream;
    return LNT_OK;
}

lnt_status lnt_ctx_synchronize(lnt_ctx *ctx)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    return lnt_device_of(ctx)->synchronize ? lnt_device_of(ctx)->synchronize(ctx) : LNT_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

lnt_status lnt_device_allocate(lnt_ctx *ctx, size_t bytes, void **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    *out = NULL;
    return lnt_device_of(ctx)->allocate(ctx, bytes, out);
}

void lnt_device_release(lnt_ctx *ctx, void *memory, size_t bytes)
{
    if (ctx && memory) lnt_device_of(ctx)->release(ctx, memory, bytes);
}

/* Whether there is something to copy; *status says why not. */
static bool copies(lnt_ctx *ctx, const void *to, const void *from, size_t bytes, lnt_status *status)
{
    *status = ctx ? LNT_OK : LNT_ERR_ARGUMENT;
    if (ctx && bytes && (!to || !from))
        *status = lnt_fail(ctx, LNT_ERR_ARGUMENT, "to and from must not be NULL");
    return !*status && bytes;
}

lnt_status lnt_device_write(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    lnt_status status;
    return copies(ctx, to, from, bytes, &status) ? lnt_device_of(ctx)->write(ctx, to, from, bytes) : status;
}

lnt_status lnt_device_read(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    lnt_status status;
    return copies(ctx, to, from, bytes, &status) ? lnt_device_of(ctx)->read(ctx, to, from, bytes) : status;
}

/* ---- what it gives --------------------------------------------------------------------------- */

lnt_status lnt_measure_flops(lnt_ctx *ctx, lnt_dtype dtype, double *gflops)
{
    if (!ctx || !gflops) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and gflops must not be NULL");
    if (!lnt_dtype_size(dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "dtype is %d, must be f32, f16, bf16 or f64", (int)dtype);
    return lnt_device_of(ctx)->measure_flops(ctx, dtype, gflops);
}

lnt_status lnt_measure_bandwidth(lnt_ctx *ctx, size_t bytes, double *gbytes_per_second)
{
    if (!ctx || !gbytes_per_second)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and gbytes_per_second must not be NULL");
    return lnt_device_of(ctx)->measure_bandwidth(ctx, bytes, gbytes_per_second);
}
