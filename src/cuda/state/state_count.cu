/* cuda/state/state_count.cu - how many tokens a state has seen. */
#include "cuda/state/state.h"

namespace lnt
{

__global__ void state_count_kernel(int64_t *to, const int64_t *from, const int64_t *index,
                                   int batch, int64_t n, const int64_t *lengths)
{
    const int b = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (b >= batch) return;
    const int64_t slot = index ? index[b] : b;
    to[slot] = (from ? from[slot] : 0) + (lengths ? lengths[b] : n);
}

cudaError_t state_count_run(int64_t *to, const int64_t *from, const int64_t *index, int64_t batch,
                            int64_t n, const int64_t *lengths, cudaStream_t stream)
{
    if (batch)
        state_count_kernel<<<(unsigned)((batch + 127) / 128), 128, 0, stream>>>(
            to, from, index, (int)batch, n, lengths);
    return cudaGetLastError();
}

} // namespace lnt
