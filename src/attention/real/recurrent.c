/* attention/real/recurrent.c - attention token by token: the transformer as an RNN.
 *
 *     S = decay S + phi(k) v^T,   z = decay z + phi(k),   y = phi(q) S / (phi(q).z + eps)
 *
 * O(n D m) time, S read and written once per token; for decoding, where tokens come one at a time.
 *
 * Where S is large, or its sums are compensated, the last few tokens are kept back: a query reads S,
 * which then is only read, and attends to those tokens directly; when their room is full they go into
 * S together.  See docs/math/linear.md, docs/math/taylor.md */
#include "attention/recurrent.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Tokens that are not in S yet. */
typedef struct recents {
    real *k, *v; /* [room, ldk] as scores see them, [room, mp] */
    size_t ldk, room, count;
} recents;

typedef struct token {
    const lnt_recurrent *kind;
    head_sums sums;
    recents recent;
    real *q, *k;    /* phi [Dp] */
    real *score, *x; /* the query as scores see it [Wp]; scores of the recent keys [room] */
    real *v_own;    /* [mp] */
    const real *v;  /* that, or the tensor itself */
    real *o, *part; /* [mp] */
    real *scalar; /* den and its inverse */
    lnt_feature_tile feature;
    size_t D, W, m, Dp, mp;
    lnt_arena rest; /* for absorb */
} token;

static token take_token(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_problem_width(p), m = (size_t)p->dim_value;
    const size_t W = (size_t)lnt_score_width(p), room = (size_t)lnt_recent_room(p);
    token t = { .D = D, .W = W, .m = m, .Dp = pad(D), .mp = pad(m) };
    if (p->state != LNT_STATE_ALWAYS) t.sums = lnt_sums_take(arena, p);
    t.recent = (recents){ .ldk = pad(W), .room = room };
    t.recent.k = take(arena, room, t.recent.ldk);
    t.recent.v = take(arena, room, t.mp);
    t.score = take(arena, room ? 1 : 0, pad(W));
    t.x = take(arena, 1, pad(room));
    t.q = take(arena, 1, t.Dp);
    t.k = take(arena, 1, t.Dp);
    t.v_own = take(arena, 1, t.mp);
    t.o = take(arena, 1, t.mp);
    t.part = take(arena, 1, t.mp);
    t.scalar = take(arena, 1, LNT_PAD);
    t.feature = lnt_feature_tile_take(arena, p, 1);
    return t;
}

static void map_row(const head_job *job, token *x, lnt_row_map *map, int64_t h, int64_t n,
                    bool query, real *out)
{
    const int64_t row = (query ? job->seq.q0 : job->seq.k0) + n;
    map(job->run, &x->feature, job->seq.b, h, row, query, out);
}

static void load_key(const head_job *job, token *x, int64_t t)
{
    size_t ld = x->mp;
    map_row(job, x, x->kind->phi, job->kvh, t, false, x->k);
    x->v = read_rows(job->ker, x->v_own, &ld, &job->run->io->v, job->seq.b, job->kvh,
                     job->seq.k0 + t, 1);
}

enum { ROWS = 64 }; /* of S summed at a time: a longer sum would lose digits */

/* o = q^T S, returning q.z; before that, `add`: S and z take k and v in. */
static real through_state(const kernels *ker, token *x, real decay, bool add)
{
    const size_t wide = lnt_round_up(x->m, ker->lanes);
    real den = 0;
    for (size_t i = 0; i < x->D; i += ROWS) {
        const size_t rows = x->D - i < ROWS ? x->D - i : ROWS;
        real *s = x->sums.s + i * x->mp, *z = x->sums.z + i, *o = i ? x->part : x->o;
        den += add ? ker->state_step(s, x->mp, z, x->q + i, x->k + i, x->v, o, rows, wide, decay)
                   : ker->state_query(s, x->mp, z, x->q + i, o, rows, wide);
        if (i) ker->axpy(x->o, 1, o, x->m);
    }
    return den;
}

/* ---- tokens that are kept back --------------------------------------------------------------- */

static void keep_key(const head_job *job, token *x, int64_t t)
{
    recents *r = &x->recent;
    map_row(job, x, x->kind->score, job->kvh, t, false, r->k + r->count * r->ldk);
    load_rows(job->ker, r->v + r->count * x->mp, x->mp, &job->run->io->v, job->seq.b, job->kvh,
              job->seq.k0 + t, 1, 1);
    r->count++;
}

static void absorb(const head_job *job, token *x)
{
    recents *r = &x->recent;
    lnt_arena rest = x->rest;
    if (r->count) x->kind->absorb(job, &rest, x->sums, r->k, r->ldk, r->v, x->mp, r->count);
    r->count = 0;
}

/* o and the sum returned, which hold what S gives, += what the recent tokens give. */
static real through_recents(const head_job *job, token *x, int64_t h, int64_t query, real den)
{
    const kernels *ker = job->ker;
    const recents *r = &x->recent;
    const size_t lanes = lnt_round_up(r->count, ker->lanes);
    if (!r->count) return den;
    if (job->decay < 1) {
        const real aged = (real)pow(job->decay, (double)r->count);
        ker->scale(x->o, aged, x->mp);
        den *= aged;
    }
    map_row(job, x, x->kind->score, h, query, true, x->score);
    memset(x->x, 0, lanes * sizeof(real));
    ker->gemv(x->x, r->k, r->ldk, x->score, r->count, x->W);
    if (x->kind->weights) x->kind->weights(job->run, ker, x->x, lanes);
    for (size_t j = 0; j < r->count; j++) {
        if (job->decay < 1) x->x[j] *= (real)pow(job->decay, (double)(r->count - 1 - j));
        den += x->x[j];
    }
    ker->gemm_nn(x->o, x->mp, x->x, pad(r->room), r->v, x->mp, 1, lnt_round_up(x->m, ker->lanes),
                 r->count, 1);
    return den;
}

/* ---- a token --------------------------------------------------------------------------------- */

/* Takes a key in that no query follows. */
static void add_key(const head_job *job, token *x, int64_t key)
{
    if (x->recent.room) {
        keep_key(job, x, key);
        return;
    }
    load_key(job, x, key);
    memset(x->q, 0, x->Dp * sizeof(real));
    through_state(job->ker, x, (real)job->decay, true);
}

/* One query of head h; `add`: the key that was loaded goes into S on the way. */
static real read_query(const head_job *job, token *x, int64_t h, int64_t query, bool add)
{
    map_row(job, x, x->kind->phi, h, query, true, x->q);
    const real den = through_state(job->ker, x, (real)job->decay, add && !x->recent.room);
    return x->recent.room ? through_recents(job, x, h, query, den) : den;
}

/* One token of every head in the group; key < 0: only read, query < 0: only add. */
static int64_t run_token(const head_job *job, token *x, int64_t key, int64_t query)
{
    const lnt_run *run = job->run;
    const int64_t group = run->p->heads / run->p->kv_heads, first = job->kvh * group;
    int64_t nonpositive = 0;
    if (query < 0) {
        add_key(job, x, key);
    } else if (key >= 0) {
        if (x->recent.room)
            keep_key(job, x, key);
        else
            load_key(job, x, key);
    }
    for (int64_t h = first; query >= 0 && h < first + group; h++) {
        x->scalar[0] = read_query(job, x, h, query, h == first && key >= 0);
        nonpositive += lnt_tile_finish(run, (query_rows){ &job->seq, h, query, 1 }, x->o, x->scalar,
                                       NULL, x->scalar + 1);
    }
    if (x->recent.room && x->recent.count == x->recent.room) absorb(job, x);
    return nonpositive;
}

static int64_t run_sequence(const head_job *job, token *x)
{
    const lnt_sequence *seq = &job->seq;
    const bool causal = job->run->causal;
    const int64_t alone = causal ? seq->nk - seq->nq : seq->nk;
    int64_t nonpositive = 0;
    for (int64_t t = 0; t < alone; t++) run_token(job, x, t, -1);
    for (int64_t t = 0; t < seq->nq; t++)
        nonpositive += run_token(job, x, causal ? alone + t : -1, t);
    if (job->run->recents ? job->run->settle : job->run->io->state_out != NULL) absorb(job, x);
    return nonpositive;
}

/* One kv head of one sequence; `own` has scratch for a state and recents that nobody asked for. */
static int64_t run_state(lnt_run *run, token *x, const token *own, int64_t s, int64_t kvh)
{
    const lnt_attn_io *io = run->io;
    const head_job job = lnt_head_job(run, s, kvh);
    x->sums = io->state_out ? lnt_sums_of(io->state_out, s, kvh) : own->sums;
    lnt_sums_copy(x->sums, lnt_sums_of(io->state_in, s, kvh), x->D * x->mp, x->Dp);
    x->recent = own->recent;
    if (run->recents && x->recent.room) {
        const lnt_state *state = run->recents;
        x->recent.k = (real *)lnt_tensor_row(lnt_state_part(state, LNT_STATE_RECENT_K), s, kvh, 0);
        x->recent.v = (real *)lnt_tensor_row(lnt_state_part(state, LNT_STATE_RECENT_V), s, kvh, 0);
        x->recent.count = (size_t)lnt_state_recent(state);
    }
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
    const head_sums start = lnt_sums_of(io->state_in, s, kvh);
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
static int64_t run_share(const lnt_recurrent *kind, lnt_run *run, int thread, int threads)
{
    const int64_t KVH = run->p->kv_heads, states = run->sequences * KVH;
    const int64_t first = states * thread / threads, last = states * (thread + 1) / threads;
    lnt_arena arena = run_arena(run, thread);
    token x = take_token(&arena, run->p);
    x.kind = kind;
    x.rest = arena;
    const token own = x;
    int64_t nonpositive = 0;
    for (int64_t unit = first; unit < last; unit++) {
        const int64_t next = unit + 1;
        if (next < last) prefetch_state(run, &x, next / KVH, next % KVH);
        nonpositive += run_state(run, &x, &own, unit / KVH, unit % KVH);
    }
    return nonpositive;
}

void lnt_recurrent_forward(const lnt_recurrent *kind, lnt_run *run)
{
    const int threads = run->settle ? run->ctx->threads : head_threads(run);
    int64_t nonpositive = 0;
    if (!run->partial) lnt_clear_gaps(run, &run->io->out, false);
    if (threads == 1) { /* a parallel region of one costs as much as a small head */
        run->nonpositive = run_share(kind, run, 0, 1);
        return;
    }
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    nonpositive += run_share(kind, run, omp_get_thread_num(), omp_get_num_threads());
    run->nonpositive = nonpositive;
}

double lnt_recurrent_cost(const lnt_attn_desc *p, double each)
{
    return (double)p->batch * (2 * (double)lnt_problem_width(p) * (double)p->dim_value + each) *
           ((double)p->kv_heads * (double)p->length_k + (double)p->heads * (double)p->length_q);
}

size_t lnt_recurrent_scratch(const lnt_recurrent *kind, const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_token(&counting, p);
    if (lnt_recent_room(p)) kind->absorb_take(&counting, p);
    return lnt_arena_counted(&counting);
}
