/* cuda/pairs/pairs_backward.cu - gradients of Taylor attention from the states of pairs_basis.h.
 *
 * With x a query and d = dout, or x a key and d = v, a part c of the state gives
 *
 *     T[l] = sum over pairs of (x_i x_j) S_c[pair][l]       dx_(4 c + l) += T[l].d
 *     U[pair] = sum over l of (x_l d).S_c[pair][l]          dx_i += x_j U,  dx_j += x_i U
 *
 * and dv += x_l T[l], dout.n += x_l T[l].d.  Both are products on the tensor cores, the second
 * with the state turned over, so that what is left to the lanes is two multiply-adds for a pair of
 * a part and one for a number of T: of pairs within groups, which all parts have in common, U is
 * summed over the parts first.  Of keys h is one more column, of both; of queries the column of
 * ones has to stay apart until den is known, and comes from slopes (tiles_backward_slopes.cuh).
 *
 * A block of threads a multiprocessor goes from one set of 128 rows to the next.  Two warpgroups
 * read states, 64 rows each: per part 14 products of 64 x 128 x 16 and 8 of 64 x 224 x 16.  A third
 * takes what they give and meets the keys or queries of the rows' own segment one by one, while
 * they are at the next rows already.  A fourth feeds the three by the copy engine, through two
 * rings. */
#include "cuda/pairs/pairs_backward_state.cuh"
#include "cuda/pairs/pairs_backward_tokens.cuh"

namespace lnt
{

template <int side>
__global__ void __launch_bounds__(PAIRS_BACKWARD_THREADS, 1)
    pairs_backward_kernel(const __grid_constant__ tiles_backward_args a, int count)
{
#if LNT_WARPGROUPS
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    if (threadIdx.x == 0) pairs_backward_barriers(shared).begin();
    __syncthreads();
    const int state_warp = warp - PAIRS_BACKWARD_STATE_FIRST;
    if (state_warp >= 0 && state_warp < PAIRS_BACKWARD_STATE_WARPS) {
        registers_up<pairs_backward_shape<side>::STATE>();
        read_states<side>(a, shared, state_warp, lane, count);
    } else if (warp < PAIRS_BACKWARD_FEEDER) {
        registers_down<pairs_backward_shape<side>::TOKENS>();
        meet_items<side>(a, shared, warp, lane, count);
    } else {
        registers_down<pairs_backward_shape<side>::FEED>();
        if (warp == PAIRS_BACKWARD_FEEDER && lane == 0) feed_units<side>(a, shared, count);
        if (warp == PAIRS_BACKWARD_FEEDER + 1 && lane == 0) feed_tokens<side>(a, shared, count);
    }
#endif
}

template <int side>
static cudaError_t launch_pairs(const tiles_backward_args &a, int processors, cudaStream_t stream)
{
    const int64_t segments = (a.own_blocks * 32 + PAIRS_SEGMENT - 1) / PAIRS_SEGMENT,
                  count = segments * (PAIRS_SETS / 2) * a.heads * a.batch;
    const unsigned grid = (unsigned)(count < processors ? count : processors);
    return launch_kernel(pairs_backward_kernel<side>, grid, PAIRS_BACKWARD_THREADS,
                         PAIRS_BACKWARD_SHARED, stream, a, (int)count);
}

cudaError_t pairs_backward_run(const tiles_backward_args &a, int side, int processors,
                               cudaStream_t stream)
{
    return side == BACKWARD_QUERIES ? launch_pairs<BACKWARD_QUERIES>(a, processors, stream)
                                    : launch_pairs<BACKWARD_KEYS>(a, processors, stream);
}

} // namespace lnt
