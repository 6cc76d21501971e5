/* cuda/cur/cur.h - CUR attention on the kernels of f32.h:
 *
 *     y = C (U^+ (R v))     C = softmax(scale q k_J^T)     R = softmax(scale q_I k^T)     U =
 * C[I,:]
 *
 * R v is softmax attention of the M landmark queries over all keys, in parts; y that of all queries
 * over the M landmark keys with the rows of U^+ R v for values.  Between them one block of threads
 * a head adds the parts and inverts U, in f64.  See docs/math/cur.md */
#ifndef LNT_CUDA_CUR_H
#define LNT_CUDA_CUR_H

#include "cuda/f32/f32.h"

namespace lnt
{

struct cur_args {
    f32_args f32;                    /* of the last pass */
    int query_means, key_means;      /* landmarks are means of segments, else their first tokens */
    int ridged, iterations, by_both; /* by_both: iterations start with both norms */
    double scale, ridge;
    float *queries;   /* [B H][M][d] */
    float *keys;      /* [B K], as those of f32 */
    float *values;    /* [B H], as those of f32: U^+ R v */
    float *rows;      /* [B H][M][N]: R v */
    double *matrices; /* [B H][cur_numbers] */
};
/* U and five more as large, R v, W, and one more of those. */
__host__ __device__ inline int64_t cur_numbers(int landmarks, int dim_value)
{
    return (int64_t)6 * landmarks * landmarks + (int64_t)3 * landmarks * dim_value;
}
cudaError_t cur_load_run(const cur_args &a, cudaStream_t stream);
cudaError_t cur_solve_run(const cur_args &a, cudaStream_t stream);

} // namespace lnt
#endif
