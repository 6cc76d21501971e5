/* attention/hybrid/real/hybrid_tile.c - the tiles of keys that a chunk of queries meets, and which pairs of
 * one are near. */
#include "attention/hybrid/hybrid.h"

/* A window behind the chunk, one token more than must be, so that the tiles of one are whole. */
int64_t lnt_hybrid_frontier(const head_job *job, const hybrid_scratch *s, int64_t p)
{
    const int64_t frontier = p - job->run->p->hybrid.window + (job->run->causal ? 0 : 1);
    return s->summed && frontier > 0 ? frontier : 0;
}

static size_t clamp(int64_t x, size_t low, size_t high)
{
    return x < (int64_t)low ? low : x > (int64_t)high ? high : (size_t)x;
}

hybrid_tile lnt_hybrid_tile_of(const head_job *job, int64_t key, size_t keys, int64_t query,
                               size_t n)
{
    hybrid_tile c = { .key = key, .query = query, .keys = keys, .queries = n };
    c.still = !job->run->causal;
    if (!c.still) c.from = clamp(key - query, 0, n) / job->ker->lanes * job->ker->lanes;
    return c;
}

bool lnt_hybrid_next_tile(const head_job *job, const hybrid_scratch *s, hybrid_tile *c)
{
    const int64_t frontier = lnt_hybrid_frontier(job, s, c->query), sink = job->run->p->hybrid.sink;
    const int64_t sinks = sink < frontier ? sink : frontier;
    const int64_t end = c->still ? c->query + 1 : c->query + (int64_t)c->queries;
    int64_t key = c->key + (int64_t)c->keys;
    if (key >= sinks && key < frontier) key = frontier;
    if (key >= end) return false;
    /* Edges of tiles are a whole number of tiles from the first query. */
    const int64_t past = (key - c->query) % LNT_TILE_KEYS;
    int64_t keys = LNT_TILE_KEYS - (past < 0 ? past + LNT_TILE_KEYS : past);
    const int64_t stop = key < sinks ? sinks : end;
    if (keys > stop - key) keys = stop - key;
    *c = lnt_hybrid_tile_of(job, key, (size_t)keys, c->query, c->queries);
    return true;
}

size_t lnt_hybrid_far_from(const lnt_attn_desc *p, const hybrid_tile *c, size_t j)
{
    const int64_t key = c->key + (int64_t)j;
    if (c->still || key < p->hybrid.sink) return c->queries;
    return clamp(key - c->query + p->hybrid.window, c->from, c->queries);
}

void lnt_hybrid_scores(const head_job *job, hybrid_scratch *s, size_t g, const hybrid_tile *c)
{
    const taylor_scratch *t = &s->t;
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes);
    job->ker->gemm_nn(t->x + c->from, TOKENS, t->k, t->ldk, t->qt + g * t->d * TOKENS + c->from,
                      TOKENS, c->keys, lanes - c->from, t->d, 0);
}

static void fill(real *x, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) x[i] = -(real)INFINITY;
}

void lnt_hybrid_mask(const head_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const size_t lanes = lnt_round_up(c->queries, job->ker->lanes);
    const bool all_seen = c->still || c->key + (int64_t)c->keys <= c->query + 1;
    if (all_seen && !has_far(job->run->p, c)) return;
    for (size_t j = 0; j < c->keys; j++) {
        const size_t seen = clamp(c->key + (int64_t)j - c->query, c->from, c->queries);
        const size_t far = lnt_hybrid_far_from(job->run->p, c, j);
        fill(s->t.x + j * TOKENS, c->from, seen);
        if (far < c->queries) fill(s->t.x + j * TOKENS, far, lanes);
    }
}
