/* cuda/f32/f32.h - attention in the precision of f32: softmax, linear, and Taylor of any table.
 *
 * Products go to the tensor cores as three of tf32: x = high + low, each of 11 bits, and
 *
 *     a b  ~  high_a high_b + high_a low_b + low_a high_b        off by 2^-20 a b at most
 *
 * Features stand in the library's order, D of them, each a product of elements of the key (taylor:
 * the table of tiles_basis.h; linear: the mapped element alone), so a state is the library's but for its
 * row's length, and up to 8 terms are as good as 4.  Four launches: keys and values packed, the
 * sums of the segments, the state before each, the answers: state first, then the keys of the
 * query's own segment one by one.  Without states the last alone is the direct form, and softmax.
 */
#ifndef LNT_CUDA_F32_H
#define LNT_CUDA_F32_H

#include <vector>

#include "cuda/common/common.h"

namespace lnt
{

enum f32_mode { F32_TAYLOR = 0, F32_LINEAR = 1, F32_SOFTMAX = 2 };
enum { F32_TOKENS = 32, F32_ROWS = 128 }; /* keys, or features, at a time; queries of a block */

/* coefficient of softmax: [0] = scale log2 e; segment: a multiple of 128; segments: at least 1 */
struct f32_args : attention_args {
    int mode, by_state;
    const float *log_decay; /* [K]: log2 of it, or NULL */
    const uint64_t *table;  /* [D]: f32_table */
    const float *factor;    /* [D]: what a feature is multiplied by where it is read; NULL: 1 */
    int factors;            /* elements that a feature is a product of, at most */
    int summed;             /* segments whose sums are needed */
    float *keys;            /* [B K][32 tokens][dim to 8][32]: see f32_pack.cu */
    float *values;          /* [B K][32 tokens][32][N] */
    float *sums;            /* [B K][segments][D to 32][N]; then the state before each, times factor; not
                  * causal: the first is that after all */
    /* [B H][length_q]: 1 / denominator, of softmax the log2 of the sum of e^x; NULL: not wanted. */
    float *inverse;
    /* Softmax over the keys in so many parts, each to answers before the division, [B
     * H][part][n][N] with the denominator at N - 8 and the log2 of what e^x was divided by at N -
     * 7; 0: whole. */
    int parts;
    float *partial;
    /* cur: of sequences with more than M queries and keys, keys and values that stand for all. */
    int landmarks;                        /* M; 0: all are there */
    const float *land_keys, *land_values; /* [B K] and [B H], as keys and values */
    const float *land_rows;               /* [B H][M][N]: y of landmark queries; NULL: as others */
    /* Sums over queries in place of keys, for the backward pass: */
    int group;   /* heads in place of kv heads, so many to a decay; else 1 */
    int reverse; /* a token counts the less the later it stands in its segment */
};

/* The table of tiles_basis.h (index [D], of up to 8 terms; factors: terms - 1), for make_features() of
 * f32.cuh.  Bytes of an entry: five elements, the last but one, the last, and whether the first
 * six (1) and the first five (2) are those of the entry before.  Elements that are none are dim,
 * and entries that are none, up to a multiple of 32, have no others. */
std::vector<uint64_t> f32_table(const std::vector<uint64_t> &index, int dim, int factors);

/* ---- the backward pass ----------------------------------------------------------------------- */

/* G_ij = g_i.[v_j, 1] with g = [dout / den, h], h = -(dout.y) / den, and then dq_i = sum_j G w'
 * k_j, dk_j = sum_i G w' q_i, dv_j = sum_i w g_i.  dq reads the states of forward, dk and dv those
 * of R = sum phi(q) g^T, summed from the end; both are one kernel with the sides exchanged. Queries
 * are packed as keys are; causal, each at the place of the last key it sees. */
struct f32_backward_args : f32_args {
    view dout, y, dq, dk, dv; /* y [B,H,n,m] is f32 */
    int64_t places;           /* of queries */
    float *q_keys, *q_values; /* as keys and values, [B H]; the values are g, with h at N - 8 */
    float *logs;              /* [B H][places to 32]: log2 of the sum of e^x; else not used */
    float *gradient_sums;     /* [B H][gradient_segments] as sums; then, for the first head of each
                               * group, R after each segment, times factor */
    int gradient_segments;
    const float *ds_out, *dz_out; /* gradient of the state after the last key; NULL: none */
    float *ds_in, *dz_in;         /* of that before the first */
    float *gradient; /* [B heads][length][dim] in place of dq and dk, of normalised rows; or NULL */
};
enum f32_side { F32_QUERIES = 0, F32_KEYS = 1 };
cudaError_t f32_pack_queries_run(const f32_backward_args &a, cudaStream_t stream);
cudaError_t f32_backward_sum_run(const f32_backward_args &a, cudaStream_t stream);
cudaError_t f32_backward_run(const f32_backward_args &a, int side, cudaStream_t stream);
cudaError_t f32_backward_last_run(const f32_backward_args &a, cudaStream_t stream); /* after the keys */

/* ---- forward --------------------------------------------------------------------------------- */

cudaError_t f32_pack_run(const f32_args &a, cudaStream_t stream);
cudaError_t f32_sum_run(const f32_args &a, cudaStream_t stream);
cudaError_t f32_answer_run(const f32_args &a, cudaStream_t stream);

__host__ __device__ inline int64_t f32_rounded(int64_t count) { return (count + 31) / 32 * 32; }

/* Floats of the parts of the workspace, for B K heads. */
inline int64_t f32_key_numbers(int64_t heads, int64_t length, int dim)
{
    return heads * f32_rounded(length) * ((dim + 7) / 8 * 8);
}
inline int64_t f32_value_numbers(int64_t heads, int64_t length, int dim_value)
{
    return heads * f32_rounded(length) * f32_columns(dim_value);
}

} // namespace lnt
#endif
