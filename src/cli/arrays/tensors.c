/* cli/arrays/tensors.c - creates, slices, converts and frees the tensors that the tool owns. */
#include "cli/arrays/tensors.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/report.h"

int tensor_make(lnt_tensor *out, lnt_dtype dtype, int64_t batch, int64_t heads, int64_t length,
                int64_t dim)
{
    enum { ALIGN = 64 };
    size_t bytes = lnt_dtype_size(dtype);
    const int64_t extents[4] = { batch, heads, length, dim };
    *out = lnt_tensor_bhnd(NULL, dtype, batch, heads, length, dim);
    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(bytes, (size_t)extents[i], &bytes) || bytes > PTRDIFF_MAX / 2)
            return fail("an array of [%lld,%lld,%lld,%lld] is larger than memory can be",
                        (long long)batch, (long long)heads, (long long)length, (long long)dim);
    bytes = (bytes + ALIGN) / ALIGN * ALIGN; /* rounded up, and never 0 */
    out->data = aligned_alloc(ALIGN, bytes);
    if (!out->data) return fail_memory(bytes);
    memset(out->data, 0, bytes);
    return EXIT_OK;
}

void tensor_free(lnt_tensor *tensor)
{
    free(tensor->data);
    tensor->data = NULL;
}

lnt_tensor tensor_rows(const lnt_tensor *tensor, int64_t at, int64_t count)
{
    lnt_tensor rows = *tensor;
    rows.data = (char *)tensor->data + at * tensor->stride[2] * (int64_t)lnt_dtype_size(rows.dtype);
    rows.shape[2] = count;
    return rows;
}

void tensor_convert(const lnt_tensor *from, const lnt_tensor *to)
{
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t h = 0; h < from->shape[1]; h++)
            for (int64_t n = 0; n < from->shape[2]; n++)
                for (int64_t d = 0; d < from->shape[3]; d++)
                    lnt_tensor_set(to, b, h, n, d, lnt_tensor_get(from, b, h, n, d));
}

int64_t tensor_elements(const lnt_tensor *tensor)
{
    return tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
}

int64_t tensor_unfinite_rows(const lnt_tensor *t)
{
    int64_t count = 0;
    const int64_t *s = t->shape, rows = s[3] ? s[0] * s[1] * s[2] : 0;
    for (int64_t r = 0; r < rows; r++) {
        bool finite = true;
        for (int64_t d = 0; d < s[3] && finite; d++)
            finite = isfinite(lnt_tensor_get(t, r / s[2] / s[1], r / s[2] % s[1], r % s[2], d));
        count += !finite;
    }
    return count;
}

double tensor_bytes(const lnt_tensor *tensor)
{
    return (double)tensor_elements(tensor) * (double)lnt_dtype_size(tensor->dtype);
}
