/* device/find.h - where the plug-in is. */
#ifndef LNT_DEVICE_FIND_H
#define LNT_DEVICE_FIND_H

#include "device/device.h"

/* device->library and ->api, or the sentence that says what is missing. */
lnt_status lnt_plugin_open(lnt_ctx *ctx, lnt_device *device);

#endif
