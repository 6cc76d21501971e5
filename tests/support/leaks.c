/* leaks.c - spares LeakSanitizer its search where nothing is left to find.
 *
 * On aarch64 its search at the end of a program goes through every place that memory could have,
 * which takes four seconds even of the smallest test.  A leak is a block that was taken and not
 * given back.  So the blocks that are taken are added up, each as a hash of its address, and those
 * given back are taken off: where 0 is left there is no leak.  Anything else, and LeakSanitizer
 * searches and judges; a block from before we counted has it do that too.
 *
 * What libraries keep for themselves would count: so stdout gets its buffer here, the unwinder and
 * dlerror are called and the plug-in is opened before we count, and OpenMP ends its threads, whose
 * stacks come back by GLIBC_TUNABLES=glibc.pthread.stack_cache_size=0. */
#include <dlfcn.h>
#include <execinfo.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the sanitizers; gcc comes without the headers that declare them. */
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *, size_t),
                                              void (*given_back)(const volatile void *));
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

static _Atomic uint64_t left;

/* 0 for NULL, which may be given back without having been taken. */
static uint64_t hash(const volatile void *block)
{
    uint64_t z = (uint64_t)(uintptr_t)block;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void taken(const volatile void *block, size_t bytes)
{
    (void)bytes;
    atomic_fetch_add(&left, hash(block));
}

static void given_back(const volatile void *block) { atomic_fetch_sub(&left, hash(block)); }

/* dlerror gives back what it said last. */
static void forget_sentence(void)
{
    dlerror();
    dlerror();
}

__attribute__((constructor)) static void count_from_here(void)
{
    static char buffer[BUFSIZ];
    const char *plugin = getenv("LINNET_CUDA_PLUGIN");
    void *frame[1];
    backtrace(frame, 1);
    dlsym(RTLD_DEFAULT, "no such name");
    if (plugin) dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    forget_sentence();
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    __sanitizer_install_malloc_and_free_hooks(taken, given_back);
}

/* Asked once, when the program has ended. */
int __lsan_is_turned_off(void)
{
    omp_pause_resource_all(omp_pause_hard);
    forget_sentence();
    return atomic_load(&left) == 0;
}
