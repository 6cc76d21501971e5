/* cuda/state/state.h - states of fixed size, token by token: launches. */
#ifndef LNT_CUDA_STATE_H
#define LNT_CUDA_STATE_H

#include "cuda/common/common.h"

namespace lnt
{

enum { STEP_SPLITS = 128 };

/* q, out [B,H,tokens,.]; k, v [B,K,tokens,.] */
struct state_step_args : attention_args {
    int tokens;
    float *s, *z;         /* [slots][K][D][m], [slots][K][D] */
    const int64_t *slots; /* [B] on the device: the state of each sequence; NULL: its own */
    const int64_t *seen;  /* [slots]: tokens before; NULL where output_norm is 0 */
    int taylor;
    const uint64_t *index; /* [D] and [D]: monomials_table */
    const float *factor;
    const float *decay; /* [K] or NULL */
    int append, answer; /* adds the tokens; reads with the queries */
    int splits;         /* blocks of threads a state */
    float *partial;     /* state_step_workspace */
    unsigned *arrived;  /* [B K], 0 between calls */
};
/* Tokens one by one; the state is read and written once for each group of them. */
cudaError_t state_step_run(const state_step_args &a, cudaStream_t stream);
int state_step_splits(int heads, int64_t count, int dim_value, int multiprocessors);
/* Bytes of partial; heads: B K. */
size_t state_step_workspace(int heads, int splits, int dim_value);

/* to[slot] = from[slot] + n, or + lengths[b]; from NULL: 0. */
cudaError_t state_count_run(int64_t *to, const int64_t *from, const int64_t *index, int64_t batch, int64_t n,
                            const int64_t *lengths, cudaStream_t stream);

} // namespace lnt
#endif
