/* cuda/pair_back.cu - gradients of Taylor attention from the states of pairs.h.
 *
 * With x a query and d = dout, or x a key and d = v, a part c of the state gives
 *
 *     T[l] = sum over pairs of (x_i x_j) S_c[pair][l]       dx_(4 c + l) += T[l].d
 *     U[pair] = sum over l of (x_l d).S_c[pair][l]          dx_i += x_j U,  dx_j += x_i U
 *
 * and dv += x_l T[l], dout.n += x_l T[l].d.  Both are products on the tensor cores, the second
 * with the state turned over, so that what is left to the lanes is two multiply-adds for a pair of
 * a part and one for a number of T: of pairs within groups, which all parts have in common, U is
 * summed over the parts first.  Of keys h is one more column, of both; of queries the column of
 * ones has to stay apart until den is known, and comes from slopes (back.cuh).  The keys or queries
 * of the segment are met one by one, as in back_kernel.cuh.
 *
 * A warpgroup has 64 rows; per part 14 products of 64 x 128 x 16 and 8 of 64 x 224 x 16. */
#include "cuda/pair_back.cuh"

namespace lnt
{

template <int side>
__global__ void __launch_bounds__(PAIR_BACK_WARPS * 32, 1)
    pair_back_kernel(const __grid_constant__ back_args a)
{
#if LNT_WARPGROUPS
    constexpr int X = 4;
    extern __shared__ __align__(128) char shared[];
    char *ring = shared + PAIR_BACK_RING_AT;
    const int lane = (int)threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    const back_where p = place_of<side>(a);
    if (p.first * 32 >= p.own) return;
    const int64_t blocks = (p.b * a.heads + p.h) * a.own_blocks + p.first;
    const int64_t block = p.first + warp / 2; /* of the warp's rows */
    const char *keys = a.own_keys + blocks * 2048, *values = a.own_values + blocks * 2560;
    const bool remembers = p.segment != a.edge;
    const int64_t state = (p.b * a.kv_heads + p.kv) * a.prefixes + p.segment;
    const pair_back_stream parts = { shared, a.state + state * PAIR_STATE_BYTES,
                                     side == BACK_QUERIES ? a.slopes + state * a.slope_bytes
                                                          : nullptr };
    if (remembers) parts.begin(a.linear + state * PAIR_LINEAR);
    back_warp<X, side> w;
    w.place(warp * 16);
    w.halves = (const uint2 *)(shared + PAIR_BACK_HALVES_AT);
    w.gathered = (float *)(shared + PAIR_BACK_GATHERED_AT);
    w.load(0, keys + warp / 2 * 2048, values + warp / 2 * 2560, warp, 4);
    back_sums<1> sums = {};
    float dz[1][X][4] = {}; /* of queries: the denominator's gradient */
    if (remembers) {
        lay_halves(a, keys, (uint2 *)(shared + PAIR_BACK_HALVES_AT), w.gathered);
        __syncthreads();
        contract_pairs<side>(w, parts);
        each_number<X, side>(w, [&](float &y, int r, int e, int i, int) {
            y += w.gathered[w.place_of(r, e, i)];
            if (side == BACK_QUERIES) dz[i][r][e] = y;
        });
        if constexpr (side == BACK_QUERIES) {
            const float *first = (const float *)(a.slopes + (state + 1) * a.slope_bytes) - 8 * X;
            pair_slopes slopes(parts);
            barrier_wait(parts.slopes_come(false), 0);
            barrier_wait(parts.slopes_come(true), 0);
            contract_slopes<X, side>(w, slopes, first, 4, 4, sums.weights);
            each_number<X, side>(w, [&](float &y, int r, int e, int i, int) {
                const float z = y;
                y = dz[i][r][e], dz[i][r][e] = z;
            });
        }
        __syncthreads();
    }
    const float *mean = remembers ? a.mean + state * (8 * X + 8) : nullptr;
    int64_t from, end;
    span_of<side>(a, p, from, end);
    token_ring<X> tokens;
    tokens.begin(a, ring, side == BACK_KEYS ? p.b * a.heads + p.h : p.b * a.kv_heads + p.kv, from,
                 (int)(end - from), side == BACK_KEYS);
    using view = const back_view<1>;
    float2 own[1][2] = {};
    if constexpr (side == BACK_QUERIES) {
        sums.dot[0][0] = w.dot[0][0], sums.dot[0][1] = w.dot[0][1];
        read_tokens<X, side>(
            a, p, w, tokens, from, block,
            [&](const char *k, const char *v, const char *, view &see, bool all) {
                if (all)
                    meet_block<X, true>(a, w, k, v, see, dz, sums);
                else
                    meet_block<X, false>(a, w, k, v, see, dz, sums);
            },
            [&](const char *k, const char *v, const char *) {
                float x[2][1][4][4], g[2][1][4][4];
                const back_view<1> see = {};
#pragma unroll
                for (int i = 0; i < 2; i++)
                    products<X, side>(w, k + i * 2048, v + i * 2560, X, x[i], g[i]);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    meet_weights<true, 1>(a, see, lane % 4, x[i], g[i], sums);
#pragma unroll
                for (int i = 0; i < 2; i++) meet_keys<X>(a, w, k + i * 2048, x[i], g[i], dz);
                return true;
            });
        finish_rows<X>(a, p, w, mean, block, sums, own);
        each_number<X, side>(w, [&](float &y, int r, int e, int i, int u) {
            y = fmaf(y, own[i][u].x, dz[i][r][e] * own[i][u].y);
        });
    } else {
        if (mean)
#pragma unroll
            for (int n = 0; n < X; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) w.dv[0][n][e] += mean[8 * n + lane % 4 * 2 + e % 2];
        read_tokens<X, side>(
            a, p, w, tokens, from, block,
            [&](const char *k, const char *v, const char *rows, view &see, bool all) {
                back_block<X, side>(a, w, k, v, rows, see, all, own);
            },
            [&](const char *k, const char *v, const char *rows) {
                float x[2][1][4][4], g[2][1][4][4];
                const back_view<1> see = {};
#pragma unroll
                for (int i = 0; i < 2; i++)
                    products<X, side>(w, k + i * 2048, v + i * 2560, X, x[i], g[i]);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    weigh_block<READ_TAYLOR, side, true, 1>(a, rows + i * 256, see, own, lane % 4,
                                                            x[i], g[i]);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    give_block<X, side>(a, w, k + i * 2048, v + i * 2560, x[i], g[i]);
                return true;
            });
    }
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int64_t place = 32 * block + token_of(warp % 2, u, lane);
        const int64_t row = side == BACK_KEYS ? place : place - p.past;
        if (row >= 0 && row < (side == BACK_KEYS ? p.nk : p.nq))
            write_row<X, side>(a, p, w, 0, u, row);
    }
#endif
}

template <int side> static cudaError_t launch_pairs(const back_args &a, cudaStream_t stream)
{
    const cudaError_t limit =
        cudaFuncSetAttribute((const void *)pair_back_kernel<side>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, PAIR_BACK_SHARED);
    if (limit != cudaSuccess) return limit;
    const dim3 grid((unsigned)(a.own_blocks / (BACK_TOKENS / 32)), (unsigned)a.heads,
                    (unsigned)a.batch);
    if (grid.x > 0 && grid.z > 0)
        pair_back_kernel<side><<<grid, PAIR_BACK_WARPS * 32, PAIR_BACK_SHARED, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t pair_back_run(const back_args &a, int side, cudaStream_t stream)
{
    return side == BACK_QUERIES ? launch_pairs<BACK_QUERIES>(a, stream)
                                : launch_pairs<BACK_KEYS>(a, stream);
}

} // namespace lnt
