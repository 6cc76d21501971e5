/* core/context.c - makes a context; its allocator and its error message. */
#include "core/context.h"

#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/isa.h"
#include "core/struct.h"

enum { MAX_THREADS = 4096, HUGE_PAGE = 1 << 21 };

const char *lnt_version(void) { return LNT_VERSION_STRING; }

const char *lnt_status_name(lnt_status status)
{
    static const char *const names[] = { "ok",     "argument", "shape",   "dtype",
                                         "unsupported", "memory",   "file", "format" };
    const size_t i = (size_t)status;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}

double lnt_machine_bytes(void)
{
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0 ? bytes : INFINITY;
}

/* More than the machine has is refused here: a system that overcommits would grant it, and end the
 * process when the memory is touched.  What is large comes in large pages where the system has them: fewer
 * addresses to look up. */
static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes >= 2 * (size_t)HUGE_PAGE) alignment = HUGE_PAGE;
    if (bytes > SIZE_MAX - alignment || (double)bytes > lnt_machine_bytes()) return NULL;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, bytes);
#ifdef MADV_HUGEPAGE
    if (memory && alignment == HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

/* What a context would be made of, or the sentence why not. */
static lnt_status resolve(const lnt_ctx_options *options, lnt_ctx *ctx)
{
    lnt_ctx_options o = { .size = sizeof o };
    ctx->allocator = (lnt_allocator){ default_allocate, default_release, NULL };
    const lnt_struct kind = LNT_STRUCT(lnt_ctx_options, allocator);
    if (options && lnt_struct_take(ctx, kind, "options", options, &o)) return LNT_ERR_ARGUMENT;
    if (!o.allocator.allocate != !o.allocator.release)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "ctx options: allocator needs both allocate and release, or neither");
    if (o.allocator.allocate) ctx->allocator = o.allocator;
    if (o.threads < 0 || o.threads > MAX_THREADS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "threads is %d, must be 0 (all) to %d", o.threads,
                        MAX_THREADS);
    ctx->threads = o.threads ? o.threads : omp_get_max_threads();
    const char *isa = o.isa ? o.isa : getenv("LINNET_ISA");
    return lnt_isa_choose(ctx, isa && *isa ? isa : NULL, &ctx->isa);
}

lnt_status lnt_ctx_make(const lnt_ctx_options *options, const struct lnt_device *device, lnt_ctx **out)
{
    if (!out) return LNT_ERR_ARGUMENT;
    *out = NULL;
    lnt_ctx made = { .device = device };
    const lnt_status status = resolve(options, &made);
    if (status) return status;
    lnt_ctx *ctx = lnt_allocate(&made, sizeof *ctx, "the context");
    if (!ctx) return LNT_ERR_MEMORY;
    *ctx = made;
    *out = ctx;
    return LNT_OK;
}

void lnt_ctx_create_error(const lnt_ctx_options *options, lnt_status status, char *text,
                          size_t capacity)
{
    lnt_ctx made = { 0 };
    const bool fine = resolve(options, &made) == LNT_OK;
    if (fine && status == LNT_ERR_ARGUMENT)
        lnt_fail(&made, status, "out is NULL");
    else if (fine && status)
        lnt_fail(&made, status, "out of memory for the context (%zu bytes)", sizeof made);
    if (capacity) snprintf(text, capacity, "%s", made.error);
}

void lnt_ctx_destroy(lnt_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->device_close) ctx->device_close(ctx);
    const lnt_allocator allocator = ctx->allocator;
    allocator.release(allocator.user, ctx, sizeof *ctx);
}

const char *lnt_ctx_error(const lnt_ctx *ctx) { return ctx ? ctx->error : "ctx is NULL"; }
int lnt_ctx_threads(const lnt_ctx *ctx) { return ctx ? ctx->threads : 0; }
const char *lnt_ctx_isa(const lnt_ctx *ctx) { return ctx ? lnt_isa_name(ctx->isa) : ""; }

lnt_status lnt_fail(lnt_ctx *ctx, lnt_status status, const char *format, ...)
{
    if (!ctx) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    for (char *c = ctx->error; *c; c++) /* what a file says may stand here: one line, for any terminal */
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    return status;
}

void *lnt_allocate(lnt_ctx *ctx, size_t bytes, const char *what)
{
    void *memory = ctx->allocator.allocate(ctx->allocator.user, bytes ? bytes : 1, LNT_ALIGN);
    if (!memory) lnt_fail(ctx, LNT_ERR_MEMORY, "out of memory: %s needs %zu bytes", what, bytes);
    return memory;
}

void lnt_release(lnt_ctx *ctx, void *memory, size_t bytes)
{
    if (memory) ctx->allocator.release(ctx->allocator.user, memory, bytes ? bytes : 1);
}

bool lnt_size_product(size_t a, size_t b, size_t c, size_t *out)
{
    size_t ab;
    return !__builtin_mul_overflow(a, b, &ab) && !__builtin_mul_overflow(ab, c, out);
}

bool lnt_shape_bytes(size_t size, const int64_t *shape, int rank, size_t *out)
{
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty = empty || shape[i] == 0;
        if (shape[i] && __builtin_mul_overflow(size, shape[i], &size)) return false;
    }
    *out = empty ? 0 : size;
    return size <= INT64_MAX;
}
