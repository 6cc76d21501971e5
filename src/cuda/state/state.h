/* cuda/state/state.h - states of fixed size, token by token: launches. */
#ifndef LNT_CUDA_STATE_H
#define LNT_CUDA_STATE_H

#include "cuda/common/device.cuh"

namespace lnt
{

enum { STEP_SPLITS = 128 };

struct state_step_args {
    view q, k, v, out; /* q, out [B,H,tokens,.]; k, v [B,K,tokens,.] */
    int batch, heads, kv_heads, tokens;
    int dim, dim_value;
    int64_t count;        /* D */
    float *s, *z;         /* [slots][K][D][m], [slots][K][D] */
    const int64_t *slots; /* [B] on the device: the state of each sequence; NULL: its own */
    const int64_t *seen;  /* [slots]: tokens before; NULL where output_norm is 0 */
    int taylor, terms;
    const uint64_t *index; /* [D] and [D]: monomials_table */
    const float *factor;
    int map;            /* linear: lnt_feature_map */
    const float *decay; /* [K] or NULL */
    int normalize, output_norm;
    const float *temperature;
    float eps;
    int append, answer; /* adds the tokens; reads with the queries */
    int splits;         /* blocks of threads a state */
    float *partial;     /* step_workspace */
    unsigned *arrived;  /* [B K], 0 between calls */
    unsigned long long *nonpositive;
};
/* Tokens one by one; the state is read and written once for each group of them. */
cudaError_t state_step_run(const state_step_args &a, cudaStream_t stream);
int state_step_splits(int heads, int64_t count, int dim_value, int multiprocessors);
size_t state_step_workspace(int heads, int splits,
                            int dim_value); /* bytes of partial; heads: B K */

/* to[slot] = from[slot] + n, or + lengths[b]; from NULL: 0. */
cudaError_t state_count_run(int64_t *to, const int64_t *from, const int64_t *index, int64_t batch,
                            int64_t n, const int64_t *lengths, cudaStream_t stream);

} // namespace lnt
#endif
