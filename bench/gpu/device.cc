/* bench/gpu/device.cc - opens the plug-in, and ends the program where a call fails. */
#include "gpu/device.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

const lnt_cuda_api *api;
lnt_cuda_device *device;
lnt_ctx *host;

bool open_device(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "gpu: %s\n", dlerror());
        return false;
    }
    const auto ask = (lnt_cuda_plugin_function)dlsym(library, LNT_CUDA_SYMBOL);
    api = ask ? ask(LNT_CUDA_ABI) : nullptr;
    char sentence[256] = "not a plug-in of this version";
    must(lnt_ctx_create(NULL, &host), "making a context");
    if (api && !api->open(0, lnt_cuda_structs, &device, sentence, sizeof sentence)) return true;
    fprintf(stderr, "gpu: %s\n", sentence);
    return false;
}

void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "gpu: %s: %s, %s, %s\n", what, device ? api->error(device) : "",
            host ? lnt_ctx_error(host) : "", cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

void must(lnt_status status, const char *what) { must(status == LNT_OK, what); }

void must(cudaError_t error, const char *what) { must(error == cudaSuccess, what); }
