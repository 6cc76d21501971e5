/* wrong.c - what a plug-in must not be: with REFUSES, one that does not know the version asked for;
 * with OTHER, one that gives the table of another; with GREW, one that was compiled with a larger struct;
 * without any, no plug-in at all. */
#include <stddef.h>

#include "device/plugin.h"

#if defined(REFUSES)
const lnt_cuda_api *lnt_cuda_plugin(int abi)
{
    (void)abi;
    return NULL;
}
#elif defined(OTHER)
const lnt_cuda_api *lnt_cuda_plugin(int abi)
{
    static lnt_cuda_api table;
    table.abi = abi + 1;
    return &table;
}
#elif defined(GREW)
const lnt_cuda_api *lnt_cuda_plugin(int abi)
{
    static lnt_cuda_struct structs[LNT_CUDA_STRUCTS];
    static lnt_cuda_api table;
    for (int i = 0; i < LNT_CUDA_STRUCTS; i++) structs[i] = lnt_cuda_structs[i];
    structs[LNT_CUDA_STRUCTS - 2].size += sizeof(void *);
    table.abi = abi;
    table.structs = structs;
    return &table;
}
#else
LNT_API int nothing_of_ours(void);
int nothing_of_ours(void) { return 0; }
#endif
