/* cuda/back_rows.cu - what the backward pass needs besides tensor-core products: dout / den as
 * packed values, matrices for the gradients of denominators, and the way back through normalised
 * rows. */
#include "cuda/kernels.cuh"

namespace lnt
{

enum { ROW_THREADS = 256, ROW_LANES = 8, ROW_COUNT = ROW_THREADS / ROW_LANES };

/* ---- dout / den, packed ---------------------------------------------------------------------- */

/* A thread has 8 tokens of one column: those of group q (pack.cu). */
__global__ void __launch_bounds__(ROW_THREADS)
    back_scaled_kernel(const __grid_constant__ back_scaled_args a)
{
    const int columns = a.fold ? 2 * a.width : a.width;        /* of 8; h after them */
    const int64_t n8 = columns + 1, each = a.blocks * n8 * 32; /* 16 bytes each */
    const int64_t head = blockIdx.y, w = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (w >= each) return;
    const int i = (int)(w % 8), q = (int)(w / 8 % 4), i8 = (int)(w / 32 % n8);
    const int64_t block = head * a.blocks + w / 32 / n8;
    const float2 *rows = a.rows + block * 32;
    const uint4 from =
        ((const uint4 *)a.douts)[(block * (a.width + 1) + i8 % a.width) * 32 + w % 32];
    const uint32_t pair[4] = { from.x, from.y, from.z, from.w };
    uint32_t to[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float4 two = *(const float4 *)(rows + 8 * k + 2 * q);
        uint32_t left;
        to[k] = pack_both(low_of(pair[k]) * two.x, high_of(pair[k]) * two.z, left);
        if (i8 >= a.width) to[k] = left;
        if (i8 == columns) to[k] = i == 0 ? pack(two.y, two.w) : 0;
    }
    ((uint4 *)a.scaled)[head * each + w] = make_uint4(to[0], to[1], to[2], to[3]);
}

cudaError_t back_scaled_run(const back_scaled_args &a, cudaStream_t stream)
{
    const int64_t each = a.blocks * ((a.fold ? 2 : 1) * a.width + 1) * 32;
    const dim3 grid((unsigned)((each + ROW_THREADS - 1) / ROW_THREADS), (unsigned)a.heads);
    back_scaled_kernel<<<grid, ROW_THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}

/* ---- slopes ---------------------------------------------------------------------------------- */

int64_t slopes_bytes(int width, int tiles)
{
    return (int64_t)tiles * 2 * (width + 1) * 256 + 8 * width * (int64_t)sizeof(float);
}

__global__ void __launch_bounds__(ROW_THREADS)
    slopes_kernel(const __grid_constant__ slopes_args a, int64_t bytes)
{
    const __nv_bfloat16 *z = (const __nv_bfloat16 *)a.state + blockIdx.x * a.numbers;
    const float *linear = a.linear ? a.linear + (int64_t)blockIdx.x * a.linear_numbers : nullptr;
    char *to = a.slopes + blockIdx.x * bytes;
    const int each = a.width * 128, slot = (a.width + 1) * 256, count = a.tiles * each;
    for (int i = (int)threadIdx.x; i < count + 8 * a.width; i += ROW_THREADS) {
        const uint32_t entry = a.entries[i], at = entry & (1u << SLOPE_TIMES) - 1;
        const float times = (float)(entry >> SLOPE_TIMES);
        const bool first = i >= count;
        float x = 0;
        if (times > 0)
            x = times * (first && linear
                             ? linear[at]
                             : __bfloat162float(z[at]) + __bfloat162float(z[at + a.left]));
        if (first) {
            ((float *)(to + bytes))[i - count - 8 * a.width] = x;
            continue;
        }
        const __nv_bfloat16 high = __float2bfloat16_rn(x);
        __nv_bfloat16 *tile = (__nv_bfloat16 *)(to + i / each * 2 * slot) + i % each;
        tile[0] = high;
        tile[slot / 2] = __float2bfloat16_rn(x - __bfloat162float(high));
    }
}

cudaError_t slopes_run(const slopes_args &a, cudaStream_t stream)
{
    if (a.states && a.numbers)
        slopes_kernel<<<(unsigned)a.states, ROW_THREADS, 0, stream>>>(
            a, slopes_bytes(a.width, a.tiles));
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
