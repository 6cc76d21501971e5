/* bench/gpu/device.h - the plug-in that is verified and the GPU it runs on: one of each, opened at
 * the start and never closed. */
#ifndef BENCH_GPU_DEVICE_H
#define BENCH_GPU_DEVICE_H

#include <cuda_runtime.h>

#include "device/plugin.h"

extern const lnt_cuda_api *api;
extern lnt_cuda_device *device;
extern lnt_ctx *host; /* a context on the CPU, which knows what is right */

/* The first GPU, through this plug-in; false: it was said why not. */
bool open_device(const char *library);

/* Ends the program where something failed, naming it. */
void must(bool ok, const char *what);
void must(lnt_status status, const char *what);
void must(cudaError_t error, const char *what);

#endif
