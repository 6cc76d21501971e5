/* cuda/common/product.cuh - 16 x 16 by 16 x 8 N8 on the tensor cores, A and the sums in registers, B in
 * shared memory.  On sm_90a by warpgroups (wgmma: 4 warps, each with its own 16 rows of A,
 * asynchronous and the faster by half); elsewhere by each warp alone (mma.sync).  Both take B as
 * matrices of 8 columns x 8 rows, 128 bytes each: column by column, 8 bf16 down the column.
 *
 *     operand_at(b, down, across)          B at b; bytes from a matrix to the one below, and beside
 *     product_begin()                      registers written before are seen
 *     product<N8>(d, a, b)                 d += a b
 *     product_turned(d, a, b)              the same where the matrices are row by row; N8 = 3, and
 *                                          by warpgroups alone
 *     product_commit()                     a group is complete
 *     product_wait<n>()                    all but the last n groups are done
 *
 * All warps of a warpgroup must come here together; a and d may be read and written again only
 * after the wait. */
#ifndef LNT_CUDA_PRODUCT_CUH
#define LNT_CUDA_PRODUCT_CUH

#include "cuda/common/device.cuh"
#include "cuda/common/sums.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LNT_WARPGROUPS 1
#else
#define LNT_WARPGROUPS 0
#endif

namespace lnt
{

__device__ __forceinline__ void product_begin()
{
#if LNT_WARPGROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void product_commit()
{
#if LNT_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

template <int left> __device__ __forceinline__ void product_wait()
{
#if LNT_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
#endif
}

/* What this thread copied to shared memory is seen by products after the next barrier. */
__device__ __forceinline__ void product_publish()
{
#if LNT_WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if LNT_WARPGROUPS

/* Shared memory as wgmma wants it described, without swizzle; the address is in the low word. */
struct operand {
    uint32_t low, high;
};

__device__ __forceinline__ operand operand_plus(const operand &b, uint32_t bytes)
{
    return { b.low + (bytes >> 4), b.high };
}

/* Computed by here: a product under way keeps the compiler from computing it later. */
__device__ __forceinline__ void operand_pin(operand &b)
{
    asm volatile("" : "+r"(b.low), "+r"(b.high));
}

__device__ __forceinline__ operand operand_at(const char *b, int down, int across)
{
    return { (shared_address(b) >> 4 & 0x3fff) | (uint32_t)(down >> 4) << 16,
             (uint32_t)(across >> 4) };
}

/* compute-sanitizer does not see what wgmma reads: for racecheck the lanes read it too, `count`
 * times `bytes`, `on` bytes apart. */
__device__ __forceinline__ void product_shows(uint32_t address, int bytes, int count = 1,
                                              uint32_t on = 0)
{
#ifdef LNT_RACECHECK
    extern __shared__ char own[];
    uint32_t all = 0;
    address |= shared_address(own) & ~0x3ffffu; /* which block of a cluster; wgmma knows that */
#pragma unroll 1
    for (int n = 0; n < count; n++)
#pragma unroll 1
        for (int i = (int)threadIdx.x % 32 * 4; i < bytes; i += 128) {
            uint32_t x;
            asm volatile("ld.shared.b32 %0, [%1];"
                         : "=r"(x)
                         : "r"(address + n * on + i)
                         : "memory");
            all ^= x;
        }
    __syncwarp();
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0x9e3779b9;\n@p pmevent 1;\n}" ::"r"(
        all)); /* used, or it would not be read */
#endif
}

/* N8 columns of an operand. */
template <int N8> __device__ __forceinline__ void product_shows(const operand &b)
{
#ifdef LNT_RACECHECK
    const uint32_t address = (b.low & 0x3fff) << 4, across = b.high << 4;
    product_shows(address, 128, N8, across);
    product_shows(address + (b.low >> 16 << 4), 128, N8, across);
#endif
}

template <int N8> struct warpgroup_product;

#define LNT_PRODUCT(blocks, columns, a0, a1, a2, a3, operand)                                      \
    template <> struct warpgroup_product<blocks> {                                                 \
        static __device__ __forceinline__ void add(float (&d)[blocks][4], const uint32_t (&a)[4],  \
                                                   uint64_t b)                                     \
        {                                                                                          \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns                              \
                         "k16.f32.bf16.bf16 {" LNT_NAMES_##blocks                                  \
                         "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #operand ", 1, 1, 1, 0;" \
                         : LNT_SUMS_##blocks(d)                                                    \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                    \
        }                                                                                          \
    };
LNT_PRODUCT(2, 16, 8, 9, 10, 11, 12)
LNT_PRODUCT(3, 24, 12, 13, 14, 15, 16)
LNT_PRODUCT(4, 32, 16, 17, 18, 19, 20)
LNT_PRODUCT(5, 40, 20, 21, 22, 23, 24)
LNT_PRODUCT(8, 64, 32, 33, 34, 35, 36)
LNT_PRODUCT(9, 72, 36, 37, 38, 39, 40)
LNT_PRODUCT(16, 128, 64, 65, 66, 67, 68)
LNT_PRODUCT(17, 136, 68, 69, 70, 71, 72)
#undef LNT_PRODUCT

template <int N8>
__device__ __forceinline__ void product(float (&d)[N8][4], const uint32_t (&a)[4], const operand &b)
{
    product_shows<N8>(b);
    warpgroup_product<N8>::add(d, a, (uint64_t)b.high << 32 | b.low);
}

__device__ __forceinline__ void product_turned(float (&d)[3][4], const uint32_t (&a)[4],
                                               const operand &b)
{
    product_shows<3>(b);
    asm volatile("wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 {" LNT_NAMES_3
                 "}, {%12, %13, %14, %15}, %16, 1, 1, 1, 1;"
                 : LNT_SUMS_3(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"((uint64_t)b.high << 32 | b.low));
}

/* 56 columns; on: else d is new. */
__device__ __forceinline__ void product_turned(float (&d)[7][4], const uint32_t (&a)[4],
                                               const operand &b, int on)
{
    product_shows<7>(b);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %33, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n56k16.f32.bf16.bf16 {" LNT_NAMES_7
                 "}, {%28, %29, %30, %31}, %32, p, 1, 1, 1; }"
                 : LNT_SUMS_7(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"((uint64_t)b.high << 32 | b.low),
                   "r"(on));
}

#else

struct operand {
    const char *own;
    int down, across;
};

__device__ __forceinline__ operand operand_at(const char *b, int down, int across)
{
    return { b + threadIdx.x % 32 * 4, down, across };
}

__device__ __forceinline__ operand operand_plus(const operand &b, uint32_t bytes)
{
    return { b.own + bytes, b.down, b.across };
}

__device__ __forceinline__ void operand_pin(operand &) {}

template <int N8>
__device__ __forceinline__ void product(float (&d)[N8][4], const uint32_t (&a)[4], const operand &b)
{
#pragma unroll
    for (int n = 0; n < N8; n++)
        mma16(d[n], a, *(const uint32_t *)(b.own + n * b.across),
              *(const uint32_t *)(b.own + n * b.across + b.down));
}

#endif

} // namespace lnt
#endif
