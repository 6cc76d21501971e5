/* attention/cur_forward.c - Y = C (U^+ (R V)), and y of a landmark its row of R V.
 *
 *     C = softmax(scale q k_J^T)  [n, M]     U = C[I,:]     R = softmax(scale q_I k^T)  [M, n]
 *
 * The landmarks and U; R V over all keys; U^+ R V; then a tile of queries at a time its rows of C,
 * one query a column, times that.  O(n M (d + m) + M^3).  See docs/math/cur.md */
#include <math.h>

#include "attention/cur_pass.h"

enum { TQ = LNT_CUR_TILE_QUERIES };

/* The rows of o [nq, mp] that belong to landmarks become theirs of RV, undivided: by R they were, and
 * counted. */
static void copy_rows(const lnt_run *run, const cur_scratch *s, const cur_head *head, int64_t q0,
                      size_t nq, real *inverse)
{
    if (head->mode != LNT_CUR_LANDMARKS || !lnt_cur_copies_rows(run->p)) return;
    for (size_t l = 0; l < head->queries; l++) {
        const int64_t at = head->i[l] - q0;
        if (at < 0 || at >= (int64_t)nq) continue;
        for (size_t c = 0; c < s->m; c++) s->o[(size_t)at * s->mp + c] = head->rv[l * s->mp + c];
        inverse[at] = s->sum[at] = 1;
    }
}

/* Gives the rows of C that cannot be divided, unless there are no keys. */
static int64_t output_tile(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t tile,
                           bool stored)
{
    const kernels *ker = run_kernels(run);
    const int64_t q0 = tile * TQ, row = head->seq.q0 + q0;
    const size_t nq = smaller(head->seq.nq - q0, TQ);
    if (head->mode == LNT_CUR_ALL_QUERIES) {
        store_rows(ker, &run->io->out, head->seq.b, head->h, row, nq,
                   head->rv + (size_t)q0 * s->mp, s->mp, NULL);
        return 0;
    }
    real *x = stored ? head->c + (size_t)tile * s->M * TQ : s->x, *inverse = s->rescale;
    lnt_cur_query_weights(run, s, head, q0, nq, x, NULL);
    for (size_t i = 0; i < TQ; i++) inverse[i] = i < nq && s->sum[i] != 0 ? 1 / s->sum[i] : 0;
    if (stored) {
        ker->multiply_rows(x, TQ, x, TQ, inverse, head->keys, lnt_round_up(nq, ker->lanes));
        for (size_t i = 0; i < nq; i++) inverse[i] = 1;
    }
    ker->gemm_tn(s->o, s->mp, x, TQ, head->w, s->mp, nq, lnt_round_up(s->m, ker->lanes),
                 head->keys, 0);
    copy_rows(run, s, head, q0, nq, inverse);
    store_rows(ker, &run->io->out, head->seq.b, head->h, row, nq, s->o, s->mp, inverse);
    int64_t undivided = 0;
    for (size_t i = 0; head->keys && i < nq; i++) undivided += !cur_divides(s->sum[i]);
    return undivided;
}

static void prepare_heads(const lnt_run *run, int64_t first, int64_t count, bool stored)
{
    const int64_t H = run->p->heads;
    const int threads = cur_threads(run, first, count);
#pragma omp parallel num_threads(threads)
    {
        cur_scratch s = lnt_cur_thread(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < count * H; unit++) {
            cur_head head = lnt_cur_head(run, first + unit / H, unit / H, unit % H, stored);
            lnt_cur_prepare(run, &s, &head);
        }
    }
}

int64_t lnt_cur_begin(const lnt_run *run, int64_t first, int64_t count, bool stored)
{
    prepare_heads(run, first, count, stored);
    return lnt_cur_rows(run, first, count, stored);
}

static void solve_heads(lnt_run *run, int64_t first, int64_t count, bool stored)
{
    const int64_t H = run->p->heads;
    const int threads = cur_threads(run, first, count);
    int64_t divergent = 0;
    double rank = run->rank;
#pragma omp parallel num_threads(threads) reduction(+ : divergent) reduction(min : rank)
    {
        cur_scratch s = lnt_cur_thread(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < count * H; unit++) {
            cur_head head = lnt_cur_head(run, first + unit / H, unit / H, unit % H, stored);
            if (head.mode != LNT_CUR_LANDMARKS) continue;
            const lnt_pinv_report report = lnt_pinv_forward(&s.pinv, head.u, s.z);
            lnt_cur_weigh(&s, &head);
            divergent += report.diverged;
            rank = report.rank < rank ? report.rank : rank;
        }
    }
    run->divergent += divergent;
    run->rank = rank;
}

static int64_t output_tiles(const lnt_run *run, int64_t first, int64_t count, bool stored)
{
    const int64_t H = run->p->heads;
    const int64_t tiles = tiles_of(lnt_run_longest(run, first, count, false), TQ);
    const int threads = cur_threads(run, first, count);
    int64_t undivided = 0;
#pragma omp parallel num_threads(threads) reduction(+ : undivided)
    {
        cur_scratch s = lnt_cur_thread(run);
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < count * H * tiles; unit++) {
            const int64_t slot = unit / tiles / H;
            const cur_head head =
                lnt_cur_head(run, first + slot, slot, unit / tiles % H, stored);
            if (unit % tiles * TQ >= head.seq.nq) continue;
            undivided += output_tile(run, &s, &head, unit % tiles, stored);
        }
    }
    return undivided;
}

void lnt_cur_forward(lnt_run *run, bool stored)
{
    const int64_t group = cur_group(run);
    run->rank = INFINITY;
    lnt_clear_gaps(run, &run->io->out, false);
    for (int64_t first = 0; first < run->sequences; first += group) {
        const int64_t left = run->sequences - first, count = left < group ? left : group;
        run->nonpositive += lnt_cur_begin(run, first, count, stored);
        solve_heads(run, first, count, stored);
        run->nonpositive += output_tiles(run, first, count, stored);
    }
}
