/* attention/mask.c - the mask of a run, checked against its tensors. */
#include "attention/mask.h"

#include "core/tensor.h"

lnt_mask lnt_mask_contiguous(const void *data, lnt_mask_kind kind, lnt_dtype dtype, int64_t batch,
                             int64_t heads, int64_t length_q, int64_t length_k)
{
    const lnt_tensor t = lnt_tensor_bhnd(NULL, LNT_F32, batch, heads, length_q, length_k);
    lnt_mask mask = { .data = data, .kind = kind, .dtype = dtype };
    for (int i = 0; i < 4; i++) mask.shape[i] = t.shape[i], mask.stride[i] = t.stride[i];
    return mask;
}

void lnt_mask_spread(lnt_mask *mask)
{
    for (int i = 0; i < 4; i++)
        if (mask->shape[i] == 1) mask->stride[i] = 0;
}

/* Its view, as if bytes were numbers of that dtype. */
static lnt_tensor view_as(const lnt_mask *mask, lnt_dtype dtype)
{
    lnt_tensor t = { .data = (void *)(uintptr_t)mask->data, .dtype = dtype };
    for (int i = 0; i < 4; i++) t.shape[i] = mask->shape[i], t.stride[i] = mask->stride[i];
    return t;
}

lnt_status lnt_mask_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io)
{
    const lnt_mask *mask = &io->mask;
    if (!mask->data) return LNT_OK;
    if (p->mechanism != LNT_SOFTMAX)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "mask: only softmax takes one, %s does not",
                        lnt_mechanism_name(p->mechanism));
    if (mask->kind != LNT_MASK_ADD && mask->kind != LNT_MASK_KEEP)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "mask: kind is %d, must be add or keep", (int)mask->kind);
    const bool numbers = mask->kind == LNT_MASK_ADD;
    const lnt_tensor t = view_as(mask, numbers ? mask->dtype : LNT_F32);
    const lnt_status status = lnt_tensor_check(ctx, "mask", &t);
    if (status) return status;
    static const char *const axis[] = { "batch", "heads", "length of q", "length of k" };
    const int64_t want[] = { io->q.shape[0], p->heads, io->q.shape[2], io->k.shape[2] };
    for (int i = 0; i < 4; i++)
        if (mask->shape[i] != want[i] && mask->shape[i] != 1)
            return lnt_fail(ctx, LNT_ERR_SHAPE, "mask: %s is %lld, must be %lld or 1", axis[i],
                            (long long)mask->shape[i], (long long)want[i]);
    return LNT_OK;
}

lnt_tensor lnt_mask_memory(const lnt_mask *mask)
{
    if (mask->kind != LNT_MASK_KEEP) return view_as(mask, mask->dtype);
    uintptr_t first = (uintptr_t)mask->data, last = first;
    for (int i = 0; mask->data && i < 4; i++) {
        const int64_t reach = (mask->shape[i] - 1) * mask->stride[i];
        if (!mask->shape[i]) return (lnt_tensor){ .data = NULL };
        *(reach < 0 ? &first : &last) += (uintptr_t)reach;
    }
    first -= first % 2; /* no tensor has numbers of one byte, and those of all begin at an even one */
    return lnt_tensor_bhnd((void *)(mask->data ? first : 0), LNT_F16, 1, 1, 1,
                           (int64_t)((last - first) / 2 + 1));
}
