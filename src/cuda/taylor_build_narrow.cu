/* cuda/taylor_build_narrow.cu - taylor_build.cu where there are few monomials, d up to 16: which of
 * them a warp makes is known when this is compiled, so that each element of k is read from shared
 * memory once for all of them, and each warp multiplies alone (mma.sync).  With two blocks of k the
 * tiles are dealt to the warps; where that leaves warps over they take the tokens in turn, and
 * their sums are added in order at the end.  With one block a warp holds every tile, has a segment
 * to itself and reads it straight from memory, one step ahead. */
#include "cuda/build.cuh"

namespace lnt
{

/* The tiles of basis.cc for 1 or 2 blocks, in the same order. */
template <int D8, int terms> struct narrow_tiles {
    int count = 0;
    tile list[80] = {};
    constexpr void add(int i0, int j0, int i1, int j1, int r)
    {
        tile &t = list[count++];
        t.i[0] = (uint16_t)i0, t.j[0] = (uint16_t)j0, t.i[1] = (uint16_t)i1, t.j[1] = (uint16_t)j1;
        t.r = (uint16_t)r;
    }
    constexpr void quad(int j, int h, int mask)
    {
        for (int r = 0; r < D8; r++)
            if (mask >> r & 1) {
                add(4 * h, j, 4 * h + 1, j, r);
                add(4 * h + 2, j, 4 * h + 3, j, r);
            }
    }
    constexpr void half(int h)
    {
        constexpr int pair[10][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 1 },
                                      { 1, 2 }, { 1, 3 }, { 2, 2 }, { 2, 3 }, { 3, 3 } };
        for (int w = 0; w < 10; w += 2)
            for (int r = 0; r < D8; r++)
                add(4 * h + pair[w][0], 4 * h + pair[w][1], 4 * h + pair[w + 1][0],
                    4 * h + pair[w + 1][1], r);
    }
    constexpr narrow_tiles()
    {
        constexpr int one = 8 * D8, zero = one + 1, all = (1 << D8) - 1;
        add(one, one, zero, zero, D8);
        for (int r = 0; r < D8; r++) add(one, one, zero, zero, r);
        for (int h = 0; h < 2 * D8; h++) quad(one, h, all & ~((1 << h / 2) - 1));
        for (int h = 0; h < 2 * D8 && terms == 4; h++) half(h);
        for (int e = 4; e < 8 && terms == 4 && D8 == 2; e++) quad(e, 0, 2);
        for (int e = 12; e < 16 && terms == 4 && D8 == 2; e++) quad(e, 2, 1);
    }
};

/* Warps that share the tiles, and tiles of each. */
template <int D8, int terms> struct narrow_shape {
    static constexpr narrow_tiles<D8, terms> tiles = {};
    static constexpr int GROUPS = D8 == 1 ? 1 : terms == 4 ? BUILD_WARPS : 2;
    static constexpr int T = (tiles.count + GROUPS - 1) / GROUPS, TURNS = BUILD_WARPS / GROUPS;
};

/* Row i of the keys' block, or a constant: all of it known when compiled. */
template <int D8> __device__ __forceinline__ uint4 narrow_factor(const uint4 (&k)[8 * D8], int i)
{
    const uint32_t c = i == 8 * D8 ? 0x3f803f80u : 0;
    return i < 8 * D8 ? k[i < 8 * D8 ? i : 0] : make_uint4(c, c, c, c);
}

template <int D8>
__device__ __forceinline__ uint4 narrow_prefix(const uint4 (&k)[8 * D8], int i, int j)
{
    if (j >= 8 * D8) return narrow_factor<D8>(k, i);
    return multiply4(narrow_factor<D8>(k, i), narrow_factor<D8>(k, j));
}

/* What a warp reads of 32 tokens: all rows of k, this lane's row of each block, the values. */
template <int D8> struct narrow_input {
    uint4 k[8 * D8], x[D8 + 1], v[D8 + 1];
    __device__ __forceinline__ void read(const char *keys, const char *values, int lane)
    {
        const int t = lane % 4, g = lane / 4, own = g * 64 + (t ^ (g / 2 % 4)) * 16;
        const uint32_t one = g == 0 ? 0x3f803f80u : 0;
#pragma unroll
        for (int i = 0; i < 8 * D8; i++)
            k[i] = *(const uint4 *)(keys + i * 64 + (t ^ (i / 2 % 4)) * 16);
#pragma unroll
        for (int r = 0; r < D8; r++) x[r] = *(const uint4 *)(keys + own + r * 512);
        x[D8] = make_uint4(one, one, one, one);
#pragma unroll
        for (int n = 0; n <= D8; n++) {
            const uint32_t *from = (const uint32_t *)(values + n * 512) + lane;
            v[n] = make_uint4(from[0], from[32], from[64], from[96]);
        }
    }
};

template <int D8, int terms, int G>
__device__ __forceinline__ void narrow_block(const narrow_input<D8> &in,
                                             float (&acc)[narrow_shape<D8, terms>::T][D8 + 1][4])
{
    constexpr int T = narrow_shape<D8, terms>::T;
    constexpr narrow_tiles<D8, terms> all = {};
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int n = 0; n < T; n++) {
            if (G * T + n >= all.count) continue;
            const tile &w = all.list[G * T + n < all.count ? G * T + n : 0];
            uint32_t a[4];
            make_tile(narrow_prefix<D8>(in.k, w.i[0], w.j[0]),
                      narrow_prefix<D8>(in.k, w.i[1], w.j[1]), in.x[w.r], s, a);
#pragma unroll
            for (int c = 0; c <= D8; c++)
                mma16(acc[n][c], a, s ? in.v[c].z : in.v[c].x, s ? in.v[c].w : in.v[c].y);
        }
}

/* The body of group `group`, found among those compiled. */
template <int D8, int terms, int G>
__device__ __forceinline__ void narrow_choose(int group, const char *keys, const char *values,
                                              float (&acc)[narrow_shape<D8, terms>::T][D8 + 1][4],
                                              int lane)
{
    if (group == G) {
        narrow_input<D8> in;
        in.read(keys, values, lane);
        narrow_block<D8, terms, G>(in, acc);
    }
    if constexpr (G + 1 < narrow_shape<D8, terms>::GROUPS)
        if (group > G) narrow_choose<D8, terms, G + 1>(group, keys, values, acc, lane);
}

template <int D8, int terms>
__global__ void __launch_bounds__(BUILD_WARPS * 32, 1)
    narrow_kernel(const __grid_constant__ build_args a)
{
    using shape = narrow_shape<D8, terms>;
    constexpr int N8 = D8 + 1, T = shape::T;
    extern __shared__ __align__(128) char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int group = warp % shape::GROUPS, turn = warp / shape::GROUPS;
    float acc[T][N8][4] = {};
    build_stream s(a, N8, shared, blockIdx.y, blockIdx.z);
    s.begin();
#pragma unroll 1
    for (int i = 0; i < s.stages; i++) {
        s.next(i);
#pragma unroll 1
        for (int b = 0; b < STAGE_BLOCKS; b++)
            if ((i * STAGE_BLOCKS + b) % shape::TURNS == turn)
                narrow_choose<D8, terms, 0>(group, s.keys_at(i, b), s.values_at(i, b), acc, lane);
    }
    /* The warps of a group one after the other, the first of them last. */
    float4 *kept = (float4 *)shared + group * T * N8 * 32 + lane;
    copy_wait<0>();
    for (int w = shape::TURNS - 1; w > 0; w--) {
        __syncthreads();
        if (turn == w)
#pragma unroll
            for (int t = 0; t < T; t++) store_tile<N8>(kept - lane, t, acc[t], lane);
        __syncthreads();
        if (turn == w - 1)
#pragma unroll
            for (int t = 0; t < T; t++)
#pragma unroll
                for (int n = 0; n < N8; n++) {
                    const float4 more = kept[(t * N8 + n) * 32];
                    acc[t][n][0] += more.x, acc[t][n][1] += more.y;
                    acc[t][n][2] += more.z, acc[t][n][3] += more.w;
                }
    }
    if (turn) return;
#pragma unroll
    for (int t = 0; t < T; t++)
        if (group * T + t < a.tile_count) store_tile<N8>(s.sums(), group * T + t, acc[t], lane);
}

/* One block of k: a warp a segment. */
template <int terms>
__global__ void __launch_bounds__(BUILD_WARPS * 32, 1)
    lone_kernel(const __grid_constant__ build_args a)
{
    constexpr int T = narrow_shape<1, terms>::T;
    const int lane = (int)threadIdx.x % 32;
    const int64_t segment = (int64_t)blockIdx.y * BUILD_WARPS + threadIdx.x / 32, head = blockIdx.z;
    if (segment >= a.segments) return;
    const int64_t begin = segment * a.segment_blocks, end = min(begin + a.segment_blocks, a.blocks);
    const char *keys = a.rows + head * a.blocks * 512, *values = a.values + head * a.blocks * 1024;
    float acc[T][2][4] = {};
    narrow_input<1> now, next;
    next.read(keys + begin * 512, values + begin * 1024, lane);
#pragma unroll 1
    for (int64_t block = begin; block < end; block++) {
        now = next;
        const int64_t ahead = min(block + 1, end - 1);
        next.read(keys + ahead * 512, values + ahead * 1024, lane);
        narrow_block<1, terms, 0>(now, acc);
    }
    float4 *sums = (float4 *)a.sums + (head * a.segments + segment) * a.tile_count * 2 * 32;
#pragma unroll
    for (int t = 0; t < T; t++)
        if (t < a.tile_count) store_tile<2>(sums, t, acc[t], lane);
}

template <int terms> static cudaError_t launch_lone(const build_args &a, cudaStream_t stream)
{
    const dim3 grid(1, (unsigned)((a.segments + BUILD_WARPS - 1) / BUILD_WARPS), (unsigned)a.heads);
    lone_kernel<terms><<<grid, BUILD_WARPS * 32, 0, stream>>>(a);
    return cudaGetLastError();
}

template <int D8, int terms> static cudaError_t launch(const build_args &a, cudaStream_t stream)
{
    using shape = narrow_shape<D8, terms>;
    const int ring = build_stream::shared_bytes(D8, D8 + 1);
    const int kept = shape::GROUPS * shape::T * (D8 + 1) * 512;
    const int shared = ring > kept ? ring : kept;
    const cudaError_t limit =
        cudaFuncSetAttribute((const void *)narrow_kernel<D8, terms>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (limit != cudaSuccess) return limit;
    narrow_kernel<D8, terms>
        <<<dim3(1, (unsigned)a.segments, (unsigned)a.heads), BUILD_WARPS * 32, shared, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t build_narrow_run(const build_args &a, cudaStream_t stream)
{
    if (a.dim8 == 1) return a.terms == 4 ? launch_lone<4>(a, stream) : launch_lone<3>(a, stream);
    return a.terms == 4 ? launch<2, 4>(a, stream) : launch<2, 3>(a, stream);
}

} // namespace lnt
