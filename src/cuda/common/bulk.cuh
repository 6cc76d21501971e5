/* cuda/common/bulk.cuh - what compute capability 9.0 has and others have not: barriers in shared memory
 * that count arrivals and bytes, boxes of a tensor copied by the copy engine, and products of
 * warpgroups of rows of 128 bytes as that engine lays them down.
 *
 * A box of 64 rows of 64 bf16 lies in 8 KB, at a multiple of 1024 bytes: row r at 128 r, its piece
 * c of 16 bytes at 16 (c ^ r % 8).  Products read it either way: with the rows' elements as the
 * inner dimension, or with the rows.  Elsewhere than on sm_90a nothing here is compiled. */
#ifndef LNT_CUDA_BULK_CUH
#define LNT_CUDA_BULK_CUH

#include <cuda.h>

#include "cuda/common/product.cuh"

namespace lnt
{

enum { BOX_ROWS = 64, BOX_WIDTH = 64, BOX_BYTES = BOX_ROWS * BOX_WIDTH * 2 };

/* A view [batch, heads, length, width] as the copy engine wants it described, in boxes of so many
 * rows of 64: false where it cannot be.  What lies outside the tensor is read as 0, and not
 * written; a box to write must not begin before it. */
bool bulk_describe(CUtensorMap *map, const view &x, int64_t batch, int64_t heads, int64_t length,
                   int64_t width, int rows = BOX_ROWS);

#if LNT_WARPGROUPS

/* Registers of the threads of a warpgroup, of those the block was launched with. */
template <int n> __device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n> __device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

/* ---- barriers -------------------------------------------------------------------------------- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* The barriers set up are seen by the copy engine. */
__device__ __forceinline__ void barrier_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Which lanes of a warp that has come together arrive: the first, for what all have read or
 * written. racecheck counts an arrival for the lane that makes it, so for it all do; a barrier of n
 * warps is set up for n WARP_ARRIVES. */
#ifdef LNT_RACECHECK
enum { WARP_ARRIVES = 32 };
__device__ __forceinline__ bool warp_arrives(int) { return true; }
#else
enum { WARP_ARRIVES = 1 };
__device__ __forceinline__ bool warp_arrives(int lane) { return lane == 0; }
#endif

/* Arrives, and so many bytes are to come. */
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Whether the use of this parity, 0 for the first, 1 for the second ..., is complete. */
__device__ __forceinline__ bool barrier_done(uint32_t barrier, int parity)
{
    uint32_t done;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

/* Until it is. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity)
{
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

/* ---- the copy engine ------------------------------------------------------------------------- */

/* For what is read or written once: first to leave the cache. */
__device__ __forceinline__ uint64_t read_once()
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/* `bytes` side by side, a multiple of 16. */
__device__ __forceinline__ void bulk_load(uint32_t to, const void *from, int bytes,
                                          uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void box_load(uint32_t to, const CUtensorMap *map, int b, int h, int row,
                                         uint32_t barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(h), "r"(b), "r"(barrier), "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void box_store(uint32_t from, const CUtensorMap *map, int b, int h,
                                          int row, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint"
                 " [%0, {%1, %2, %3, %4}], [%5], %6;" ::"l"(map),
                 "r"(0), "r"(row), "r"(h), "r"(b), "r"(from), "l"(policy)
                 : "memory");
}

/* Until shared memory that this thread stores from may be written again. */
__device__ __forceinline__ void box_store_wait()
{
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Until all it stored is there. */
__device__ __forceinline__ void box_store_finish()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Where piece c of 16 bytes of row r of a box lies. */
__device__ __forceinline__ uint32_t box_at(int row, int c)
{
    return (uint32_t)(row * 128 + ((c ^ (row & 7)) << 4));
}

__device__ __forceinline__ void load_piece(uint32_t (&x)[4], uint32_t at)
{
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void store_piece(uint32_t at, const uint32_t (&x)[4])
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x[0]), "r"(x[1]), "r"(x[2]),
                 "r"(x[3])
                 : "memory");
}

__device__ __forceinline__ void store_word(uint32_t at, uint32_t x)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}

/* ---- products of boxes ----------------------------------------------------------------------- */

/* A box at `address` as an operand, the rows' elements or the rows inside: 16 of those on are 32 or
 * 2048 bytes on. */
enum { BOX_ACROSS = 32, BOX_DOWN = 2048 };
__device__ __forceinline__ uint64_t box_operand(uint32_t address)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(1024 >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* 8 columns of 16 k, as product.cuh has them: matrices of 128 bytes, one below the other. */
__device__ __forceinline__ uint64_t column_operand(uint32_t address)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(128 >> 4) << 16 |
           (uint64_t)(128 >> 4) << 32;
}

__device__ __forceinline__ uint64_t operand_on(uint64_t operand, int bytes)
{
    return operand + (uint64_t)(bytes >> 4);
}

/* Nothing moves past here: registers of a product under way stay where they are. */
template <int n> __device__ __forceinline__ void product_hold(float (&d)[n][4])
{
#pragma unroll
    for (int i = 0; i < n; i++) asm volatile("" : LNT_SUMS(d, i)::"memory");
}

/* What a product reads of an operand: product_shows. */
template <bool down> __device__ __forceinline__ void box_shows(uint64_t operand)
{
#ifdef LNT_RACECHECK
    const uint32_t address = (uint32_t)(operand & 0x3fff) << 4, box = address & ~1023u;
    for (int row = 0; row < 8 && !down; row++)
        for (int c = 0; c < 2; c++)
            product_shows(box + box_at(row, (int)(address % 128 / 16) + c), 16, BOX_ROWS / 8, 1024);
    if (down) product_shows(address, 16 * 128);
#endif
}

__device__ __forceinline__ void column_shows(uint64_t operand)
{
    product_shows((uint32_t)(operand & 0x3fff) << 4, 256);
}

/* d [64][64] (+)= A [64][16] B [16][64]; on: else d is new.  A and B in shared memory, `down`: B's
 * rows are the inner dimension.  A's are too. */
__device__ __forceinline__ void product_down(float (&d)[8][4], uint64_t a, uint64_t b, int on)
{
    box_shows<true>(a), box_shows<true>(b);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LNT_NAMES_8
                 "}, %32, %33, p, 1, 1, 1, 1;\n}"
                 : LNT_SUMS_8(d)
                 : "l"(a), "l"(b), "r"(on));
}

/* A in registers. */
template <bool down>
__device__ __forceinline__ void product_box(float (&d)[8][4], const uint32_t *a, uint64_t b, int on)
{
    box_shows<down>(b);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LNT_NAMES_8
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                 : LNT_SUMS_8(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(on), "n"(down ? 1 : 0));
}

/* The same with 8 columns. */
__device__ __forceinline__ void product_down_columns(float (&d)[1][4], uint64_t a, uint64_t b,
                                                     int on)
{
    box_shows<true>(a), column_shows(b);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {" LNT_NAMES_1
                 "}, %4, %5, p, 1, 1, 1, 0;\n}"
                 : LNT_SUMS_1(d)
                 : "l"(a), "l"(b), "r"(on));
}

__device__ __forceinline__ void product_columns(float (&d)[1][4], const uint32_t *a, uint64_t b,
                                                int on)
{
    column_shows(b);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {" LNT_NAMES_1
                 "}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;\n}"
                 : LNT_SUMS_1(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(on));
}

/* Four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

#endif

} // namespace lnt
#endif
