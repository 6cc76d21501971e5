/* cuda/device.c - opens the plug-in, and what a context does with its device. */
#include "cuda/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lnt_status lnt_device_told(lnt_ctx *ctx, lnt_status status)
{
    if (!status) return LNT_OK;
    return lnt_fail(ctx, status, "%s: %s", ctx->device->name,
                    ctx->device->api->error(ctx->device->handle));
}

static void close_device(lnt_ctx *ctx)
{
    lnt_device *d = ctx->device;
    if (d->handle) d->api->close(d->handle);
    if (d->library) dlclose(d->library);
    lnt_release(ctx, d, sizeof *d);
    ctx->device = NULL;
}

static lnt_status open_library(lnt_ctx *ctx, lnt_device *d)
{
    const char *named = getenv("LINNET_CUDA_LIBRARY");
    const char *path = named && *named ? named : LNT_CUDA_LIBRARY;
    d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "device cuda needs the plug-in library, which could not be opened: %s",
                        dlerror());
    /* POSIX has it that this cast works; the C standard does not know function pointers as void. */
    lnt_cuda_plugin_function function;
    void *symbol = dlsym(d->library, LNT_CUDA_SYMBOL);
    memcpy(&function, &symbol, sizeof function);
    d->api = symbol ? function(LNT_CUDA_ABI) : NULL;
    if (!d->api)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "device cuda: '%s' is not a plug-in of this version of the library", path);
    return LNT_OK;
}

static lnt_status open_device(lnt_ctx *ctx, lnt_device *d, int ordinal)
{
    char sentence[LNT_ERROR_CAPACITY] = "";
    lnt_cuda_info info = { .size = sizeof info };
    lnt_status status = open_library(ctx, d);
    if (status) return status;
    status = d->api->open(ordinal, &d->handle, sentence, sizeof sentence);
    if (status) return lnt_fail(ctx, status, "device cuda:%d: %s", ordinal, sentence);
    status = d->api->describe(d->handle, &info);
    snprintf(d->name, sizeof d->name, "cuda:%d (%s)", ordinal, info.name);
    return lnt_device_told(ctx, status);
}

/* "cuda" is 0, "cuda:1" is 1; -1: neither. */
static int ordinal_of(const char *device)
{
    if (!strcmp(device, "cuda")) return 0;
    if (strncmp(device, "cuda:", 5) != 0 || !device[5]) return -1;
    char *end;
    const long ordinal = strtol(device + 5, &end, 10);
    return *end || ordinal < 0 || ordinal > 1023 ? -1 : (int)ordinal;
}

lnt_status lnt_ctx_set_device(lnt_ctx *ctx, const char *device)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!device) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is NULL");
    const int ordinal = ordinal_of(device);
    if (ordinal < 0 && strcmp(device, "cpu") != 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "device is '%s', must be cpu, cuda or cuda:N", device);
    if (ctx->device) close_device(ctx);
    if (ordinal < 0) return LNT_OK;
    ctx->device = lnt_allocate(ctx, sizeof *ctx->device, "the device");
    if (!ctx->device) return LNT_ERR_MEMORY;
    *ctx->device = (lnt_device){ .library = NULL };
    ctx->device_close = close_device;
    const lnt_status status = open_device(ctx, ctx->device, ordinal);
    if (status) close_device(ctx);
    return status;
}

const char *lnt_ctx_device(const lnt_ctx *ctx)
{
    return ctx && ctx->device ? ctx->device->name : "cpu";
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
    lnt_device *d = ctx->device;
    return d ? lnt_device_told(ctx, d->api->synchronize(d->handle, ctx->stream)) : LNT_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

lnt_status lnt_device_allocate(lnt_ctx *ctx, size_t bytes, void **out)
{
    if (!ctx || !out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ctx and out must not be NULL");
    lnt_device *d = ctx->device;
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

lnt_status lnt_device_write(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    if (!ctx || ((!to || !from) && bytes))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "to and from must not be NULL");
    lnt_device *d = ctx->device;
    if (d) return lnt_device_told(ctx, d->api->copy_in(d->handle, to, from, bytes, ctx->stream));
    if (bytes) memcpy(to, from, bytes);
    return LNT_OK;
}

lnt_status lnt_device_read(lnt_ctx *ctx, void *to, const void *from, size_t bytes)
{
    if (!ctx || ((!to || !from) && bytes))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "to and from must not be NULL");
    lnt_device *d = ctx->device;
    if (!d && bytes) memcpy(to, from, bytes);
    if (!d) return LNT_OK;
    const lnt_status status = d->api->copy_out(d->handle, to, from, bytes, ctx->stream);
    return status ? lnt_device_told(ctx, status) : lnt_ctx_synchronize(ctx);
}
