/* cuda/linear/linear_pass_keep.cuh - the part of linear_pass.cu that keeps the sums: a warpgroup that
 * adds up a segment, hands the state on from block to block, and leaves the state before every chunk.
 *
 * Every sequence and head has a box in global memory, in which its state travels: the block of
 * segment i reads the state before it, adds its own sum, and writes the state before segment i + 1
 * to the same place.  16 bytes are read and written at once, and the three lowest bits of their
 * four numbers say which segment they are for: so it is known whether what was read is what was
 * waited for, without a fence or a counter, and the thread that writes a place is the one that has
 * read it.  Segments that wait at a box at once differ by less than twice the number of blocks. */
#ifndef LNT_CUDA_LINEAR_PASS_KEEP_CUH
#define LNT_CUDA_LINEAR_PASS_KEEP_CUH

#include "cuda/linear/linear_pass.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* Of the twelve bits that mark a segment those of number e.  All four are others in the next. */
__device__ __forceinline__ uint32_t mark_of(int index, int e)
{
    return (e ? index + (index >> 3 * e) : index) & 7;
}

/* A number that travels loses its three lowest bits: on average so much of itself, where numbers
 * grow evenly. */
#define LNT_BOX_LOSS 2.9e-7f

/* Four numbers at once, with the marks in place of their lowest bits. */
__device__ __forceinline__ void box_put(char *to, const float (&x)[4], int index)
{
    uint32_t y[4];
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = (__float_as_uint(x[e]) & ~7u) | mark_of(index, e);
    asm volatile("{\n.reg .b64 l, h;\n.reg .b128 x;\nmov.b64 l, {%1, %2};\nmov.b64 h, {%3, %4};\n"
                 "mov.b128 x, {l, h};\nst.relaxed.gpu.global.b128 [%0], x;\n}" ::"l"(to),
                 "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3])
                 : "memory");
}

/* As they are there, marks and all. */
__device__ __forceinline__ void box_get(float (&y)[4], const char *from)
{
    asm volatile("{\n.reg .b64 l, h;\n.reg .b128 x;\nld.relaxed.gpu.global.b128 x, [%4];\n"
                 "mov.b128 {l, h}, x;\nmov.b64 {%0, %1}, l;\nmov.b64 {%2, %3}, h;\n}"
                 : "=f"(y[0]), "=f"(y[1]), "=f"(y[2]), "=f"(y[3])
                 : "l"(from)
                 : "memory");
}

/* Whether they are for segment `index`. */
__device__ __forceinline__ bool box_is_for(const float (&y)[4], int index)
{
    uint32_t other = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) other |= __float_as_uint(y[e]) ^ mark_of(index, e);
    return (other & 7) == 0;
}

__device__ __forceinline__ float box_number(float y)
{
    return __uint_as_float(__float_as_uint(y) & ~7u);
}

__device__ __forceinline__ void store_half(uint32_t at, __nv_bfloat16 x)
{
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(__bfloat16_as_ushort(x)) : "memory");
}

/* S of 64 features and columns and z, in the accumulators of a warpgroup. */
struct pass_sum {
    float s[8][4], z[1][4];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int n = 0; n < 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
        z[0][0] = z[0][1] = z[0][2] = z[0][3] = 0;
    }
    __device__ __forceinline__ void hold()
    {
        product_hold(s);
        product_hold(z);
    }
    /* (+)= phi(k)^T [v, 1] of a slot, under way. */
    __device__ __forceinline__ void add(const pass_block &p, int slot, int on)
    {
        const uint64_t k = box_operand(p.keys(slot)), v = box_operand(p.values(slot)),
                       ones = column_operand(p.shared + AT_ONES);
        hold();
        product_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product_down(s, operand_on(k, i * BOX_DOWN), operand_on(v, i * BOX_DOWN),
                         i > 0 ? 1 : on);
            product_down_columns(z, operand_on(k, i * BOX_DOWN), ones, i > 0 ? 1 : on);
        }
        product_commit();
    }
};

/* The warps of a warpgroup wait for each other: for products they should come at once. */
template <int barrier> __device__ __forceinline__ void together()
{
    asm volatile("bar.sync %0, 128;" ::"n"(barrier) : "memory");
}

struct keep_task {
    const pass_block &p;
    int thread, lane, warp;

    /* f(number, feature, column) of all the thread has of S, g(number, feature) of z; of those
     * that are there. */
    template <class F, class G>
    __device__ __forceinline__ void each(pass_sum &x, const F &f, const G &g) const
    {
        const linear_args &l = p.a.l;
        const int row = warp * 16 + lane / 4;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int feature = row + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
                if (feature < l.dim && column < l.dim_value) f(x.s[n][e], feature, column);
            }
#pragma unroll
        for (int u = 0; u < 2; u++)
            if (lane % 4 == 0 && row + 8 * u < l.dim) g(x.z[0][2 * u], row + 8 * u);
    }
    __device__ __forceinline__ char *box(const pass_walk &w) const
    {
        return p.a.boxes + (int64_t)w.head * PASS_BOX_BYTES + thread * 16;
    }
    __device__ __forceinline__ char *box_of_z(const pass_walk &w) const
    {
        return p.a.boxes + (int64_t)w.head * PASS_BOX_BYTES + 64 * 64 * 4 +
               (warp * 8 + lane / 4) * 16;
    }

    /* The state before the first segment, and what it is with the segment's own sum. */
    __device__ __forceinline__ void begin(const pass_walk &w, pass_sum &x, pass_sum &sum) const
    {
        const linear_args &l = p.a.l;
        if (l.s_in)
            each(
                x,
                [&](float &number, int feature, int column) {
                    number = l.s_in[((int64_t)w.head * l.dim + feature) * l.dim_value + column];
                },
                [&](float &number, int feature) { number = l.z_in[w.head * l.dim + feature]; });
#pragma unroll
        for (int n = 0; n < 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) sum.s[n][e] += x.s[n][e];
            if (!w.last) box_put(box(w) + n * 2048, sum.s[n], w.index + 1);
        }
        sum.z[0][0] += x.z[0][0], sum.z[0][2] += x.z[0][2];
        hand_on_z(w, sum);
    }
    __device__ __forceinline__ void hand_on_z(const pass_walk &w, const pass_sum &sum) const
    {
        const float two[4] = { sum.z[0][0], sum.z[0][2], 0, 0 };
        if (!w.last && lane % 4 == 0) box_put(box_of_z(w), two, w.index + 1);
    }
    /* The state before a segment, from its box, and back with the segment's sum: each 16 bytes on
     * their own as soon as the warp has them, as the next block waits for them.  While it is not
     * even the turn of the segment before, only the first of them are looked at. */
    __device__ __forceinline__ void receive(const pass_walk &w, pass_sum &x, pass_sum &sum) const
    {
        do {
            box_get(x.s[0], box(w));
        } while (!__all_sync(~0u, box_is_for(x.s[0], w.index) || box_is_for(x.s[0], w.index - 1)));
        float two[4];
        for (int taken = 0; taken < 9;) {
#pragma unroll
            for (int n = 0; n < 8; n++)
                if (taken <= n) box_get(x.s[n], box(w) + n * 2048);
            if (lane % 4 == 0) box_get(two, box_of_z(w));
#pragma unroll
            for (int n = 0; n < 9; n++) {
                const bool here = n < 8 ? box_is_for(x.s[n % 8], w.index)
                                        : lane % 4 != 0 || box_is_for(two, w.index);
                if (taken != n || !__all_sync(~0u, here)) continue;
                taken = n + 1;
                if (n < 8) {
#pragma unroll
                    for (int e = 0; e < 4; e++) x.s[n][e] = box_number(x.s[n][e]);
                    add(x.s[n], sum.s[n]);
                    if (!w.last) box_put(box(w) + n * 2048, sum.s[n], w.index + 1);
                } else {
                    if (lane % 4 == 0)
                        x.z[0][0] = box_number(two[0]), x.z[0][2] = box_number(two[1]);
                    add(x.z[0], sum.z[0]);
                    hand_on_z(w, sum);
                }
            }
        }
    }
    static __device__ __forceinline__ void add(const float (&x)[4], float (&sum)[4])
    {
#pragma unroll
        for (int e = 0; e < 4; e++) sum[e] += fmaf(x[e], LNT_BOX_LOSS, x[e]);
    }
    /* The state before a segment to x; that after it, where sum has what the segment adds, to sum,
     * and to the next block or out. */
    __device__ __forceinline__ void exchange(const pass_walk &w, pass_sum &x, pass_sum &sum) const
    {
        const linear_args &l = p.a.l;
        x.clear();
        if (w.index == 0)
            begin(w, x, sum);
        else
            receive(w, x, sum);
        if (w.last && l.s_out)
            each(
                sum,
                [&](float &number, int feature, int column) {
                    l.s_out[((int64_t)w.head * l.dim + feature) * l.dim_value + column] = number;
                },
                [&](float &number, int feature) { l.z_out[w.head * l.dim + feature] = number; });
    }

    /* The state before chunk n as bf16, z as the sum of two, for those who answer. */
    __device__ __forceinline__ void publish(int n, const pass_sum &x) const
    {
        const int buffer = buffer_of(n), turn = turn_of(n);
        if (turn > 0) barrier_wait(p.barrier(DONE + buffer), (turn - 1) & 1);
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const uint32_t four[4] = { pack(x.s[i][0], x.s[i][1]), pack(x.s[i][2], x.s[i][3]),
                                       pack(x.s[i + 1][0], x.s[i + 1][1]),
                                       pack(x.s[i + 1][2], x.s[i + 1][3]) };
            store_matrices(p.state(buffer) + box_at(warp * 16 + lane % 16, i + lane / 16), four);
        }
        if (lane % 4 == 0)
#pragma unroll
            for (int u = 0; u < 2; u++) { /* higher parts in column 0, lower in column 1 */
                const uint32_t at = p.z(buffer) + (warp * 2 + u) * 128 + lane / 4 * 2;
                const __nv_bfloat16 high = __float2bfloat16_rn(x.z[0][2 * u]);
                store_half(at, high);
                store_half(at + 16, __float2bfloat16_rn(x.z[0][2 * u] - __bfloat162float(high)));
            }
        product_publish();
        __syncwarp();
        if (warp_arrives(lane)) barrier_arrive(p.barrier(READY + buffer));
    }

    /* Chunk by chunk a segment whose state is known, and beside it the sum of the next one: the
     * last chunks of both together.  Both products are made in every turn, as the compiler would
     * not let them run at once otherwise; those that mean nothing go where nobody looks: into a
     * state past its last chunk, or a sum before its first. */
    __device__ __forceinline__ void run() const
    {
        pass_walk now(p), later(p);
        pass_sum state, sum;
        state.clear();
        sum.clear();
        for (int count = 0;; count = now.count) { /* of the segment whose state is known */
            const int turns = max(count, later.count);
            for (int c = 0; c < turns; c++) {
                const int d = c - (turns - later.count);
                const bool keeps = c < count, sums = d >= 0;
                const int n = keeps ? now.chunk + c : later.chunk + d,
                          m = sums ? later.chunk + d : n;
                if (keeps) publish(n, state);
                if (sums) barrier_wait(p.barrier(MAPPED + slot_of(m)), use_of(m) & 1);
                state.add(p, slot_of(n), 1);
                sum.add(p, slot_of(m), d > 0);
                product_wait<0>();
                state.hold();
                sum.hold();
                if (keeps && warp_arrives(lane)) barrier_arrive(p.barrier(EMPTY + slot_of(n)));
            }
            if (!later.live) return;
            if (later.count == 0) sum.clear();
            if (later.number > now.number) now.next();
            later.next(); /* before the wait, as all wait for what comes after it */
            exchange(now, state, sum);
            together<2>();
        }
    }
};

#endif

} // namespace lnt
#endif
