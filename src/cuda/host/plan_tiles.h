/* cuda/host/plan_tiles.h - what plan_tiles.cu and plan_tiles_backward.cu share. */
#ifndef LNT_CUDA_PLAN_TILES_H
#define LNT_CUDA_PLAN_TILES_H

#include "cuda/host/plan.h"

namespace lnt
{

/* Of a backward run. */
struct packed_run {
    lnt_cuda_plan *plan;
    const lnt_cuda_io *io;
    const lnt_cuda_grads *grads;
    cudaStream_t stream;
    int64_t blocks_k, blocks_q;
    char *work;

    template <class T> T *at(size_t place) const { return (T *)(work + place); }
};

struct packed_states {
    void (*lay_out)(lnt_cuda_plan *plan, size_t heads, size_t columns);
    /* From packed keys and values, unless they are made; tells `answer` of them. */
    cudaError_t (*make)(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks, bool made,
                        tiles_answer_args *answer, cudaStream_t stream);
    cudaError_t (*answer)(const lnt_cuda_plan *plan, const lnt_cuda_io *io, const tiles_answer_args &a,
                          cudaStream_t stream);
    /* Where a state has what tiles_slopes_args asks for. */
    void (*slopes)(const packed_run &run, tiles_slopes_args *a);
    /* The states after each segment, R, in place of those before. */
    cudaError_t (*gradients)(const packed_run &run, int *prefixes);
    cudaError_t (*back)(const packed_run &run, const tiles_backward_args &a, int side);
};
extern const packed_states tile_states, pair_states;

inline int64_t packed_blocks(int64_t length) { return (length + 127) / 128 * 4; } /* of 32 tokens */
bool meets_keys(const lnt_cuda_plan *plan);                                       /* one by one */
tiles_pack_args pack_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks);
tiles_answer_args answer_of(const lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks);
tiles_sum_args sum_of(const lnt_cuda_plan *plan, int64_t blocks);
tiles_scan_args scan_of(const lnt_cuda_plan *plan, char *work, const tiles_sum_args &sum);
pairs_args pairs_of(const lnt_cuda_plan *plan, char *work, int64_t blocks);

/* ---- plan_tiles_backward.cu ------------------------------------------------------------------ */

void slopes_of_tiles(const packed_run &run, tiles_slopes_args *a);
void slopes_of_pairs(const packed_run &run, tiles_slopes_args *a);
cudaError_t gradients_of_tiles(const packed_run &run, int *prefixes);
cudaError_t gradients_of_pairs(const packed_run &run, int *prefixes);
cudaError_t back_tiles(const packed_run &run, const tiles_backward_args &a, int side);
cudaError_t back_pairs(const packed_run &run, const tiles_backward_args &a, int side);
/* Keys, and values without their mean where states are made of them; *center: that mean, or NULL. */
cudaError_t pack_for_gradients(lnt_cuda_plan *plan, const lnt_cuda_io *io, int64_t blocks,
                               const float **center, cudaStream_t stream);
void packed_lay_out_backward(lnt_cuda_plan *plan);
cudaError_t packed_backward(lnt_cuda_plan *plan, const lnt_cuda_io *io, const lnt_cuda_grads *grads,
                            cudaStream_t stream);

} // namespace lnt
#endif
