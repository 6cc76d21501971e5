/* attention/taylor/real/taylor_parts.c - Taylor attention through few states with many threads.
 *
 * With fewer states than a machine has cores, the monomials of each state are cut into parts, and each
 * part is walked by one thread:
 *
 *     y_i = sum over parts Phi_part(q_i) S_part / sum over parts Phi_part(q_i).z_part
 *
 * No operation is done twice, as it would be with segments of the sequence, whose states have to be
 * summed before their queries can be answered.  The number of parts is the problem's, not the
 * machine's, and their sums are added in order: the same bits for any number of threads. */
#include "attention/taylor/taylor_parts.h"

#include <string.h>

enum { PIECES = 16 }; /* parts of all states together, at least, while states are fewer */

/* Parts that there are monomials enough for: each loads q and k for itself, so it must have several
 * times their width to work on. */
static size_t most_parts(const lnt_attn_desc *p)
{
    const int64_t least = 8 * p->dim > 2 * BLOCK ? 8 * p->dim : 2 * BLOCK;
    return (size_t)(lnt_problem_width(p) / least);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* 0: no run of p is done in parts. */
static size_t states_at_a_time(const lnt_attn_desc *p)
{
    /* Where there are more, threads have one each. */
    const double most = (double)p->batch * (double)p->kv_heads;
    return most < PIECES && most_parts(p) >= 2 ? (size_t)most : 0;
}

/* Pieces that a team may have: n states in ceil(PIECES / n) parts each, or as many as there are
 * monomials for. */
static size_t most_pieces(const lnt_attn_desc *p)
{
    const size_t states = states_at_a_time(p), parts = most_parts(p);
    if (!states) return 0;
    return parts < PIECES && states * parts < PIECES + states - 1 ? states * parts
                                                                  : PIECES + states - 1;
}

static void take_states(lnt_arena *arena, const lnt_attn_desc *p, team_room *x)
{
    const size_t F = (size_t)lnt_problem_width(p), mp = pad((size_t)p->dim_value);
    for (size_t i = 0; i < states_at_a_time(p); i++) {
        head_sums sums = { .s = NULL }, grad = { .s = NULL };
        if (p->state != LNT_STATE_ALWAYS) sums = lnt_sums_take(arena, p);
        if (p->backward) grad = (head_sums){ .s = take(arena, F, mp), .z = take(arena, 1, pad(F)) };
        if (!x->sums) continue; /* only counting */
        x->sums[i] = sums;
        x->grad[i] = grad;
    }
}

/* All of lnt_run.shared. */
static team_room take_room(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t mp = pad((size_t)p->dim_value), d = (size_t)p->dim, states = states_at_a_time(p);
    const size_t group = lnt_problem_group(p);
    const size_t tokens = most_pieces(p) * group * STRETCH;
    lnt_arena_take(arena, lnt_taylor_shared(p), 1);
    team_room x = { .rows = take(arena, tokens, mp),
               .den = take(arena, tokens, 1),
               .columns = take(arena, p->backward ? tokens : 0, d),
               .begin = lnt_arena_take(arena, states ? PIECES + 1 : 0, sizeof(cursor)),
               .sums = lnt_arena_take(arena, states, sizeof(head_sums)),
               .grad = lnt_arena_take(arena, states, sizeof(head_sums)),
               .mean = lnt_arena_take(arena, p->taylor.center_mean ? states * d : 0, sizeof(double)),
               .center = lnt_arena_take(arena, states, sizeof(double *)) };
    take_states(arena, p, &x);
    return x;
}

size_t lnt_taylor_parts_shared(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_room(&counting, p);
    return lnt_arena_counted(&counting);
}

/* ---- a team ---------------------------------------------------------------------------------- */

size_t lnt_taylor_parts(const lnt_run *run)
{
    const int64_t states = run->sequences * run->p->kv_heads;
    if (states == 0 || states >= PIECES || !states_at_a_time(run->p)) return 1;
    const size_t parts = (size_t)((PIECES + states - 1) / states), most = most_parts(run->p);
    return parts < most ? parts : most;
}

head_job lnt_team_job(const team *r, size_t state)
{
    const int64_t KVH = r->run->p->kv_heads, unit = r->first + (int64_t)state;
    return lnt_head_job(r->run, unit / KVH, unit % KVH);
}

/* State i as it is before the run, and what is taken from its keys. */
static void open_state(team *r, size_t i)
{
    const head_job job = lnt_team_job(r, i);
    const taylor_scratch s = lnt_taylor_open(&job);
    double *mean = r->room.mean + i * s.d;
    r->room.center[i] = lnt_taylor_center(r->run, &job.seq, job.kvh, mean, s.kt, TOKENS);
    r->room.sums[i] = lnt_sums_before(&job, r->room.sums[i], !r->run->grads);
}

static void cut(team *r)
{
    const head_job job = lnt_team_job(r, 0);
    const taylor_scratch s = lnt_taylor_open(&job);
    for (size_t i = 0; i <= r->parts; i++) r->room.begin[i] = lnt_taylor_part(&s, i, r->parts);
}

bool lnt_team_open(lnt_run *run, int64_t first, team *r)
{
    const lnt_attn_desc *p = run->p;
    const int64_t left = run->sequences * p->kv_heads - first;
    const int64_t most = (int64_t)states_at_a_time(p);
    if (left <= 0) return false;
    lnt_arena arena = { .base = run->shared, .capacity = lnt_taylor_parts_shared(p) };
    *r = (team){ .run = run,
                 .room = take_room(&arena, p),
                 .first = first,
                 .count = (size_t)(left < most ? left : most),
                 .parts = lnt_taylor_parts(run),
                 .group = (size_t)(p->heads / p->kv_heads) };
    for (size_t i = 0; i < r->count; i++) open_state(r, i);
    cut(r);
    return true;
}

taylor_scratch lnt_team_piece(const team *r, size_t piece, head_job *job)
{
    const size_t state = piece / r->parts;
    *job = lnt_team_job(r, state);
    taylor_scratch s = lnt_taylor_open(job);
    s.first = r->room.begin[piece % r->parts];
    s.end = r->room.begin[piece % r->parts + 1].feature;
    s.sums = r->room.sums[state];
    s.grad = r->room.grad[state];
    s.center = r->room.center[state];
    return s;
}

void lnt_team_add_alone(const team *r, size_t piece)
{
    head_job job;
    taylor_scratch s = lnt_team_piece(r, piece, &job);
    lnt_taylor_add_alone(&job, &s);
}

static size_t place(const team *r, size_t piece, size_t g, size_t c)
{
    return ((piece * CHUNKS + c) * r->group + g) * TOKENS;
}

void lnt_team_sum_at(const team *r, taylor_scratch *s, size_t piece, size_t c)
{
    const size_t at = place(r, piece, 0, c);
    s->o = s->dv = r->room.rows + at * s->mp;
    s->den = r->room.den + at;
    if (r->run->grads) s->dt = r->room.columns + at * s->d;
}

void lnt_team_collect(const team *r, const real *sum, size_t width, size_t state, size_t g,
                      size_t c, real *to, size_t count)
{
    const kernels *ker = run_kernels(r->run);
    const size_t piece = state * r->parts;
    memcpy(to, sum + place(r, piece, g, c) * width, count * sizeof(real));
    for (size_t part = 1; part < r->parts; part++)
        ker->axpy(to, 1, sum + place(r, piece + part, g, c) * width, count);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A piece answers the queries of a stretch from t0 on, as far as its monomials go. */
static void read_stretch(const team *r, size_t piece, int64_t t0)
{
    head_job job;
    taylor_scratch s = lnt_team_piece(r, piece, &job);
    const bool causal = r->run->causal;
    for (size_t c = 0; c < CHUNKS; c++) {
        const int64_t t = t0 + (int64_t)(c * TOKENS);
        const size_t n = chunk_tokens(job.seq.nq - t);
        if (!n) return;
        lnt_team_sum_at(r, &s, piece, c);
        lnt_taylor_load_queries(&job, &s, t, n);
        if (causal) lnt_taylor_load_keys(&job, &s, keys_alone(&job) + t, n);
        if (causal && piece % r->parts == 0) lnt_taylor_read_within(&job, &s, n);
        lnt_taylor_walk(&job, &s, n, causal ? n : 0);
    }
}

/* Chunk c of a stretch of a state: its parts added, divided and stored. */
static int64_t finish_chunk(const team *r, size_t state, int64_t t0, size_t c)
{
    const head_job job = lnt_team_job(r, state);
    taylor_scratch s = lnt_taylor_open(&job);
    const int64_t t = t0 + (int64_t)(c * TOKENS);
    const size_t n = chunk_tokens(job.seq.nq - t);
    if (!n) return 0;
    for (size_t g = 0; g < s.heads; g++) {
        lnt_team_collect(r, r->room.rows, s.mp, state, g, c, s.o + g * TOKENS * s.mp, n * s.mp);
        lnt_team_collect(r, r->room.den, 1, state, g, c, s.den + g * TOKENS, n);
    }
    return lnt_taylor_finish(&job, &s, t, n);
}

static int64_t run_team(const team *r)
{
    const int64_t pieces = (int64_t)(r->count * r->parts), chunks = (int64_t)r->count * CHUNKS;
    int64_t nonpositive = 0, longest = 0;
    for (size_t i = 0; i < r->count; i++) {
        const int64_t nq = lnt_team_job(r, i).seq.nq;
        longest = nq > longest ? nq : longest;
    }
#pragma omp parallel num_threads(head_threads(r->run)) reduction(+ : nonpositive)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pieces; i++) lnt_team_add_alone(r, (size_t)i);
        for (int64_t t = 0; t < longest; t += STRETCH) {
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < pieces; i++) read_stretch(r, (size_t)i, t);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < chunks; i++)
                nonpositive += finish_chunk(r, (size_t)i / CHUNKS, t, (size_t)i % CHUNKS);
        }
    }
    return nonpositive;
}

void lnt_taylor_parts_forward(lnt_run *run)
{
    team r = { .first = 0 };
    run->nonpositive = 0;
    for (int64_t first = 0; lnt_team_open(run, first, &r); first += (int64_t)r.count)
        run->nonpositive += run_team(&r);
}
