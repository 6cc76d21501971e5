/* cuda/split_queries.cu - queries for the backward pass of split.h, packed as split_pack.cu packs
 * keys: q mapped or normalised, and in the place of values g = [dout / den, h].  Causal, a query
 * stands at the place of the last key it sees.  Places without one are 0. */
#include "cuda/split.cuh"

namespace lnt
{

/* dout times `x` of the row, and h is `y`; of softmax the weights are divided already. */
__device__ __forceinline__ float2 quotient(const split_back_args &a, const split_sequence &n,
                                           int64_t h, int64_t i, int64_t place, int lane)
{
    const int64_t dout = row_of(a.dout, n.b, h, i), y = row_of(a.y, n.b, h, i);
    float dot = 0;
    for (int c = lane; c < a.dim_value; c += 32)
        dot = fmaf(take(a.dout, dout, c), take(a.y, y, c), dot);
    dot = lanes_sum<32>(dot);
    if (a.mode == SPLIT_SOFTMAX) return make_float2(1.0f, -dot);
    const float inverse = a.inverse[(n.b * a.heads + h) * a.length_q + i];
    const int64_t seen = a.causal ? place + 1 : n.keys;
    const float norm = a.output_norm ? sqrtf((float)seen / (float)a.dim) : 1.0f;
    return make_float2(inverse * norm, -dot * inverse);
}

/* Block blockIdx.x of 32 places of one head, a token at a time a warp. */
__global__ void __launch_bounds__(SPLIT_THREADS)
    split_queries_kernel(const __grid_constant__ split_back_args a, int columns)
{
    __shared__ float rows[SPLIT_TOKENS][129];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int dim = (a.dim + 7) / 8 * 8;
    const int64_t head = blockIdx.y, h = head % a.heads, block = head * gridDim.x + blockIdx.x;
    const split_sequence n(a, head / a.heads, h * a.kv_heads / a.heads);
    float *values = a.q_values + block * SPLIT_TOKENS * columns,
          *keys = a.q_keys + block * dim * SPLIT_TOKENS;
    for (int t = warp; t < SPLIT_TOKENS; t += SPLIT_WARPS) {
        const int64_t place = (int64_t)blockIdx.x * SPLIT_TOKENS + t;
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
                in && e < a.dim ? split_map(a, take(a.q, row_of(a.q, n.b, h, i), e)) : 0.0f;
            rows[t][e] = x;
            square = fmaf(x, x, square);
        }
        const float factor =
            !a.normalize ? 1.0f : split_norm(square, 32) * (a.temperature ? a.temperature[h] : 1);
        for (int e = lane; e < dim; e += 32) rows[t][e] *= factor;
        if (lane == 0 && a.mode == SPLIT_SOFTMAX)
            a.logs[block * SPLIT_TOKENS + t] =
                in ? a.inverse[(n.b * a.heads + h) * a.length_q + i] : INFINITY;
    }
    __syncthreads();
    const int token = token_at(lane);
    for (int e = warp; e < dim; e += SPLIT_WARPS) keys[e * SPLIT_TOKENS + lane] = rows[token][e];
}

cudaError_t split_queries_run(const split_back_args &a, cudaStream_t stream)
{
    if (!a.places) return cudaSuccess;
    const dim3 grid((unsigned)(split_rounded(a.places) / SPLIT_TOKENS),
                    (unsigned)(a.batch * a.heads));
    split_queries_kernel<<<grid, SPLIT_THREADS, 0, stream>>>(a, split_columns(a.dim_value));
    return cudaGetLastError();
}

} // namespace lnt
