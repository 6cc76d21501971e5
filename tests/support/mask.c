/* mask.c - see mask.h. */
#include "mask.h"

#include <math.h>
#include <stdlib.h>

mask_form mask_form_random(dice *d)
{
    return (mask_form){ .given = true,
                        .kind = (lnt_mask_kind)dice_range(d, 0, 1),
                        .dtype = (lnt_dtype)dice_range(d, LNT_F32, LNT_F64),
                        .lay = (layout)dice_range(d, 0, LAYOUT_OUTPUTS - 1),
                        .alike = (int)dice_range(d, 0, 15) };
}

/* Rows that keep all keys, none, some, and runs of either. */
static void draw_row(dice *d, bool *keep, int64_t n)
{
    const int64_t kind = dice_range(d, 0, 5);
    bool now = dice_range(d, 0, 1);
    for (int64_t j = 0, left = 0; j < n; j++, left--) {
        if (left <= 0) now = !now, left = dice_range(d, 1, 30);
        keep[j] = kind == 0 ? false : kind == 1 ? true : kind == 2 ? now : dice_range(d, 0, 3) != 0;
    }
}

static void put_row(dice *d, const mask_data *m, int64_t row, const bool *keep)
{
    const int64_t n = m->mask.shape[3];
    for (int64_t j = 0; j < n; j++)
        if (m->bytes) m->bytes[row * n + j] = keep[j] ? (unsigned char)dice_range(d, 1, 255) : 0;
        else tensor_put(&m->numbers.t, row * n + j, keep[j] ? dice_normal(d) : -(double)INFINITY);
}

mask_data mask_new(dice *d, const mask_form *form, int64_t batch, int64_t heads, int64_t length_q,
                   int64_t length_k)
{
    int64_t s[] = { batch, heads, length_q, length_k };
    mask_data m = { .bytes = NULL };
    if (!form->given) return m;
    for (int i = 0; i < 4; i++)
        if (form->alike >> i & 1) s[i] = 1;
    const int64_t rows = s[0] * s[1] * s[2];
    bool *keep = malloc((size_t)s[3] + 1);
    assert_non_null(keep);
    if (form->kind == LNT_MASK_KEEP) {
        m.bytes = malloc((size_t)(rows * s[3]) + 1);
        assert_non_null(m.bytes);
        m.mask = lnt_mask_contiguous(m.bytes, LNT_MASK_KEEP, LNT_F32, s[0], s[1], s[2], s[3]);
    } else {
        m.numbers = block_new(form->dtype, form->lay, s[0], s[1], s[2], s[3]);
        m.mask = (lnt_mask){ .data = m.numbers.t.data, .kind = LNT_MASK_ADD, .dtype = form->dtype };
        for (int i = 0; i < 4; i++) m.mask.shape[i] = s[i], m.mask.stride[i] = m.numbers.t.stride[i];
    }
    for (int64_t r = 0; r < rows; r++) {
        draw_row(d, keep, s[3]);
        put_row(d, &m, r, keep);
    }
    free(keep);
    return m;
}

void mask_free(mask_data *m)
{
    block_free(&m->numbers);
    free(m->bytes);
    *m = (mask_data){ .bytes = NULL };
}

lnt_mask mask_columns(const lnt_mask *mask, int64_t first, int64_t count)
{
    lnt_mask part = *mask;
    const int64_t size = mask->kind == LNT_MASK_KEEP ? 1 : (int64_t)lnt_dtype_size(mask->dtype);
    if (!mask->data || mask->shape[3] == 1) return part;
    part.data = (const char *)mask->data + first * mask->stride[3] * size;
    part.shape[3] = count;
    return part;
}
