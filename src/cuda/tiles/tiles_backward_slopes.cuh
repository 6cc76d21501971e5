/* cuda/tiles/tiles_backward_slopes.cuh - part of tiles_backward.cuh and pairs_backward.cu: the
 * gradient of phi(x).z, z the column of ones of a state, as a product of x and its pairs with a matrix
 * (tiles_basis_slopes). */
#ifndef LNT_CUDA_TILES_BACKWARD_SLOPES_CUH
#define LNT_CUDA_TILES_BACKWARD_SLOPES_CUH

#include "cuda/tiles/tiles_backward_state.cuh"

namespace lnt
{

/* x.dx, this lane's part. */
template <int X, int side>
__device__ __forceinline__ float along(const backward_warp<X, side> &w, int p, int u)
{
    float sum = 0;
#pragma unroll
    for (int r = 0; r < X; r++)
        sum = fmaf(low_of(w.x[p][u][r]), w.dx[p][r][2 * u],
                   fmaf(high_of(w.x[p][u][r]), w.dx[p][r][2 * u + 1], sum));
    return sum;
}

/* dx += a x the tile's numbers, of two bf16 each; rest: what rounding took from a, or NULL. */
template <int X, int side>
__device__ __forceinline__ void slope_tile(backward_warp<X, side> &w, uint32_t high, uint32_t low,
                                           const uint32_t (&a)[backward_warp<X, side>::R][4],
                                           const uint32_t (*rest)[4])
{
#pragma unroll
    for (int n = 0; n < X; n += 2) {
        uint32_t b[4], c[4];
        load_matrices(b, high + n * 256 + w.lane * 16);
        load_matrices(c, low + n * 256 + w.lane * 16);
#pragma unroll
        for (int p = 0; p < w.R; p++) {
            mma16(w.dx[p][n], a[p], c[0], c[1]);
            mma16(w.dx[p][n + 1], a[p], c[2], c[3]);
            if (rest) {
                mma16(w.dx[p][n], rest[p], b[0], b[1]);
                mma16(w.dx[p][n + 1], rest[p], b[2], b[3]);
            }
            mma16(w.dx[p][n], a[p], b[0], b[1]);
            mma16(w.dx[p][n + 1], a[p], b[2], b[3]);
        }
    }
}

/* dx = the gradient of phi(x).z, z the state's last column, by the matrix of tiles_basis_slopes(): a
 * product of x and its pairs, which is little beside the other columns', and so exact that where h
 * times it cancels nothing is lost.  A polynomial of degree p is x times its gradient / p: phi(x).z
 * is what that gives, this lane's part.  s: where tiles come from, as tile_ring; first: the numbers
 * that x does not multiply. */
template <int X, int side, class S>
__device__ __forceinline__ void contract_slopes(backward_warp<X, side> &w, S &s, const float *first,
                                                int dim8, int terms,
                                                float (&value)[backward_warp<X, side>::R][2])
{
    constexpr int R = backward_warp<X, side>::R;
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int r = 0; r < X; r++)
#pragma unroll
            for (int e = 0; e < 4; e++) w.dx[p][r][e] = first[8 * r + w.lane % 4 * 2 + e % 2];
    float one[R][2], two[R][2];
#pragma unroll
    for (int p = 0; p < 2 * R; p++) one[p / 2][p % 2] = along<X, side>(w, p / 2, p % 2);
    if (terms > 2)
#pragma unroll
        for (int r = 0; r < X; r += 2)
            if (r < dim8) {
                uint32_t a[R][4];
#pragma unroll
                for (int p = 0; p < R; p++)
#pragma unroll
                    for (int e = 0; e < 4; e++) a[p][e] = w.x[p][e % 2][r + e / 2];
                s.need(2);
                const uint32_t high = s.take(), low = s.take();
                slope_tile<X, side>(w, high, low, a, nullptr);
            }
#pragma unroll
    for (int p = 0; p < 2 * R; p++) two[p / 2][p % 2] = along<X, side>(w, p / 2, p % 2);
#pragma unroll 1
    for (int pair = 0; pair < 4 * dim8 && terms > 3; pair++) {
        uint2 four[R][2];
        w.half(pair / 2, four);
#pragma unroll
        for (int r = 0; r < X; r++)
            if (r >= pair / 4 && r < dim8) {
                uint32_t a[R][4], rest[R][4];
#pragma unroll
                for (int p = 0; p < R; p++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const uint32_t from = pair % 2 ? four[p][e % 2].y : four[p][e % 2].x,
                                       f = __byte_perm(from, 0, e / 2 ? 0x3232 : 0x1010);
                        a[p][e] = multiply(f, w.x[p][e % 2][r]);
                        rest[p][e] = multiply_subtract(f, w.x[p][e % 2][r], a[p][e]);
                    }
                s.need(2);
                const uint32_t high = s.take(), low = s.take();
                slope_tile<X, side>(w, high, low, a, rest);
            }
    }
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float all = along<X, side>(w, p, u);
            value[p][u] = one[p][u] + (two[p][u] - one[p][u]) / 2 + (all - two[p][u]) / 3;
        }
    copy_wait<0>();
    __syncthreads();
}

} // namespace lnt
#endif
