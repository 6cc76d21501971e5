/* cpu/tiles/dispatch.c - from an instruction set's index to its kernels of tiles, with the system's leave. */
#include "cpu/tiles/tiles.h"

#ifdef __x86_64__

#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/context.h"

const lnt_tile_kernels *lnt_amx_tile_table(void);

/* Linux has a process ask before it keeps the contents of tiles; to ask again does nothing.  It refuses where
 * a stack for signals is too small for them. */
static bool allowed(void)
{
#if defined(LNT_EMULATE_TILES)
    return true;
#elif defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}

const lnt_tile_kernels *lnt_tile_kernels_get(int isa)
{
    return strcmp(lnt_isa_name(isa), "amx") == 0 && allowed() ? lnt_amx_tile_table() : NULL;
}

#else

const lnt_tile_kernels *lnt_tile_kernels_get(int isa)
{
    (void)isa;
    return NULL;
}

#endif
