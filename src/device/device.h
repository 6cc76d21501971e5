/* device/device.h - a GPU as the core sees it: the plug-in that was opened, and a device of it. */
#ifndef LNT_DEVICE_DEVICE_H
#define LNT_DEVICE_DEVICE_H

#include "core/context.h"
#include "device/plugin.h"

typedef struct lnt_device {
    void *library; /* as dlopen gave it */
    const lnt_cuda_api *api;
    lnt_cuda_device *handle;
    char name[16]; /* "cuda:0" */
} lnt_device;

/* LNT_OK, or the status with the plug-in's sentence as the context's. */
lnt_status lnt_device_told(lnt_ctx *ctx, lnt_status status);

/* On the stream, without waiting. */
lnt_status lnt_device_clear(lnt_ctx *ctx, void *memory, size_t bytes);
lnt_status lnt_device_copy(lnt_ctx *ctx, void *to, const void *from, size_t bytes);

#endif
