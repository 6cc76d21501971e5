/* cuda/linear/linear.h - linear attention: launches. */
#ifndef LNT_CUDA_LINEAR_H
#define LNT_CUDA_LINEAR_H

#include "cuda/common/common.h"

namespace lnt
{

/* ---- linear_forward.cu ----------------------------------------------------------------------- */

/* segment: a multiple of 64 */
struct linear_args : attention_args {
    const float *decay; /* [K] or NULL */
    float *sums;        /* [B K][segments][W][W + 8], column W is z; then the state before each */
    float *total;       /* [B K][W][W + 8]: after the last */
};
cudaError_t linear_run(const linear_args &a, cudaStream_t stream);

/* ---- linear_pass.cu -------------------------------------------------------------------------- */

/* The same in one pass, causal and without decay, d and m up to 64, where the device has what it
 * takes.  blocks: multiprocessors.  False: the layout of the tensors is not one that it reads;
 * nothing was done. */
size_t linear_pass_workspace(int64_t heads);
bool linear_pass_run(const linear_args &l, int blocks, char *workspace, cudaStream_t stream,
                     cudaError_t *error);

/* ---- linear_backward.cu ---------------------------------------------------------------------- */

/* Of linear_args, out, s_out and z_out are not used. */
struct linear_backward_args : linear_args {
    view dout, dq, dk, dv;
    int query_segments;   /* causal: as many as segments */
    float *gradient_sums; /* [B K][query_segments] as sums; then the state after each.  Here, in
                           * sums and totals, a state has W + 1 rows: linear_backward.cuh */
    float *gradient_total;
    float2 *rows;                 /* [B H][length_q]: 1 / den, -(dout.n) / den^2 */
    const float *ds_out, *dz_out; /* gradient of the state after the last key; NULL: none */
    float *ds_in, *dz_in;         /* of that before the first */
};
cudaError_t linear_backward_run(const linear_backward_args &a, cudaStream_t stream);

/* ---- linear_boxes.cu ------------------------------------------------------------------------- */

/* The same where it is causal without decay, states or lengths, with as many keys as queries and a
 * key head for each, d and m up to 64, and the device has what it takes.  False: it is not so;
 * nothing was done. */
size_t linear_boxes_workspace(int64_t heads, int64_t length); /* heads: B H */
bool linear_boxes_run(const linear_backward_args &a, char *workspace, cudaStream_t stream,
                      cudaError_t *error);

} // namespace lnt
#endif
