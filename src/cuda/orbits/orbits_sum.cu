/* cuda/orbits/orbits_sum.cu - what Taylor attention remembers of each segment of the keys, and before each,
 * where the monomials are few (orbits_basis.h):
 *
 *     sums [column][f] = sum over the segment's tokens of [v, 1]_column phi_f(k)
 *
 * straight from k and v in memory: reads each number once.  A team of warps walks its segment with
 * the sums in accumulators; monomials are made in registers from the turned keys, one product of
 * two bf16 each.  The scan adds in f32 in the order of the segments.  See docs/gpu-kernels.md */
#include "cuda/orbits/orbits.cuh"

namespace lnt
{

enum { ORBITS_STAGES = 3, ORBITS_PREFETCH = 32 };

template <class S> struct sum_memory {
    static constexpr int VALUES = ORBITS_STAGES * S::ROWS_BYTES, TURNED = 2 * VALUES,
                         BYTES = TURNED + S::TURNED_BYTES;
};

template <class S>
__global__ void __launch_bounds__(S::TEAMS *S::THREADS, S::X == 1 ? 3 : 2)
    orbits_sum_kernel(const __grid_constant__ orbits_args a)
{
    extern __shared__ __align__(128) char shared[];
    const orbits_team<S> w;
    char *keys = shared + w.number() * sum_memory<S>::BYTES;
    char *values = keys + sum_memory<S>::VALUES, *turned = keys + sum_memory<S>::TURNED;
    const int64_t segment = (int64_t)blockIdx.x * S::TEAMS + w.number(), head = blockIdx.y;
    if (segment >= a.summed) return;
    const orbits_sequence n(a, head);
    const int64_t begin = segment * a.segment, end = min(begin + a.segment, n.keys);
    const int chunks = end > begin ? (int)((end - begin + S::CHUNK - 1) / S::CHUNK) : 0;
    const orbits_source<S, S::CHUNK, S::THREADS> from_k(a.k, a.dim), from_v(a.v, a.dim_value);
    auto get = [&](int c) {
        if (c < chunks) {
            const int64_t token = begin + (int64_t)c * S::CHUNK, there = end - token;
            const int at = c % ORBITS_STAGES * S::ROWS_BYTES;
            from_k.get(n.b, n.kv, token, 0, there, keys + at, w.id);
            from_v.get(n.b, n.kv, token, 0, there, values + at, w.id);
        }
        copy_commit();
    };
    for (int c = 0; c < ORBITS_STAGES - 1; c++) get(c);
    orbits_state<S> s;
    s.clear();
#pragma unroll 1
    for (int c = 0; c < chunks; c++) {
        copy_wait<ORBITS_STAGES - 2>();
        w.sync();
        get(c + ORBITS_STAGES - 1);
        const int at = c % ORBITS_STAGES * S::ROWS_BYTES;
        const int there = (int)min(end - begin - (int64_t)c * S::CHUNK, (int64_t)S::CHUNK);
        if (a.normalize) {
            normalize_rows<S>(keys + at, there, 1.0f, w.id, S::THREADS);
            w.sync();
        }
        turn_keys<S>(keys + at, turned, w);
        w.sync();
        s.add(turned, values + at, there, w);
    }
    s.store(a.sums + (head * a.segments + segment) * S::SUMS, w);
}

/* ---- the states before the segments ---------------------------------------------------------- */

/* Number e of the sums in the library's states: in z, or in s, or not at all. */
template <class S> struct library_place {
    int64_t at;
    bool in, is_z, first; /* first: not there for the second time */
    __device__ __forceinline__ library_place(const orbits_args &a, int64_t head, int e)
    {
        const int c = e / 8 % (S::D + 1), member = e / (8 * (S::D + 1)) * 8 + e % 8;
        const int32_t place = a.place[member];
        first = place >= 0, is_z = c == S::D;
        in = place != ORBITS_NONE && (is_z || c < a.dim_value);
        at = head * a.count + (first ? place : ~place);
        if (!is_z) at = at * a.dim_value + c;
    }
};

template <class S> __global__ void orbits_scan_kernel(const __grid_constant__ orbits_args a)
{
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= S::SUMS) return;
    const int64_t head = blockIdx.y;
    float x = 0;
    if (a.s_in) {
        const library_place<S> p(a, head, e);
        if (p.in) x = p.is_z ? a.z_in[p.at] : a.s_in[p.at];
    }
    float *at = a.sums + head * a.segments * S::SUMS + e;
    for (int s = 0; s < a.segments; s += ORBITS_PREFETCH) {
        float sum[ORBITS_PREFETCH];
#pragma unroll
        for (int i = 0; i < ORBITS_PREFETCH; i++)
            sum[i] = s + i < a.summed ? at[(int64_t)(s + i) * S::SUMS] : 0.0f;
#pragma unroll
        for (int i = 0; i < ORBITS_PREFETCH; i++)
            if (s + i < a.segments) {
                if (a.causal) at[(int64_t)(s + i) * S::SUMS] = x;
                x += sum[i];
            }
    }
    a.total[head * S::SUMS + e] = x;
}

/* After the scan: the state that came in may be the one that goes out. */
template <class S> __global__ void orbits_scan_out_kernel(const __grid_constant__ orbits_args a)
{
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= S::SUMS) return;
    const library_place<S> p(a, blockIdx.y, e);
    if (p.in && p.first)
        (p.is_z ? a.z_out : a.s_out)[p.at] = a.total[(int64_t)blockIdx.y * S::SUMS + e];
}

/* ---- launches -------------------------------------------------------------------------------- */

template <class S> static cudaError_t run(const orbits_args &a, cudaStream_t stream)
{
    /* orbits_walk.cu and orbits_relay.cu begin with nothing, and sum on their own. */
    if ((S::X == 1 || a.relay) && a.causal && !a.summed && !a.s_in && !a.s_out) return cudaSuccess;
    constexpr int bytes = S::TEAMS * sum_memory<S>::BYTES;
    static_assert(bytes <= orbits_bytes(S::X, S::terms), "choose.cc asks for less");
    const unsigned heads = (unsigned)(a.batch * a.kv_heads),
                   teams = (unsigned)(a.summed + S::TEAMS - 1) / S::TEAMS;
    const cudaError_t e = launch_kernel(orbits_sum_kernel<S>, dim3(teams, heads),
                                        S::TEAMS * S::THREADS, bytes, stream, a);
    if (e != cudaSuccess) return e;
    const dim3 grid((S::SUMS + 255) / 256, heads);
    orbits_scan_kernel<S><<<grid, 256, 0, stream>>>(a);
    if (a.s_out) orbits_scan_out_kernel<S><<<grid, 256, 0, stream>>>(a);
    return cudaGetLastError();
}

/* f(shape) of the one that is asked for. */
template <class F> static auto with_shape(int width, int terms, const F &f)
{
    const bool cubes = terms == 4;
    if (width == 1) return cubes ? f(orbits_shape<1, 4>()) : f(orbits_shape<1, 3>());
    if (width == 2) return cubes ? f(orbits_shape<2, 4, 8>()) : f(orbits_shape<2, 3>());
    return f(orbits_shape<4, 3, 4>());
}

cudaError_t orbits_sum_run(const orbits_args &a, cudaStream_t stream)
{
    return with_shape(a.width, a.terms, [&](auto s) { return run<decltype(s)>(a, stream); });
}

int64_t orbits_numbers(int width, int terms)
{
    return with_shape(width, terms, [](auto s) { return (int64_t)s.SUMS; });
}

bool orbits_is_alone(int width, int terms)
{
    return with_shape(width, terms, [](auto s) { return s.WARPS == 1; });
}

} // namespace lnt
