/* cuda/orbits/orbits.h - Taylor attention of few monomials (orbits_basis.h): launches. */
#ifndef LNT_CUDA_ORBITS_H
#define LNT_CUDA_ORBITS_H

#include "cuda/common/common.h"
#include "cuda/orbits/orbits_basis.h"

namespace lnt
{

/* Taylor attention of few monomials (orbits_basis.h), from q, k, v as they are to y. */
struct orbits_args : attention_args {
    /* width: orbits_width(); segment: a multiple of 128 */
    int summed; /* segments that a state after them is wanted of */
    int walk;   /* segments that orbits_walk.cu or orbits_relay.cu walk through */
    int relay;  /* by orbits_relay.cu */
    /* [B K][segments][orbit][block][column of (v, 1)][8], then the state before each; and [B
     * K][...] after the last. */
    float *sums, *total;
    const int32_t *place;
};
int64_t orbits_numbers(int width, int terms); /* floats of a state */
bool orbits_is_alone(int width, int terms);   /* one warp holds all of it */
cudaError_t orbits_sum_run(const orbits_args &a, cudaStream_t stream);
cudaError_t orbits_answer_run(const orbits_args &a, cudaStream_t stream);
cudaError_t orbits_walk_run(const orbits_args &a, cudaStream_t stream);  /* causal, width 1 */
cudaError_t orbits_relay_run(const orbits_args &a, cudaStream_t stream); /* causal, width 2, P = 4 */

} // namespace lnt
#endif
