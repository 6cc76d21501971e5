/* attention/softmax/real/softmax_rows.c - exact softmax attention for a few queries at a time, for decoding.
 *
 *     y = sum_j e^{x_j} v_j / sum_j e^{x_j},   x_j = scale q.k_j
 *
 * Lanes run along d for the scores and along m for the sum, so that a single query wastes none of
 * them.  O(n (d + m)) for each query; a key and its value are read once, as they are stored, for all
 * queries of the heads that share them.  Where the queries are few and the heads too, the keys of a head
 * are cut into pieces, and the answers of the pieces are added up at the end: there is work for every
 * thread, and the same bits for any number of threads, for the pieces depend on the number of keys alone.
 * With a window the keys are those of it: what no query of a block sees is not read, nor cut into pieces.
 * Backward is that of the tiles.  See docs/math/softmax.md */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "attention/softmax/softmax.h"
#include "core/dtype.h"
#include "core/threads.h"

enum {
    FEW = 8,       /* queries of a head at once; only a run of so many is cut into pieces */
    KEYS = 128,    /* at a time */
    LEAST = 256,   /* keys of a piece */
    PIECES = 16,   /* of a head, at most, */
    IN_ALL = 64    /* and of all heads where each has but a few */
};

typedef struct scratch {
    size_t d, m, dp, mp, group;
    real *q;        /* [FEW group, dp]: row i group + g is query i of head g */
    real *k, *v;    /* [KEYS, dp], [KEYS, mp]: where the tensors cannot be read as they are */
    real *x;        /* [FEW group, KEYS] scores, then weights */
    real *bias;     /* [KEYS] of a mask */
    real *o;        /* [FEW group, mp] */
    real *max, *sum, *rescale; /* [FEW group] */
} scratch;

static scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t d = (size_t)p->dim, m = (size_t)p->dim_value, group = lnt_problem_group(p);
    scratch s = { .d = d, .m = m, .dp = lnt_round_up(pad(d), LNT_Q8_NUMBERS), .mp = pad(m), .group = group };
    s.q = take(arena, FEW * group, s.dp);
    s.k = take(arena, KEYS, s.dp);
    s.v = take(arena, KEYS, s.mp);
    s.x = take(arena, FEW * group, KEYS);
    s.bias = take(arena, 1, KEYS);
    s.o = take(arena, FEW * group, s.mp);
    s.max = take(arena, 1, pad(FEW * group));
    s.sum = take(arena, 1, pad(FEW * group));
    s.rescale = take(arena, 1, pad(FEW * group));
    return s;
}

/* ---- pieces ------------------------------------------------------------------------------------ */

/* The most that a kv head of p has. */
static int64_t most_pieces(const lnt_attn_desc *p)
{
    if (p->batch >= IN_ALL || p->kv_heads >= IN_ALL || !p->batch || !p->kv_heads) return 1;
    const int64_t each = IN_ALL / (p->batch * p->kv_heads);
    return each < 1 ? 1 : each > PIECES ? PIECES : each;
}

static int64_t piece_keys(int64_t keys, int64_t most)
{
    const int64_t even = (keys + most - 1) / most, whole = (even + KEYS - 1) / KEYS * KEYS;
    return whole > LEAST ? whole : LEAST;
}

/* What the pieces of one query of one head give before they are added up. */
typedef struct answers {
    real *o;         /* [pieces, mp] */
    real *max, *sum; /* [padded pieces] */
} answers;

static size_t answers_size(const lnt_attn_desc *p)
{
    const size_t most = (size_t)most_pieces(p);
    return most * pad((size_t)p->dim_value) + 2 * pad(most);
}

static answers answers_of(const lnt_run *run, int64_t sequence, int64_t h, int64_t i)
{
    const int64_t most = most_pieces(run->p), row = (sequence * run->p->heads + h) * FEW + i;
    answers a = { .o = (real *)run->shared + (size_t)row * answers_size(run->p) };
    a.max = a.o + most * (int64_t)pad((size_t)run->p->dim_value);
    a.sum = a.max + pad((size_t)most);
    return a;
}

static size_t shared_bytes(const lnt_attn_desc *p)
{
    const size_t carried = lnt_two_per_query(p);
    size_t rows, bytes;
    if (most_pieces(p) == 1) return carried;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, FEW, &rows) ||
        !lnt_size_product(rows, answers_size(p), sizeof(real), &bytes))
        return SIZE_MAX;
    return bytes > carried ? bytes : carried;
}

/* ---- queries against keys ---------------------------------------------------------------------- */

/* Keys first .. end-1. */
typedef struct span {
    int64_t first, end;
} span;

/* A block of queries of one kv head: `count` of them from i on, of each head in the group. */
typedef struct few {
    const lnt_run *run;
    const kernels *ker;
    lnt_sequence seq;
    lnt_band band;
    int64_t sequence, kvh, i, count;
    bool adjusts; /* scores are more than products */
} few;

/* The keys that queries i .. i+n-1 of the block see, or some of them. */
static span seen_by(const few *f, int64_t i, int64_t n)
{
    return (span){ lnt_band_first(f->band, f->i + i), lnt_band_end(f->band, f->i + i + n - 1, f->seq.nk) };
}

static span common(span a, span b)
{
    return (span){ a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end };
}

static void load_queries(const few *f, scratch *s)
{
    for (int64_t i = 0; i < f->count; i++)
        for (size_t g = 0; g < s->group; g++)
            load_rows(f->ker, s->q + ((size_t)i * s->group + g) * s->dp, s->dp, &f->run->io->q, f->seq.b,
                      f->kvh * (int64_t)s->group + (int64_t)g, f->seq.q0 + f->i + i, 1, f->run->p->scale);
    const size_t rows = (size_t)f->count * s->group;
    memset(s->o, 0, rows * s->mp * sizeof(real));
    for (size_t r = 0; r < rows; r++) s->max[r] = -(real)INFINITY, s->sum[r] = 0;
}

/* Rows of keys or values as the kernels take them: where they are, if each lies together and near the
 * next; else in own [n, ld]. */
typedef struct stored {
    const void *at;
    int dtype;
    int64_t stride;
} stored;

static stored read_stored(const few *f, const lnt_tensor *t, int64_t first, size_t n, real *own, size_t ld)
{
    const bool near = n == 1 || (t->stride[2] >= 0 && t->stride[2] <= 4 * t->shape[3]);
    if (t->stride[3] == 1 && near)
        return (stored){ lnt_tensor_row(t, f->seq.b, f->kvh, first), (int)t->dtype, t->stride[2] };
    load_rows(f->ker, own, ld, t, f->seq.b, f->kvh, first, n, 1);
    return (stored){ own, LNT_REAL_DTYPE, (int64_t)ld };
}

static stored behind(stored rows, int64_t n)
{
    const int64_t size = rows.dtype == LNT_Q8 ? 2 : (int64_t)lnt_dtype_size((lnt_dtype)rows.dtype);
    rows.at = (const char *)rows.at + n * rows.stride * size;
    return rows;
}

/* Rows of queries r .. r+rows-1 over the n keys from j on, which all of them see: the first n rows of
 * k and v. */
static void fold(const few *f, scratch *s, size_t r, size_t rows, stored k, stored v, int64_t j, size_t n)
{
    const kernels *ker = f->ker;
    const size_t padded = lnt_round_up(n, ker->lanes);
    real *x = s->x + r * KEYS;
    ker->cache_scores(x, KEYS, s->q + r * s->dp, s->dp, rows, k.at, k.dtype, k.stride, n, s->d);
    for (size_t i = r; i < r + rows; i++) {
        real *at = s->x + i * KEYS;
        if (f->adjusts)
            lnt_softmax_adjust_row(f->run, ker, &f->seq, f->kvh * (int64_t)s->group + (int64_t)(i % s->group),
                                   f->i + (int64_t)(i / s->group), j, n, at, s->bias);
        for (size_t c = n; c < padded; c++) at[c] = -(real)INFINITY;
        ker->softmax_row(at, padded, s->max + i, s->sum + i, s->rescale + i);
        if (s->rescale[i] != 1) ker->scale(s->o + i * s->mp, s->rescale[i], s->m);
    }
    ker->cache_sum(s->o + r * s->mp, s->mp, x, KEYS, rows, v.at, v.dtype, v.stride, n, s->m);
}

/* Each query of the block over those of the keys from j on that it sees, of n. */
static void fold_each(const few *f, scratch *s, stored k, stored v, int64_t j, size_t n)
{
    for (int64_t i = 0; i < f->count; i++) {
        const span own = common(seen_by(f, i, 1), (span){ j, j + (int64_t)n });
        if (own.first < own.end)
            fold(f, s, (size_t)i * s->group, s->group, behind(k, own.first - j), behind(v, own.first - j),
                 own.first, (size_t)(own.end - own.first));
    }
}

/* All queries of the block over those of some keys that they see. */
static void attend(const few *f, scratch *s, span keys)
{
    const span all = common(seen_by(f, 0, 1), seen_by(f, f->count - 1, 1));
    for (int64_t j = keys.first; j < keys.end; j += KEYS) {
        const size_t n = smaller(keys.end - j, KEYS);
        const stored k = read_stored(f, &f->run->io->k, f->seq.k0 + j, n, s->k, s->dp);
        const stored v = read_stored(f, &f->run->io->v, f->seq.k0 + j, n, s->v, s->mp);
        if (j >= all.first && j + (int64_t)n <= all.end)
            fold(f, s, 0, (size_t)f->count * s->group, k, v, j, n);
        else
            fold_each(f, s, k, v, j, n);
    }
}

/* ---- a run ------------------------------------------------------------------------------------- */

static int64_t finish(const few *f, const scratch *s)
{
    int64_t nonpositive = 0;
    for (int64_t i = 0; i < f->count; i++)
        for (size_t g = 0; g < s->group; g++) {
            const size_t r = (size_t)i * s->group + g;
            const query_rows rows = { &f->seq, f->kvh * (int64_t)s->group + (int64_t)g, f->i + i, 1 };
            nonpositive += lnt_tile_finish(f->run, rows, s->o + r * s->mp, s->sum + r, s->max + r,
                                           s->rescale + r);
        }
    return nonpositive;
}

static void keep(const few *f, const scratch *s, int64_t piece)
{
    for (int64_t i = 0; i < f->count; i++)
        for (size_t g = 0; g < s->group; g++) {
            const size_t r = (size_t)i * s->group + g;
            const answers a = answers_of(f->run, f->sequence, f->kvh * (int64_t)s->group + (int64_t)g, i);
            memcpy(a.o + (size_t)piece * s->mp, s->o + r * s->mp, s->mp * sizeof(real));
            a.max[piece] = s->max[r];
            a.sum[piece] = s->sum[r];
        }
}

/* The row r of the block from its pieces: their maxima become weights, e^(max - the largest). */
static void join(const few *f, scratch *s, answers a, size_t pieces, size_t r)
{
    const kernels *ker = f->ker;
    const size_t padded = lnt_round_up(pieces, ker->lanes);
    real *weight = s->x;
    memcpy(weight, a.max, pieces * sizeof(real));
    for (size_t j = pieces; j < padded; j++) weight[j] = -(real)INFINITY;
    s->max[r] = -(real)INFINITY;
    s->sum[r] = 0;
    ker->softmax_row(weight, padded, s->max + r, s->sum + r, s->rescale + r);
    s->sum[r] = ker->dot(weight, a.sum, pieces);
    ker->gemm_nn(s->o + r * s->mp, s->mp, weight, pieces, a.o, s->mp, 1, lnt_round_up(s->m, ker->lanes),
                 pieces, 0);
}

/* How a run is cut: each kv head of a sequence into blocks of queries, each block into pieces of its keys. */
typedef struct cut {
    int64_t blocks, most;
    int64_t pieces; /* at least as many as any block has: fewer keys may make more pieces */
} cut;

static int64_t pieces_of(span keys, int64_t most)
{
    const int64_t count = keys.end - keys.first;
    return count > 0 ? tiles_of(count, piece_keys(count, most)) : 1;
}

static cut cut_of(const lnt_run *run)
{
    const bool few_queries = run->io->q.shape[2] <= FEW && run->sequences <= run->p->batch;
    cut c = { .blocks = tiles_of(run->io->q.shape[2], FEW), .most = few_queries ? most_pieces(run->p) : 1 };
    c.pieces = tiles_of(lnt_run_longest(run, 0, run->sequences, true), LEAST);
    if (c.pieces > c.most) c.pieces = c.most;
    if (c.pieces < 1) c.pieces = 1;
    return c;
}

static few few_of(const lnt_run *run, int64_t sequence, int64_t kvh, int64_t block)
{
    few f = { .run = run, .ker = run_kernels(run), .sequence = sequence, .kvh = kvh, .i = block * FEW };
    f.seq = lnt_io_sequence(run->io, sequence);
    f.count = f.seq.nq - f.i < FEW ? f.seq.nq - f.i : FEW;
    f.band = lnt_band_of(run->p, run->causal, f.seq.nq, f.seq.nk);
    f.adjusts = lnt_softmax_adjusts(run);
    return f;
}

static scratch thread_scratch(const lnt_run *run, int thread)
{
    lnt_arena arena = run_arena(run, thread);
    return take_scratch(&arena, run->p);
}

static int64_t run_piece(const lnt_run *run, cut c, scratch *s, int64_t unit)
{
    const int64_t KVH = run->p->kv_heads;
    const int64_t block = unit / c.pieces, piece = unit % c.pieces, head = block / c.blocks;
    const few f = few_of(run, head / KVH, head % KVH, block % c.blocks);
    const span keys = seen_by(&f, 0, f.count);
    const int64_t pieces = pieces_of(keys, c.most), width = piece_keys(keys.end - keys.first, c.most);
    const int64_t from = keys.first + piece * width;
    if (f.count <= 0 || piece >= pieces) return 0;
    load_queries(&f, s);
    attend(&f, s, common(keys, (span){ from, from + width }));
    if (pieces == 1) return finish(&f, s);
    keep(&f, s, piece);
    return 0;
}

/* All pieces; where one thread does it, without a parallel region, which costs as much as a hundred keys. */
static int64_t run_pieces(const lnt_run *run, cut c, int threads)
{
    const int64_t units = run->sequences * run->p->kv_heads * c.blocks * c.pieces;
    int64_t nonpositive = 0;
    if (threads == 1) {
        scratch s = thread_scratch(run, 0);
        for (int64_t unit = 0; unit < units; unit++) nonpositive += run_piece(run, c, &s, unit);
        return nonpositive;
    }
#pragma omp parallel num_threads(threads) reduction(+ : nonpositive)
    {
        scratch s = thread_scratch(run, omp_get_thread_num());
#pragma omp for schedule(dynamic) nowait
        for (int64_t unit = 0; unit < units; unit++) nonpositive += run_piece(run, c, &s, unit);
    }
    return nonpositive;
}

/* Adds the pieces up, where there are several. */
static int64_t join_pieces(const lnt_run *run, cut c)
{
    scratch s = thread_scratch(run, 0);
    const int64_t KVH = run->p->kv_heads;
    int64_t nonpositive = 0;
    for (int64_t head = 0; head < run->sequences * KVH; head++) {
        const few f = few_of(run, head / KVH, head % KVH, 0);
        const int64_t pieces = pieces_of(seen_by(&f, 0, f.count), c.most);
        if (f.count <= 0 || pieces == 1) continue;
        for (int64_t i = 0; i < f.count; i++)
            for (size_t g = 0; g < s.group; g++)
                join(&f, &s, answers_of(run, f.sequence, f.kvh * (int64_t)s.group + (int64_t)g, i),
                     (size_t)pieces, (size_t)i * s.group + g);
        nonpositive += finish(&f, &s);
    }
    return nonpositive;
}

static void forward(lnt_run *run)
{
    const cut c = cut_of(run);
    const double flops = 2 * (double)(run->p->dim + run->p->dim_value) * (double)run->p->heads;
    lnt_clear_gaps(run);
    run->nonpositive = run_pieces(run, c, lnt_threads_for(run->ctx, flops * lnt_run_pairs(run)));
    if (c.pieces > 1) run->nonpositive += join_pieces(run, c);
}

static size_t scratch_bytes(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p);
    const size_t own = lnt_arena_counted(&counting);
    const size_t back = p->backward ? lnt_direct_scratch(p) : 0;
    return own > back ? own : back;
}

const lnt_algo LNT_REAL_NAME(lnt_algo_softmax_rows) = { .mechanism = LNT_SOFTMAX,
                                                        .name = "softmax/rows",
                                                        .rate = 1.5e-10,
                                                        .cost = lnt_direct_flops,
                                                        .keeps = true,
                                                        .state_runs = LNT_STATE_RUNS_FEW,
                                                        .shared = shared_bytes,
                                                        .scratch = scratch_bytes,
                                                        .forward = forward,
                                                        .backward = lnt_softmax_backward };
