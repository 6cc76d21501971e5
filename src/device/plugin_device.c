/* device/plugin_device.c - a plug-in as a device: opening it, its memory and its stream. */
#include "device/plugin_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

lnt_status lnt_plugin_told(lnt_ctx *ctx, lnt_status status)
{
    if (!status) return LNT_OK;
    const lnt_plugin *plugin = lnt_plugin_of(ctx);
    return lnt_fail(ctx, status, "%s", plugin->api->error(plugin->handle));
}

static lnt_status describe(lnt_ctx *ctx, lnt_device_info *info)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    lnt_cuda_info found = { .size = sizeof found };
    const lnt_status status = lnt_plugin_told(ctx, d->api->describe(d->handle, &found));
    if (status) return status;
    memcpy(info->name, found.name, sizeof info->name);
    info->major = found.major;
    info->minor = found.minor;
    info->multiprocessors = found.multiprocessors;
    info->memory_bytes = found.memory_bytes;
    info->cache_bytes = found.l2_bytes;
    info->driver = found.driver;
    info->runtime = found.runtime;
    return LNT_OK;
}

static lnt_status measure_flops(lnt_ctx *ctx, lnt_dtype dtype, double *gflops)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->measure_flops(d->handle, dtype, gflops));
}

static lnt_status measure_bandwidth(lnt_ctx *ctx, size_t bytes, double *gbytes_per_second)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->measure_bandwidth(d->handle, bytes, gbytes_per_second));
}

/* ---- memory and stream ----------------------------------------------------------------------- */

static lnt_status allocate(lnt_ctx *ctx, size_t bytes, void **out)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->allocate(d->handle, bytes, out));
}

static void release(lnt_ctx *ctx, void *memory, size_t bytes)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    (void)bytes;
    d->api->release(d->handle, memory);
}

static lnt_status copy_in(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->copy_in(d->handle, to, from, bytes, ctx->stream));
}

static lnt_status copy_out(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->copy_out(d->handle, to, from, bytes, ctx->stream));
}

static lnt_status synchronize(lnt_ctx *ctx)
{
    const lnt_plugin *d = lnt_plugin_of(ctx);
    return lnt_plugin_told(ctx, d->api->synchronize(d->handle, ctx->stream));
}

/* ---- planning -------------------------------------------------------------------------------- */

/* In each of its types: enough to fill it. */
static lnt_status calibration(lnt_ctx *ctx, lnt_dtype dtype, lnt_calibration *out)
{
    lnt_device_info info = { .size = sizeof info };
    *out = (lnt_calibration){ .heads = 0 };
    if (dtype == LNT_F64) return LNT_OK;
    const lnt_status status = lnt_device_describe(ctx, &info);
    *out = (lnt_calibration){ 16, 256 + 64 * (int64_t)info.multiprocessors, 32 };
    return status;
}

/* It sums states of more than four terms in the precision of f32, whatever the tensors are. */
static lnt_dtype rate_dtype(const lnt_attn_desc *p, bool by_state)
{
    return by_state && p->mechanism == LNT_TAYLOR && p->taylor.terms > 4 ? LNT_F32 : p->dtype;
}

static const lnt_device_ops plugin_ops = { .describe = describe,
                                           .measure_flops = measure_flops,
                                           .measure_bandwidth = measure_bandwidth,
                                           .allocate = allocate,
                                           .release = release,
                                           .write = copy_in,
                                           .read = copy_out,
                                           .synchronize = synchronize,
                                           .calibration = calibration,
                                           .rate_dtype = rate_dtype,
                                           .plans = &lnt_plugin_plans,
                                           .states = &lnt_plugin_states };

/* ---- life ------------------------------------------------------------------------------------ */

static void release_plugin(lnt_ctx *ctx, lnt_plugin *d)
{
    if (d->handle) d->api->close(d->handle);
    if (d->library) dlclose(d->library);
    lnt_release(ctx, d, sizeof *d);
}

void lnt_plugin_close(lnt_ctx *ctx)
{
    release_plugin(ctx, (lnt_plugin *)(uintptr_t)lnt_plugin_of(ctx));
}

static lnt_status open_handle(lnt_ctx *ctx, lnt_plugin *d, int ordinal)
{
    char sentence[LNT_ERROR_CAPACITY - 32] = "";
    const lnt_status status = d->api->open(ordinal, lnt_cuda_structs, &d->handle, sentence, sizeof sentence);
    return status ? lnt_fail(ctx, status, "device %s: %s", d->device.name, sentence) : LNT_OK;
}

lnt_status lnt_plugin_open(lnt_ctx *ctx, int ordinal, const struct lnt_device **out)
{
    lnt_plugin *d = lnt_allocate(ctx, sizeof *d, "the device");
    if (!d) return LNT_ERR_MEMORY;
    *d = (lnt_plugin){ .device.ops = &plugin_ops };
    snprintf(d->device.name, sizeof d->device.name, "cuda:%d", ordinal);
    lnt_status status = lnt_plugin_find(ctx, d);
    if (!status) status = open_handle(ctx, d, ordinal);
    if (status) release_plugin(ctx, d);
    else *out = &d->device;
    return status;
}
