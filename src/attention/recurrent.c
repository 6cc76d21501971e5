/* attention/recurrent.c - attention token by token: the transformer as an RNN.
 *
 *     S = decay S + phi(k) v^T,   z = decay z + phi(k),   y = phi(q) S / (phi(q).z + eps)
 *
 * O(n D m) time, S read and written once per token; for decoding, where tokens come one at a time.
 * See docs/math/linear.md */
#include <omp.h>
#include <string.h>

#include "attention/recurrent.h"

typedef struct token {
    lnt_phi *phi_of;
    memory mem;
    real *q, *k;    /* phi [Dp] */
    real *v_own;    /* [mp] */
    const real *v;  /* that, or the tensor itself */
    real *o, *part; /* [mp] */
    real *scalar; /* den and its inverse */
    lnt_feature_tile feature;
    size_t D, m, Dp, mp;
} token;

static token take_token(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_problem_width(p), m = (size_t)p->dim_value;
    token t = { .D = D, .m = m, .Dp = pad(D), .mp = pad(m) };
    t.mem.s = take(arena, D, t.mp);
    t.mem.z = take(arena, 1, t.Dp);
    t.q = take(arena, 1, t.Dp);
    t.k = take(arena, 1, t.Dp);
    t.v_own = take(arena, 1, t.mp);
    t.o = take(arena, 1, t.mp);
    t.part = take(arena, 1, t.mp);
    t.scalar = take(arena, 1, LNT_PAD);
    t.feature = lnt_feature_tile_take(arena, p, 1);
    return t;
}

static void load_key(const chunk_job *job, token *x, int64_t t)
{
    const lnt_run *run = job->run;
    const int64_t row = job->seq.k0 + t;
    x->phi_of(run, &x->feature, &run->io->k, job->seq.b, job->kvh, row, false, x->k, x->Dp);
    size_t ld = x->mp;
    x->v = read_rows(job->ker, x->v_own, &ld, &run->io->v, job->seq.b, job->kvh, row, 1);
    if (run->sign < 0) job->ker->scale(x->k, -1, x->D); /* takes k v^T and k out again */
}

static void load_query(const chunk_job *job, token *x, int64_t h, int64_t t)
{
    const lnt_run *run = job->run;
    x->phi_of(run, &x->feature, &run->io->q, job->seq.b, h, job->seq.q0 + t, true, x->q, x->Dp);
}

enum { ROWS = 64 }; /* of S summed at a time: a longer sum would lose digits */

/* o = q^T S, returning q.z; before that, `add`: S and z take k and v in. */
static real through_state(const kernels *ker, token *x, real decay, bool add)
{
    const size_t wide = lnt_round_up(x->m, ker->lanes);
    real den = 0;
    for (size_t i = 0; i < x->D; i += ROWS) {
        const size_t rows = x->D - i < ROWS ? x->D - i : ROWS;
        real *s = x->mem.s + i * x->mp, *z = x->mem.z + i, *o = i ? x->part : x->o;
        den += add ? ker->state_step(s, x->mp, z, x->q + i, x->k + i, x->v, o, rows, wide, decay)
                   : ker->state_query(s, x->mp, z, x->q + i, o, rows, wide);
        if (i) ker->axpy(x->o, 1, o, x->m);
    }
    return den;
}

/* One token of every head in the group; key < 0: only read, query < 0: only add. */
static int64_t run_token(const chunk_job *job, token *x, int64_t key, int64_t query)
{
    lnt_run *run = job->run;
    const kernels *ker = job->ker;
    const int64_t group = run->p->heads / run->p->kv_heads, first = job->kvh * group;
    int64_t nonpositive = 0;
    if (key >= 0) load_key(job, x, key);
    if (query < 0) {
        memset(x->q, 0, x->Dp * sizeof(real));
        through_state(ker, x, job->decay, true);
        return 0;
    }
    for (int64_t h = first; h < first + group; h++) {
        load_query(job, x, h, query);
        x->scalar[0] = through_state(ker, x, job->decay, h == first && key >= 0);
        lnt_tile_finish(run, ker, &job->seq, h, query, 1, x->o, x->mp, x->scalar, NULL,
                        x->scalar + 1, &nonpositive);
    }
    return nonpositive;
}

static int64_t run_sequence(const chunk_job *job, token *x)
{
    const lnt_sequence *seq = &job->seq;
    const bool causal = job->run->causal;
    const int64_t alone = causal ? seq->nk - seq->nq : seq->nk;
    int64_t nonpositive = 0;
    for (int64_t t = 0; t < alone; t++) run_token(job, x, t, -1);
    for (int64_t t = 0; t < seq->nq; t++)
        nonpositive += run_token(job, x, causal ? alone + t : -1, t);
    return nonpositive;
}

/* One kv head of one sequence; `own` is scratch for a state nobody asked for. */
static int64_t run_state(lnt_run *run, token *x, memory own, int64_t s, int64_t kvh)
{
    const lnt_attn_io *io = run->io;
    const chunk_job job = lnt_chunk_job(run, s, kvh);
    x->mem = io->state_out ? lnt_memory_of(io->state_out, s, kvh) : own;
    lnt_memory_copy(x->mem, lnt_memory_of(io->state_in, s, kvh), x->D * x->mp, x->Dp);
    return run_sequence(&job, x);
}

static void prefetch(const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LNT_ALIGN) __builtin_prefetch((const char *)from + i);
}

/* What the first token of a state reads besides S itself, which streams: each piece is too short for
 * the hardware to see it coming. */
static void prefetch_state(const lnt_run *run, const token *x, int64_t s, int64_t kvh)
{
    const lnt_attn_io *io = run->io;
    const lnt_sequence seq = lnt_io_sequence(io, s);
    const memory start = lnt_memory_of(io->state_in, s, kvh);
    const size_t size = lnt_dtype_size(run->p->dtype);
    if (start.s) prefetch(start.s, x->mp * sizeof(real));
    if (start.z) prefetch(start.z, x->Dp * sizeof(real));
    if (seq.nk) {
        prefetch(lnt_tensor_row(&io->k, seq.b, kvh, seq.k0), (size_t)run->p->dim * size);
        prefetch(lnt_tensor_row(&io->v, seq.b, kvh, seq.k0), x->m * size);
    }
    if (seq.nq) {
        const int64_t h = kvh * (run->p->heads / run->p->kv_heads);
        prefetch(lnt_tensor_row(&io->q, seq.b, h, seq.q0), (size_t)run->p->dim * size);
    }
}

/* The states that fall to one of `threads` threads. */
static int64_t run_share(lnt_phi *phi, lnt_run *run, int thread, int threads)
{
    const int64_t KVH = run->p->kv_heads, states = run->sequences * KVH;
    const int64_t first = states * thread / threads, last = states * (thread + 1) / threads;
    lnt_arena arena = { .base = run->scratch + (size_t)thread * run->scratch_stride,
                        .capacity = run->scratch_stride };
    token x = take_token(&arena, run->p);
    x.phi_of = phi;
    const memory own = x.mem;
    int64_t nonpositive = 0;
    /* Up on one token, down on the next: the states touched last are still in cache. */
    const bool down = first < last && lnt_io_sequence(run->io, 0).before % 2;
    for (int64_t i = 0; i < last - first; i++) {
        const int64_t unit = down ? last - 1 - i : first + i, next = down ? unit - 1 : unit + 1;
        if (first <= next && next < last) prefetch_state(run, &x, next / KVH, next % KVH);
        nonpositive += run_state(run, &x, own, unit / KVH, unit % KVH);
    }
    return nonpositive;
}

void lnt_recurrent_forward(lnt_phi *phi, lnt_run *run)
{
    const int threads = chunk_threads(run);
    int64_t nonpositive = 0;
    if (!run->partial) lnt_clear_gaps(run, &run->io->out, false);
    if (threads == 1) { /* a parallel region of one costs as much as a small head */
        run->nonpositive = run_share(phi, run, 0, 1);
        return;
    }
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    nonpositive += run_share(phi, run, omp_get_thread_num(), omp_get_num_threads());
    run->nonpositive = nonpositive;
}

double lnt_recurrent_cost(const lnt_attn_desc *p)
{
    return (double)p->batch * 2 * (double)lnt_problem_width(p) * (double)p->dim_value *
           ((double)p->kv_heads * (double)p->length_k + (double)p->heads * (double)p->length_q);
}

size_t lnt_recurrent_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_token(&counting, p);
    return counting.overflow ? SIZE_MAX : counting.used;
}
