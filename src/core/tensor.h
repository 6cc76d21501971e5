/* core/tensor.h - checks of tensor views, and access to their rows. */
#ifndef LNT_CORE_TENSOR_H
#define LNT_CORE_TENSOR_H

#include "core/context.h"

/* Known dtype, no negative extent, data unless empty, offsets that fit 64 bits. */
lnt_status lnt_tensor_check(lnt_ctx *ctx, const char *name, const lnt_tensor *tensor);

/* The above, and exactly this shape; a -1 extent is free. */
lnt_status lnt_tensor_expect(lnt_ctx *ctx, const char *name, const lnt_tensor *tensor,
                             int64_t batch, int64_t heads, int64_t length, int64_t dim);

/* Address of element [b, h, n, 0] of a checked view. */
static inline char *lnt_tensor_row(const lnt_tensor *t, int64_t b, int64_t h, int64_t n)
{
    const int64_t at = b * t->stride[0] + h * t->stride[1] + n * t->stride[2];
    return (char *)t->data + at * (t->dtype == LNT_F64 ? 8 : t->dtype == LNT_F32 ? 4 : 2);
}

/* The first `rows` rows of every head, one after the other without gaps, into `packed` or out of it. */
LNT_PRIVATE_API void lnt_tensor_pack(const lnt_tensor *tensor, int64_t rows, void *packed);
LNT_PRIVATE_API void lnt_tensor_unpack(const lnt_tensor *tensor, int64_t rows, const void *packed);

/* Row [b, h, n] of a checked view, in double. */
void lnt_tensor_read(const lnt_tensor *tensor, int64_t b, int64_t h, int64_t n, double *row);

#endif
