/* attention/cur/real/cur_pass.c - the memory of CUR attention, how threads walk over it, and the scores of a
 * tile.  See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "attention/cur/laplace.h"
#include "core/threads.h"

enum { TQ = LNT_CUR_TILE_QUERIES, TK = LNT_CUR_TILE_KEYS };

/* ---- memory ---------------------------------------------------------------------------------- */

static cur_part take_part(lnt_arena *arena, const lnt_attn_desc *p)
{
    const size_t Q = cur_most(p) + cur_probes(p), Mp = pad(Q), mp = pad((size_t)p->dim_value);
    cur_part part = { .rows = take(arena, Q, mp), .max = take(arena, 1, Mp) };
    part.sum = take(arena, 1, Mp);
    part.land = take(arena, p->backward ? Q : 0, pad((size_t)p->dim));
    return part;
}

static double *take_double(lnt_arena *arena, size_t rows, size_t cols)
{
    return lnt_arena_take_matrix(arena, rows, cols, sizeof(double));
}

static cur_head take_head(lnt_arena *arena, const lnt_attn_desc *p, bool stored)
{
    const size_t M = cur_most(p), Q = M + cur_probes(p), Mp = pad(Q), d = (size_t)p->dim;
    const size_t dp = pad(d), mp = pad((size_t)p->dim_value), back = p->backward != 0;
    cur_head head = { .i = lnt_arena_take(arena, Q, sizeof *head.i) };
    head.j = lnt_arena_take(arena, M, sizeof *head.j);
    head.qt = take(arena, d, Mp);
    head.k = take(arena, M, dp);
    head.rv = take(arena, Q, mp);
    head.w = take(arena, M, mp);
    head.max = take(arena, 1, Mp);
    head.sum = take(arena, 1, Mp);
    head.lse = take(arena, 1, Mp);
    head.u = take_double(arena, cur_inverts(p) ? Q : 0, lnt_pinv_ld(p));
    head.drv = take(arena, back * Q, mp);
    head.dw = take(arena, back * M, mp);
    head.dq = take(arena, back * Q, dp);
    head.dk = take(arena, back * M, dp);
    const size_t keeps = stored ? 1 : 0, tiles = (size_t)tiles_of(p->length_q, TQ);
    head.c = take(arena, keeps * tiles * TQ, M);
    head.r = take(arena, keeps * (size_t)p->length_k, Mp);
    lnt_arena one = { 0 };
    take_part(&one, p);
    head.part_bytes = one.used;
    arena->overflow |= one.overflow;
    head.parts = lnt_arena_take(arena, (size_t)cur_segments(p), head.part_bytes);
    return head;
}

static size_t head_bytes(const lnt_attn_desc *p, bool stored)
{
    lnt_arena one = { 0 };
    take_head(&one, p, stored);
    return lnt_arena_counted(&one);
}

size_t lnt_cur_shared(const lnt_attn_desc *p, bool stored)
{
    size_t bytes;
    const size_t one = head_bytes(p, stored);
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, one, &bytes)) return SIZE_MAX;
    return bytes;
}

cur_part lnt_cur_part(const lnt_attn_desc *p, const cur_head *head, int64_t segment)
{
    lnt_arena arena = { .base = head->parts + (size_t)segment * head->part_bytes,
                        .capacity = head->part_bytes };
    return take_part(&arena, p);
}

cur_head lnt_cur_head(const cur_group *group, int64_t slot, int64_t h)
{
    const lnt_run *run = group->run;
    const lnt_attn_desc *p = run->p;
    const size_t bytes = head_bytes(p, group->stored);
    lnt_arena arena = { .base = run->shared + (size_t)(slot * p->heads + h) * bytes,
                        .capacity = bytes };
    cur_head head = take_head(&arena, p, group->stored);
    head.seq = lnt_io_sequence(run->io, group->first + slot);
    head.slot = slot;
    head.stored = group->stored;
    head.h = h;
    head.kvh = h * p->kv_heads / p->heads;
    head.mode = lnt_cur_mode_of(p, &head.seq);
    const size_t M = (size_t)p->cur.landmarks;
    head.queries = (size_t)head.seq.nq;
    if (head.mode == LNT_CUR_LANDMARKS)
        head.queries = M + smaller(head.seq.nq - p->cur.landmarks, cur_probes(p));
    head.keys = head.mode == LNT_CUR_LANDMARKS ? M : (size_t)head.seq.nk;
    if (head.mode == LNT_CUR_ALL_KEYS) head.queries = 0;
    if (head.mode == LNT_CUR_ALL_QUERIES) head.keys = 0;
    return head;
}

static cur_scratch take_scratch(lnt_arena *arena, const lnt_attn_desc *p, int isa)
{
    const size_t d = (size_t)p->dim, m = (size_t)p->dim_value, M = cur_most(p), Q = M + cur_probes(p);
    const size_t Mp = pad(Q), back = p->backward != 0, widest = Mp > TQ ? Mp : TQ;
    const size_t tile = Mp * TQ; /* [M, TQ] or [TK, Mp] */
    const size_t square = cur_inverts(p) ? M : 0, all = cur_inverts(p) ? Q : 0;
    cur_scratch s = { .d = d, .m = m, .dp = pad(d), .mp = pad(m), .M = M, .Q = Q, .Mp = Mp,
                      .ld = lnt_pinv_ld(p), .rank = INFINITY };
    s.qt = take(arena, d, TQ);
    s.k_own = take(arena, TK, s.dp);
    s.v_own = take(arena, TK, s.mp);
    s.x = take(arena, 1, tile);
    s.o = take(arena, TQ, s.mp);
    s.max = take(arena, 1, widest);
    s.sum = take(arena, 1, widest);
    s.rescale = take(arena, 1, widest);
    s.delta = take(arena, 1, widest);
    s.dx = take(arena, back, tile);
    s.slope = take(arena, back && cur_is_laplace(p) ? 1 : 0, tile);
    s.q = take(arena, back * TQ, s.dp);
    s.dy = take(arena, back * TQ, s.mp);
    s.dyt = take(arena, back * m, TQ);
    s.dtq = take(arena, back * TQ, s.dp);
    s.dtk = take(arena, back * TK, s.dp);
    s.dtv = take(arena, back * TK, s.mp);
    s.rows = take(arena, back * Q, s.dp);
    s.transposed = take(arena, back * m, Mp);
    s.ql = take_double(arena, all, s.dp);
    s.kl = take_double(arena, square, s.dp);
    s.qlt = take_double(arena, square ? d : 0, Mp);
    s.klt = take_double(arena, square ? d : 0, s.ld);
    s.z = take_double(arena, square, s.ld);
    s.dz = take_double(arena, back * all, s.ld);
    s.du = take_double(arena, back * all, s.ld);
    const size_t values = s.mp > s.dp ? s.mp : s.dp;
    s.narrow = take_double(arena, all, values);
    s.wide = take_double(arena, all, values);
    if (!square) return s;
    const size_t clusters = lnt_cur_clusters(p);
    s.keys = take_double(arena, clusters * TK, s.dp);
    s.near = take_double(arena, clusters * TK, s.ld);
    s.half = take_double(arena, clusters, M);
    s.members = take_double(arena, clusters, M);
    s.choosing = take_double(arena, 1, lnt_landmark_scratch(p) / sizeof(double));
    const size_t tuned = cur_probes(p) != 0;
    s.row = take_double(arena, tuned, s.mp);
    s.dwide = take_double(arena, tuned * back * M, s.mp);
    s.pinv = lnt_pinv_take(arena, p, isa);
    return s;
}

size_t lnt_cur_scratch(const lnt_attn_desc *p)
{
    lnt_arena counting = { 0 };
    take_scratch(&counting, p, 0);
    return lnt_arena_counted(&counting);
}

size_t lnt_cur_kept(const lnt_attn_desc *p)
{
    size_t heads, bytes;
    if (!p->backward || !cur_inverts(p)) return 0;
    if (!lnt_size_product((size_t)p->batch, (size_t)p->heads, sizeof(double), &heads) ||
        !lnt_size_product(heads, lnt_pinv_kept(p), 1, &bytes))
        return SIZE_MAX;
    return bytes;
}

double *lnt_cur_kept_of(const lnt_run *run, const cur_head *head)
{
    if (!run->kept || run->io->sequences) return NULL;
    return (double *)run->kept + (size_t)(head->seq.b * run->p->heads + head->h) * lnt_pinv_kept(run->p);
}

static cur_scratch thread_scratch(const lnt_run *run)
{
    lnt_arena arena = run_arena(run, omp_get_thread_num());
    return take_scratch(&arena, run->p, run->ctx->isa);
}

/* ---- walks ----------------------------------------------------------------------------------- */

void lnt_cur_each_group(lnt_run *run, bool stored, void (*work)(const cur_group *group))
{
    const int64_t most = run->p->batch < run->sequences ? run->p->batch : run->sequences;
    run->rank = INFINITY;
    for (int64_t first = 0; first < run->sequences; first += most) {
        const int64_t left = run->sequences - first;
        work(&(cur_group){ run, first, left < most ? left : most, stored });
    }
}

/* How many threads a pass over the sequences of a group is worth. */
static int group_threads(const cur_group *group)
{
    const lnt_run *run = group->run;
    double tokens = 0;
    for (int64_t s = group->first; s < group->first + group->count; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        tokens += (double)(seq.nq + seq.nk);
    }
    const double width = (double)(run->p->dim + run->p->dim_value);
    return lnt_threads_for(run->ctx,
                           tokens * width * (double)cur_most(run->p) * (double)run->p->heads);
}

void lnt_cur_each(const cur_group *group, int64_t pieces, cur_step *step)
{
    lnt_run *run = group->run;
    const int64_t H = run->p->heads;
    const int threads = group_threads(group);
    int64_t undivided = 0, divergent = 0;
    double rank = run->rank;
#pragma omp parallel num_threads(threads) reduction(+ : undivided, divergent) reduction(min : rank)
    {
        cur_scratch s = thread_scratch(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < group->count * H * pieces; unit++) {
            cur_head head = lnt_cur_head(group, unit / pieces / H, unit / pieces % H);
            head.piece = unit % pieces;
            step(group, &s, &head);
        }
        undivided = s.undivided, divergent = s.divergent, rank = s.rank;
    }
    run->nonpositive += undivided;
    run->divergent += divergent;
    run->rank = rank;
}

void lnt_cur_each_tile(const cur_group *group, bool keys, cur_clear *clear, cur_tile *tile)
{
    const lnt_run *run = group->run;
    const int64_t H = run->p->heads, segments = cur_segments(run->p), width = keys ? TK : TQ;
    const lnt_cur_mode without = keys ? LNT_CUR_ALL_KEYS : LNT_CUR_ALL_QUERIES;
    const int threads = group_threads(group);
#pragma omp parallel num_threads(threads)
    {
        cur_scratch s = thread_scratch(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < group->count * H * segments; unit++) {
            const int64_t g = unit % segments;
            const cur_head head = lnt_cur_head(group, unit / segments / H, unit / segments % H);
            const int64_t n = keys ? head.seq.nk : head.seq.nq;
            const int64_t end = cur_segment_start(run->p, n, width, g + 1);
            if (head.mode == without) continue;
            const cur_part part = lnt_cur_part(run->p, &head, g);
            if (clear) clear(&s, &part);
            for (int64_t t = cur_segment_start(run->p, n, width, g); t < end; t += width)
                tile(run, &s, &head, &part, t, smaller(end - t, (size_t)width));
        }
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

void lnt_cur_laplace(real *x, real *slope, size_t ld, size_t rows, size_t width)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) {
            const double score = (double)x[r * ld + c];
            x[r * ld + c] = (real)laplace(score);
            if (slope) slope[r * ld + c] = (real)laplace_slope(score);
        }
}

const real *lnt_cur_key_scores(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t k0,
                               size_t nk, real *x, size_t *ldk)
{
    const kernels *ker = run_kernels(run);
    *ldk = s->dp;
    const real *k = read_rows(ker, s->k_own, ldk, &run->io->k, head->seq.b, head->kvh,
                              head->seq.k0 + k0, nk);
    ker->gemm_nn(x, s->Mp, k, *ldk, head->qt, s->Mp, nk, lnt_round_up(head->queries, ker->lanes),
                 s->d, 0);
    return k;
}

void lnt_cur_query_weights(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t q0,
                           size_t nq, real *x, real *slope)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(nq, ker->lanes);
    load_columns(ker, s->qt, TQ, &run->io->q, head->seq.b, head->h, head->seq.q0 + q0, nq,
                 run->p->scale);
    ker->gemm_nn(x, TQ, head->k, s->dp, s->qt, TQ, head->keys, lanes, s->d, 0);
    if (cur_is_laplace(run->p)) {
        lnt_cur_laplace(x, slope, TQ, head->keys, lanes);
        for (size_t i = 0; i < lanes; i++) s->sum[i] = 1;
        return;
    }
    for (size_t i = 0; i < TQ; i++) s->max[i] = -(real)INFINITY, s->sum[i] = 0;
    ker->softmax_fold(x, x, TQ, head->keys, lanes, s->max, s->sum, s->rescale);
}

void lnt_cur_add_row(const lnt_run *run, cur_scratch *s, const lnt_tensor *t, int64_t b, int64_t h,
                     int64_t row, real part, const real *x)
{
    const kernels *ker = run_kernels(run);
    load_rows(ker, s->k_own, s->dp, t, b, h, row, 1, 1);
    ker->axpy(s->k_own, part, x, s->d);
    store_rows(ker, t, b, h, row, 1, s->k_own, s->dp, NULL);
}
