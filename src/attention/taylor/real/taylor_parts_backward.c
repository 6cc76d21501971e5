/* attention/taylor/real/taylor_parts_backward.c - gradients of Taylor attention through few states with many
 * threads.
 *
 * Each state is cut into the parts of taylor_parts.c, and each part takes the steps of
 * taylor_gradient.c over its monomials: its rows of S, of the gradient of S, and its share of
 *
 *     o, den | dq      forward over the sequence: dq of a chunk needs o and den of all parts first
 *     dk, dv           backward over the sequence: a stretch of chunks between two meetings
 *
 * which are added in order.  No product with S is done twice, so it costs what a whole head costs. */
#include "attention/taylor/taylor_gradient.h"
#include "attention/taylor/taylor_parts.h"

/* ---- forward over the sequence: dq ------------------------------------------------------------ */

/* A piece ends one chunk and begins the next, that from t on: its rows of S are in cache, and the
 * threads meet twice in a chunk, not three times. */
static void walk_queries(const team *r, size_t piece, int64_t t)
{
    head_job job;
    taylor_scratch s = lnt_team_piece(r, piece, &job);
    const size_t before = t > 0 ? chunk_tokens(job.seq.nq - t + TOKENS) : 0;
    const size_t n = chunk_tokens(job.seq.nq - t);
    lnt_team_sum_at(r, &s, piece, 0);
    if (before) {
        lnt_taylor_reload(&job, &s, t - TOKENS, before);
        lnt_taylor_grad_queries(&job, &s, before);
    }
    if (n && !r->run->statistics) lnt_taylor_read_chunk(&job, &s, t, n);
}

/* Head g of a state, all parts having read the queries from t on. */
static void finish_quotient(const team *r, size_t state, size_t g, int64_t t)
{
    const head_job job = lnt_team_job(r, state);
    taylor_scratch s = lnt_taylor_open(&job);
    const size_t n = chunk_tokens(job.seq.nq - t);
    if (!n) return;
    if (!r->run->statistics) {
        lnt_team_collect(r, r->room.rows, s.mp, state, g, 0, s.o + g * TOKENS * s.mp, n * s.mp);
        lnt_team_collect(r, r->room.den, 1, state, g, 0, s.den + g * TOKENS, n);
    }
    lnt_taylor_quotient(&job, &s, g, t, n);
}

/* ... having summed dq of them. */
static void finish_queries(const team *r, size_t state, size_t g, int64_t t)
{
    const head_job job = lnt_team_job(r, state);
    taylor_scratch s = lnt_taylor_open(&job);
    const size_t n = chunk_tokens(job.seq.nq - t), tile = s.d * TOKENS;
    if (!n) return;
    lnt_team_collect(r, r->room.columns, s.d, state, g, 0, s.dt + g * tile, tile);
    lnt_taylor_store_dq(&job, &s, g, t, n);
}

/* By every thread of the team. */
static void pass_over_queries(const team *r, int64_t longest)
{
    const int64_t pieces = (int64_t)(r->count * r->parts), heads = (int64_t)(r->count * r->group);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < pieces; i++) lnt_team_add_alone(r, (size_t)i);
    for (int64_t t = 0; t < longest + TOKENS; t += TOKENS) {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pieces; i++) walk_queries(r, (size_t)i, t);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads; i++) {
            const size_t state = (size_t)i / r->group, g = (size_t)i % r->group;
            if (t > 0) finish_queries(r, state, g, t - TOKENS);
            finish_quotient(r, state, g, t);
        }
    }
}

/* ---- backward over the sequence: dk, dv ------------------------------------------------------- */

/* A piece sums dk and dv of a stretch of chunks. */
static void grad_stretch(const team *r, size_t piece, int64_t from)
{
    head_job job;
    key_chunk keys;
    taylor_scratch s = lnt_team_piece(r, piece, &job);
    for (size_t c = 0; c < CHUNKS && lnt_taylor_key_chunk(&job, from + (int64_t)c, &keys); c++) {
        lnt_team_sum_at(r, &s, piece, c);
        lnt_taylor_grad_keys(&job, &s, &keys);
    }
}

/* Chunk c of a stretch of a state: its parts added and stored. */
static void finish_keys(const team *r, size_t state, int64_t from, size_t c)
{
    key_chunk keys;
    const head_job job = lnt_team_job(r, state);
    taylor_scratch s = lnt_taylor_open(&job);
    if (!lnt_taylor_key_chunk(&job, from + (int64_t)c, &keys)) return;
    lnt_team_collect(r, r->room.columns, s.d, state, 0, c, s.dt, s.d * TOKENS);
    lnt_team_collect(r, r->room.rows, s.mp, state, 0, c, s.dv, keys.n * s.mp);
    lnt_taylor_store_keys(&job, &s, &keys);
}

/* By every thread of the team. */
static void pass_over_keys(const team *r, int64_t most)
{
    const int64_t pieces = (int64_t)(r->count * r->parts), chunks = (int64_t)r->count * CHUNKS;
    for (int64_t from = 0; from < most; from += CHUNKS) {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pieces; i++) grad_stretch(r, (size_t)i, from);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < chunks; i++)
            finish_keys(r, (size_t)i / CHUNKS, from, (size_t)i % CHUNKS);
    }
}

/* ---- a team ---------------------------------------------------------------------------------- */

/* The gradients of the states after the run, as given; those before it, as found. */
static void copy_gradients(const team *r, bool out)
{
    const lnt_attn_grads *g = r->run->grads;
    for (size_t i = 0; i < r->count; i++) {
        const head_job job = lnt_team_job(r, i);
        if (out) lnt_sums_copy(&job, lnt_sums_of(&job, g->dstate_in), r->room.grad[i]);
        else lnt_sums_copy(&job, r->room.grad[i], lnt_sums_of(&job, g->dstate_out));
    }
}

static void run_team(const team *r)
{
    int64_t longest = 0, most = 0; /* queries, and chunks of keys */
    for (size_t i = 0; i < r->count; i++) {
        const head_job job = lnt_team_job(r, i);
        key_chunk last;
        longest = job.seq.nq > longest ? job.seq.nq : longest;
        while (lnt_taylor_key_chunk(&job, most, &last)) most++;
    }
    copy_gradients(r, false);
#pragma omp parallel num_threads(head_threads(r->run))
    {
        pass_over_queries(r, longest);
        pass_over_keys(r, most);
    }
    if (r->run->grads->dstate_in) copy_gradients(r, true);
}

void lnt_taylor_parts_backward(lnt_run *run)
{
    team r = { .first = 0 };
    for (int64_t first = 0; lnt_team_open(run, first, &r); first += (int64_t)r.count) run_team(&r);
}
