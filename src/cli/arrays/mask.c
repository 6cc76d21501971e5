/* cli/arrays/mask.c - the mask of `attend`: an array that is broadcast from its last extent on, as NumPy
 * does. */
#include "cli/arrays/mask.h"

#include "cli/show/report.h"

int mask_read(lnt_ctx *ctx, const char *path, const lnt_attn_desc *desc, lnt_array *array, lnt_mask *mask)
{
    static const char *const axis[] = { "batch", "heads", "queries", "keys" };
    const int64_t want[] = { desc->batch, desc->heads, desc->length_q, desc->length_k };
    int64_t extent[4] = { 1, 1, 1, 1 };
    if (lnt_npy_read_mask(ctx, path, array)) return fail_ctx(ctx);
    if (array->rank < 2) return fail("'%s' has %d dimensions, a mask must have 2 to 4", path, array->rank);
    for (int i = 0; i < array->rank; i++) extent[4 - array->rank + i] = array->shape[i];
    for (int i = 0; i < 4; i++)
        if (extent[i] != 1 && extent[i] != want[i])
            return fail("'%s' is for %lld %s, must be for %lld or 1", path, (long long)extent[i], axis[i],
                        (long long)want[i]);
    *mask = lnt_mask_contiguous(array->data, LNT_MASK_ADD, array->dtype, extent[0], extent[1], extent[2],
                                extent[3]);
    return EXIT_OK;
}
