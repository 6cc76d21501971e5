/* cuda/common/common.h - what is of no family: the widths that are compiled, and launches that all share.
 *
 * Shapes in every room: B batch, H heads, K kv heads, n tokens, d and m the widths of keys and values, D and
 * M those rounded up to 8, to W = 8 X (a width that is compiled), N8 = X + 1 column tiles of 8: the values,
 * and a last one whose first column is 1, so that denominators come with the numerators. */
#ifndef LNT_CUDA_COMMON_H
#define LNT_CUDA_COMMON_H

#include "cuda/common/device.cuh"
#include "cuda/common/sizes.h"

namespace lnt
{

/* What every family's launches know of a problem and a run; their arguments begin with it. */
struct attention_args {
    view q, k, v, out;
    int64_t length_q, length_k;
    const int64_t *lengths_q, *lengths_k; /* [B] on the device, or NULL */
    int batch, heads, kv_heads;
    int dim, dim_value, width; /* width: width_for() */
    int terms, causal, normalize, output_norm, map;
    float eps;
    float coefficient[32];    /* a_p scale^p; softmax: [0] = scale, as the family takes it */
    const float *temperature; /* [H] on the device, or NULL */
    int64_t segment;          /* tokens between states, or in a sum */
    int segments;             /* of the keys */
    int64_t count;            /* D: features, rows of a state */
    const float *s_in, *z_in; /* [B K][D][m], [B K][D]: the library's states; NULL: none */
    float *s_out, *z_out;
    unsigned long long *nonpositive;
};

/* run(x) with a constant x.value of the width in eights, which is at least `least`. */
template <int value_> struct width_constant {
    static constexpr int value = value_;
};
template <int least, class F> static cudaError_t by_width(int width, const F &run)
{
    if constexpr (least < 2)
        if (width == 1) return run(width_constant<1>());
    return width <= 2   ? run(width_constant<2>())
           : width == 4 ? run(width_constant<4>())
           : width == 8 ? run(width_constant<8>())
                        : run(width_constant<16>());
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
