/* cuda/f32/f32_pack.cu - keys and values as f32_sum.cu and f32_answer.cu take them, in f32 and in
 * blocks of 32 tokens: keys mapped or normalised, [dim to 8][32], and values [32][N] with a 1 at
 * N - 8, which makes the denominators.  Tokens that are not there are 0.
 *
 * Of 8 keys, token t stands at 2t and t + 4 at 2t + 1: their weights, which come out as C
 * fragments, then are the A fragments of the product with the values as they stand. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

/* x [32][129], the keys of a block; `lanes` lanes have a token, a power of two. */
__device__ __forceinline__ void take_keys(const f32_args &a, const f32_sequence &n, int64_t first,
                                          int dim, int lanes, float (*x)[129])
{
    const int own = (int)threadIdx.x % lanes, step = F32_THREADS / lanes;
    for (int t = (int)threadIdx.x / lanes; t < F32_TOKENS; t += step) {
        const bool in = first + t < n.keys;
        const int64_t row = row_of(a.k, n.b, n.kv, first + t);
        float square = 0;
        for (int e = own; e < dim; e += lanes) {
            const float y = in && e < a.dim ? f32_map(a, take(a.k, row, e)) : 0.0f;
            x[t][e] = y;
            square = fmaf(y, y, square);
        }
        if (!a.normalize) continue;
        const float factor = f32_norm(square, lanes);
        for (int e = own; e < dim; e += lanes) x[t][e] *= factor;
    }
}

template <int N8>
__global__ void __launch_bounds__(F32_THREADS)
    f32_pack_kernel(const __grid_constant__ f32_args a, int lanes)
{
    constexpr int N = f32_shape<N8>::N;
    __shared__ float rows[F32_TOKENS][129];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int dim = (a.dim + 7) / 8 * 8;
    const int64_t head = blockIdx.y, first = (int64_t)blockIdx.x * F32_TOKENS;
    const f32_sequence n(a, head / a.kv_heads, head % a.kv_heads);
    const int64_t block = head * gridDim.x + blockIdx.x;
    const int64_t row = row_of(a.v, n.b, n.kv, first);
    float *values = a.values + block * F32_TOKENS * N, *keys = a.keys + block * dim * F32_TOKENS;
#pragma unroll
    for (int i = (int)threadIdx.x; i < F32_TOKENS * N; i += F32_THREADS) {
        const int t = i / N, c = i % N;
        const bool in = first + t < n.keys;
        float x = in && c == N - 8 ? 1.0f : 0.0f;
        if (in && c < a.dim_value) x = take(a.v, row + t * a.v.stride[2], c);
        values[i] = x;
    }
    take_keys(a, n, first, dim, lanes, rows);
    __syncthreads();
    const int token = token_at(lane);
    for (int e = warp; e < dim; e += F32_WARPS) keys[e * F32_TOKENS + lane] = rows[token][e];
}

std::vector<uint64_t> f32_table(const std::vector<uint64_t> &index, int dim, int factors)
{
    std::vector<uint64_t> table;
    for (const uint64_t packed : index) {
        uint64_t e[8], entry = 0;
        int degree = 0;
        for (int p = 0; p < factors; p++) {
            e[p] = packed >> (8 * p) & 255;
            if (e[p] != (uint64_t)dim) degree = p + 1;
        }
        for (int p = 0; p < 7; p++) {
            const int from =
                p < 5 ? (p < degree - 2 ? p : -1) : degree - 7 + p; /* 5, 6: the last */
            entry |= (from < 0 ? (uint64_t)dim : e[from]) << (8 * p);
        }
        const uint64_t differs = table.empty() ? ~(uint64_t)0 : table.back() ^ entry;
        const uint64_t same = (differs << 16 ? 0 : 1) | (differs << 24 ? 0 : 2);
        table.push_back(entry | same << 56);
    }
    /* Read 32 at a time: to the end with products of nothing. */
    table.resize((size_t)f32_rounded((int64_t)table.size()), (uint64_t)dim * 0x01010101010101u);
    return table;
}

template <int N8> static cudaError_t run(const f32_args &a, cudaStream_t stream)
{
    const dim3 grid((unsigned)((a.length_k + F32_TOKENS - 1) / F32_TOKENS),
                    (unsigned)(a.batch * a.kv_heads));
    const int lanes = a.dim > 16 ? 32 : a.dim > 8 ? 16 : 8;
    f32_pack_kernel<N8><<<grid, F32_THREADS, 0, stream>>>(a, lanes);
    return cudaGetLastError();
}

cudaError_t f32_pack_run(const f32_args &a, cudaStream_t stream)
{
    return f32_by_columns(a.dim_value,
                          [&](auto n8) { return run<decltype(n8)::value>(a, stream); });
}

} // namespace lnt
