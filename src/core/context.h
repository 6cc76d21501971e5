/* core/context.h - the context: allocator, threads, ISA, and the message of the last failure. */
#ifndef LNT_CORE_CONTEXT_H
#define LNT_CORE_CONTEXT_H

#include <stdbool.h>

#include "core/private.h"
#include "linnet.h"

#define LNT_ALIGN 64 /* bytes; one cache line, and any vector we use */
#define LNT_ERROR_CAPACITY 512

enum { LNT_MAX_ALGORITHMS = 32 };

struct lnt_ctx {
    lnt_allocator allocator;
    int threads;
    int isa; /* index for lnt_isa_name */
    bool bf16; /* nn/product.h rounds factors to it; only in the trainer's own contexts, from the first */
    /* Seconds per FLOP by dtype, on a CPU f32 for all, and by algorithm in the registry's order; 0:
     * use the rate built in. */
    double seconds_per_flop[LNT_F64 + 1][LNT_MAX_ALGORITHMS];
    int64_t users;             /* plans, states and models that are there */
    const struct lnt_device *device; /* device/device.h */
    void (*device_close)(lnt_ctx *ctx); /* NULL: nothing is to be closed */
    void *stream; /* of the device */
    char error[LNT_ERROR_CAPACITY];
};

/* lnt_ctx_create (plan/devices.c) with the device to begin with. */
lnt_status lnt_ctx_make(const lnt_ctx_options *options, const struct lnt_device *device, lnt_ctx **out);

/* Records one sentence and returns status, so that a failing call is one line. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
LNT_PRIVATE_API lnt_status lnt_fail(lnt_ctx *ctx, lnt_status status, const char *format, ...);

/* bytes == 0 gives a valid pointer.  NULL on failure, with the sentence recorded; `what` names the
 * thing the memory was for. */
LNT_PRIVATE_API void *lnt_allocate(lnt_ctx *ctx, size_t bytes, const char *what);
LNT_PRIVATE_API void lnt_release(lnt_ctx *ctx, void *memory, size_t bytes); /* NULL is fine */

/* Bytes of memory that the machine has; infinite where it does not say. */
double lnt_machine_bytes(void);

/* a * b * c in *out, or false if it does not fit. */
LNT_PRIVATE_API bool lnt_size_product(size_t a, size_t b, size_t c, size_t *out);
/* Bytes of an array of elements of `size` bytes; false if they, or those without extents of 0, do not fit. */
bool lnt_shape_bytes(size_t size, const int64_t *shape, int rank, size_t *out);

#endif
