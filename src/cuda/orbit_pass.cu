/* cuda/orbit_pass.cu - causal Taylor attention where one warp holds the sums of all monomials
 * (orbit.h, d <= 8), from q, k, v to y in one pass:
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * The warps of a block walk a run of tokens side by side, a chunk of 64 each.  First every warp
 * sums [v, 1]^T phi(k) of its chunk; then the threads share the numbers of a state, and each adds
 * its own from chunk to chunk, in f32 and in order, and leaves the state before every chunk as
 * bf16; then every warp answers its queries, the keys of the chunk one by one.  No warp keeps a
 * state in registers, so four of them fit a scheduler, and where there are heads enough for the
 * machine nothing is summed beforehand.  See docs/gpu.md */
#include "cuda/orbit_read.cuh"

namespace lnt
{

enum { PASS_WARPS = 16, PASS_STEP = 4 }; /* at most; a multiple of which */

/* The sums of a chunk: an orbit after the other, degree 0 last, 36 pairs each: a lane's members of
 * a column, then those of z. */
template <class S> struct pass_shape {
    static constexpr int PAIRS = 36, COUNT = S::K16 * PAIRS, SUM_BYTES = S::T * PAIRS * 8;
    /* Of a warp.  The turned keys are used up when the sums are there; the state before the chunk
     * takes the place of its sums, each pair of orbits that of the first. */
    static constexpr int VALUES = 2 * S::ROWS_BYTES, QUERIES = 2 * VALUES,
                         SUMS = QUERIES + S::ROWS_BYTES, TURNED = SUMS, STATE = SUMS,
                         MEAN = SUMS + (SUM_BYTES > S::TURNED_BYTES ? SUM_BYTES : S::TURNED_BYTES),
                         BYTES = MEAN + 64;
    /* Of the block. */
    static constexpr int bytes(int warps) { return warps * BYTES + COUNT * 24 + 64; }
};

/* What goes on from chunk to chunk, times the coefficients: the pairs of orbits 2 i + 1 and 2 i +
 * 2; degree 0. */
template <class S> struct pass_carry {
    float4 *four;
    float2 *factor;
    float *mean;
    __device__ __forceinline__ pass_carry(char *at)
    {
        four = (float4 *)at, factor = (float2 *)(four + pass_shape<S>::COUNT);
        mean = (float *)(factor + pass_shape<S>::COUNT);
    }
    /* sums: the state before the first chunk, or NULL. */
    __device__ __forceinline__ void begin(const orbit_args &a, const float *sums)
    {
        for (int e = (int)threadIdx.x; e < pass_shape<S>::COUNT; e += (int)blockDim.x) {
            const int i = e / 36, j = e % 36;
            float x[2][2] = {}, f[2];
            for (int half = 0; half < 2; half++) {
                const int o = 2 * i + 1 + half < S::T ? 2 * i + 1 + half : 0;
                const orbit w = orbit_table<S::D, S::terms>.list[o];
                f[half] = a.coefficient[w.degree] * (float)w.times;
                const float *from = sums + (o * (S::D + 1) + j / 4) * 8 + j % 4 * 2;
                if (sums) x[half][0] = from[0] * f[half], x[half][1] = from[1] * f[half];
            }
            four[e] = make_float4(x[0][0], x[0][1], x[1][0], x[1][1]);
            factor[e] = make_float2(f[0], f[1]);
        }
        for (int c = (int)threadIdx.x; c <= S::D; c += (int)blockDim.x)
            mean[c] = sums ? sums[c * 8] * a.coefficient[0] : 0.0f;
    }
    /* Leaves the states before the chunks of all warps, by all threads. */
    __device__ __forceinline__ void over(const orbit_args &a, char *shared, int warps)
    {
        using shape = pass_shape<S>;
        for (int e = (int)threadIdx.x; e < shape::COUNT; e += (int)blockDim.x) {
            const int i = e / 36, j = e % 36;
            const float2 f = factor[e];
            const char *from = shared + shape::SUMS + (i * 2 * shape::PAIRS + j) * 8;
            char *to = shared + shape::STATE + word_at<S>(i, j / 32, 0, j % 32) * 4;
            float4 c = four[e];
#pragma unroll 1
            for (int w = 0; w < warps; w += PASS_STEP) {
                float2 x[PASS_STEP], y[PASS_STEP];
#pragma unroll
                for (int k = 0; k < PASS_STEP; k++) {
                    x[k] = *(const float2 *)(from + k * shape::BYTES);
                    y[k] = *(const float2 *)(from + k * shape::BYTES + shape::PAIRS * 8);
                }
#pragma unroll
                for (int k = 0; k < PASS_STEP; k++) {
                    /* Beside an odd orbit stands degree 0, which queries multiply by 0. */
                    *(uint2 *)(to + k * shape::BYTES) = make_uint2(pack(c.x, c.y), pack(c.z, c.w));
                    c.x = fmaf(f.x, x[k].x, c.x), c.y = fmaf(f.x, x[k].y, c.y);
                    c.z = fmaf(f.y, y[k].x, c.z), c.w = fmaf(f.y, y[k].y, c.w);
                }
                from += PASS_STEP * shape::BYTES, to += PASS_STEP * shape::BYTES;
            }
            four[e] = c;
        }
        if (threadIdx.x <= S::D) {
            const char *from =
                shared + shape::SUMS + ((S::T - 1) * shape::PAIRS + threadIdx.x * 4) * 8;
            float *to = (float *)(shared + shape::MEAN) + threadIdx.x, c = mean[threadIdx.x];
#pragma unroll 2
            for (int w = 0; w < warps; w++) {
                to[w * shape::BYTES / 4] = c;
                c = fmaf(a.coefficient[0], *(const float *)(from + w * shape::BYTES), c);
            }
            mean[threadIdx.x] = c;
        }
    }
};

/* The sums of a chunk in the accumulators.  Monomials are A, two orbits its 16 rows, and v is B;
 * for z every pair of orbits has a column of its own in a B of ones, so that eight share a tile. */
template <class S> struct pass_sums {
    static constexpr int TWOS = (S::T + 1) / 2;
    float s[TWOS][4], z[(TWOS + 7) / 8][4];

    /* Orbit number `slot` of the sums, for 16 tokens. */
    static __device__ __forceinline__ uint2 feature(const uint2 (&x)[S::D], int slot)
    {
        uint2 f = make_uint2(0, 0);
        if (slot < S::T) orbit_state<S>::feature(x, slot + 1 < S::T ? slot + 1 : 0, 0, f);
        return f;
    }
    __device__ __forceinline__ void add16(const char *turned, const char *values, int lane)
    {
        uint2 x[S::D];
        uint32_t v0, v1;
#pragma unroll
        for (int i = 0; i < S::D; i++)
            x[i] = *(const uint2 *)(turned + (lane / 4 + i) * 32 + lane % 4 * 8);
        load_two_transposed(v0, v1, shared_address(values + lane % 16 * S::LD));
#pragma unroll
        for (int i = 0; i < TWOS; i++) {
            const uint2 f = feature(x, 2 * i), g = feature(x, 2 * i + 1);
            const uint32_t both[4] = { f.x, g.x, f.y, g.y };
            const uint32_t one = lane / 4 == i % 8 ? 0x3f803f80u : 0;
            mma16(s[i], both, v0, v1);
            mma16(z[i / 8], both, one, one);
        }
    }
    __device__ __forceinline__ void add(const char *turned, const char *values, int there, int lane)
    {
#pragma unroll
        for (int e = 0; e < 4; e++) {
#pragma unroll
            for (int i = 0; i < TWOS; i++) s[i][e] = 0;
#pragma unroll
            for (int i = 0; i < (TWOS + 7) / 8; i++) z[i][e] = 0;
        }
#pragma unroll 1
        for (int k = 0; k < there; k += 16)
            add16(turned + k / 16 * 2 * S::D * 32, values + k * S::LD, lane);
        /* Rows past the end are 0, and so is all but degree 0 of them. */
        constexpr int LAST = (S::T - 1) / 2, HALF = (S::T - 1) % 2;
        if (lane % 4 == LAST % 8 / 2)
            z[LAST / 8][2 * HALF + LAST % 2] -= (float)((16 - there % 16) % 16);
    }
    /* Where the carry finds them: pairs of members. */
    __device__ __forceinline__ void store(float *to, int lane)
    {
        const int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int slot = 0; slot < S::T; slot++) {
            float *own = to + slot * 2 * pass_shape<S>::PAIRS;
            const int i = slot / 2, half = slot % 2;
            own[2 * t * 8 + g] = s[i][2 * half];
            own[(2 * t + 1) * 8 + g] = s[i][2 * half + 1];
            if (t == i % 8 / 2) own[64 + g] = z[i / 8][2 * half + i % 2];
        }
    }
};

/* Rows of one tensor, a chunk a turn: where this lane's two of the next one are. */
template <class S> struct pass_rows {
    const char *next;
    int64_t step, half; /* bytes: to the next turn's, to the lane's second row */
    __device__ __forceinline__ pass_rows(const view &x, int64_t row0, int64_t stride, int lane)
    {
        next = (const char *)x.data + 2 * (row0 + lane * x.stride[2]);
        step = 2 * stride * x.stride[2], half = 64 * x.stride[2];
    }
    __device__ __forceinline__ void copy(char *to, int lane)
    {
        const uint32_t at = shared_address(to) + lane * S::LD;
        copy16(at, next);
        copy16(at + 32 * S::LD, next + half);
    }
};

template <class S>
__global__ void __launch_bounds__(32 * PASS_WARPS, 1)
    orbit_pass_kernel(const __grid_constant__ orbit_args a)
{
    using shape = pass_shape<S>;
    extern __shared__ __align__(128) char shared[];
    const orbit_team<S> w;
    const int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32;
    char *own = shared + warp * shape::BYTES;
    pass_carry<S> carry(shared + warps * shape::BYTES);
    const int64_t segment = (int64_t)blockIdx.x * a.walk, head = blockIdx.y;
    const orbit_sequence n(a, head);
    const int group = a.heads / a.kv_heads;
    /* Positions are those of the keys; the query of position p is row p - past. */
    const int64_t begin = segment * a.segment,
                  end = min(begin + a.walk * a.segment, max(n.keys, a.length_q + n.past));
    const int64_t stride = (int64_t)warps * S::CHUNK, mine = begin + warp * S::CHUNK;
    const int turns = end > begin ? (int)((end - begin + stride - 1) / stride) : 0;
    const bool wide_q = is_wide(a.q, a.dim) && a.dim == S::D,
               wide_k = is_wide(a.k, a.dim) && a.dim == S::D,
               wide_v = is_wide(a.v, a.dim_value) && a.dim_value == S::D, pairs = writes_pairs(a);
    pass_rows<S> keys(a.k, row_of(a.k, n.b, n.kv, mine), stride, w.lane),
        values(a.v, row_of(a.v, n.b, n.kv, mine), stride, w.lane),
        queries(a.q, row_of(a.q, n.b, n.kv * group, mine - n.past), stride, w.lane);
    auto get_keys = [&](int turn) {
        const int64_t token = mine + turn * stride;
        char *to = own + turn % 2 * S::ROWS_BYTES;
        const bool whole = token + S::CHUNK <= n.keys;
        if (whole && wide_k)
            keys.copy(to, w.lane);
        else
            fetch_slowly<S>(a.k, row_of(a.k, n.b, n.kv, token), S::CHUNK, 0, n.keys - token, a.dim,
                            to, w.lane, 32);
        if (whole && wide_v)
            values.copy(to + shape::VALUES, w.lane);
        else
            fetch_slowly<S>(a.v, row_of(a.v, n.b, n.kv, token), S::CHUNK, 0, n.keys - token,
                            a.dim_value, to + shape::VALUES, w.lane, 32);
        keys.next += keys.step, values.next += values.step;
    };
    /* Of head g of the group.  Rows before 0 are not there. */
    auto get_queries = [&](int turn, int g) {
        const int64_t row = mine + turn * stride - n.past;
        char *to = own + shape::QUERIES;
        if (row >= 0 && row + S::CHUNK <= n.queries && wide_q)
            queries.copy(to, w.lane);
        else
            fetch_slowly<S>(a.q, row_of(a.q, n.b, n.kv * group + g, row), S::CHUNK,
                            (int)min(max(-row, (int64_t)0), (int64_t)S::CHUNK), n.queries - row,
                            a.dim, to, w.lane, 32);
        queries.next += 2 * a.q.stride[1];
        if (g + 1 == group) queries.next += queries.step - 2 * group * a.q.stride[1];
    };
    if (segment == 0 && n.past < 0 && warp == 0) clear_rows<S>(a, head, w.lane);
    if (turns) get_keys(0), get_queries(0, 0);
    copy_commit();
    const float *before =
        a.summed || a.s_in ? a.sums + (head * a.segments + segment) * S::SUMS : nullptr;
    carry.begin(a, before);
    /* Where this lane's first pair of the chunk's first answer goes, and words between rows, twice.
     */
    const int pitch = (int)a.out.stride[2];
    char *answers = (char *)a.out.data + 2 * row_of(a.out, n.b, n.kv * group, mine - n.past) +
                    w.lane / 4 * 2 * a.out.stride[2] + w.lane % 4 * 4;
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        const int64_t token = mine + turn * stride;
        const int there = (int)max(min(n.keys - token, (int64_t)S::CHUNK), (int64_t)0);
        char *k = own + turn % 2 * S::ROWS_BYTES, *v = k + shape::VALUES;
        copy_wait<0>();
        __syncwarp();
        if (turn + 1 < turns) get_keys(turn + 1);
        if (a.normalize) {
            normalize_rows<S>(k, there, 1.0f, w.lane, 32);
            __syncwarp();
        }
        turn_keys<S>(k, own + shape::TURNED, w);
        __syncwarp();
        pass_sums<S> sums;
        sums.add(own + shape::TURNED, v, there, w.lane);
        __syncwarp();
        sums.store((float *)(own + shape::SUMS), w.lane);
        __syncthreads();
        carry.over(a, shared, warps);
        __syncthreads();
        const int64_t row = token - n.past;
        const bool plainly = pairs && row >= 0 && row + S::CHUNK <= n.queries && token < end;
#pragma unroll 1
        for (int g = 0; g < group; g++) {
            const int64_t h = n.kv * group + g;
            char *q = own + shape::QUERIES;
            if (g) {
                copy_wait<0>();
                __syncwarp();
            }
            if (a.normalize) {
                normalize_rows<S>(q, S::CHUNK, a.temperature ? a.temperature[h] : 1.0f, w.lane, 32);
                __syncwarp();
            }
#pragma unroll 1
            for (int tile = 0; tile < S::CHUNK / 16; tile += 2) {
                const int both[2] = { tile, tile + 1 };
                orbit_queries<S> x[2];
                float out[2][S::N8][4] = {};
                x[0].take(q + 16 * tile * S::LD, w.lane);
                x[1].take(q + 16 * (tile + 1) * S::LD, w.lane);
                if (tile + 2 == S::CHUNK / 16) { /* the last: room for the next queries */
                    __syncwarp();
                    if (g + 1 < group)
                        get_queries(turn, g + 1);
                    else if (turn + 1 < turns)
                        get_queries(turn + 1, 0);
                    copy_commit();
                }
                read_state<S>((const uint32_t *)(own + shape::STATE), x, out, w.lane);
                read_keys<S>(a, k, v, x, both, out, w.lane);
                const float *mean = (const float *)(own + shape::MEAN);
                if (plainly) {
                    uint32_t *to =
                        (uint32_t *)(answers + 2 * g * a.out.stride[1]) + tile * 8 * pitch;
                    write_plainly<S>(a, to, pitch, mean, out[0], w.lane);
                    write_plainly<S>(a, to + 8 * pitch, pitch, mean, out[1], w.lane);
                } else if (token < end) {
                    write_rows<S>(a, n, h, row + 16 * tile, false, mean, out[0], w.lane);
                    write_rows<S>(a, n, h, row + 16 * tile + 16, false, mean, out[1], w.lane);
                }
            }
        }
        answers += 2 * stride * a.out.stride[2];
    }
}

template <class S> static cudaError_t pass(const orbit_args &a, cudaStream_t stream)
{
    using shape = pass_shape<S>;
    int device, most;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess || !a.segments) return e;
    int warps = PASS_WARPS;
    while (warps > PASS_STEP && shape::bytes(warps) > most) warps -= PASS_STEP;
    const int bytes = shape::bytes(warps);
    e = cudaFuncSetAttribute((const void *)orbit_pass_kernel<S>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    const dim3 grid((unsigned)((a.segments + a.walk - 1) / a.walk),
                    (unsigned)(a.batch * a.kv_heads));
    orbit_pass_kernel<S><<<grid, 32 * warps, bytes, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t orbit_pass_run(const orbit_args &a, cudaStream_t stream)
{
    return a.terms == 4 ? pass<orbit_shape<1, 4>>(a, stream) : pass<orbit_shape<1, 3>>(a, stream);
}

} // namespace lnt
