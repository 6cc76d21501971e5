/* cuda/tiles/tiles_answer.cu - the answers:
 *
 *     y_i = ( phi(q_i) state + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * over the state before the segment of query i (tiles_scan.cu) and, one by one, over the keys of
 * the segment up to its own.  Without a state it is the direct form of any number of terms; with w
 * = e^(x - max) it is softmax attention.
 *
 * A warp holds 16 R queries.  Monomials are the A operand, made in registers: pairs of elements of
 * a block times a prefix, one product of two bf16 a register; the prefixes of a unit (tiles_basis.h) come
 * from shared memory, where q stands with every element twice.  The state streams through shared
 * memory. Scores become weights in registers and are multiplied with the values at once. Per tile
 * of 16 monomials and warp: R N8 tensor-core products, 4 R multiplies.  See docs/gpu-kernels.md */
#include <assert.h>

#include "cuda/tiles/tiles.h"
#include "cuda/tiles/tiles_answer.cuh"

namespace lnt
{

/* ---- monomials x state ----------------------------------------------------------------------- */

/* acc += a x the next `count` tiles. */
template <int X, int R, int count>
__device__ __forceinline__ void tile_product(reader<X, R> &w, const uint32_t (&a)[count][R][4],
                                             state_stream<X> &s)
{
    product_begin();
#pragma unroll
    for (int k = 0; k < count; k++) {
        const operand tile = operand_plus(s.base, s.take());
#pragma unroll
        for (int p = 0; p < R; p++) product<X + 1>(w.acc[p], a[k][p], tile);
    }
    product_commit();
    product_wait<0>();
}

/* Two prefixes times block r. */
template <int X, int R>
__device__ __forceinline__ void make_tile(const reader<X, R> &w, const uint32_t (&p0)[R][2],
                                          const uint32_t (&p1)[R][2], int r, uint32_t (&a)[R][4])
{
#pragma unroll
    for (int p = 0; p < R; p++) {
        a[p][0] = multiply(p0[p][0], w.x[p][0][r]), a[p][1] = multiply(p0[p][1], w.x[p][1][r]);
        a[p][2] = multiply(p1[p][0], w.x[p][0][r]), a[p][3] = multiply(p1[p][1], w.x[p][1][r]);
    }
}

template <int X, int R>
__device__ __forceinline__ void unit_one(reader<X, R> &w, state_stream<X> &s, int dim8)
{
#pragma unroll
    for (int r = 0; r < X; r++)
        if (r < dim8) {
            uint32_t a[1][R][4];
#pragma unroll
            for (int p = 0; p < R; p++) /* twice: the second for what rounding left of the state */
                a[0][p][0] = a[0][p][2] = w.x[p][0][r], a[0][p][1] = a[0][p][3] = w.x[p][1][r];
            s.need(1);
            tile_product<X, R, 1>(w, a, s);
        }
}

/* The 4 elements of half-block h of the warp's rows, each twice in a register. */
template <int X, int R>
__device__ __forceinline__ void read_half(const reader<X, R> &w, int h, uint32_t (&x)[4][R][2])
{
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint4 four = w.twice[h * reader<X, R>::ROWS + w.row + 16 * p + 8 * u];
            x[0][p][u] = four.x, x[1][p][u] = four.y, x[2][p][u] = four.z, x[3][p][u] = four.w;
        }
}

template <int X, int R>
__device__ __forceinline__ void unit_half(reader<X, R> &w, state_stream<X> &s, const unit &u)
{
    constexpr int pair[10][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 1 },
                                  { 1, 2 }, { 1, 3 }, { 2, 2 }, { 2, 3 }, { 3, 3 } };
    uint32_t x[4][R][2];
    read_half(w, u.h, x);
#pragma unroll
    for (int k = 0; k < 10; k += 2) {
        uint32_t p0[R][2], p1[R][2];
#pragma unroll
        for (int p = 0; p < R; p++)
#pragma unroll
            for (int v = 0; v < 2; v++) {
                p0[p][v] = multiply(x[pair[k][0]][p][v], x[pair[k][1]][p][v]);
                p1[p][v] = multiply(x[pair[k + 1][0]][p][v], x[pair[k + 1][1]][p][v]);
            }
#pragma unroll
        for (int r = 0; r < X; r++) {
            if (r % state_stream<X>::RUN == 0)
                s.need(__popc(u.mask >> r & (1 << state_stream<X>::RUN) - 1));
            if (u.mask >> r & 1) {
                uint32_t a[1][R][4];
                make_tile<X, R>(w, p0, p1, r, a[0]);
                tile_product<X, R, 1>(w, a, s);
            }
        }
    }
}

template <int X, int R>
__device__ __forceinline__ void unit_quad(reader<X, R> &w, state_stream<X> &s, const unit &u)
{
    uint32_t x[4][R][2];
    read_half(w, u.h, x);
#pragma unroll
    for (int p = 0; p < R; p++)
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const uint32_t j = ((const uint32_t *)(w.twice + u.j / 4 * reader<X, R>::ROWS + w.row +
                                                   16 * p + 8 * v))[u.j % 4];
#pragma unroll
            for (int k = 0; k < 4; k++) x[k][p][v] = multiply(x[k][p][v], j);
        }
    constexpr int RUN = state_stream<X>::RUN / 2; /* blocks at a time */
#pragma unroll
    for (int r = 0; r < X; r++) {
        if (r % RUN == 0) s.need(2 * __popc(u.mask >> r & (1 << RUN) - 1));
        if (u.mask >> r & 1) {
            uint32_t a[2][R][4];
            make_tile<X, R>(w, x[0], x[1], r, a[0]);
            make_tile<X, R>(w, x[2], x[3], r, a[1]);
            tile_product<X, R, 2>(w, a, s);
        }
    }
}

template <int X, int R>
__device__ __forceinline__ void read_state(const tiles_answer_args &a, const tiles_units &units,
                                           reader<X, R> &w, state_stream<X> &s)
{
#pragma unroll 1
    for (int i = 0; i < units.count; i++) {
        const uint32_t word = units.list[i];
        const unit u = { (int)(word & (1 << unit::KIND) - 1),
                         (int)(word >> unit::KIND & (1 << unit::J) - 1),
                         (int)(word >> (unit::KIND + unit::J) & (1 << unit::H) - 1),
                         (int)(word >> (unit::KIND + unit::J + unit::H)) };
        if (u.kind == UNIT_QUAD)
            unit_quad<X, R>(w, s, u);
        else if (u.kind == UNIT_HALF)
            unit_half<X, R>(w, s, u);
        else
            unit_one<X, R>(w, s, a.dim8);
    }
    copy_wait<0>();
    product_wait<0>();
    __syncthreads();
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Where the rings stand: one after the other where there is room, so that both can start at once.
 */
template <int X> struct answer_memory {
    static constexpr int ROWS = reader<X, answer_shape<X>::R>::ROWS;
    int queries, state, keys;
    __host__ __device__ answer_memory(const tiles_answer_args &a)
    {
        queries = (2 * a.dim8 + 1) * ROWS * 16;
        state = a.prefixes ? state_stream<X>::RING_BYTES : 0;
        keys = a.direct ? ANSWER_STAGES * ((a.dim8 + 1) / 2 * 2 + X + 1) * 512 * KEY_BLOCKS : 0;
    }
    static constexpr bool APART = X <= 2;
    __host__ __device__ int bytes() const
    {
        return queries + (APART ? state + keys : state > keys ? state : keys);
    }
    __host__ __device__ int keys_at() const { return queries + (APART ? state : 0); }
};

template <int X, int mode>
__global__ void __launch_bounds__(answer_shape<X>::WARPS * 32, answer_shape<X>::BLOCKS)
    tiles_answer_kernel(const __grid_constant__ tiles_answer_args a,
                        const __grid_constant__ tiles_units units)
{
    constexpr int R = answer_shape<X>::R, ROWS = reader<X, R>::ROWS;
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t b = blockIdx.z, h = blockIdx.y, first = (int64_t)blockIdx.x * ROWS;
    const int64_t head = b * a.kv_heads + h * a.kv_heads / a.heads;
    const int64_t nq = a.lengths_q ? a.lengths_q[b] : a.length_q;
    const int64_t nk = a.lengths_k ? a.lengths_k[b] : a.length_k;
    const int64_t past = a.causal ? nk - nq : nk; /* query i sees keys up to i + past */
    const answer_memory<X> at(a);

    int64_t prefix = 0;
    if (a.prefixes && a.causal)
        prefix = min(max((first + past) / a.segment, (int64_t)0), (int64_t)a.prefixes - 1);
    const bool remembers = a.prefixes && !(prefix == 0 && a.first_is_empty);
    const bool by_state = mode == TILES_TAYLOR && remembers && a.tile_count > 1 && first < nq;
    const bool by_keys = a.direct && first < nq;
    const int64_t place = head * a.prefixes + prefix, from = prefix * a.segment;
    key_stream<X> keys;
    state_stream<X> state;
    auto begin_keys = [&] {
        keys.begin(a, shared + at.keys_at(), head, from,
                   a.causal ? min(nk, first + ROWS + past) : nk);
    };
    if (by_keys && (at.APART || !by_state)) begin_keys();
    if (by_state)
        state.begin(shared + at.queries, a.state + place * (a.tile_count - 1) * (X + 1) * 256,
                    a.tile_count - 1);

    reader<X, R> w;
    w.twice = (const uint4 *)shared;
    w.row = warp * 16 * R + lane / 4;
    load_queries(a, (uint32_t *)shared, ROWS, b, h, first, nq, (int)threadIdx.x, (int)blockDim.x,
                 [] { __syncthreads(); });
    __syncthreads();
    w.take(a.dim8, lane);
    w.clear();
    if (by_state) read_state<X, R>(a, units, w, state);
    if (by_keys) {
        if (!at.APART && by_state) begin_keys();
        const int64_t low = first + warp * 16 * R + past - from;
        read_keys<X, R, mode>(a, w, keys, (int)low, (int)(nk - from), lane);
    }
    write_rows<X, R, mode>(a, w, remembers ? a.mean + place * (8 * X + 8) : nullptr, b, h, first,
                           nq, nk, past, lane);
}

template <int X, int mode>
static cudaError_t launch(const tiles_answer_args &a, const tiles_units &units, cudaStream_t stream)
{
    constexpr int ROWS = reader<X, answer_shape<X>::R>::ROWS;
    const int shared = answer_memory<X>(a).bytes();
    assert(shared <= tiles_answer_bytes(X, a.dim8, a.prefixes, a.direct));
    const dim3 grid((unsigned)((a.length_q + ROWS - 1) / ROWS), (unsigned)a.heads,
                    (unsigned)a.batch);
    return launch_kernel(tiles_answer_kernel<X, mode>, grid, answer_shape<X>::WARPS * 32, shared,
                         stream, a, units);
}

template <int X>
static cudaError_t choose(const tiles_answer_args &a, const tiles_units &units, cudaStream_t stream)
{
    switch (a.mode) {
    case TILES_TAYLOR:
        return launch<X, TILES_TAYLOR>(a, units, stream);
    case TILES_TAYLOR_ANY:
        return launch<X, TILES_TAYLOR_ANY>(a, units, stream);
    default:
        return launch<X, TILES_SOFTMAX>(a, units, stream);
    }
}

cudaError_t tiles_answer_run(const tiles_answer_args &a, const tiles_units &units, cudaStream_t stream)
{
    return by_width<1>(a.width, [&](auto x) { return choose<x.value>(a, units, stream); });
}

} // namespace lnt
