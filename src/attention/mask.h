/* attention/mask.h - the mask of a run: which keys are not seen, or what is added to scores. */
#ifndef LNT_ATTENTION_MASK_H
#define LNT_ATTENTION_MASK_H

#include "core/overlap.h"

/* Strides of extents that are 1 become 0: the mask is the same along them. */
void lnt_mask_spread(lnt_mask *mask);

/* Whether a mask that is there fits q, k and the mechanism. */
lnt_status lnt_mask_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io);

/* The memory of a checked mask as a tensor, to be held apart from what is written; of bytes, of all between
 * the first and the last. */
lnt_tensor lnt_mask_memory(const lnt_mask *mask);

/* Where the element of row i of q and row j of k is. */
static inline const char *lnt_mask_at(const lnt_mask *mask, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t at = b * mask->stride[0] + h * mask->stride[1] + i * mask->stride[2] + j * mask->stride[3];
    return (const char *)mask->data +
           at * (mask->kind == LNT_MASK_KEEP ? 1 : (int64_t)lnt_dtype_size(mask->dtype));
}

#endif
