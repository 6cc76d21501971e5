/* cuda/linear_exchange.cuh - the parts of linear_pass.cu between blocks: the sums of a wave become
 * the states before its segments. */
#ifndef LNT_CUDA_LINEAR_EXCHANGE_CUH
#define LNT_CUDA_LINEAR_EXCHANGE_CUH

#include "cuda/linear_pass.cuh"

namespace lnt
{

#if LNT_WARPGROUPS

/* ---- scan ------------------------------------------------------------------------------------ */

__device__ __forceinline__ void scan_sync()
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)PASS_SCAN_THREADS) : "memory");
}

/* Feature and column of number e of place f (of 1024) in a sum. */
__device__ __forceinline__ int sum_feature(int f, int e)
{
    return f % 128 / 32 * 16 + f % 32 / 4 + e / 2 * 8;
}
__device__ __forceinline__ int sum_column(int f, int e) { return f / 128 * 8 + f % 4 * 2 + e % 2; }

struct scan_task {
    const pass_block &p;
    enum { AHEAD = 4 };

    __device__ __forceinline__ float4 *total() const
    {
        return (float4 *)(p.a.totals + (int64_t)p.team * PASS_SUM);
    }
    __device__ __forceinline__ int64_t place(const pass_wave &w, int f, int e) const
    {
        const int feature = sum_feature(f, e), column = sum_column(f, e);
        const linear_args &l = p.a.l;
        return feature < l.dim && column < l.dim_value
                   ? ((int64_t)w.head * l.dim + feature) * l.dim_value + column
                   : -1;
    }
    __device__ __forceinline__ float4 begin(const pass_wave &w, int f) const
    {
        if (!w.first) return total()[f];
        float x[4] = {};
        if (p.a.l.s_in)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (place(w, f, e) >= 0) x[e] = p.a.l.s_in[place(w, f, e)];
        return make_float4(x[0], x[1], x[2], x[3]);
    }
    __device__ __forceinline__ void end(const pass_wave &w, int f, float4 x) const
    {
        total()[f] = x;
        if (!w.last || !p.a.l.s_out) return;
        const float four[4] = { x.x, x.y, x.z, x.w };
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (place(w, f, e) >= 0) p.a.l.s_out[place(w, f, e)] = four[e];
    }

    /* Places f and f + 64 of S (of those before `to`), for all members. */
    __device__ __forceinline__ void places(const pass_wave &w, int f, int to) const
    {
        const bool two = f + PASS_SCAN_THREADS < to;
        const int next = two ? (int)PASS_SCAN_THREADS : 0;
        float4 x0 = begin(w, f), x1 = begin(w, f + next);
        for (int m0 = 0; m0 < w.members; m0 += AHEAD) {
            const float4 *from = (const float4 *)p.sum(w.wave, m0) + f;
            char *state = p.state(w.wave, m0) + f * 8;
            float4 y0[AHEAD], y1[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (m0 + i < w.members) {
                    y0[i] = __ldcg(from + i * (PASS_SUM / 4));
                    y1[i] = __ldcg(from + i * (PASS_SUM / 4) + next);
                }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (m0 + i < w.members) {
                    put(state + i * PASS_STATE_BYTES, x0), x0 = plus(x0, y0[i]);
                    if (two) put(state + i * PASS_STATE_BYTES + PASS_SCAN_THREADS * 8, x1);
                    x1 = plus(x1, y1[i]);
                }
        }
        end(w, f, x0);
        if (two) end(w, f + next, x1);
    }
    static __device__ __forceinline__ float4 plus(float4 a, float4 b)
    {
        return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    static __device__ __forceinline__ void put(char *to, float4 x)
    {
        __stcg((uint2 *)to, make_uint2(pack(x.x, x.y), pack(x.z, x.w)));
    }

    __device__ __forceinline__ float z_of(const pass_wave &w, int member, int f) const
    {
        return member < w.members ? __ldcg(p.sum(w.wave, member) + 64 * 64 + f) : 0.0f;
    }
    /* Place f of z; y has the numbers of the first members. */
    __device__ __forceinline__ void place_of_z(const pass_wave &w, int f, float (&y)[AHEAD]) const
    {
        const linear_args &l = p.a.l;
        float *total = p.a.totals + (int64_t)p.team * PASS_SUM + 64 * 64 + f, x = 0;
        if (!w.first)
            x = *total;
        else if (l.z_in && f < l.dim)
            x = l.z_in[w.head * l.dim + f];
        for (int m0 = 0; m0 < w.members; m0 += AHEAD) {
            if (m0 > 0)
#pragma unroll
                for (int i = 0; i < AHEAD; i++) y[i] = z_of(w, m0 + i, f);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (m0 + i < w.members) {
                    const float high = __bfloat162float(__float2bfloat16_rn(x));
                    __stcg((uint32_t *)(p.state(w.wave, m0 + i) + 64 * 64 * 2) + f,
                           pack(high, x - high));
                    x += y[i];
                }
        }
        *total = x;
        if (w.last && l.z_out && f < l.dim) l.z_out[w.head * l.dim + f] = x;
    }

    __device__ __forceinline__ void run(int thread) const
    {
        const int T = p.a.team_size;
        for_waves(p, [&](const pass_wave &w) {
            if (thread == 0) count_wait(p.counter(0, w.wave), (w.wave / 2 + 1) * (unsigned)T);
            scan_sync();
            const int to = (p.r + 1) * 1024 / T, z = p.r * 64 / T + thread,
                      z_to = (p.r + 1) * 64 / T;
            float y[AHEAD];
            if (z < z_to)
#pragma unroll
                for (int i = 0; i < AHEAD; i++) y[i] = z_of(w, i, z);
            for (int f = p.r * 1024 / T + thread; f < to; f += 2 * PASS_SCAN_THREADS)
                places(w, f, to);
            if (z < z_to) place_of_z(w, z, y);
            scan_sync();
            if (thread == 0) count_up(p.counter(1, w.wave));
        });
    }
};

/* ---- take ------------------------------------------------------------------------------------ */

struct take_task {
    const pass_block &p;

    __device__ __forceinline__ void take(const pass_wave &w, int lane) const
    {
        const char *from = p.state(w.wave, p.r);
        uint2 x[8][4];
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int h = 0; h < 4; h++)
                x[n][h] = __ldcg((const uint2 *)from + n * 128 + lane + 32 * h);
        uint2 z = __ldcg((const uint2 *)(from + 64 * 64 * 2) + lane);
        if (w.segment > 0) barrier_wait(p.barrier(DONE), (w.segment - 1) & 1);
#pragma unroll
        for (int h = 0; h < 4; h++) {
            const int row = sum_feature(lane + 32 * h, 0);
            const uint32_t at = p.shared + AT_STATE + lane % 4 * 4;
#pragma unroll
            for (int n = 0; n < 8; n++) {
                store_word(at + box_at(row, n), x[n][h].x);
                store_word(at + box_at(row + 8, n), x[n][h].y);
            }
        }
        /* Features 2 lane and the next: the higher parts in column 0, the lower in column 1. */
        const uint32_t at = p.shared + AT_Z + lane / 4 * 128 + lane % 4 * 4;
        store_word(at, __byte_perm(z.x, z.y, 0x5410));
        store_word(at + 16, __byte_perm(z.x, z.y, 0x7632));
        product_publish();
        __syncwarp();
        if (lane == 0) barrier_arrive(p.barrier(READY));
    }
    __device__ __forceinline__ void run(int lane) const
    {
        for_waves(p, [&](const pass_wave &w) {
            if (lane == 0) {
                count_wait(p.counter(1, w.wave), (w.wave / 2 + 1) * (unsigned)p.a.team_size);
                barrier_arrive(p.barrier(SCANNED + (w.wave & 1)));
            }
            __syncwarp();
            if (w.present) take(w, lane);
            __syncwarp();
            if (lane == 0) barrier_arrive(p.barrier(TAKEN + (w.wave & 1)));
        });
    }
};

#endif

} // namespace lnt
#endif
