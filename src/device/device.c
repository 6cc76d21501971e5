/* device/device.c - the public calls about the device of a context: what it is, its memory, its stream. */
#include "device/device.h"

#include <string.h>

#include "core/overlap.h"
#include "core/struct.h"

lnt_status lnt_device_lacks(lnt_ctx *ctx, const char *what)
{
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s: on the cpu only, not on %s", what, ctx->device->name);
}

bool lnt_device_same(const lnt_ctx *a, const lnt_ctx *b)
{
    return !strcmp(a->device->name, b->device->name);
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
    if (!*status) *status = lnt_expect_apart(ctx, "to", to, bytes, "from", from, bytes);
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
