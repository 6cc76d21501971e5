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
    switch (a.width) {
    case 2:
        return backward_width<2>(a, side, units, stream);
    case 4:
        return backward_width<4>(a, side, units, stream);
    case 8:
        return backward_width<8>(a, side, units, stream);
    default:
        return backward_width<16>(a, side, units, stream);
    }
}

} // namespace lnt
