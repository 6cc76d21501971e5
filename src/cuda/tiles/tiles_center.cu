/* cuda/tiles/tiles_center.cu - what is taken from the values before gradients are made by way of states:
 *
 *     c = mean over the keys of v, of each column of a head
 *
 * G_ij = dout_i.(v_j - y_i) / den_i is the same of v - c.  But a state is rounded to bf16, and of
 * values with a mean most of it is the mean's, which cancels in G and leaves its rounding there.
 * Differences from a head's first row are summed, in pieces of the keys and always in the same
 * order.  See docs/gpu-kernels.md */
#include "cuda/tiles/tiles.h"

namespace lnt
{

enum { CENTER_THREADS = 256, CENTER_PIECE = 1024, CENTER_PIECES = 64 };

static int64_t pieces_of(int64_t length)
{
    const int64_t pieces = (length + CENTER_PIECE - 1) / CENTER_PIECE;
    return pieces < (int64_t)CENTER_PIECES ? pieces : (int64_t)CENTER_PIECES;
}

int64_t tiles_center_parts(int64_t heads, int64_t length, int value8)
{
    return heads * pieces_of(length) * 16 * value8;
}

__device__ __forceinline__ void widen(float (&x)[8], const uint4 &pairs)
{
    const uint32_t two[4] = { pairs.x, pairs.y, pairs.z, pairs.w };
#pragma unroll
    for (int k = 0; k < 4; k++) x[2 * k] = low_of(two[k]), x[2 * k + 1] = high_of(two[k]);
}

/* Of a piece of the keys, for 8 columns a thread: the sums of v - v_0, then those of its squares,
 * to parts [B heads][piece][value8][16]. */
__global__ void __launch_bounds__(CENTER_THREADS)
    tiles_center_sum_kernel(const __grid_constant__ tiles_center_args a)
{
    __shared__ float sums[16][CENTER_THREADS];
    const int64_t head = blockIdx.y, b = head / a.heads, h = head % a.heads;
    const int64_t n = a.lengths ? a.lengths[b] : a.length;
    const int64_t piece = (a.length + gridDim.x - 1) / gridDim.x, first = blockIdx.x * piece;
    const bool wide = is_wide(a.v, 8);
    const int i8 = (int)threadIdx.x % a.value8, row = (int)threadIdx.x / a.value8;
    float sum[16] = {}, pivot[8], x[8];
    if (first < n) widen(pivot, take8(a.v, row_of(a.v, b, h, 0), 8 * i8, a.dim_value, wide));
#pragma unroll 4
    for (int64_t t = first + row; t < min(first + piece, n); t += CENTER_THREADS / a.value8) {
        widen(x, take8(a.v, row_of(a.v, b, h, t), 8 * i8, a.dim_value, wide));
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float off = x[k] - pivot[k];
            sum[k] += off, sum[8 + k] = fmaf(off, off, sum[8 + k]);
        }
    }
    for (int half = CENTER_THREADS / 2; half >= a.value8; half /= 2) {
#pragma unroll
        for (int e = 0; e < 16; e++) sums[e][threadIdx.x] = sum[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; e++)
            if ((int)threadIdx.x < half) sum[e] += sums[e][threadIdx.x + half];
        __syncthreads();
    }
    if (row) return;
    float *to = a.parts + ((head * gridDim.x + blockIdx.x) * a.value8 + i8) * 16;
#pragma unroll
    for (int e = 0; e < 16; e++) to[e] = sum[e];
}

/* A column a thread.  A mean that chance alone may give, four times spread / sqrt(n), stays, and so
 * do the bits of the gradients.  Others are rounded to a power of two well below the spread: v - c
 * is then exact for all v but those that lie much closer to 0 than to c. */
__global__ void tiles_center_kernel(const __grid_constant__ tiles_center_args a, int pieces)
{
    const int64_t head = blockIdx.x, b = head / a.heads, h = head % a.heads;
    const int64_t n = a.lengths ? a.lengths[b] : a.length;
    const int column = (int)threadIdx.x;
    float center = 0;
    if (n > 0 && column < a.dim_value) {
        const float *from = a.parts + (head * pieces * a.value8 + column / 8) * 16 + column % 8;
        float sum = 0, squares = 0;
        for (int i = 0; i < pieces; i++, from += 16 * a.value8) sum += from[0], squares += from[8];
        const float off = sum / (float)n, root = sqrtf((float)n),
                    mean = load(a.v, row_of(a.v, b, h, 0) + column * a.v.stride[3]) + off,
                    spread = sqrtf(fmaxf(squares / (float)n - off * off, 0.0f));
        const float fine = spread * fminf(0.0625f, 8 / root),
                    power = __uint_as_float(__float_as_uint(fine) & 0x7f800000u);
        if (fabsf(mean) >= spread * fminf(0.25f, 4 / root))
            center = power > 0 ? rintf(mean / power) * power : mean;
        if (!isfinite(mean) || !isfinite(spread)) center = 0;
    }
    a.center[head * 8 * a.value8 + column] = center;
}

cudaError_t tiles_center_run(const tiles_center_args &a, cudaStream_t stream)
{
    const int pieces = (int)pieces_of(a.length), heads = a.batch * a.heads;
    if (!pieces || !heads) return cudaSuccess;
    tiles_center_sum_kernel<<<dim3((unsigned)pieces, (unsigned)heads), CENTER_THREADS, 0, stream>>>(
        a);
    tiles_center_kernel<<<(unsigned)heads, (unsigned)(8 * a.value8), 0, stream>>>(a, pieces);
    return cudaGetLastError();
}

} // namespace lnt
