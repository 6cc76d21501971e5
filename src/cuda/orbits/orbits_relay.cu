/* cuda/orbits/orbits_relay.cu - causal Taylor attention of four terms where d is 16 (orbits_basis.h), on
 * compute capability 9.0:
 *
 *     y_i = ( phi(q_i) S + sum_j w(q_i.k_j) [v_j, 1] ) -> numerator / denominator
 *
 * Two blocks, a cluster, walk a run of tokens in chunks of 128, and each has half of the monomials.
 * Eight of a block's warps keep its half of S, the state before the chunk, in their accumulators,
 * four orbits each: they leave it in shared memory as bf16, times the coefficients, and add the
 * chunk's keys.  The other eight answer meanwhile, 16 queries a warp, up to two chunks behind:
 * phi(q) S of the block's half.  Of half of the queries, one warpgroup's, the block gets the other
 * block's part, adds the keys of the chunk one by one up to the query's own, and writes y; those of
 * the other half it sends.  Which half is the one and which the other changes with every chunk. See
 * docs/gpu-kernels.md */
#include "cuda/orbits/orbits_relay_answer.cuh"
#include "cuda/orbits/orbits_relay_keep.cuh"

namespace lnt
{

__global__ void __launch_bounds__(RELAY_KEEPERS + RELAY_READERS, 1)
    orbits_relay_kernel(const __grid_constant__ orbits_args a)
{
#if LNT_WARPGROUPS
    using S = relay_shape;
    extern __shared__ __align__(128) char shared[];
    const int64_t head = blockIdx.y;
    const orbits_sequence n(a, head);
    const relay_run run(a, n);
    const int rank = (int)(blockIdx.x % RELAY_BLOCKS),
              warp = __shfl_sync(~0u, (int)(threadIdx.x / 32u), 0);
    if (rank == 0 && run.segment == 0 && n.past < 0 && threadIdx.x < S::THREADS)
        clear_rows<S>(a, head, (int)threadIdx.x);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) barrier_init(relay_barrier(shared, RELAY_MAIL + i), 1);
        warps_begin(RELAY_ALONE, RELAY_KEEPERS);
        for (int i = 0; i < 4; i++)
            warps_begin(RELAY_THERE + i, RELAY_BOTH), warps_begin(RELAY_USED + i, RELAY_BOTH);
        barrier_publish();
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    if (warp < RELAY_KEEPERS / 32) {
        registers_up<144>();
        keep_state(a, n, run, head, rank, warp, shared);
    } else {
        registers_down<112>();
        if (rank)
            answer<1>(a, n, run, warp - RELAY_KEEPERS / 32, shared);
        else
            answer<0>(a, n, run, warp - RELAY_KEEPERS / 32, shared);
    }
#else
    (void)a;
#endif
}

cudaError_t orbits_relay_run(const orbits_args &a, cudaStream_t stream)
{
    const cudaError_t e =
        cudaFuncSetAttribute((const void *)orbits_relay_kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, relay_memory::BYTES);
    if (e != cudaSuccess || !a.segments) return e;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { RELAY_BLOCKS, 1, 1 };
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)((a.segments + a.walk - 1) / a.walk * RELAY_BLOCKS),
                          (unsigned)(a.batch * a.kv_heads));
    launch.blockDim = dim3(RELAY_KEEPERS + RELAY_READERS);
    launch.dynamicSmemBytes = relay_memory::BYTES, launch.stream = stream;
    launch.attrs = &cluster, launch.numAttrs = 1;
    return cudaLaunchKernelEx(&launch, orbits_relay_kernel, a);
}

} // namespace lnt
