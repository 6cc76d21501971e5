/* device/device.c - choosing the device of a context, and its memory. */
#include "device/device.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/struct.h"
#include "device/find.h"

lnt_status lnt_device_told(lnt_ctx *ctx, lnt_status status)
{
    if (!status) return LNT_OK;
    return lnt_fail(ctx, status, "%s", ctx->device->api->error(ctx->device->handle));
}

static void release_device(lnt_ctx *ctx, lnt_device *d)
{
    if (d->handle) d->api->close(d->handle);
    if (d->library) dlclose(d->library);
    lnt_release(ctx, d, sizeof *d);
}

static void close_device(lnt_ctx *ctx)
{
    release_device(ctx, ctx->device);
    ctx->device = NULL;
}

static lnt_status open_handle(lnt_ctx *ctx, lnt_device *d, int ordinal)
{
    char sentence[LNT_ERROR_CAPACITY - 32] = "";
    const lnt_status status = d->api->open(ordinal, &d->handle, sentence, sizeof sentence);
    return status ? lnt_fail(ctx, status, "device %s: %s", d->name, sentence) : LNT_OK;
}

static lnt_status open_device(lnt_ctx *ctx, int ordinal, lnt_device **out)
{
    lnt_device *d = lnt_allocate(ctx, sizeof *d, "the device");
    if (!d) return LNT_ERR_MEMORY;
    *d = (lnt_device){ .library = NULL };
    snprintf(d->name, sizeof d->name, "cuda:%d", ordinal);
    lnt_status status = lnt_plugin_open(ctx, d);
    if (!status) status = open_handle(ctx, d, ordinal);
    if (status) release_device(ctx, d);
    else *out = d;
    return status;
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
    lnt_device *opened = NULL;
    const lnt_status status = ordinal < 0 ? LNT_OK : open_device(ctx, ordinal, &opened);
    if (status) return status;
    if (ctx->device) close_device(ctx);
    ctx->device = opened;
    ctx->device_close = close_device;
    ctx->stream = NULL;
    memset(ctx->seconds_per_flop, 0, sizeof ctx->seconds_per_flop); /* measured elsewhere */
    return LNT_OK;
}

const char *lnt_ctx_device(const lnt_ctx *ctx)
{
    return ctx && ctx->device ? ctx->device->name : "cpu";
}

lnt_status lnt_device_describe(lnt_ctx *ctx, lnt_device_info *out)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    lnt_status status = lnt_struct_check(ctx, LNT_STRUCT(lnt_device_info, name), "info", out);
    if (status) return status;
    lnt_device_info own = { .size = sizeof own }, *info = &own;
    const lnt_device *d = ctx->device;
    if (!d) {
        snprintf(info->name, sizeof info->name, "%s", lnt_ctx_isa(ctx));
        lnt_struct_give(info, out);
        return LNT_OK;
    }
    lnt_cuda_info found = { .size = sizeof found };
    status = lnt_device_told(ctx, d->api->describe(d->handle, &found));
    if (status) return status;
    memcpy(info->name, found.name, sizeof info->name);
    info->major = found.major;
    info->minor = found.minor;
    info->multiprocessors = found.multiprocessors;
    info->memory_bytes = found.memory_bytes;
    info->cache_bytes = found.l2_bytes;
    info->driver = found.driver;
    info->runtime = found.runtime;
    lnt_struct_give(info, out);
    return LNT_OK;
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
    const lnt_device *d = ctx->device;
    return d ? lnt_device_told(ctx, d->api->synchronize(d->handle, ctx->stream)) : LNT_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

lnt_status lnt_device_allocate(lnt_ctx *ctx, size_t bytes, void **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    const lnt_device *d = ctx->device;
    *out = NULL;
    if (d) return lnt_device_told(ctx, d->api->allocate(d->handle, bytes, out));
    *out = lnt_allocate(ctx, bytes, "device memory");
    return *out ? LNT_OK : LNT_ERR_MEMORY;
}

void lnt_device_release(lnt_ctx *ctx, void *memory, size_t bytes)
{
    if (!ctx || !memory) return;
    if (ctx->device) ctx->device->api->release(ctx->device->handle, memory);
    else lnt_release(ctx, memory, bytes);
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
    if (!copies(ctx, to, from, bytes, &status)) return status;
    const lnt_device *d = ctx->device;
    if (d) return lnt_device_told(ctx, d->api->copy_in(d->handle, to, from, bytes, ctx->stream));
    memcpy(to, from, bytes);
    return LNT_OK;
}

lnt_status lnt_device_read(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    lnt_status status;
    if (!copies(ctx, to, from, bytes, &status)) return status;
    const lnt_device *d = ctx->device;
    if (d) return lnt_device_told(ctx, d->api->copy_out(d->handle, to, from, bytes, ctx->stream));
    memcpy(to, from, bytes);
    return LNT_OK;
}

lnt_status lnt_device_clear(lnt_ctx *ctx, void *memory, size_t bytes)
{
    const lnt_device *d = ctx->device;
    assert(d);
    return bytes ? lnt_device_told(ctx, d->api->clear(d->handle, memory, bytes, ctx->stream))
                 : LNT_OK;
}

lnt_status lnt_device_copy(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const lnt_device *d = ctx->device;
    assert(d);
    return bytes ? lnt_device_told(ctx, d->api->copy(d->handle, to, from, bytes, ctx->stream))
                 : LNT_OK;
}
