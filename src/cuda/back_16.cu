/* cuda/back_16.cu - back_kernel.cuh for widths up to 16; one file each, so that they compile side
 * by side. */
#include "cuda/back_kernel.cuh"

template cudaError_t lnt::back_width<2>(const back_args &a, int side, const read_units &units,
                                        cudaStream_t stream);
