/* cuda/common/common.h - what is of no family: the widths that are compiled, and launches that all share.
 *
 * Shapes in every room: B batch, H heads, K kv heads, n tokens, d and m the widths of keys and values, D and
 * M those rounded up to 8, to W = 8 X (a width that is compiled), N8 = X + 1 column tiles of 8: the values,
 * and a last one whose first column is 1, so that denominators come with the numerators. */
#ifndef LNT_CUDA_COMMON_H
#define LNT_CUDA_COMMON_H

#include "cuda/common/device.cuh"

namespace lnt
{

/* The widths compiled, in blocks of 8. */
inline int width_for(int dim, int dim_value)
{
    const int most = dim > dim_value ? dim : dim_value;
    for (int x = 1; x <= 16; x *= 2)
        if (most <= 8 * x) return x;
    return 0;
}

/* ---- bulk.cu --------------------------------------------------------------------------------- */

/* Whether the device runs what is compiled for warpgroups alone: one of 9.0 may have been given code
 * for others, where the launches that need them do nothing. */
bool warpgroups_are_compiled();

/* ---- gaps.cu --------------------------------------------------------------------------------- */

/* Rows past the lengths, and queries that see no key, of a gradient [B,heads,length,dim]: 0. */
struct gaps_args {
    view x;
    int64_t length, dim;
    int heads, batch;
    const int64_t *lengths, *lengths_k; /* lengths_k: causal queries, else NULL */
};
cudaError_t gaps_run(const gaps_args &a, cudaStream_t stream);

/* ---- normal.cu ------------------------------------------------------------------------------- */

/* From the gradients of normalised rows, f32, to those of the rows: (g - u (u.g)) t / |x| with
 * u = x / |x|; and that of the temperature t, sum of u.g over the rows of a head. */
struct normal_args {
    view x, dx;
    const float *gradient; /* [B heads][length][dim] */
    float *along;          /* [B heads][length]: u.g */
    const float *temperature;
    float *dtemperature; /* [heads], or NULL */
    int64_t length;
    const int64_t *lengths;
    int batch, heads, dim;
};
cudaError_t normal_backward_run(const normal_args &a, cudaStream_t stream);

} // namespace lnt
#endif
