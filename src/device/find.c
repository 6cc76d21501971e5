/* device/find.c - finding the plug-in and asking it for its table.
 *
 * In order: the file that LINNET_CUDA_PLUGIN names, and no other; the folder of the file this code is
 * in (liblinnet.so, or a program that has it built in); the folder of libraries beside that of
 * programs; where the system looks. */
#include "device/plugin_device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* It stays once it is there: CUDA's own library, inside it, cannot be unloaded safely. */
enum { OPEN_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* From the folder of programs to that of libraries, in an installed tree. */
#ifndef LNT_PLUGIN_FOLDER
#define LNT_PLUGIN_FOLDER "../lib"
#endif

/* The folder of the file that holds this code, with its last slash; "" if that cannot be said. */
static void own_folder(char *folder, size_t capacity)
{
    static const char here = 0;
    Dl_info info;
    folder[0] = '\0';
    if (dladdr(&here, &info) && info.dli_fname && strchr(info.dli_fname, '/')) {
        if (strlen(info.dli_fname) < capacity) strcpy(folder, info.dli_fname);
    } else { /* a program that the shell found by its name alone */
        const ssize_t length = readlink("/proc/self/exe", folder, capacity - 1);
        folder[length > 0 ? length : 0] = '\0';
    }
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = '\0';
}

/* The first file that is there is the plug-in: if it cannot be opened, dlerror tells of that one. */
static void *open_anywhere(void)
{
    static const char *const below[] = { "", LNT_PLUGIN_FOLDER "/" };
    char folder[PATH_MAX], path[PATH_MAX + 128];
    own_folder(folder, sizeof folder);
    for (int i = 0; folder[0] && i < 2; i++) {
        snprintf(path, sizeof path, "%s%s" LNT_CUDA_LIBRARY, folder, below[i]);
        if (access(path, F_OK) == 0) return dlopen(path, OPEN_FLAGS);
    }
    return dlopen(LNT_CUDA_LIBRARY, OPEN_FLAGS);
}

lnt_status lnt_plugin_find(lnt_ctx *ctx, lnt_plugin *plugin)
{
    const char *named = getenv("LINNET_CUDA_PLUGIN");
    if (named && !*named) named = NULL;
    plugin->library = named ? dlopen(named, OPEN_FLAGS) : open_anywhere();
    if (!plugin->library) {
        const char *why = dlerror();
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "device cuda: the plug-in " LNT_CUDA_LIBRARY " could not be opened: %.300s%s",
                        why ? why : "no reason given",
                        named ? " (LINNET_CUDA_PLUGIN names it)"
                              : " (a build of Linnet where nvcc is found makes it)");
    }
    const char *path = named ? named : LNT_CUDA_LIBRARY;
    /* POSIX has it that this works; the C standard knows no function in a void pointer. */
    lnt_cuda_plugin_function function;
    void *symbol = dlsym(plugin->library, LNT_CUDA_SYMBOL);
    memcpy(&function, &symbol, sizeof function);
    if (!symbol)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "device cuda: '%.300s' is not a plug-in of Linnet: it has no " LNT_CUDA_SYMBOL,
                        path);
    plugin->api = function(LNT_CUDA_ABI);
    if (!plugin->api || plugin->api->abi != LNT_CUDA_ABI)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "device cuda: '%.300s' is a plug-in of another version of Linnet; this one "
                        "needs version %d of its table",
                        path, LNT_CUDA_ABI);
    const lnt_cuda_struct *theirs = plugin->api->structs;
    const int odd = lnt_cuda_misfit(theirs);
    return odd < 0 ? LNT_OK
                   : lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                              "device cuda: '%.300s' was built with a %s of %zu bytes, this library with one "
                              "of %zu: build both from the same sources",
                              path, lnt_cuda_structs[odd].name, theirs[odd].size, lnt_cuda_structs[odd].size);
}
