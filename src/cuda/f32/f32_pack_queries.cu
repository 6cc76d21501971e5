/* cuda/f32/f32_pack_queries.cu - queries for the backward pass of f32.h, packed as f32_pack.cu packs
 * keys: q mapped or normalised, and in the place of values g = [dout / den, h].  Causal, a query
 * stands at the place of the last key it sees.  Places without one are 0. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

/* dout times `x` of the row, and h is `y`; of softmax the weights are divided already. */
__device__ __forceinline__ float2 quotient(const f32_backward_args &a, const f32_sequence &n,
                                           int64_t h, int64_t i, int64_t place, int lane)
{
    const int64_t dout = row_of(a.dout, n.b, h, i), y = row_of(a.y, n.b, h, i);
    float dot = 0;
    for (int c = lane; c < a.dim_value; c += 32)
        dot = fmaf(take(a.dout, dout, c), take(a.y, y, c), dot);
    dot = lanes_sum<32>(dot);
    if (a.mode == F32_SOFTMAX) return make_float2(1.0f, -dot);
    const float inverse = a.inverse[(n.b * a.heads + h) * a.length_q + i];
    const int64_t seen = a.causal ? place + 1 : n.keys;
    const float norm = a.output_norm ? sqrtf((float)seen / (float)a.dim) : 1.0f;
    return make_float2(inverse * norm, -dot * inverse);
}

/* Block blockIdx.x of 32 places of one head, a token at a time a warp. */
__global__ void __launch_bounds__(F32_THREADS)
    f32_pack_queries_kernel(const __grid_constant__ f32_backward_args a, int columns)
{
    __shared__ float rows[F32_TOKENS][129];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int dim = (a.dim + 7) / 8 * 8;
    const int64_t head = blockIdx.y, h = head % a.heads, block = head * gridDim.x + blockIdx.x;
    const f32_sequence n(a, head / a.heads, h * a.kv_heads / a.heads);
    float *values = a.q_values + block * F32_TOKENS * columns,
          *keys = a.q_keys + block * dim * F32_TOKENS;
    for (int t = warp; t < F32_TOKENS; t += F32_WARPS) {
        const int64_t place = (int64_t)blockIdx.x * F32_TOKENS + t;
        const int64_t i = a.causal ? place - n.past : place;
        const bool in = i >= 0 && i < n.queries && (!a.causal || place < n.keys);
        const float2 g = in ? quotient(a, n, h, i, place, lane) : make_float2(0, 0);
        for (int c = lane; c < columns; c += 32) {
            float x = c == columns - 8 ? g.y : 0.0f;
            if (in && c < a.dim_value) x = take(a.dout, row_of(a.dout, n.b, h, i), c) * g.x;
            values[t * columns + c] = x;
        }
        float square = 0;
        for (int e = lane; e < dim; e += 32) {
            const float x =
                in && e < a.dim ? f32_map(a, take(a.q, row_of(a.q, n.b, h, i), e)) : 0.0f;
            rows[t][e] = x;
            square = fmaf(x, x, square);
        }
        const float factor =
            !a.normalize ? 1.0f : f32_norm(square, 32) * (a.temperature ? a.temperature[h] : 1);
        for (int e = lane; e < dim; e += 32) rows[t][e] *= factor;
        if (lane == 0 && a.mode == F32_SOFTMAX)
            a.logs[block * F32_TOKENS + t] =
                in ? a.inverse[(n.b * a.heads + h) * a.length_q + i] : INFINITY;
    }
    __syncthreads();
    const int token = token_at(lane);
    for (int e = warp; e < dim; e += F32_WARPS) keys[e * F32_TOKENS + lane] = rows[token][e];
}

cudaError_t f32_pack_queries_run(const f32_backward_args &a, cudaStream_t stream)
{
    if (!a.places) return cudaSuccess;
    const dim3 grid((unsigned)(f32_rounded(a.places) / F32_TOKENS), (unsigned)(a.batch * a.heads));
    f32_pack_queries_kernel<<<grid, F32_THREADS, 0, stream>>>(a, f32_columns(a.dim_value));
    return cudaGetLastError();
}

} // namespace lnt
