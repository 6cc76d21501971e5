/* attention/taylor_parts.c - Taylor attention through few states with many threads.
 *
 * With fewer states than a machine has cores, the monomials of each state are cut into parts, and each
 * part is walked by one thread:
 *
 *     y_i = sum over parts Phi_part(q_i) S_part / sum over parts Phi_part(q_i).z_part
 *
 * No operation is done twice, as it would be with segments of the sequence, whose states have to be
 * summed before their queries can be answered.  The number of parts is the problem's, not the
 * machine's, and their sums are added in order: the same bits for any number of threads. */
#include <string.h>

#include "attention/taylor_chunk.h"

enum {
    PIECES = 16,               /* parts of all states together, at least, while states are fewer */
    MOST_PIECES = 2 * PIECES,  /* n states < PIECES in ceil(PIECES / n) parts are fewer */
    LEAST_MONOMIALS = 2 * BLOCK, /* in a part */
    STRETCH = 4 * TOKENS       /* queries between two meetings of the threads */
};

/* Where the sums of a stretch of queries wait for the other parts, and the states of the run. */
typedef struct sums {
    real *num, *den; /* [piece][head of the group][STRETCH, mp], [piece][head][STRETCH] */
    memory *mem;     /* [states at a time] */
    double *mean;    /* [states at a time][d], where keys are centred by it */
    const double **center; /* [states at a time], see taylor_scratch */
} sums;

static size_t states_at_a_time(const lnt_attn_desc *p)
{
    const int64_t most = p->batch * p->kv_heads;
    return most < PIECES ? (size_t)most : 0; /* where there are more, threads have one each */
}

static sums take_sums(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t mp = pad((size_t)p->dim_value), states = states_at_a_time(p);
    const size_t group = p->kv_heads ? (size_t)(p->heads / p->kv_heads) : 0;
    sums x = { .num = take(arena, states ? MOST_PIECES * group * STRETCH : 0, mp),
               .den = take(arena, states ? MOST_PIECES * group : 0, STRETCH),
               .mem = lnt_arena_take(arena, states, sizeof(memory)),
               .mean = lnt_arena_take(arena, p->center_mean ? states * (size_t)p->dim : 0,
                                      sizeof(double)),
               .center = lnt_arena_take(arena, states, sizeof(double *)) };
    for (size_t i = 0; i < states && p->state != LNT_STATE_ALWAYS; i++) {
        const memory mem = lnt_memory_take(arena, p);
        if (x.mem) x.mem[i] = mem;
    }
    return x;
}

size_t lnt_taylor_parts_shared(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_sums(&counting, p);
    return counting.overflow ? SIZE_MAX : counting.used;
}

static sums open_sums(const lnt_run *run)
{
    const size_t before = lnt_round_up(lnt_taylor_shared(run->p), LNT_ALIGN);
    lnt_arena arena = { .base = run->shared + before, .capacity = lnt_taylor_parts_shared(run->p) };
    return take_sums(&arena, run->p);
}

size_t lnt_taylor_parts(const lnt_run *run)
{
    const int64_t states = run->sequences * run->p->kv_heads;
    if (states == 0 || states >= PIECES || !states_at_a_time(run->p)) return 1;
    const int64_t parts = (PIECES + states - 1) / states;
    const int64_t most = lnt_problem_width(run->p) / LEAST_MONOMIALS;
    return (size_t)(most < 1 ? 1 : parts < most ? parts : most);
}

/* The threads at work on states first .. first+count-1 of a run, each in parts. */
typedef struct team {
    lnt_run *run;
    sums sum;
    int64_t first;
    size_t count, parts;
} team;

/* The scratch of this thread, set to one piece. */
static taylor_scratch open_piece(const team *r, size_t piece, chunk_job *job)
{
    const int64_t KVH = r->run->p->kv_heads, unit = r->first + (int64_t)(piece / r->parts);
    *job = lnt_chunk_job(r->run, unit / KVH, unit % KVH);
    const size_t state = piece / r->parts;
    taylor_scratch s = lnt_taylor_open(job);
    lnt_taylor_take_part(&s, piece % r->parts, r->parts);
    s.mem = r->sum.mem[state];
    s.center = r->sum.center[state];
    return s;
}

/* A piece takes in its keys that no query comes before. */
static void add_alone(const team *r, size_t piece)
{
    chunk_job job;
    taylor_scratch s = open_piece(r, piece, &job);
    lnt_taylor_add_alone(&job, &s);
}

/* Where the sums of chunk c of the stretch, head g, stand. */
static size_t place(const taylor_scratch *s, size_t piece, size_t g, size_t c)
{
    return (piece * s->heads + g) * STRETCH + c * TOKENS;
}

/* A piece answers the queries of a stretch from t0 on, as far as its monomials go. */
static void read_stretch(const team *r, size_t piece, int64_t t0)
{
    chunk_job job;
    taylor_scratch s = open_piece(r, piece, &job);
    const bool causal = r->run->causal;
    for (size_t c = 0; c < STRETCH / TOKENS; c++) {
        const int64_t t = t0 + (int64_t)(c * TOKENS);
        const size_t n = chunk_tokens(job.seq.nq - t);
        if (!n) return;
        lnt_taylor_load_queries(&job, &s, t, n);
        if (causal) lnt_taylor_load_keys(&job, &s, keys_alone(&job) + t, n);
        if (causal && piece % r->parts == 0) lnt_taylor_read_within(&job, &s, n);
        lnt_taylor_walk(&job, &s, n, causal ? n : 0);
        for (size_t g = 0; g < s.heads; g++) {
            const size_t at = place(&s, piece, g, c);
            memcpy(r->sum.num + at * s.mp, s.o + g * TOKENS * s.mp, n * s.mp * sizeof(real));
            memcpy(r->sum.den + at, s.den + g * TOKENS, n * sizeof(real));
        }
    }
}

/* Chunk c of a stretch of a state: its parts added in order, divided and stored. */
static int64_t finish_chunk(const team *r, size_t state, int64_t t0, size_t c)
{
    chunk_job job;
    const size_t piece = state * r->parts;
    taylor_scratch s = open_piece(r, piece, &job);
    const int64_t t = t0 + (int64_t)(c * TOKENS);
    const size_t n = chunk_tokens(job.seq.nq - t);
    if (!n) return 0;
    for (size_t g = 0; g < s.heads; g++) {
        real *o = s.o + g * TOKENS * s.mp, *den = s.den + g * TOKENS;
        memcpy(o, r->sum.num + place(&s, piece, g, c) * s.mp, n * s.mp * sizeof(real));
        memcpy(den, r->sum.den + place(&s, piece, g, c), n * sizeof(real));
        for (size_t part = 1; part < r->parts; part++) {
            const size_t at = place(&s, piece + part, g, c);
            job.ker->axpy(o, 1, r->sum.num + at * s.mp, n * s.mp);
            job.ker->axpy(den, 1, r->sum.den + at, n);
        }
    }
    return lnt_taylor_finish(&job, &s, t, n);
}

/* The states as they are before the run, in place where they are asked for after it. */
static int64_t open_states(team *r)
{
    const lnt_attn_io *io = r->run->io;
    const lnt_attn_desc *p = r->run->p;
    const size_t F = (size_t)lnt_problem_width(p), mp = pad((size_t)p->dim_value);
    int64_t longest = 0;
    for (size_t i = 0; i < r->count; i++) {
        const int64_t unit = r->first + (int64_t)i, q = unit / p->kv_heads, h = unit % p->kv_heads;
        const chunk_job job = lnt_chunk_job(r->run, q, h);
        const taylor_scratch s = lnt_taylor_open(&job);
        const int64_t nq = job.seq.nq;
        r->sum.center[i] = lnt_taylor_center(r->run, &job.seq, h,
                                             r->sum.mean + i * (size_t)p->dim, s.kt, TOKENS);
        if (io->state_out) r->sum.mem[i] = lnt_memory_of(io->state_out, q, h);
        lnt_memory_copy(r->sum.mem[i], lnt_memory_of(io->state_in, q, h), F * mp, pad(F));
        longest = nq > longest ? nq : longest;
    }
    return longest;
}

static int64_t run_team(team *r)
{
    const int64_t longest = open_states(r), pieces = (int64_t)(r->count * r->parts);
    const int64_t chunks = (int64_t)r->count * (STRETCH / TOKENS);
    int64_t nonpositive = 0;
#pragma omp parallel num_threads(chunk_threads(r->run)) reduction(+ : nonpositive)
    {
#pragma omp for schedule(dynamic)
        for (int64_t piece = 0; piece < pieces; piece++) add_alone(r, (size_t)piece);
        for (int64_t t = 0; t < longest; t += STRETCH) {
#pragma omp for schedule(dynamic)
            for (int64_t piece = 0; piece < pieces; piece++) read_stretch(r, (size_t)piece, t);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < chunks; i++)
                nonpositive += finish_chunk(r, (size_t)i / (STRETCH / TOKENS), t,
                                            (size_t)i % (STRETCH / TOKENS));
        }
    }
    return nonpositive;
}

void lnt_taylor_parts_forward(lnt_run *run)
{
    const int64_t states = run->sequences * run->p->kv_heads;
    const int64_t at_a_time = (int64_t)states_at_a_time(run->p);
    run->nonpositive = 0;
    for (int64_t first = 0; first < states; first += at_a_time) {
        const int64_t left = states - first;
        team r = { .run = run,
                    .sum = open_sums(run),
                    .first = first,
                    .count = (size_t)(left < at_a_time ? left : at_a_time),
                    .parts = lnt_taylor_parts(run) };
        run->nonpositive += run_team(&r);
    }
}
