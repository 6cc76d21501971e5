/* attention/partial.c - answers before the division: adding those of disjoint keys, and dividing.
 *
 *     num = sum_j w_j v_j,  den = sum_j w_j;  softmax: w_j = e^{x_j - max} */
#include <math.h>

#include "attention/algorithm.h"
#include "attention/partial.h"
#include "core/struct.h"
#include "core/tensor.h"

static bool has_max(const lnt_partial *partial) { return partial->max.data != NULL; }

lnt_status lnt_partial_take(lnt_ctx *ctx, const char *name, const lnt_partial *given, lnt_partial *partial)
{
    *partial = (lnt_partial){ .size = sizeof *partial };
    return lnt_struct_take(ctx, LNT_STRUCT(lnt_partial, den), name, given, partial);
}

lnt_status lnt_partial_check(lnt_ctx *ctx, const char *name, const lnt_partial *partial)
{
    const int64_t *s = partial->num.shape;
    lnt_status status = lnt_tensor_check(ctx, "partial num", &partial->num);
    if (!status) status = lnt_tensor_expect(ctx, "partial den", &partial->den, s[0], s[1], s[2], 1);
    if (!status && has_max(partial))
        status = lnt_tensor_expect(ctx, "partial max", &partial->max, s[0], s[1], s[2], 1);
    if (status) return status;
    const lnt_dtype dtype = partial->num.dtype;
    if ((dtype != LNT_F32 && dtype != LNT_F64) || partial->den.dtype != dtype ||
        (has_max(partial) && partial->max.dtype != dtype))
        return lnt_fail(ctx, LNT_ERR_DTYPE,
                        "%s: num, den and max must all be f32 or all f64, num is %s", name,
                        lnt_dtype_name(dtype));
    return LNT_OK;
}

lnt_status lnt_partial_apart(lnt_ctx *ctx, const char *name, const lnt_partial *partial,
                             const lnt_named_tensor *inputs, int count)
{
    const lnt_named_tensor own[] = { { name, &partial->num }, { name, &partial->den },
                                     { name, &partial->max } };
    lnt_status status = LNT_OK;
    for (int i = 0; i < 3 && !status; i++) {
        status = lnt_tensor_expect_apart(ctx, own[i], own + i + 1, 2 - i);
        if (!status) status = lnt_tensor_expect_apart(ctx, own[i], inputs, count);
    }
    return status;
}

/* Whether all that is there are the same views. */
static bool is_same(const lnt_partial *a, const lnt_partial *b)
{
    return lnt_tensor_same(&a->num, &b->num) && lnt_tensor_same(&a->den, &b->den) &&
           (!has_max(a) || lnt_tensor_same(&a->max, &b->max));
}

static void merge_row(const lnt_partial *into, const lnt_partial *other, int64_t b, int64_t h,
                      int64_t n)
{
    double keep = 1, take = 1;
    if (has_max(into)) {
        const double a = lnt_tensor_get(&into->max, b, h, n, 0);
        const double c = lnt_tensor_get(&other->max, b, h, n, 0), top = a > c ? a : c;
        if (top == -INFINITY) return; /* neither has seen a key */
        keep = exp(a - top);
        take = exp(c - top);
        lnt_tensor_set(&into->max, b, h, n, 0, top);
    }
    lnt_tensor_set(&into->den, b, h, n, 0,
                   keep * lnt_tensor_get(&into->den, b, h, n, 0) +
                       take * lnt_tensor_get(&other->den, b, h, n, 0));
    for (int64_t d = 0; d < into->num.shape[3]; d++)
        lnt_tensor_set(&into->num, b, h, n, d,
                       keep * lnt_tensor_get(&into->num, b, h, n, d) +
                           take * lnt_tensor_get(&other->num, b, h, n, d));
}

lnt_status lnt_partial_merge(lnt_ctx *ctx, const lnt_partial *given_into, const lnt_partial *given_other)
{
    lnt_partial both[2];
    const lnt_partial *into = &both[0], *other = &both[1];
    if (!ctx) return LNT_ERR_ARGUMENT;
    lnt_status status = lnt_partial_take(ctx, "into", given_into, &both[0]);
    if (!status) status = lnt_partial_take(ctx, "other", given_other, &both[1]);
    if (!status) status = lnt_partial_check(ctx, "into", into);
    if (status) return status;
    const int64_t *s = into->num.shape;
    status = lnt_tensor_expect(ctx, "other: num", &other->num, s[0], s[1], s[2], s[3]);
    if (!status) status = lnt_partial_check(ctx, "other", other);
    if (status) return status;
    if (has_max(into) != has_max(other))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "into and other must both have a max (softmax) or both have none");
    const lnt_named_tensor read[] = { { "other", &other->num }, { "other", &other->den },
                                      { "other", &other->max } };
    status = lnt_partial_apart(ctx, "into", into, read, is_same(into, other) ? 0 : 3);
    if (status) return status;
    const int64_t rows = s[0] * s[1] * s[2];
#pragma omp parallel for num_threads(ctx->threads)
    for (int64_t r = 0; r < rows; r++)
        merge_row(into, other, r / s[2] / s[1], r / s[2] % s[1], r % s[2]);
    return LNT_OK;
}

static void finish_row(const lnt_partial *partial, double eps, const lnt_tensor *out, int64_t b,
                       int64_t h, int64_t n)
{
    const double den = lnt_tensor_get(&partial->den, b, h, n, 0) + eps;
    for (int64_t d = 0; d < out->shape[3]; d++)
        lnt_tensor_set(out, b, h, n, d,
                       den == 0 ? 0 : lnt_tensor_get(&partial->num, b, h, n, d) / den);
}

lnt_status lnt_partial_finish(lnt_ctx *ctx, const lnt_partial *given, double eps, const lnt_tensor *out)
{
    lnt_partial whole;
    const lnt_partial *partial = &whole;
    if (!ctx) return LNT_ERR_ARGUMENT;
    lnt_status status = lnt_partial_take(ctx, "partial", given, &whole);
    if (!status) status = lnt_partial_check(ctx, "partial", partial);
    if (status) return status;
    const int64_t *s = partial->num.shape;
    status = lnt_tensor_expect(ctx, "out", out, s[0], s[1], s[2], s[3]);
    if (status) return status;
    if (!(eps >= 0) || isinf(eps))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "eps is %g, must be finite and at least 0", eps);
    const lnt_named_tensor written = { "out", out };
    const lnt_named_tensor read[] = { { "den", &partial->den }, { "num", &partial->num } };
    status = lnt_tensor_expect_apart(ctx, written, read, lnt_tensor_same(out, &partial->num) ? 1 : 2);
    if (status) return status;
    const int64_t rows = s[0] * s[1] * s[2];
#pragma omp parallel for num_threads(ctx->threads)
    for (int64_t r = 0; r < rows; r++)
        finish_row(partial, eps, out, r / s[2] / s[1], r / s[2] % s[1], r % s[2]);
    return LNT_OK;
}
