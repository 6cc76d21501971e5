/* attention/linear/real/linear_chunk.c - the steps of the chunked form; see linear_chunk.h.
 *
 * Inside a chunk the masked quadratic form, across chunks the state:
 *
 *     o_i = decay^(i+1) phi(q_i) S + sum_{j<=i} decay^(i-j) (phi(q_i).phi(k_j)) v_j
 *
 * S changes once per chunk, so its sums are n/C long and lose few digits. */
#include "attention/linear/linear_chunk.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { BLOCK = 8 }; /* rows of the triangle that are taken together */

/* A chunk of C costs C (D + m) more per token inside, and saves passes over S and roundings of it:
 * an eighth of the state's own work is a good trade. */
int64_t lnt_chunk_length(const lnt_attn_desc *p)
{
    const double D = (double)lnt_problem_width(p), m = (double)p->dim_value;
    const double eighth = D * m / (D + m) / 2;
    return eighth < 32 ? 16 : eighth < 64 ? 32 : 64;
}

chunk_scratch lnt_chunk_take(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t C = (size_t)lnt_chunk_length(p), D = (size_t)lnt_problem_width(p),
                 m = (size_t)p->dim_value;
    chunk_scratch c = { .C = C, .Cp = pad(C), .D = D, .m = m, .Dp = pad(D), .mp = pad(m) };
    c.sums = lnt_sums_take(arena, p);
    c.k = take(arena, C, c.Dp);
    c.v_own = take(arena, C, c.mp);
    c.qt = take(arena, D, c.Cp);
    c.pt = take(arena, C, c.Cp);
    c.o = take(arena, C, c.mp);
    c.den = take(arena, 1, c.Cp);
    c.inverse = take(arena, 1, c.Cp);
    c.power = take(arena, 1, C + 1);
    c.aging = take(arena, 1, C);
    c.ones = take(arena, 1, C);
    c.added_s = take(arena, p->compensated ? D : 0, c.mp);
    c.added_z = take(arena, p->compensated ? 1 : 0, c.Dp);
    c.feature = lnt_feature_tile_take(arena, p, C);
    if (!p->backward) return c;
    c.grad = (head_sums){ .s = take(arena, D, c.mp), .z = take(arena, 1, c.Dp) };
    c.dn = take(arena, C, c.mp);
    c.dnt = take(arena, m, c.Cp);
    c.dden = take(arena, 1, c.Cp);
    c.vt = take(arena, m, c.Cp);
    c.dv = take(arena, C, c.mp);
    c.dphi = take(arena, D, c.Cp);
    return c;
}

chunk_scratch lnt_chunk_open_in(lnt_arena *arena, const head_job *job)
{
    chunk_scratch c = lnt_chunk_take(arena, job->run->p);
    for (size_t i = 0; i <= c.C; i++)
        c.power[i] = job->decay == 1 ? 1 : (real)pow(job->decay, (double)i);
    for (size_t i = 0; i < c.C; i++) c.aging[i] = c.power[c.C - 1 - i], c.ones[i] = 1;
    return c;
}

chunk_scratch lnt_chunk_open(const head_job *job)
{
    const lnt_run *run = job->run;
    lnt_arena arena = run_arena(run, omp_get_thread_num());
    return lnt_chunk_open_in(&arena, job);
}

size_t lnt_chunk_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    lnt_chunk_take(&counting, p);
    return lnt_arena_counted(&counting);
}

void lnt_chunk_load_keys(const head_job *job, chunk_scratch *c, int64_t t, size_t n)
{
    const lnt_run *run = job->run;
    const int64_t row = job->seq.k0 + t;
    lnt_feature_rows_of(run, &c->feature, &run->io->k, job->seq.b, job->kvh, row, n, c->k, c->Dp);
    const lnt_tensor *v = &run->io->v;
    c->ldv = c->mp;
    if (run->sign > 0 && !(job->decay < 1)) { /* as it is */
        c->v = read_rows(job->ker, c->v_own, &c->ldv, v, job->seq.b, job->kvh, row, n);
        return;
    }
    load_rows(job->ker, c->v_own, c->mp, v, job->seq.b, job->kvh, row, n, run->sign);
    c->v = c->v_own;
}

/* x + low, compensated, times `left`; what nearly all of x loses is added to added. */
static void fade_compensated(const kernels *ker, real *x, real *low, real *added, double left,
                             size_t n)
{
    ker->scale(low, (real)left, n);
    if (is_nearly_all(left)) ker->axpy(added, (real)(left - 1), x, n);
    else ker->scale(x, (real)left, n);
}

/* What is remembered, and what is about to be, gets n tokens older. */
static void age(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    const real *aging = c->aging + c->C - n;
    const double left = pow(job->decay, (double)n);
    if (c->sums.low_s) {
        fade_compensated(ker, c->sums.s, c->sums.low_s, c->added_s, left, c->D * c->mp);
        fade_compensated(ker, c->sums.z, c->sums.low_z, c->added_z, left, c->D);
    } else {
        fade_numbers(ker, c->sums.s, left, c->D * c->mp);
        fade_numbers(ker, c->sums.z, left, c->D);
    }
    for (size_t j = 0; j < n; j++) ker->scale(c->v_own + j * c->mp, aging[j], c->m);
}

/* s [D, mp] and z [D] += sum_j phi(k_j) [v_j, decay^(n-1-j)]; the values carry sign and age. */
static void add_keys(const head_job *job, const chunk_scratch *c, size_t n, real *s, real *z)
{
    const kernels *ker = job->ker;
    const real *aging = c->aging + c->C - n;
    if (job->run->sign < 0)
        for (size_t j = 0; j < n; j++) ker->axpy(z, -aging[j], c->k + j * c->Dp, c->D);
    else
        ker->gemm_nn(z, c->Dp, aging, n, c->k, c->Dp, 1, lnt_round_up(c->D, ker->lanes), n, 1);
    ker->gemm_tn(s, c->mp, c->k, c->Dp, c->v, c->ldv, c->D, lnt_round_up(c->m, ker->lanes), n, 1);
}

void lnt_chunk_absorb(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    if (c->sums.low_s) {
        memset(c->added_s, 0, c->D * c->mp * sizeof(real));
        memset(c->added_z, 0, c->Dp * sizeof(real));
    }
    if (job->decay < 1) age(job, c, n);
    if (!c->sums.low_s) {
        add_keys(job, c, n, c->sums.s, c->sums.z);
        return;
    }
    add_keys(job, c, n, c->added_s, c->added_z);
    ker->add_compensated(c->sums.s, c->sums.low_s, c->mp, c->added_s, c->mp, c->D, c->m);
    ker->add_compensated(c->sums.z, c->sums.low_z, c->Dp, c->added_z, c->Dp, 1, c->D);
}

void lnt_chunk_add_alone(const head_job *job, chunk_scratch *c)
{
    const int64_t alone = keys_alone(job);
    for (int64_t t = 0; t < alone; t += (int64_t)c->C) {
        const size_t n = smaller(alone - t, c->C);
        lnt_chunk_load_keys(job, c, t, n);
        lnt_chunk_absorb(job, c, n);
    }
}

void lnt_chunk_weights(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    const size_t lanes = lnt_round_up(n, ker->lanes);
    for (size_t j0 = 0; j0 < n; j0 += BLOCK) {
        const size_t rows = n - j0 < BLOCK ? n - j0 : BLOCK;
        const size_t i0 = j0 / ker->lanes * ker->lanes; /* queries before j0 see none of these */
        ker->gemm_nn(c->pt + j0 * c->Cp + i0, c->Cp, c->k + j0 * c->Dp, c->Dp, c->qt + i0, c->Cp,
                     rows, lanes - i0, c->D, 0);
        for (size_t j = j0; j < j0 + rows; j++) {
            real *row = c->pt + j * c->Cp;
            for (size_t i = i0; i < j; i++) row[i] = 0;
            if (job->decay < 1)
                for (size_t i = j; i < n; i++) row[i] *= c->power[i - j];
        }
    }
}

/* o += pt^T v and den += the column sums of pt, over the triangle only. */
static void read_within(const head_job *job, chunk_scratch *c, size_t n)
{
    const kernels *ker = job->ker;
    const size_t wide = lnt_round_up(c->m, ker->lanes);
    const size_t lanes = lnt_round_up(n, ker->lanes);
    lnt_chunk_weights(job, c, n);
    for (size_t i0 = 0; i0 < n; i0 += BLOCK) {
        const size_t rows = n - i0 < BLOCK ? n - i0 : BLOCK, seen = i0 / ker->lanes * ker->lanes;
        ker->gemm_nn(c->den + seen, c->Cp, c->ones, rows, c->pt + i0 * c->Cp + seen, c->Cp, 1,
                     lanes - seen, rows, 1);
        ker->gemm_tn(c->o + i0 * c->mp, c->mp, c->pt + i0, c->Cp, c->v, c->ldv, rows, wide,
                     i0 + rows, 1);
    }
}

void lnt_chunk_read(const head_job *job, chunk_scratch *c, int64_t h, int64_t t, size_t n,
                    bool within)
{
    const kernels *ker = job->ker;
    const lnt_run *run = job->run;
    lnt_feature_columns(run, &c->feature, &run->io->q, job->seq.b, h, job->seq.q0 + t, n, c->qt,
                        c->Cp);
    ker->gemm_tn(c->o, c->mp, c->qt, c->Cp, c->sums.s, c->mp, n, lnt_round_up(c->m, ker->lanes),
                 c->D, 0);
    ker->gemm_nn(c->den, c->Cp, c->sums.z, c->D, c->qt, c->Cp, 1, lnt_round_up(n, ker->lanes), c->D,
                 0);
    if (!within) return;
    if (job->decay < 1)
        for (size_t i = 0; i < n; i++) {
            ker->scale(c->o + i * c->mp, c->power[i + 1], c->m);
            c->den[i] *= c->power[i + 1];
        }
    read_within(job, c, n);
}
