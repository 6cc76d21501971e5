/* cuda/back.cu - the gradients of Taylor and softmax attention, by width. */
#include "cuda/kernels.cuh"

namespace lnt
{

template <int X>
cudaError_t back_width(const back_args &a, int side, const read_units &units, cudaStream_t stream);

cudaError_t back_run(const back_args &a, int side, const read_units &units, cudaStream_t stream)
{
    switch (a.width) {
    case 2:
        return back_width<2>(a, side, units, stream);
    case 4:
        return back_width<4>(a, side, units, stream);
    case 8:
        return back_width<8>(a, side, units, stream);
    default:
        return back_width<16>(a, side, units, stream);
    }
}

} // namespace lnt
