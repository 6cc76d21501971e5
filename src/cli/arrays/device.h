/* cli/arrays/device.h - moves the tensors of the tool to the device of its context and back.  On the CPU
 * nothing is copied. */
#ifndef LNT_CLI_ARRAYS_DEVICE_H
#define LNT_CLI_ARRAYS_DEVICE_H

#include <stdbool.h>

#include "linnet.h"

bool device_is_apart(lnt_ctx *ctx); /* its memory is not the program's */
const char *device_word(const lnt_ctx *ctx); /* as --device has it: "cuda" of "cuda:0" */
/* "cpu (neon, 2 threads)" or "cuda:0 (NVIDIA H200)", into text. */
const char *device_text(lnt_ctx *ctx, char *text, size_t capacity);

/* *there = host, or a copy of it; one without data has none there.  device_leave frees it. */
lnt_status device_place(lnt_ctx *ctx, const lnt_tensor *host, lnt_tensor *there);
lnt_status device_fetch(lnt_ctx *ctx, const lnt_tensor *there, const lnt_tensor *host);
void device_leave(lnt_ctx *ctx, lnt_tensor *there); /* a zeroed one is fine */

#endif
