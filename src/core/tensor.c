/* core/tensor.c - strided views over [batch, heads, length, dim]. */
#include "core/tensor.h"

#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/rng.h"

size_t lnt_dtype_size(lnt_dtype dtype)
{
    switch (dtype) {
    case LNT_F32: return 4;
    case LNT_F16: return 2;
    case LNT_BF16: return 2;
    case LNT_F64: return 8;
    }
    return 0;
}

const char *lnt_dtype_name(lnt_dtype dtype)
{
    switch (dtype) {
    case LNT_F32: return "f32";
    case LNT_F16: return "f16";
    case LNT_BF16: return "bf16";
    case LNT_F64: return "f64";
    }
    return "unknown";
}

/* a b; where no 64 bits hold it, a step that lnt_tensor_check refuses if it is ever taken. */
static int64_t step_over(int64_t a, int64_t b)
{
    int64_t both;
    return __builtin_mul_overflow(a, b, &both) ? INT64_MAX : both;
}

lnt_tensor lnt_tensor_bhnd(void *data, lnt_dtype dtype, int64_t batch, int64_t heads,
                           int64_t length, int64_t dim)
{
    return (lnt_tensor){ data, dtype, { batch, heads, length, dim },
                         { step_over(heads, step_over(length, dim)), step_over(length, dim), dim, 1 } };
}

lnt_tensor lnt_tensor_bnhd(void *data, lnt_dtype dtype, int64_t batch, int64_t heads,
                           int64_t length, int64_t dim)
{
    return (lnt_tensor){ data, dtype, { batch, heads, length, dim },
                         { step_over(length, step_over(heads, dim)), dim, step_over(heads, dim), 1 } };
}

lnt_status lnt_tensor_check(lnt_ctx *ctx, const char *name, const lnt_tensor *t)
{
    if (!t) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is NULL", name);
    if (!lnt_dtype_size(t->dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype %d is none of f32, f16, bf16, f64", name,
                        (int)t->dtype);
    int64_t elements = 1, reach = 0;
    for (int i = 0; i < 4; i++) {
        if (t->shape[i] < 0)
            return lnt_fail(ctx, LNT_ERR_SHAPE, "%s: extent %d is %lld, must not be negative", name,
                            i, (long long)t->shape[i]);
        const int64_t steps = t->shape[i] ? t->shape[i] - 1 : 0;
        const int64_t stride = t->stride[i] >= 0           ? t->stride[i]
                               : t->stride[i] > -INT64_MAX ? -t->stride[i]
                                                           : INT64_MAX;
        int64_t span;
        if (__builtin_mul_overflow(elements, t->shape[i], &elements) ||
            __builtin_mul_overflow(steps, stride, &span) ||
            __builtin_add_overflow(reach, span, &reach) || reach > INT64_MAX / 16)
            return lnt_fail(ctx, LNT_ERR_SHAPE,
                            "%s: shape [%lld,%lld,%lld,%lld] and its strides reach past 64-bit "
                            "offsets",
                            name, (long long)t->shape[0], (long long)t->shape[1],
                            (long long)t->shape[2], (long long)t->shape[3]);
    }
    if (elements && !t->data)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: data is NULL but the shape is not empty", name);
    return LNT_OK;
}

lnt_status lnt_tensor_expect(lnt_ctx *ctx, const char *name, const lnt_tensor *t, int64_t batch,
                             int64_t heads, int64_t length, int64_t dim)
{
    const lnt_status status = lnt_tensor_check(ctx, name, t);
    if (status) return status;
    const int64_t want[4] = { batch, heads, length, dim };
    static const char *const axis[4] = { "batch", "heads", "length", "dim" };
    for (int i = 0; i < 4; i++)
        if (want[i] >= 0 && t->shape[i] != want[i])
            return lnt_fail(ctx, LNT_ERR_SHAPE, "%s: %s is %lld, expected %lld", name, axis[i],
                            (long long)t->shape[i], (long long)want[i]);
    return LNT_OK;
}

static char *element(const lnt_tensor *t, int64_t b, int64_t h, int64_t n, int64_t d)
{
    return lnt_tensor_row(t, b, h, n) + d * t->stride[3] * (int64_t)lnt_dtype_size(t->dtype);
}

static double load(lnt_dtype dtype, const void *p)
{
    switch (dtype) {
    case LNT_F32: return (double)*(const float *)p;
    case LNT_F16: return (double)lnt_f16_to_float(*(const uint16_t *)p);
    case LNT_BF16: return (double)lnt_bf16_to_float(*(const uint16_t *)p);
    case LNT_F64: return *(const double *)p;
    }
    return 0;
}

double lnt_tensor_get(const lnt_tensor *t, int64_t b, int64_t h, int64_t n, int64_t d)
{
    return load(t->dtype, element(t, b, h, n, d));
}

void lnt_tensor_read(const lnt_tensor *t, int64_t b, int64_t h, int64_t n, double *row)
{
    const char *p = lnt_tensor_row(t, b, h, n);
    const int64_t step = t->stride[3] * (int64_t)lnt_dtype_size(t->dtype);
    for (int64_t d = 0; d < t->shape[3]; d++) row[d] = load(t->dtype, p + d * step);
}

void lnt_tensor_set(const lnt_tensor *t, int64_t b, int64_t h, int64_t n, int64_t d, double value)
{
    void *p = element(t, b, h, n, d);
    switch (t->dtype) {
    case LNT_F32: *(float *)p = (float)value; break;
    case LNT_F16: *(uint16_t *)p = lnt_double_to_f16(value); break;
    case LNT_BF16: *(uint16_t *)p = lnt_double_to_bf16(value); break;
    case LNT_F64: *(double *)p = value; break;
    }
}

lnt_status lnt_tensor_fill_normal(lnt_ctx *ctx, const lnt_tensor *t, uint64_t seed, double sigma)
{
    if (!ctx) return LNT_ERR_ARGUMENT;
    const lnt_status status = lnt_tensor_check(ctx, "tensor", t);
    if (status) return status;
    if (!(sigma >= 0) || isinf(sigma))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sigma is %g, must be finite and at least 0", sigma);
    const lnt_rng rng = lnt_rng_make(seed);
    const int64_t width = t->shape[3];
    const int64_t rows = width ? t->shape[0] * t->shape[1] * t->shape[2] : 0;
#pragma omp parallel for num_threads(ctx->threads)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = r % t->shape[2], h = r / t->shape[2] % t->shape[1],
                      b = r / t->shape[2] / t->shape[1];
        for (int64_t d = 0; d < width; d++)
            lnt_tensor_set(t, b, h, n, d, sigma * lnt_rng_normal(rng, (uint64_t)(r * width + d)));
    }
    return LNT_OK;
}

static void move_rows(const lnt_tensor *t, int64_t rows, char *packed, bool out)
{
    const size_t row = (size_t)t->shape[3] * lnt_dtype_size(t->dtype);
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t n = 0; n < rows; n++, packed += row) {
                char *at = lnt_tensor_row(t, b, h, n);
                memcpy(out ? packed : at, out ? at : packed, row);
            }
}

void lnt_tensor_pack(const lnt_tensor *tensor, int64_t rows, void *packed)
{
    move_rows(tensor, rows, packed, true);
}

void lnt_tensor_unpack(const lnt_tensor *tensor, int64_t rows, const void *packed)
{
    move_rows(tensor, rows, (char *)(uintptr_t)packed, false);
}
