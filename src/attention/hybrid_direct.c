/* attention/hybrid_direct.c - hybrid attention as a quadratic form: every key one by one, e^x of the
 * score where it is near and the weight of linear or Taylor attention where it is far.
 *
 * O(n^2 (d + m)) time, O(d + m) scratch per thread.  Fewer operations than with S while n is below about
 * its number of rows.  Backward meets each pair once where all queries of a sequence fit the cache, and
 * else as hybrid_backward.c does, once for dq and once for dk and dv.  See docs/math/hybrid.md */
#include <omp.h>
#include <string.h>

#include "attention/hybrid.h"

static int64_t most_chunks(const lnt_run *run)
{
    int64_t most = 0;
    for (int64_t q = 0; q < run->sequences; q++) {
        const int64_t chunks = (lnt_io_sequence(run->io, q).nq + TOKENS - 1) / TOKENS;
        most = chunks > most ? chunks : most;
    }
    return most;
}

static void forward(lnt_run *run)
{
    const int64_t KVH = run->p->kv_heads, chunks = most_chunks(run);
    const int threads = lnt_hybrid_threads(run);
    int64_t nonpositive = 0;
    lnt_clear_gaps(run, &run->io->out, false);
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : nonpositive)
    for (int64_t unit = 0; unit < run->sequences * KVH * chunks; unit++) {
        const chunk_job job = lnt_chunk_job(run, unit / chunks / KVH, unit / chunks % KVH);
        const int64_t t = (chunks - 1 - unit % chunks) * TOKENS; /* the long ones first */
        const size_t n = chunk_tokens(job.seq.nq - t);
        if (!n) continue;
        hybrid_scratch s = lnt_hybrid_open(&job, false);
        lnt_hybrid_attend(&job, &s, t, n, 0);
        nonpositive += lnt_hybrid_finish(&job, &s, t, n);
    }
    run->nonpositive = nonpositive;
}

/* ---- backward, with all queries of a sequence at hand ---------------------------------------- */

static size_t chunks_of(int64_t tokens) { return ((size_t)tokens + TOKENS - 1) / TOKENS; }

/* What is kept of a chunk of queries, of every head: see use_queries. */
static size_t chunk_size(const taylor_scratch *t)
{
    return t->heads * TOKENS * (2 * t->d + t->dp + t->mp + t->m + 3);
}

/* The scratch of a thread, with room for all queries: NULL where they are too many, or where linear
 * attention is far, which has features of them besides. */
static real *take_queries(lnt_arena *arena, const lnt_attn_desc *p, const taylor_scratch *t)
{
    enum { MOST = 1 << 20 }; /* what the last cache holds for a few threads */
    size_t count;
    if (!p->backward || p->far != LNT_TAYLOR) return NULL;
    if (!lnt_size_product(chunks_of(p->length_q), chunk_size(t), 1, &count) || count > MOST)
        return NULL;
    return take(arena, 1, count);
}

static size_t scratch_bytes(const lnt_attn_desc *p)
{
    lnt_arena counting = { .used = lnt_hybrid_scratch(p) };
    if (counting.used == SIZE_MAX) return SIZE_MAX;
    lnt_arena nothing = { 0 };
    const taylor_scratch t = lnt_taylor_take(&nothing, p);
    take_queries(&counting, p, &t);
    return counting.overflow ? SIZE_MAX : counting.used;
}

/* The chunk of queries kept at `at` is the one that is loaded. */
static void use_queries(hybrid_scratch *s, real *at)
{
    taylor_scratch *t = &s->t;
    const size_t rows = t->heads * TOKENS;
    t->qt = at;
    t->dt = t->qt + rows * t->d;
    t->q = t->dt + rows * t->d; /* [heads][TOKENS, dp] */
    t->dn = t->q + rows * t->dp;
    t->dnt = t->dn + rows * t->mp;
    t->dden = t->dnt + rows * t->m;
    s->max = t->dden + rows;
    s->shrink = s->max + rows;
}

/* What the queries in use give to the keys loaded, and take from them. */
static void add_pairs(const chunk_job *job, hybrid_scratch *s, const hybrid_tile *c)
{
    const kernels *ker = job->ker;
    taylor_scratch *t = &s->t;
    const bool far = has_far(job->run->p, c);
    const size_t lanes = lnt_round_up(c->queries, ker->lanes), from = c->from;
    for (size_t g = 0; g < t->heads; g++) {
        const size_t row = g * TOKENS + from;
        lnt_hybrid_weigh(job, s, g, c, far);
        ker->gemm_nn(t->dv, t->mp, t->x + from, TOKENS, t->dn + row * t->mp, t->mp, c->keys,
                     lnt_round_up(t->m, ker->lanes), c->queries - from, 1);
        ker->gemm_nn(t->dk, t->dp, t->dx + from, TOKENS, t->q + row * t->dp, t->dp, c->keys,
                     lnt_round_up(t->d, ker->lanes), c->queries - from, 1);
        ker->gemm_tn(t->dt + g * t->d * TOKENS + from, TOKENS, t->k, t->ldk, t->dx + from, TOKENS,
                     t->d, lanes - from, c->keys, 1);
    }
}

static void grad_keys(const chunk_job *job, hybrid_scratch *s, real *queries, int64_t key, size_t n)
{
    taylor_scratch *t = &s->t;
    const lnt_attn_grads *grads = job->run->grads;
    const int64_t alone = keys_alone(job), row = job->seq.k0 + key;
    const size_t chunks = chunks_of(job->seq.nq);
    lnt_hybrid_load_keys(job, s, key, n);
    memset(t->dv, 0, n * t->mp * sizeof(real));
    memset(t->dk, 0, n * t->dp * sizeof(real));
    for (size_t c = key > alone ? (size_t)(key - alone) / TOKENS : 0; c < chunks; c++) {
        const int64_t first = (int64_t)(c * TOKENS);
        const hybrid_tile tile = lnt_hybrid_tile_of(job, key, n, token_of(job, first),
                                                    chunk_tokens(job->seq.nq - first));
        use_queries(s, queries + c * chunk_size(t));
        add_pairs(job, s, &tile);
    }
    store_rows(job->ker, &grads->dk, job->seq.b, job->kvh, row, n, t->dk, t->dp, NULL);
    store_rows(job->ker, &grads->dv, job->seq.b, job->kvh, row, n, t->dv, t->mp, NULL);
}

static void grad_sequence(const chunk_job *job, hybrid_scratch *s, real *queries)
{
    const taylor_scratch *t = &s->t;
    const int64_t nq = job->seq.nq, nk = job->seq.nk, tile = LNT_TILE_KEYS;
    const int64_t past = keys_alone(job) % tile;
    for (size_t c = 0; c < chunks_of(nq); c++) {
        const int64_t first = (int64_t)(c * TOKENS);
        const size_t n = chunk_tokens(nq - first);
        use_queries(s, queries + c * chunk_size(t));
        lnt_hybrid_begin_queries(job, s, first, n);
        for (size_t g = 0; g < t->heads; g++)
            transpose(job->ker, t->q + g * TOKENS * t->dp, t->dp, t->qt + g * t->d * TOKENS, TOKENS,
                      n, t->d);
    }
    /* Tiles of keys begin where chunks of queries do. */
    for (int64_t key = 0, end = past ? past : tile; key < nk; key = end, end += tile)
        grad_keys(job, s, queries, key, (size_t)((end < nk ? end : nk) - key));
    for (size_t c = 0; c < chunks_of(nq); c++) {
        const int64_t first = (int64_t)(c * TOKENS);
        use_queries(s, queries + c * chunk_size(t));
        lnt_hybrid_store_dq(job, s, first, chunk_tokens(nq - first));
    }
}

static void backward(lnt_run *run)
{
    const lnt_attn_grads *g = run->grads;
    const int64_t KVH = run->p->kv_heads;
    if (scratch_bytes(run->p) == lnt_hybrid_scratch(run->p)) {
        lnt_hybrid_backward(run, false);
        return;
    }
    lnt_clear_gaps(run, &g->dq, false);
    lnt_clear_gaps(run, &g->dk, true);
    lnt_clear_gaps(run, &g->dv, true);
#pragma omp parallel for schedule(dynamic) num_threads(lnt_hybrid_threads(run))
    for (int64_t unit = 0; unit < run->sequences * KVH; unit++) {
        const chunk_job job = lnt_chunk_job(run, unit / KVH, unit % KVH);
        const size_t thread = (size_t)omp_get_thread_num();
        lnt_arena arena = { .base = run->scratch + thread * run->scratch_stride,
                            .capacity = run->scratch_stride };
        hybrid_scratch s = lnt_hybrid_open_in(&arena, &job, false);
        grad_sequence(&job, &s, take_queries(&arena, run->p, &s.t));
    }
}

static const char *refuses(const lnt_attn_desc *p)
{
    return p->causal ? NULL : lnt_hybrid_needs_causal;
}

static double cost(const lnt_attn_desc *p) { return lnt_direct_flops(p); }

const lnt_algo LNT_REAL_NAME(lnt_algo_hybrid_direct) = { .mechanism = LNT_HYBRID,
                                                         .name = "hybrid/direct",
                                                         .rate = 5e-11,
                                                         .cost = cost,
                                                         .both = 4.3,
                                                         .refuses = refuses,
                                                         .tile = TOKENS,
                                                         .keeps = true,
                                                         .shared = lnt_hybrid_shared,
                                                         .scratch = scratch_bytes,
                                                         .forward = forward,
                                                         .backward = backward };
