/* core/isa.c - run-time CPU features.  The order here is the order of the dispatch table. */
#include "core/isa.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static int always(void) { return 1; }

#if defined(__x86_64__)
/* Every CPU with AVX2 has it; clang before 18 does not know the name. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
static int has_vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

#if defined(LNT_EMULATE_TILES)
static int has_amx(void) { return has_vnni(); }
#elif defined(__linux__)
/* Tiles of bf16, AVX-512's rounding to it, and a system that keeps tiles for a process that asks to use them
 * (cpu/tiles/dispatch.c asks). */
static int has_amx(void)
{
    enum { TILE = 1 << 24, TILE_BF16 = 1 << 22, AVX512_BF16 = 1 << 5 };
    enum { ARCH_GET_XCOMP_SUPP = 0x1021, XTILEDATA = 1 << 18 };
    unsigned a, b, c, d = 0, a1 = 0;
    unsigned long long kept = 0;
    if (!has_vnni() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !__get_cpuid_count(7, 1, &a1, &b, &c, &a))
        return 0;
    return (d & TILE) && (d & TILE_BF16) && (a1 & AVX512_BF16) &&
           syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &kept) == 0 && (kept & XTILEDATA);
}
#else
static int has_amx(void) { return 0; }
#endif
#elif defined(__aarch64__)
static int has_dotprod(void) { return (getauxval(AT_HWCAP) & (1u << 20)) != 0; } /* HWCAP_ASIMDDP */
#endif

static const struct {
    const char *name;
    int (*available)(void);
} isas[] = {
    { "scalar", always },
#if defined(__aarch64__)
    { "neon", always }, /* part of the base architecture */
    { "dotprod", has_dotprod },
#elif defined(__x86_64__)
    { "avx2", has_avx2 },
    { "avx512", has_avx512 },
    { "vnni", has_vnni }, /* AVX-512's */
    { "amx", has_amx },
#endif
};
enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

const char *lnt_isa_name(int index)
{
    return index >= 0 && index < ISA_COUNT ? isas[index].name : NULL;
}

int lnt_isa_available(int index)
{
    return index >= 0 && index < ISA_COUNT ? isas[index].available() != 0 : 0;
}

lnt_status lnt_isa_choose(lnt_ctx *ctx, const char *name, int *index)
{
    if (!name) {
        for (*index = ISA_COUNT - 1; !lnt_isa_available(*index);) --*index;
        return LNT_OK;
    }
    char known[64] = "";
    for (int i = 0; i < ISA_COUNT; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", isas[i].name);
        if (strcmp(name, isas[i].name) != 0) continue;
        if (!lnt_isa_available(i))
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                            "isa (or LINNET_ISA) is '%s', which this CPU does not have", name);
        *index = i;
        return LNT_OK;
    }
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "isa (or LINNET_ISA) is '%s', must be one of %s", name, known);
}
