/* attention/real/head.c - the sums of one kv head: cut from scratch, found in a state, copied. */
#include "attention/head.h"

#include <string.h>

head_job lnt_head_job(lnt_run *run, int64_t sequence, int64_t kvh)
{
    return (head_job){ .run = run,
                       .ker = run_kernels(run),
                       .seq = lnt_io_sequence(run->io, sequence),
                       .sequence = sequence,
                       .kvh = kvh,
                       .decay = run->p->decay ? run->p->decay[kvh] : 1 };
}

head_sums lnt_sums_take(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_problem_width(p), mp = pad((size_t)p->dim_value);
    head_sums sums = { .s = take(arena, D, mp), .z = take(arena, 1, pad(D)) };
    if (!p->compensated) return sums;
    sums.low_s = take(arena, D, mp);
    sums.low_z = take(arena, 1, pad(D));
    return sums;
}

static real *part(const lnt_state *state, int i, int64_t b, int64_t h)
{
    const lnt_tensor *t = lnt_state_part(state, i);
    return t->data ? (real *)lnt_tensor_row(t, b, h, 0) : NULL;
}

head_sums lnt_sums_of(const lnt_state *state, int64_t b, int64_t h)
{
    if (!state) return (head_sums){ .s = NULL };
    return (head_sums){ .s = part(state, LNT_STATE_S, b, h),
                        .z = part(state, LNT_STATE_Z, b, h),
                        .low_s = part(state, LNT_STATE_LOW_S, b, h),
                        .low_z = part(state, LNT_STATE_LOW_Z, b, h) };
}

static void copy_or_clear(real *dst, const real *src, size_t count)
{
    if (!dst) return;
    if (src)
        memcpy(dst, src, count * sizeof(real));
    else
        memset(dst, 0, count * sizeof(real));
}

void lnt_sums_copy(head_sums dst, head_sums src, size_t s_count, size_t z_count)
{
    if (dst.s == src.s) return;
    copy_or_clear(dst.s, src.s, s_count);
    copy_or_clear(dst.z, src.z, z_count);
    copy_or_clear(dst.low_s, src.low_s, s_count);
    copy_or_clear(dst.low_z, src.low_z, z_count);
}
