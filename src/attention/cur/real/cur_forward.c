/* attention/cur/real/cur_forward.c - Y = C (U^+ (R V)), and y of a landmark its row of R V.
 *
 *     C = softmax(scale q k_J^T)  [n, M]     U = C[I,:]     R = softmax(scale q_I k^T)  [M, n]
 *
 * The landmarks and U; R V over all keys; U^+ R V; then a tile of queries at a time its rows of C,
 * one query a column, times that.  O(n M (d + m) + M^3).  See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

enum { TQ = LNT_CUR_TILE_QUERIES };

/* The rows of o [nq, mp] that belong to landmarks become theirs of RV, undivided: by R they were, and
 * counted. */
static void copy_rows(const lnt_run *run, const cur_scratch *s, const cur_head *head, int64_t q0,
                      size_t nq, real *inverse)
{
    for (size_t l = cur_first_copied(run->p, head); l < head->queries; l++) {
        const int64_t at = head->i[l] - q0;
        if (at < 0 || at >= (int64_t)nq) continue;
        for (size_t c = 0; c < s->m; c++) s->o[(size_t)at * s->mp + c] = head->rv[l * s->mp + c];
        inverse[at] = s->sum[at] = 1;
    }
}

/* The piece of a head is a tile of queries.  Rows of C that cannot be divided count where there are
 * keys. */
static void output_tile(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    const kernels *ker = run_kernels(run);
    const int64_t q0 = head->piece * TQ, row = head->seq.q0 + q0;
    if (q0 >= head->seq.nq) return;
    const size_t nq = smaller(head->seq.nq - q0, TQ);
    if (head->mode == LNT_CUR_ALL_QUERIES) {
        store_rows(ker, &run->io->out, head->seq.b, head->h, row, nq,
                   head->rv + (size_t)q0 * s->mp, s->mp, NULL);
        return;
    }
    real *x = head->stored ? head->c + (size_t)q0 * s->M : s->x, *inverse = s->rescale;
    lnt_cur_query_weights(run, s, head, q0, nq, x, NULL);
    for (size_t i = 0; i < TQ; i++) inverse[i] = i < nq && s->sum[i] != 0 ? 1 / s->sum[i] : 0;
    if (head->stored) {
        ker->multiply_rows(x, TQ, x, TQ, inverse, head->keys, lnt_round_up(nq, ker->lanes));
        for (size_t i = 0; i < nq; i++) inverse[i] = 1;
    }
    ker->gemm_tn(s->o, s->mp, x, TQ, head->w, s->mp, nq, lnt_round_up(s->m, ker->lanes),
                 head->keys, 0);
    copy_rows(run, s, head, q0, nq, inverse);
    store_rows(ker, &run->io->out, head->seq.b, head->h, row, nq, s->o, s->mp, inverse);
    for (size_t i = 0; head->keys && i < nq; i++) s->undivided += !cur_divides(s->sum[i]);
}

static void solve(const cur_group *group, cur_scratch *s, cur_head *head)
{
    if (head->mode != LNT_CUR_LANDMARKS) return;
    if (group->run->p->cur.pinv == LNT_PINV_TUNED) {
        cur_report(s, lnt_cur_fit(s, head));
        return;
    }
    cur_report(s, lnt_pinv_forward(&s->pinv, head->u, s->z, lnt_cur_kept_of(group->run, head)));
    lnt_cur_weigh(s, head);
}

static void forward(const cur_group *group)
{
    const int64_t longest = lnt_run_longest(group->run, group->first, group->count, false);
    lnt_cur_begin(group);
    lnt_cur_each(group, 1, solve);
    lnt_cur_each(group, tiles_of(longest, TQ), output_tile);
}

void lnt_cur_forward(lnt_run *run, bool stored)
{
    lnt_clear_gaps(run);
    lnt_cur_each_group(run, stored, forward);
}
