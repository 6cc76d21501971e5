/* cuda/tiles/tiles_backward_16.cu - tiles_backward.cuh for widths up to 16; one file each, so
 * that they compile side by side. */
#include "cuda/tiles/tiles_backward.cuh"

template cudaError_t lnt::backward_width<2>(const tiles_backward_args &a, int side,
                                            const tiles_units &units, cudaStream_t stream);
