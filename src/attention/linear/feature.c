/* attention/linear/feature.c - the random directions w of the fourier and positive feature maps. */
#include "attention/linear/feature.h"

#include <math.h>

#include "attention/problem.h"
#include "core/dtype.h"
#include "core/rng.h"

int64_t lnt_feature_rows(const lnt_attn_desc *p)
{
    return p->linear.feature_map == LNT_MAP_FOURIER ? p->linear.features / 2 : p->linear.features;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Makes row r orthogonal to the rows of its block before it and as long as a fresh normal vector.
 * Twice: once is not enough in floating point. */
static void orthogonalise(double *block, int64_t r, int64_t d, lnt_rng lengths, uint64_t index)
{
    double *row = block + r * d;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t s = 0; s < r; s++) {
            const double *other = block + s * d;
            const double share = dot(row, other, d) / dot(other, other, d);
            for (int64_t i = 0; i < d; i++) row[i] -= share * other[i];
        }
    double square = 0;
    for (int64_t i = 0; i < d; i++) {
        const double x = lnt_rng_normal(lengths, index * (uint64_t)d + (uint64_t)i);
        square += x * x;
    }
    const double factor = sqrt(square / dot(row, row, d));
    for (int64_t i = 0; i < d; i++) row[i] *= factor;
}

void lnt_feature_weights(const lnt_attn_desc *p, double *w)
{
    const lnt_rng rng = lnt_rng_make(p->seed), entries = lnt_rng_split(rng, 0),
                  lengths = lnt_rng_split(rng, 1);
    const int64_t rows = lnt_feature_rows(p), d = p->dim;
    for (int64_t i = 0; i < rows * d; i++) w[i] = lnt_rng_normal(entries, (uint64_t)i);
    if (p->linear.feature_map != LNT_MAP_POSITIVE) return;
    for (int64_t r = 0; r < rows; r++)
        orthogonalise(w + r / d * d * d, r % d, d, lengths, (uint64_t)r);
}

/* Of the numbers that a run of p computes with. */
static lnt_dtype number(const lnt_attn_desc *p) { return p->dtype == LNT_F64 ? LNT_F64 : LNT_F32; }

size_t lnt_feature_bytes(const lnt_attn_desc *p)
{
    size_t bytes;
    if (lnt_problem_sums(p) != LNT_LINEAR || !lnt_feature_is_random(p->linear.feature_map)) return 0;
    return lnt_size_product((size_t)lnt_feature_rows(p), (size_t)p->dim, 2 * lnt_dtype_size(number(p)),
                            &bytes)
               ? bytes
               : SIZE_MAX;
}

lnt_status lnt_feature_draw(lnt_ctx *ctx, const lnt_attn_desc *p, void *weights)
{
    const int64_t rows = lnt_feature_rows(p), d = p->dim;
    size_t bytes;
    if (!lnt_size_product((size_t)rows, (size_t)d, sizeof(double), &bytes))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "features is %lld: too many to hold",
                        (long long)p->linear.features);
    double *w = lnt_allocate(ctx, bytes, "the random features");
    if (!w) return LNT_ERR_MEMORY;
    lnt_feature_weights(p, w);
    char *behind = (char *)weights + (size_t)(rows * d) * lnt_dtype_size(number(p));
    const lnt_tensor straight = lnt_tensor_bhnd(weights, number(p), 1, 1, rows, d);
    const lnt_tensor transposed = lnt_tensor_bhnd(behind, number(p), 1, 1, d, rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < d; i++) {
            lnt_tensor_set(&straight, 0, 0, r, i, w[r * d + i]);
            lnt_tensor_set(&transposed, 0, 0, i, r, w[r * d + i]);
        }
    lnt_release(ctx, w, bytes);
    return LNT_OK;
}
