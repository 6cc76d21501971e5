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

real *lnt_head_rows(const head_job *job, const lnt_tensor *t)
{
    return t->data ? (real *)lnt_tensor_row(t, job->sequence, job->kvh, 0) : NULL;
}

head_sums lnt_sums_of(const head_job *job, const lnt_state *state)
{
    if (!state) return (head_sums){ .s = NULL };
    const lnt_tensor *t = lnt_state_parts(state);
    return (head_sums){ .s = lnt_head_rows(job, &t[LNT_STATE_S]),
                        .z = lnt_head_rows(job, &t[LNT_STATE_Z]),
                        .low_s = lnt_head_rows(job, &t[LNT_STATE_LOW_S]),
                        .low_z = lnt_head_rows(job, &t[LNT_STATE_LOW_Z]) };
}

static void copy_or_clear(real *dst, const real *src, size_t count)
{
    if (dst && src) memcpy(dst, src, count * sizeof(real));
    else if (dst) memset(dst, 0, count * sizeof(real));
}

void lnt_sums_copy(const head_job *job, head_sums dst, head_sums src)
{
    const lnt_attn_desc *p = job->run->p;
    if (dst.s == src.s) return;
    const size_t D = (size_t)lnt_problem_width(p), s_count = D * pad((size_t)p->dim_value), z_count = pad(D);
    copy_or_clear(dst.s, src.s, s_count);
    copy_or_clear(dst.z, src.z, z_count);
    copy_or_clear(dst.low_s, src.low_s, s_count);
    copy_or_clear(dst.low_z, src.low_z, z_count);
}

head_sums lnt_sums_before(const head_job *job, head_sums own, bool kept)
{
    const lnt_attn_io *io = job->run->io;
    const bool there = kept && io->state_out;
    const head_sums sums = there ? lnt_sums_of(job, io->state_out) : own;
    if (!there || io->state_in != io->state_out) lnt_sums_copy(job, sums, lnt_sums_of(job, io->state_in));
    return sums;
}
