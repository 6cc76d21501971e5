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

typedef struct steps {
    const lnt_recurrent *kind;
    token t;
    recents recent;
    real *k;         /* phi of a key [Dp] */
    real *score, *x; /* the query as scores see it [Wp]; scores of the recent keys [room] */
    real *v_own;     /* [mp] */
    const real *v;   /* that, or the tensor itself */
    size_t W;
} steps;

token lnt_token_take(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t D = (size_t)lnt_problem_width(p), m = (size_t)p->dim_value;
    token t = { .D = D, .m = m, .Dp = pad(D), .mp = pad(m) };
    if (p->state != LNT_STATE_ALWAYS) t.sums = lnt_sums_take(arena, p);
    t.phi = take(arena, 1, t.Dp);
    t.o = take(arena, 1, t.mp);
    t.part = take(arena, 1, t.mp);
    t.scalar = take(arena, 1, LNT_PAD);
    t.feature = lnt_feature_tile_take(arena, p, 1);
    return t;
}

static steps take_steps(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t W = (size_t)lnt_score_width(p), room = (size_t)lnt_recent_room(p);
    steps x = { .t = lnt_token_take(arena, p), .W = W };
    x.recent = (recents){ .ldk = pad(W), .room = room };
    x.recent.k = take(arena, room, x.recent.ldk);
    x.recent.v = take(arena, room, x.t.mp);
    x.score = take(arena, room ? 1 : 0, pad(W));
    x.x = take(arena, 1, pad(room));
    x.k = take(arena, 1, x.t.Dp);
    x.v_own = take(arena, 1, x.t.mp);
    return x;
}

static void map_row(const head_job *job, steps *x, lnt_row_map *map, int64_t h, int64_t n,
                    bool query, real *out)
{
    const int64_t row = (query ? job->seq.q0 : job->seq.k0) + n;
    map(job->run, &x->t.feature, job->seq.b, h, row, query, out);
}

static void load_key(const head_job *job, steps *x, int64_t t)
{
    size_t ld = x->t.mp;
    map_row(job, x, x->kind->phi, job->kvh, t, false, x->k);
    x->v = read_rows(job->ker, x->v_own, &ld, &job->run->io->v, job->seq.b, job->kvh,
                     job->seq.k0 + t, 1);
}

enum { ROWS = 64 }; /* of S summed at a time: a longer sum would lose digits */

real lnt_token_pass(const kernels *ker, token *t, const real *k, const real *v, real decay)
{
    const size_t wide = lnt_round_up(t->m, ker->lanes);
    real den = 0;
    for (size_t i = 0; i < t->D; i += ROWS) {
        const size_t rows = t->D - i < ROWS ? t->D - i : ROWS;
        real *s = t->sums.s + i * t->mp, *z = t->sums.z + i, *o = i ? t->part : t->o;
        den += k ? ker->state_step(s, t->mp, z, t->phi + i, k + i, v, o, rows, wide, decay)
                 : ker->state_query(s, t->mp, z, t->phi + i, o, rows, wide);
        if (i) ker->axpy(t->o, 1, o, t->m);
    }
    return den;
}

/* ---- tokens that are kept back --------------------------------------------------------------- */

static void keep_key(const head_job *job, steps *x, int64_t t)
{
    recents *r = &x->recent;
    map_row(job, x, x->kind->score, job->kvh, t, false, r->k + r->count * r->ldk);
    load_rows(job->ker, r->v + r->count * x->t.mp, x->t.mp, &job->run->io->v, job->seq.b, job->kvh,
              job->seq.k0 + t, 1, 1);
    r->count++;
}

static void absorb(const head_job *job, steps *x)
{
    recents *r = &x->recent;
    lnt_arena rest = x->t.rest;
    if (r->count) x->kind->absorb(job, &rest, x->t.sums, r->k, r->ldk, r->v, x->t.mp, r->count);
    r->count = 0;
}

/* o and the sum returned, which hold what S gives, += what the recent tokens give. */
static real through_recents(const head_job *job, steps *x, int64_t h, int64_t query, real den)
{
    const kernels *ker = job->ker;
    const recents *r = &x->recent;
    const size_t lanes = lnt_round_up(r->count, ker->lanes);
    if (!r->count) return den;
    if (job->decay < 1) {
        const real aged = (real)pow(job->decay, (double)r->count);
        ker->scale(x->t.o, aged, x->t.mp);
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
    ker->gemm_nn(x->t.o, x->t.mp, x->x, pad(r->room), r->v, x->t.mp, 1, lnt_round_up(x->t.m, ker->lanes),
                 r->count, 1);
    return den;
}

/* ---- a token --------------------------------------------------------------------------------- */

/* Takes a key in that no query follows. */
static void add_key(const head_job *job, steps *x, int64_t key)
{
    if (x->recent.room) {
        keep_key(job, x, key);
        return;
    }
    load_key(job, x, key);
    memset(x->t.phi, 0, x->t.Dp * sizeof(real));
    lnt_token_pass(job->ker, &x->t, x->k, x->v, (real)job->decay);
}

/* One query of head h; `add`: the key that was loaded goes into S on the way. */
static real read_query(const head_job *job, steps *x, int64_t h, int64_t query, bool add)
{
    map_row(job, x, x->kind->phi, h, query, true, x->t.phi);
    const real *k = add && !x->recent.room ? x->k : NULL;
    const real den = lnt_token_pass(job->ker, &x->t, k, x->v, (real)job->decay);
    return x->recent.room ? through_recents(job, x, h, query, den) : den;
}

/* One token of every head in the group; key < 0: only read, query < 0: only add. */
static int64_t run_token(const head_job *job, steps *x, int64_t key, int64_t query)
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
        x->t.scalar[0] = read_query(job, x, h, query, h == first && key >= 0);
        nonpositive += lnt_tile_finish(run, (query_rows){ &job->seq, h, query, 1 }, x->t.o, x->t.scalar,
                                       NULL, x->t.scalar + 1);
    }
    if (x->recent.room && x->recent.count == x->recent.room) absorb(job, x);
    return nonpositive;
}

static int64_t run_sequence(const head_job *job, steps *x)
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

/* The sums and recents of a job; `own` has scratch for those that nobody asked for. */
static void open_state(const head_job *job, steps *x, const steps *own)
{
    const lnt_state *state = job->run->recents;
    x->t.sums = lnt_sums_before(job, own->t.sums, true);
    x->recent = own->recent;
    if (!state || !x->recent.room) return;
    x->recent.k = lnt_head_rows(job, &lnt_state_parts(state)[LNT_STATE_RECENT_K]);
    x->recent.v = lnt_head_rows(job, &lnt_state_parts(state)[LNT_STATE_RECENT_V]);
    x->recent.count = (size_t)lnt_state_recent(state);
}

static void prefetch(const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LNT_ALIGN) __builtin_prefetch((const char *)from + i);
}

/* What the first token of a state reads besides S itself, which streams: each piece is too short for
 * the hardware to see it coming. */
static void prefetch_state(const head_job *job, const steps *x)
{
    const lnt_attn_io *io = job->run->io;
    const lnt_attn_desc *p = job->run->p;
    const lnt_sequence *seq = &job->seq;
    const head_sums start = lnt_sums_of(job, io->state_in);
    const size_t size = lnt_dtype_size(p->dtype);
    if (start.s) prefetch(start.s, x->t.mp * sizeof(real));
    if (start.z) prefetch(start.z, x->t.Dp * sizeof(real));
    if (seq->nk) {
        prefetch(lnt_tensor_row(&io->k, seq->b, job->kvh, seq->k0), (size_t)p->dim * size);
        prefetch(lnt_tensor_row(&io->v, seq->b, job->kvh, seq->k0), x->t.m * size);
    }
    if (seq->nq) {
        const int64_t h = job->kvh * (p->heads / p->kv_heads);
        prefetch(lnt_tensor_row(&io->q, seq->b, h, seq->q0), (size_t)p->dim * size);
    }
}

static int64_t run_share(const void *kind, lnt_run *run, lnt_arena *arena, int64_t first, int64_t last)
{
    const int64_t KVH = run->p->kv_heads;
    steps x = take_steps(arena, run->p);
    x.kind = kind;
    x.t.rest = *arena;
    const steps own = x;
    int64_t nonpositive = 0;
    head_job job, next = { .run = NULL };
    if (first < last) next = lnt_head_job(run, first / KVH, first % KVH);
    for (int64_t unit = first; unit < last; unit++) {
        job = next;
        if (unit + 1 < last) {
            next = lnt_head_job(run, (unit + 1) / KVH, (unit + 1) % KVH);
            prefetch_state(&next, &x);
        }
        open_state(&job, &x, &own);
        nonpositive += run_sequence(&job, &x);
    }
    return nonpositive;
}

void lnt_recurrent_share(lnt_run *run, int threads, recurrent_share *share, const void *kind)
{
    const int64_t states = run->sequences * run->p->kv_heads;
    int64_t nonpositive = 0;
    lnt_clear_gaps(run);
    if (threads == 1) { /* a parallel region of one costs as much as a small head */
        lnt_arena arena = run_arena(run, 0);
        run->nonpositive = share(kind, run, &arena, 0, states);
        return;
    }
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    {
        const int64_t thread = omp_get_thread_num(), count = omp_get_num_threads();
        lnt_arena arena = run_arena(run, (int)thread);
        nonpositive += share(kind, run, &arena, states * thread / count, states * (thread + 1) / count);
    }
    run->nonpositive = nonpositive;
}

void lnt_recurrent_forward(const lnt_recurrent *kind, lnt_run *run)
{
    lnt_recurrent_share(run, run->settle ? run->ctx->threads : head_threads(run), run_share, kind);
}

double lnt_recurrent_cost(const lnt_attn_desc *p, double each)
{
    return (double)p->batch * (2 * (double)lnt_problem_width(p) * (double)p->dim_value + each) *
           ((double)p->kv_heads * (double)p->length_k + (double)p->heads * (double)p->length_q);
}

size_t lnt_recurrent_scratch(const lnt_recurrent *kind, const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_steps(&counting, p);
    if (lnt_recent_room(p)) kind->absorb_take(&counting, p);
    return lnt_arena_counted(&counting);
}
