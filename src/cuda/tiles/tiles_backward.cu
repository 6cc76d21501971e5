/* cuda/tiles/tiles_backward.cu - the gradients of Taylor and softmax attention, by width. */
#include "cuda/tiles/tiles.h"

namespace lnt
{

template <int X>
cudaError_t backward_width(const tiles_backward_args &a, int side, const tiles_units &units,
                           cudaStream_t stream);

cudaError_t tiles_backward_run(const tiles_backward_args &a, int side, const tiles_units &units,
                               cudaStream_t stream)
{
    return by_width<2>(a.width, [&](auto x) { return backward_width<x.value>(a, side, units, stream); });
}

} // namespace lnt
