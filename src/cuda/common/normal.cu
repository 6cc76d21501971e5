/* cuda/common/normal.cu - the backward pass through rows that were normalised (common.h), and the gradient of
 * their temperature. */
#include "cuda/common/common.h"

namespace lnt
{

enum { ROW_THREADS = 256, ROW_LANES = 8, ROW_COUNT = ROW_THREADS / ROW_LANES };

__global__ void __launch_bounds__(ROW_THREADS)
    normal_backward_kernel(const __grid_constant__ normal_args a)
{
    const int64_t b = blockIdx.z, h = blockIdx.y;
    const int64_t i = (int64_t)blockIdx.x * ROW_COUNT + threadIdx.x / ROW_LANES;
    const bool in = i < (a.lengths ? a.lengths[b] : a.length);
    const int64_t row = in ? row_of(a.x, b, h, i) : 0, to = in ? row_of(a.dx, b, h, i) : 0,
                  place = (b * a.heads + h) * a.length + i;
    const float *g = a.gradient + place * a.dim;
    float square = 0, dot = 0;
    for (int e = (int)threadIdx.x % ROW_LANES; e < a.dim && in; e += ROW_LANES) {
        const float x = load(a.x, row + e * a.x.stride[3]);
        square = fmaf(x, x, square), dot = fmaf(x, g[e], dot);
    }
    square = lanes_sum<ROW_LANES>(square), dot = lanes_sum<ROW_LANES>(dot);
    const float inverse = 1.0f / fmaxf(sqrtf(square), 1e-12f), along = dot * inverse;
    const float by = inverse * (a.temperature ? a.temperature[h] : 1.0f);
    for (int e = (int)threadIdx.x % ROW_LANES; e < a.dim && in; e += ROW_LANES) {
        const float u = load(a.x, row + e * a.x.stride[3]) * inverse;
        store(a.dx, to + e * a.dx.stride[3], (g[e] - u * along) * by);
    }
    if (threadIdx.x % ROW_LANES == 0 && i < a.length && a.along) a.along[place] = in ? along : 0.0f;
}

/* A block of threads a head; in a fixed order. */
__global__ void __launch_bounds__(ROW_THREADS)
    normal_temperature_kernel(const __grid_constant__ normal_args a)
{
    __shared__ float sums[ROW_THREADS];
    const int64_t h = blockIdx.x;
    float sum = 0;
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t i = threadIdx.x; i < a.length; i += ROW_THREADS)
            sum += a.along[(b * a.heads + h) * a.length + i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) a.dtemperature[h] = sums[0];
}

cudaError_t normal_backward_run(const normal_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)((a.length + ROW_COUNT - 1) / ROW_COUNT), (unsigned)a.heads,
                    (unsigned)a.batch);
    if (a.length && a.batch) normal_backward_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    if (a.dtemperature) normal_temperature_kernel<<<(unsigned)a.heads, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
