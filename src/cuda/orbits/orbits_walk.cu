/* cuda/orbits/orbits_walk.cu - causal Taylor attention where one warp holds the sums of all monomials
 * (orbits_basis.h, d <= 8), from q, k, v to y in one pass:
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * The warps of a block walk a run of tokens side by side, a chunk of 64 each.  First every warp
 * sums [v, 1]^T phi(k) of its chunk; then the threads share the numbers of a state, and each adds
 * its own from chunk to chunk, in f32 and in order, and leaves the state before every chunk as
 * bf16; then every warp answers its queries, the keys of the chunk one by one.  One half of the
 * warps is about half a turn after the other, and only the carrying is in turns, so that one kind
 * of work fills what the other leaves.  No warp keeps a state in registers, so four of them fit a
 * scheduler, and where there are heads enough for the machine nothing is summed beforehand.
 * See docs/gpu-kernels.md */
#include "cuda/orbits/orbits_answer.cuh"

namespace lnt
{

enum { WALK_WARPS = 16, WALK_STEP = 4 }; /* at most; half of them, a multiple of which */
enum { WALK_TURN = 1, WALK_OWN = 3 };    /* barriers: a half may carry on; it is done */

/* The sums of a chunk: an orbit after the other, degree 0 last, 36 pairs each: a lane's members of
 * a column, then those of z. */
template <class S> struct walk_shape {
    static constexpr int PAIRS = 36, COUNT = S::K16 * PAIRS, SUM_BYTES = S::T * PAIRS * 8;
    static constexpr int EARLY = (S::T + 1) / 2; /* orbits that are summed before the others */
    /* Of a warp.  The turned keys are used up when the later sums are there; the state before the
     * chunk takes the place of its sums, each pair of orbits that of the first. */
    static constexpr int VALUES = 2 * S::ROWS_BYTES, QUERIES = 2 * VALUES,
                         SUMS = QUERIES + S::ROWS_BYTES, TURNED = SUMS + EARLY * PAIRS * 8,
                         STATE = SUMS, SUMS_END = SUMS + SUM_BYTES,
                         TURNED_END = TURNED + S::TURNED_BYTES,
                         MEAN = SUMS_END > TURNED_END ? SUMS_END : TURNED_END, BYTES = MEAN + 48;
    /* Of the block: those of its warps, ones, what is carried. */
    static constexpr int bytes(int warps)
    {
        return warps * BYTES + 128 + COUNT * 16 + (S::K16 + 7) / 2 * 2 * 8;
    }
};

/* What goes on from chunk to chunk, times the coefficients: the pairs of orbits 2 i + 1 and 2 i +
 * 2; degree 0. */
template <class S> struct walk_carry {
    float4 *four;
    float2 *factor;
    float *mean;
    __device__ __forceinline__ walk_carry(char *at)
    {
        four = (float4 *)at, factor = (float2 *)(four + walk_shape<S>::COUNT);
        mean = (float *)(factor + S::K16);
    }
    /* sums: the state before the first chunk, or NULL. */
    __device__ __forceinline__ void begin(const orbits_args &a, const float *sums)
    {
        for (int e = (int)threadIdx.x; e < walk_shape<S>::COUNT; e += (int)blockDim.x) {
            const int i = e / 36, j = e % 36;
            float x[2][2] = {}, f[2];
            for (int half = 0; half < 2; half++) {
                const int o = 2 * i + 1 + half < S::T ? 2 * i + 1 + half : 0;
                const orbit w = orbits_table<S::D, S::terms>.list[o];
                f[half] = a.coefficient[w.degree] * (float)w.times;
                const float *from = sums + (o * (S::D + 1) + j / 4) * 8 + j % 4 * 2;
                if (sums) x[half][0] = from[0] * f[half], x[half][1] = from[1] * f[half];
            }
            four[e] = make_float4(x[0][0], x[0][1], x[1][0], x[1][1]);
            if (j == 0) factor[i] = make_float2(f[0], f[1]);
        }
        for (int c = (int)threadIdx.x; c <= S::D; c += (int)blockDim.x)
            mean[c] = sums ? sums[c * 8] * a.coefficient[0] : 0.0f;
    }
    /* Leaves the states before the chunks of `warps` warps, by their threads; shared: of the first.
     */
    __device__ __forceinline__ void over(const orbits_args &a, char *shared, int id, int warps)
    {
        using shape = walk_shape<S>;
        for (int e = id; e < shape::COUNT; e += 32 * warps) {
            const int i = e / 36, j = e % 36;
            const float2 f = factor[i];
            const char *from = shared + shape::SUMS + (i * 2 * shape::PAIRS + j) * 8;
            char *to = shared + shape::STATE + word_at<S>(i, j / 32, 0, j % 32) * 4;
            float4 c = four[e];
#pragma unroll 1
            for (int w = 0; w < warps; w += WALK_STEP) {
                float2 x[WALK_STEP], y[WALK_STEP];
#pragma unroll
                for (int k = 0; k < WALK_STEP; k++) {
                    x[k] = *(const float2 *)(from + k * shape::BYTES);
                    y[k] = *(const float2 *)(from + k * shape::BYTES + shape::PAIRS * 8);
                }
#pragma unroll
                for (int k = 0; k < WALK_STEP; k++) {
                    /* Beside an odd orbit stands degree 0, which queries multiply by 0. */
                    *(uint2 *)(to + k * shape::BYTES) = make_uint2(pack(c.x, c.y), pack(c.z, c.w));
                    c.x = fmaf(f.x, x[k].x, c.x), c.y = fmaf(f.x, x[k].y, c.y);
                    c.z = fmaf(f.y, y[k].x, c.z), c.w = fmaf(f.y, y[k].y, c.w);
                }
                from += WALK_STEP * shape::BYTES, to += WALK_STEP * shape::BYTES;
            }
            four[e] = c;
        }
        id -= 32 * (warps - 1); /* the last warp has least of the above */
        if (id >= 0 && id <= S::D) {
            const char *from = shared + shape::SUMS + ((S::T - 1) * shape::PAIRS + id * 4) * 8;
            float *to = (float *)(shared + shape::MEAN) + id, c = mean[id];
#pragma unroll 2
            for (int w = 0; w < warps; w++) {
                to[w * shape::BYTES / 4] = c;
                c = fmaf(a.coefficient[0], *(const float *)(from + w * shape::BYTES), c);
            }
            mean[id] = c;
        }
    }
};

/* The sums of a chunk, numbers FROM ... TO - 1 of its orbits, for the carry to find: pairs of
 * members.  [v, 1]^T is A, its ones from a matrix in shared memory that has them in column 0. */
template <class S, int FROM, int TO>
__device__ __forceinline__ void walk_sum(const char *turned, const char *values, const char *ones,
                                         int there, char *sums, int lane)
{
    float s[TO - FROM][4] = {};
    const bool is_one = lane / 8 % 2;
    uint32_t from =
        shared_address(is_one ? ones + lane % 8 * 16 : values + (lane / 16 * 8 + lane % 8) * S::LD);
    turned += lane / 4 * 32 + lane % 4 * 8;
#pragma unroll
    for (int k = 0; k < S::CHUNK; k += 16) {
        uint2 x[S::D];
        uint32_t v[4];
#pragma unroll
        for (int i = 0; i < S::D; i++) x[i] = *(const uint2 *)(turned + i * 32);
        load_matrices_transposed(v, from);
        from += is_one ? 0 : 16 * S::LD, turned += 2 * S::D * 32;
#pragma unroll
        for (int i = 0; i < TO - FROM; i++) {
            uint2 f;
            orbits_state<S>::feature(x, (FROM + i + 1) % S::T, 0, f);
            mma16(s[i], v, f.x, f.y);
        }
    }
    /* Rows past the end are 0, and so is all but degree 0 of them. */
    const float less = (float)(S::CHUNK - there);
    if (TO == S::T) s[TO - FROM - 1][2] -= less, s[TO - FROM - 1][3] -= less;
    if (TO == S::T) __syncwarp(); /* the turned keys are used up */
    float2 *to = (float2 *)sums + FROM * walk_shape<S>::PAIRS + lane;
#pragma unroll
    for (int i = 0; i < TO - FROM; i++)
        to[i * walk_shape<S>::PAIRS] = make_float2(s[i][0], s[i][1]);
    if (lane < 4)
#pragma unroll
        for (int i = 0; i < TO - FROM; i++)
            to[i * walk_shape<S>::PAIRS + 32] = make_float2(s[i][2], s[i][3]);
}

/* ---- rows in and out ------------------------------------------------------------------------- */

/* A chunk of rows from number `row` on, of which those before 0 and from `rows` on are not there.
 */
template <class S>
__device__ __noinline__ void walk_fetch(const view &x, int64_t b, int64_t h, int64_t row,
                                        int64_t rows, int width, char *to, int lane)
{
    fetch_here<S>(x, row_of(x, b, h, row), S::CHUNK,
                  (int)min(max(-row, (int64_t)0), (int64_t)S::CHUNK), rows - row, width, to, lane,
                  32);
}

template <class S>
__device__ __noinline__ void walk_write(const orbits_args &a, int64_t head, int64_t h, int64_t row,
                                        const float (&out)[S::N8][4], int lane)
{
    write_rows<S>(a, orbits_sequence(a, head), h, row, false, nullptr, out, lane);
}

/* Bytes from a chunk's rows to those of the same warp's next one, and from a row to the 32nd after
 * it; of queries and y from a head of a group to the next, and of queries from the last head's rows
 * to the first's of the next chunk.  Computed once, on the host. */
struct walk_steps {
    int64_t k, v, q, y, k_half, v_half, q_half, y_half, q_head, y_head;
};

static walk_steps steps_of(const orbits_args &a, int warps, int chunk)
{
    const int64_t tokens = (int64_t)warps * chunk, group = a.heads / a.kv_heads;
    const auto rows = [](const view &x, int64_t n) { return 2 * n * x.stride[2]; };
    return {
        rows(a.k, tokens),   rows(a.v, tokens), rows(a.q, tokens) - 2 * (group - 1) * a.q.stride[1],
        rows(a.out, tokens), rows(a.k, 32),     rows(a.v, 32),
        rows(a.q, 32),       rows(a.out, 32),   2 * a.q.stride[1],
        2 * a.out.stride[1]
    };
}

template <class S>
__device__ __forceinline__ void walk_copy(char *to, const char *from, int64_t half, int lane)
{
    const uint32_t at = shared_address(to) + lane * S::LD;
    copy16(at, from);
    copy16(at + 32 * S::LD, from + half);
}

/* ---- a block --------------------------------------------------------------------------------- */

/* A warp on its way.  Positions are those of the keys, from the run's first on; the query of
 * position p is row p - past. */
template <class S> struct walk_warp {
    using shape = walk_shape<S>;
    const orbits_args &a;
    const walk_steps &steps;
    const orbits_sequence n;
    char *own;
    const char *ones;
    int64_t head, begin;
    int lane, stride, group;
    int at, keys, first, last, end; /* its chunk; the keys, the queries and the run end there */
    bool wide_q, wide_k, wide_v, pairs;
    char *k, *v, *q, *y; /* where this lane's part of the next chunk is */

    __device__ __forceinline__ walk_warp(const orbits_args &args, const walk_steps &all,
                                         char *memory, const char *ones_, int warp, int warps,
                                         int lane_, int64_t begin_)
        : a(args), steps(all), n(args, blockIdx.y), own(memory), ones(ones_), head(blockIdx.y),
          begin(begin_), lane(lane_), stride(warps * S::CHUNK), group(args.heads / args.kv_heads),
          at(warp * S::CHUNK)
    {
        auto find = [&](const view &x, int64_t h, int64_t row) {
            return (char *)x.data + 2 * row_of(x, n.b, h, row);
        };
        k = find(a.k, n.kv, begin + at + lane), v = find(a.v, n.kv, begin + at + lane);
        q = find(a.q, n.kv * group, begin + at - n.past + lane);
        y = find(a.out, n.kv * group, begin + at - n.past + lane / 4) + lane % 4 * 4;
        keys = near(n.keys - begin), first = near(n.past - begin);
        last = near(n.past + n.queries - begin);
        end = near(min((int64_t)a.walk * a.segment, max(n.keys, a.length_q + n.past) - begin));
        hide(keys), hide(first), hide(last), hide(end);
        wide_q = is_wide(a.q, a.dim) && a.dim == S::D;
        wide_k = is_wide(a.k, a.dim) && a.dim == S::D;
        wide_v = is_wide(a.v, a.dim_value) && a.dim_value == S::D;
        pairs = writes_pairs(a);
    }
    __device__ __forceinline__ int turns() const { return max((end + stride - 1) / stride, 0); }

    __device__ __forceinline__ void get_keys(int place, char *to)
    {
        const bool whole = place + S::CHUNK <= keys;
        if (whole && wide_k)
            walk_copy<S>(to, k, steps.k_half, lane);
        else
            walk_fetch<S>(a.k, n.b, n.kv, begin + place, n.keys, a.dim, to, lane);
        if (whole && wide_v)
            walk_copy<S>(to + shape::VALUES, v, steps.v_half, lane);
        else
            walk_fetch<S>(a.v, n.b, n.kv, begin + place, n.keys, a.dim_value, to + shape::VALUES,
                          lane);
        k += steps.k, v += steps.v;
    }
    /* Of head g of the group. */
    __device__ __forceinline__ void get_queries(int place, int g)
    {
        if (place >= first && place + S::CHUNK <= last && wide_q)
            walk_copy<S>(own + shape::QUERIES, q, steps.q_half, lane);
        else
            walk_fetch<S>(a.q, n.b, n.kv * group + g, begin + place - n.past, n.queries, a.dim,
                          own + shape::QUERIES, lane);
        q += g + 1 < group ? steps.q_head : steps.q;
    }
    __device__ __forceinline__ void sum(char *rows, const orbits_team<S> &w)
    {
        const int there = max(min(keys - at, (int)S::CHUNK), 0);
        if (a.normalize) {
            normalize_rows<S>(rows, there, 1.0f, lane, 32);
            __syncwarp();
        }
        turn_keys<S>(rows, own + shape::TURNED, w);
        __syncwarp();
        walk_sum<S, 0, shape::EARLY>(own + shape::TURNED, rows + shape::VALUES, ones, there,
                                     own + shape::SUMS, lane);
        walk_sum<S, shape::EARLY, S::T>(own + shape::TURNED, rows + shape::VALUES, ones, there,
                                        own + shape::SUMS, lane);
    }
    /* Of the 16 queries from number i of the chunk on; to: where the lane's first pair goes. */
    __device__ __forceinline__ void write(int i, int g, bool plain, char *to,
                                          const float (&out)[S::N8][4])
    {
        const float den[2] = { out[S::X][0], out[S::X][2] };
        /* Without denominators that are to be counted, or have no reciprocal. */
        if (plain && den[0] >= 0x1p-126f && den[1] >= 0x1p-126f) {
            const float by[2] = { reciprocal_of_normal(den[0]), reciprocal_of_normal(den[1]) };
            *(uint32_t *)to = pack(out[0][0] * by[0], out[0][1] * by[0]);
            *(uint32_t *)(to + steps.y_half / 4) = pack(out[0][2] * by[1], out[0][3] * by[1]);
        } else if (at < end) {
            float copy[S::N8][4];
#pragma unroll
            for (int e = 0; e < S::N8 * 4; e++) copy[e / 4][e % 4] = out[e / 4][e % 4];
            walk_write<S>(a, head, n.kv * group + g, begin + at - n.past + i, copy, lane);
        }
    }
    /* The queries of head g; more: there are others after them. */
    __device__ __forceinline__ void answer(const char *rows, int g, bool more)
    {
        char *queries = own + shape::QUERIES, *to = y + g * steps.y_head;
        const bool plain = pairs && at >= first && at + S::CHUNK <= last && at < end;
        const float2 mean = *(const float2 *)(own + shape::MEAN + lane % 4 * 8);
        const float count = *(const float *)(own + shape::MEAN + S::D * 4);
        if (a.normalize) {
            const float tau = a.temperature ? a.temperature[n.kv * group + g] : 1.0f;
            normalize_rows<S>(queries, S::CHUNK, tau, lane, 32);
            __syncwarp();
        }
#pragma unroll 1
        for (int tile = 0; tile < S::CHUNK / 16; tile += 2) {
            const int both[2] = { tile, tile + 1 };
            orbits_queries<S> x[2];
            float out[2][S::N8][4]; /* from degree 0 on */
#pragma unroll
            for (int e = 0; e < 8; e++) {
                out[e / 4][0][e % 4] = e % 2 ? mean.y : mean.x;
                out[e / 4][1][e % 4] = count;
            }
            x[0].take(queries + 16 * tile * S::LD, lane);
            x[1].take(queries + 16 * (tile + 1) * S::LD, lane);
            if (tile + 2 == S::CHUNK / 16) { /* the last: room for the next */
                __syncwarp();
                const bool same = g + 1 < group;
                if (same || more) get_queries(same ? at : at + stride, same ? g + 1 : 0);
                copy_commit();
            }
            read_state<S>((const uint32_t *)(own + shape::STATE), x, out, lane);
            read_keys<S>(a, rows, rows + shape::VALUES, x, both, out, lane);
            write(16 * tile, g, plain, to, out[0]);
            write(16 * tile + 16, g, plain, to + steps.y_half / 2, out[1]);
            to += steps.y_half;
        }
    }
};

template <class S>
__global__ void __launch_bounds__(32 * WALK_WARPS, 1)
    orbits_walk_kernel(const __grid_constant__ orbits_args a,
                       const __grid_constant__ walk_steps steps)
{
    using shape = walk_shape<S>;
    extern __shared__ __align__(128) char shared[];
    const orbits_team<S> w;
    const int warps = (int)(blockDim.x / 32u), warp = (int)(threadIdx.x / 32u), half = warps / 2;
    const int which = warp >= half; /* half of the warps */
    char *ones = shared + warps * shape::BYTES;
    walk_carry<S> carry(ones + 128);
    const int64_t segment = (int64_t)blockIdx.x * a.walk, head = blockIdx.y;
    walk_warp<S> walk(a, steps, shared + warp * shape::BYTES, ones, warp, warps, w.lane,
                      segment * a.segment);
    if (segment == 0 && walk.n.past < 0 && warp == 0) clear_rows<S>(a, head, w.lane);
    const int turns = walk.turns();
    if (turns) walk.get_keys(walk.at, walk.own), walk.get_queries(walk.at, 0);
    copy_commit();
    if (threadIdx.x < 32) ((uint32_t *)ones)[threadIdx.x] = threadIdx.x % 4u == 0 ? 0x3f80u : 0;
    carry.begin(a, a.summed || a.s_in ? a.sums + (head * a.segments + segment) * S::SUMS : nullptr);
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++)
            warps_begin(WALK_TURN + i, 64 * half), warps_begin(WALK_OWN + i, 32 * half);
    __syncthreads();
    if (which) warps_tell(WALK_TURN, 64 * half); /* the first half begins */
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        char *rows = walk.own + turn % 2 * S::ROWS_BYTES;
        const bool more = turn + 1 < turns;
        copy_wait<0>();
        __syncwarp();
        if (more) walk.get_keys(walk.at + walk.stride, walk.own + (turn + 1) % 2 * S::ROWS_BYTES);
        walk.sum(rows, w);
        warps_wait(WALK_TURN + which, 64 * half);
        carry.over(a, shared + which * half * shape::BYTES, (int)threadIdx.x - which * 32 * half,
                   half);
        if (!which || more) warps_tell(WALK_TURN + 1 - which, 64 * half);
        warps_wait(WALK_OWN + which, 32 * half);
#pragma unroll 1
        for (int g = 0; g < walk.group; g++) {
            if (g) {
                copy_wait<0>();
                __syncwarp();
            }
            walk.answer(rows, g, more);
        }
        walk.at += walk.stride, walk.y += steps.y;
    }
}

template <class S> static cudaError_t pass(const orbits_args &a, cudaStream_t stream)
{
    using shape = walk_shape<S>;
    static_assert(shape::bytes(WALK_WARPS / 2) <= orbits_bytes(1, S::terms),
                  "choose.cc asks for less");
    int device, most;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess || !a.segments) return e;
    const int warps = shape::bytes(WALK_WARPS) <= most ? WALK_WARPS : WALK_WARPS / 2;
    const int bytes = shape::bytes(warps);
    const dim3 grid((unsigned)((a.segments + a.walk - 1) / a.walk),
                    (unsigned)(a.batch * a.kv_heads));
    return launch_kernel(orbits_walk_kernel<S>, grid, 32 * warps, bytes, stream, a,
                         steps_of(a, warps, S::CHUNK));
}

cudaError_t orbits_walk_run(const orbits_args &a, cudaStream_t stream)
{
    return a.terms == 4 ? pass<orbits_shape<1, 4>>(a, stream) : pass<orbits_shape<1, 3>>(a, stream);
}

} // namespace lnt
