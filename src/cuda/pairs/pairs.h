/* cuda/pairs/pairs.h - Taylor attention of d = 32, P = 4 by pairs of elements (pairs_basis.h): launches. */
#ifndef LNT_CUDA_PAIRS_H
#define LNT_CUDA_PAIRS_H

#include "cuda/pairs/pairs_basis.h"
#include "cuda/tiles/tiles.h"

namespace lnt
{

/* The states before all segments but the first, from keys and values packed with `grouped`. */
struct pairs_args {
    const char *rows, *values;
    int64_t blocks, segment_blocks; /* of 32 tokens in the arrays, and in a segment */
    int segments;                   /* that are summed */
    int prefixes;                   /* states that are kept */
    int heads, kv_heads;            /* heads: B K */
    int64_t length;
    const int64_t *lengths; /* [B] on the device, or NULL */
    const float *factor;    /* pairs_tables */
    const int32_t *place;
    float constant; /* a_0 */
    char *state;    /* [B K][prefixes] PAIRS_STATE_BYTES: [part][tile], product.cuh */
    float *linear;  /* [B K][prefixes][part][136] */
    float *mean;    /* [B K][prefixes][40]: degree 0 */
    char *aside;    /* [B K][part] PAIRS_ASIDE_BYTES */
    int64_t count;
    int dim_value;
    const float *s_in, *z_in; /* [B K][D][m], [B K][D]; NULL: none */
    float *s_out, *z_out;
    /* Queries in place of keys, for the backward pass: the states after each segment, of values
     * times scale[].x with scale[].y in place of the ones.  Or NULL. */
    const float2 *scale; /* [B K][blocks * 32] */
};
cudaError_t pairs_sum_run(const pairs_args &a, cudaStream_t stream);
/* processors: of the device */
cudaError_t pairs_answer_run(const tiles_answer_args &a, const float *linear, int processors,
                             cudaStream_t stream);
cudaError_t pairs_backward_run(const tiles_backward_args &a, int side, int processors, cudaStream_t stream);

} // namespace lnt
#endif
