/* cuda/back_rows.cu - what the backward pass needs of every row besides tensor-core products: the
 * quotient of a query, dout / den as packed values, and the way back through normalised rows. */
#include "cuda/kernels.cuh"

namespace lnt
{

enum { ROW_THREADS = 256, ROW_LANES = 8, ROW_COUNT = ROW_THREADS / ROW_LANES };

/* Over the lanes that share a row. */
__device__ __forceinline__ float lanes_sum(float x)
{
#pragma unroll
    for (int d = 1; d < ROW_LANES; d *= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

/* ---- the quotient ---------------------------------------------------------------------------- */

__global__ void __launch_bounds__(ROW_THREADS)
    back_rows_kernel(const __grid_constant__ back_rows_args a)
{
    const int64_t b = blockIdx.z, h = blockIdx.y;
    const int64_t place = (int64_t)blockIdx.x * ROW_COUNT + threadIdx.x / ROW_LANES;
    const int64_t nq = a.lengths_q ? a.lengths_q[b] : a.length_q;
    const int64_t nk = a.lengths_k ? a.lengths_k[b] : a.length_k;
    const int64_t i = a.causal ? place - (nk - nq) : place;
    const bool in = i >= 0 && i < nq;
    float dot = 0;
    for (int c = (int)threadIdx.x % ROW_LANES; c < a.dim_value && in; c += ROW_LANES)
        dot = fmaf(load(a.dout, row_of(a.dout, b, h, i) + c * a.dout.stride[3]),
                   load(a.y, row_of(a.y, b, h, i) + c), dot);
    dot = lanes_sum(dot);
    if (threadIdx.x % ROW_LANES || place >= a.blocks * 32) return;
    const float inverse = in ? a.inverse[(b * a.heads + h) * a.length_q + i] : 0.0f;
    const int64_t seen = a.causal ? place + 1 : nk;
    const float norm = a.output_norm ? sqrtf((float)seen / (float)a.dim) : 1.0f;
    a.rows[(b * a.heads + h) * a.blocks * 32 + place] = make_float2(inverse * norm, -dot * inverse);
}

cudaError_t back_rows_run(const back_rows_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)((a.blocks * 32 + ROW_COUNT - 1) / ROW_COUNT), (unsigned)a.heads,
                    (unsigned)a.batch);
    back_rows_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---- dout / den, packed ---------------------------------------------------------------------- */

/* A thread has 8 tokens of one column: those of group q (pack.cu). */
__global__ void __launch_bounds__(ROW_THREADS)
    back_scaled_kernel(const __grid_constant__ back_rows_args a)
{
    const int64_t n8 = a.width + 1, each = a.blocks * n8 * 32; /* 16 bytes each */
    const int64_t head = blockIdx.y, w = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (w >= each) return;
    const int i = (int)(w % 8), q = (int)(w / 8 % 4), i8 = (int)(w / 32 % n8);
    const float2 *rows = a.rows + head * a.blocks * 32 + w / 32 / n8 * 32;
    const uint4 from = ((const uint4 *)a.douts)[head * each + w];
    const uint32_t pair[4] = { from.x, from.y, from.z, from.w };
    uint32_t to[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float4 two = *(const float4 *)(rows + 8 * k + 2 * q);
        if (i8 < a.width)
            to[k] = pack(low_of(pair[k]) * two.x, high_of(pair[k]) * two.z);
        else
            to[k] = i == 0 ? pack(two.y, two.w) : 0;
    }
    ((uint4 *)a.scaled)[head * each + w] = make_uint4(to[0], to[1], to[2], to[3]);
}

cudaError_t back_scaled_run(const back_rows_args &a, cudaStream_t stream)
{
    const int64_t each = a.blocks * (a.width + 1) * 32;
    const dim3 grid((unsigned)((each + ROW_THREADS - 1) / ROW_THREADS),
                    (unsigned)(a.batch * a.heads));
    back_scaled_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---- normalised rows ------------------------------------------------------------------------- */

__global__ void __launch_bounds__(ROW_THREADS)
    back_normal_kernel(const __grid_constant__ back_normal_args a)
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
    square = lanes_sum(square), dot = lanes_sum(dot);
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
    back_temperature_kernel(const __grid_constant__ back_normal_args a)
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

cudaError_t back_normal_run(const back_normal_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)((a.length + ROW_COUNT - 1) / ROW_COUNT), (unsigned)a.heads,
                    (unsigned)a.batch);
    if (a.length && a.batch) back_normal_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    if (a.dtemperature) back_temperature_kernel<<<(unsigned)a.heads, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
