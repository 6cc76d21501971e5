/* cuda/f32/f32_backward_last.cu - dk of the last key of f32.h, causal, once more and in double: one query
 * sees it, so that dk is one G w' q, and G = (dout.v - dout.y) / den may be a difference thousands
 * of times smaller than its terms.  In sums of several that does not happen: their directions
 * differ. */
#include "cuda/f32/f32.cuh"

namespace lnt
{

/* How the weight changes with the product x; log: of softmax. */
__device__ __forceinline__ double slope_at(const f32_args &a, double x, double log)
{
    if (a.mode == F32_LINEAR) return 1;
    if (a.mode == F32_SOFTMAX)
        return exp2(x * (double)a.coefficient[0] - log) * (double)a.coefficient[0] *
               0.6931471805599453;
    double w = 0, slope = 0;
    for (int t = a.terms - 1; t >= 0; t--) slope = slope * x + w, w = w * x + a.coefficient[t];
    return slope;
}

/* A warp a sequence and kv head. */
__global__ void __launch_bounds__(32)
    f32_backward_last_kernel(const __grid_constant__ f32_backward_args a)
{
    const f32_sequence n(a, blockIdx.y, blockIdx.x);
    const int64_t i = n.queries - 1, j = n.keys - 1, group = a.heads / a.kv_heads;
    if (i < 0 || j < 0) return;
    const int lane = (int)threadIdx.x, dim = (a.dim + 7) / 8 * 8, place = (int)(j % F32_TOKENS);
    const int at = (place & ~7) + place % 4 * 2 + place % 8 / 4; /* token_at() the other way */
    auto row = [&](const float *packed, int64_t head, int64_t length) {
        return packed + (head * f32_rounded(length) + j / F32_TOKENS * F32_TOKENS) * dim + at;
    };
    const float *k = row(a.keys, n.b * a.kv_heads + n.kv, a.length_k);
    const int64_t v = row_of(a.v, n.b, n.kv, j);
    double sum[4] = {}; /* of elements lane + 32 c */
    for (int64_t g = 0; g < group; g++) {
        const int64_t h = n.kv * group + g, head = n.b * a.heads + h;
        const float *q = row(a.q_keys, head, a.places);
        const int64_t dout = row_of(a.dout, n.b, h, i), y = row_of(a.y, n.b, h, i);
        const double inverse = a.inverse[head * a.length_q + i],
                     norm = a.output_norm ? sqrt((double)n.keys / a.dim) : 1;
        double x = 0, difference = 0;
        for (int e = lane; e < a.dim; e += 32) x += (double)q[e * F32_TOKENS] * k[e * F32_TOKENS];
        for (int c = lane; c < a.dim_value; c += 32)
            difference += (double)take(a.dout, dout, c) *
                          (norm * (double)take(a.v, v, c) - (double)take(a.y, y, c));
        const double slope = slope_at(a, lanes_sum<32>(x), inverse);
        const double by = lanes_sum<32>(difference) * slope * (a.mode == F32_SOFTMAX ? 1 : inverse);
        for (int c = 0; lane + 32 * c < a.dim; c++) sum[c] += by * q[(lane + 32 * c) * F32_TOKENS];
    }
    const int64_t to = row_of(a.dk, n.b, n.kv, j), x = row_of(a.k, n.b, n.kv, j);
    for (int c = 0; lane + 32 * c < a.dim; c++) {
        const int e = lane + 32 * c;
        if (a.gradient)
            a.gradient[((n.b * a.kv_heads + n.kv) * a.length_k + j) * a.dim + e] = (float)sum[c];
        else
            store(a.dk, to + e * a.dk.stride[3],
                  (float)sum[c] * (a.mode == F32_LINEAR ? f32_slope(a, take(a.k, x, e)) : 1));
    }
}

cudaError_t f32_backward_last_run(const f32_backward_args &a, cudaStream_t stream)
{
    /* The gradient of a state after the keys reaches the last one too. */
    if (!a.causal || a.ds_out || !a.length_q || !a.length_k) return cudaSuccess;
    f32_backward_last_kernel<<<dim3((unsigned)a.kv_heads, (unsigned)a.batch), 32, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace lnt
