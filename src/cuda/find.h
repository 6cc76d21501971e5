/* cuda/find.h - where the plug-in is. */
#ifndef LNT_CUDA_FIND_H
#define LNT_CUDA_FIND_H

#include "cuda/device.h"

/* device->library and ->api, or the sentence that says what is missing. */
lnt_status lnt_plugin_open(lnt_ctx *ctx, lnt_device *device);

#endif
