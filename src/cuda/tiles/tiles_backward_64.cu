/* cuda/tiles/tiles_backward_64.cu - tiles_backward.cuh for widths up to 64; one file each, so
 * that they compile side by side. */
#include "cuda/tiles/tiles_backward.cuh"

template cudaError_t lnt::backward_width<8>(const tiles_backward_args &a, int side,
                                            const tiles_units &units, cudaStream_t stream);
