/* cuda/common/gaps.cu - zeros into the rows of a gradient that no kernel writes (common.h). */
#include "cuda/common/common.h"

namespace lnt
{

__global__ void gaps_clear_kernel(const __grid_constant__ gaps_args a)
{
    const int64_t b = blockIdx.z, h = blockIdx.y, n = a.lengths ? a.lengths[b] : a.length;
    const int64_t blind = a.lengths_k ? n - a.lengths_k[b] : 0; /* queries before the first key */
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.length * a.dim;
         i += step) {
        const int64_t row = i / a.dim;
        if (row >= n || row < blind)
            store(a.x, row_of(a.x, b, h, row) + i % a.dim * a.x.stride[3], 0.0f);
    }
}

cudaError_t gaps_run(const gaps_args &a, cudaStream_t stream)
{
    if (!a.length || !a.batch) return cudaSuccess;
    const int64_t blocks = (a.length * a.dim + 2047) / 2048;
    const dim3 grid((unsigned)(blocks < 64 ? blocks : 64), (unsigned)a.heads, (unsigned)a.batch);
    gaps_clear_kernel<<<grid, 256, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
