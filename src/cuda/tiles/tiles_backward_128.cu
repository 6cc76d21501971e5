/* cuda/tiles/tiles_backward_128.cu - tiles_backward.cuh for widths up to 128; one file each, so
 * that they compile side by side. */
#include "cuda/tiles/tiles_backward.cuh"

template cudaError_t lnt::backward_width<16>(const tiles_backward_args &a, int side,
                                             const tiles_units &units, cudaStream_t stream);
