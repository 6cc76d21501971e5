/* cli/arrays/device.c - see device.h.  The tensors of the tool are contiguous, so a copy is one block. */
#include "cli/arrays/device.h"

#include <stdio.h>
#include <string.h>

#include "cli/arrays/tensors.h"
#include "cli/options.h"
#include "cli/show/amount.h"

bool device_is_apart(lnt_ctx *ctx)
{
    lnt_device_info info = { .size = sizeof info };
    return lnt_device_describe(ctx, &info) == LNT_OK && !info.host_memory;
}

const char *device_word(const lnt_ctx *ctx)
{
    const char *name = lnt_ctx_device(ctx), *word;
    const size_t length = strcspn(name, ":");
    for (int i = 0; (word = option_choice(OPT_DEVICE, i)); i++)
        if (strlen(word) == length && strncmp(word, name, length) == 0) return word;
    return name;
}

const char *device_text(lnt_ctx *ctx, char *text, size_t capacity)
{
    const int threads = lnt_ctx_threads(ctx);
    lnt_device_info info = { .size = sizeof info };
    const bool known = lnt_device_describe(ctx, &info) == LNT_OK;
    if (!known) snprintf(text, capacity, "%s", lnt_ctx_device(ctx));
    else if (info.host_memory)
        snprintf(text, capacity, "%s (%s, %d thread%s)", lnt_ctx_device(ctx), info.name, threads,
                 plural(threads));
    else snprintf(text, capacity, "%s (%s)", lnt_ctx_device(ctx), info.name);
    return text;
}

lnt_status device_place(lnt_ctx *ctx, const lnt_tensor *host, lnt_tensor *there)
{
    *there = *host;
    if (!device_is_apart(ctx) || !host->data) return LNT_OK;
    const size_t bytes = (size_t)tensor_bytes(host);
    there->data = NULL;
    const lnt_status status = lnt_device_allocate(ctx, bytes, &there->data);
    return status ? status : lnt_device_write(ctx, there->data, host->data, bytes);
}

lnt_status device_fetch(lnt_ctx *ctx, const lnt_tensor *there, const lnt_tensor *host)
{
    if (!device_is_apart(ctx)) return LNT_OK;
    return lnt_device_read(ctx, host->data, there->data, (size_t)tensor_bytes(host));
}

void device_leave(lnt_ctx *ctx, lnt_tensor *there)
{
    if (ctx && device_is_apart(ctx)) lnt_device_release(ctx, there->data, (size_t)tensor_bytes(there));
    there->data = NULL;
}
