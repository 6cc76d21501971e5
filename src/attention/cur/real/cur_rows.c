/* attention/cur/real/cur_rows.c - the landmark rows of CUR attention over all keys, R V.
 *
 *     R = softmax(scale q_I k^T)  [M, n]     RV [M, m]
 *
 * Tiles of keys pass by, with one landmark a column; each segment of the keys has sums of its own,
 * added at the end in their order.  flash: a running maximum, R is never there; stored: the scores
 * of all keys first, then the weights.  O(n M (d + m)). */
#include <math.h>
#include <string.h>

#include "attention/cur/cur_pass.h"

enum { TK = LNT_CUR_TILE_KEYS };

static const real *read_values(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t k0,
                               size_t nk, size_t *ldv)
{
    *ldv = s->mp;
    return read_rows(run_kernels(run), s->v_own, ldv, &run->io->v, head->seq.b, head->kvh,
                     head->seq.k0 + k0, nk);
}

static void clear_part(const cur_scratch *s, const cur_part *part)
{
    memset(part->rows, 0, s->Q * s->mp * sizeof(real));
    for (size_t i = 0; i < s->Mp; i++) part->max[i] = -(real)INFINITY, part->sum[i] = 0;
}

/* Adds x^T v of a tile to the segment's rows. */
static void add_values(const lnt_run *run, cur_scratch *s, const cur_head *head,
                       const cur_part *part, int64_t k0, size_t nk, const real *x)
{
    const kernels *ker = run_kernels(run);
    size_t ldv;
    const real *v = read_values(run, s, head, k0, nk, &ldv);
    ker->gemm_tn(part->rows, s->mp, x, s->Mp, v, ldv, head->queries,
                 lnt_round_up(s->m, ker->lanes), nk, 1);
}

static void flash_tile(const lnt_run *run, cur_scratch *s, const cur_head *head,
                       const cur_part *part, int64_t k0, size_t nk)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(head->queries, ker->lanes);
    size_t ldk;
    lnt_cur_key_scores(run, s, head, k0, nk, s->x, &ldk);
    if (cur_is_laplace(run->p)) {
        lnt_cur_laplace(s->x, NULL, s->Mp, nk, lanes);
    } else {
        ker->softmax_fold(s->x, s->x, s->Mp, nk, lanes, part->max, part->sum, s->rescale);
        for (size_t i = 0; i < head->queries; i++)
            if (s->rescale[i] != 1) ker->scale(part->rows + i * s->mp, s->rescale[i], s->mp);
    }
    add_values(run, s, head, part, k0, nk, s->x);
}

/* Scores into R, and their maxima. */
static void stored_scores(const lnt_run *run, cur_scratch *s, const cur_head *head,
                          const cur_part *part, int64_t k0, size_t nk)
{
    size_t ldk;
    real *x = head->r + (size_t)k0 * s->Mp;
    lnt_cur_key_scores(run, s, head, k0, nk, x, &ldk);
    if (cur_is_laplace(run->p)) {
        lnt_cur_laplace(x, NULL, s->Mp, nk, head->queries);
        return;
    }
    for (size_t r = 0; r < nk; r++)
        for (size_t i = 0; i < head->queries; i++) {
            const real score = x[r * s->Mp + i];
            part->max[i] = score > part->max[i] ? score : part->max[i];
        }
}

/* Scores become e^(x - max), with the maximum over all segments, and are summed. */
static void stored_weights(const lnt_run *run, cur_scratch *s, const cur_head *head,
                           const cur_part *part, int64_t k0, size_t nk)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(head->queries, ker->lanes);
    real *x = head->r + (size_t)k0 * s->Mp;
    if (!cur_is_laplace(run->p)) {
        ker->softmax_weights(x, s->Mp, nk, lanes, head->max);
        for (size_t r = 0; r < nk; r++) ker->axpy(part->sum, 1, x + r * s->Mp, lanes);
    }
    add_values(run, s, head, part, k0, nk, x);
}

static void stored_divide(const lnt_run *run, cur_scratch *s, const cur_head *head,
                          const cur_part *part, int64_t k0, size_t nk)
{
    const kernels *ker = run_kernels(run);
    real *x = head->r + (size_t)k0 * s->Mp;
    (void)part;
    if (cur_is_laplace(run->p)) return;
    for (size_t i = 0; i < s->Mp; i++)
        s->rescale[i] = i < head->queries && head->sum[i] > 0 ? 1 / head->sum[i] : 0;
    ker->multiply_rows(x, s->Mp, x, s->Mp, s->rescale, nk, lnt_round_up(head->queries, ker->lanes));
}

/* ---- segments -------------------------------------------------------------------------------- */

/* A maximum of -inf, where every weight is 0, is left out: -inf less that is no number. */
static void merge_max(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    (void)s;
    if (head->mode == LNT_CUR_ALL_KEYS) return;
    for (size_t i = 0; i < head->queries; i++) head->max[i] = -(real)INFINITY;
    for (int64_t g = 0; g < cur_segments(run->p); g++) {
        const cur_part part = lnt_cur_part(run->p, head, g);
        for (size_t i = 0; i < head->queries; i++)
            head->max[i] = part.max[i] > head->max[i] ? part.max[i] : head->max[i];
    }
    for (size_t i = 0; i < head->queries; i++)
        if (head->max[i] == -(real)INFINITY) head->max[i] = 0;
    for (size_t i = head->queries; i < pad(head->queries); i++) head->max[i] = 0;
}

/* rv = the sum over segments, each relative to the largest maximum, divided. */
static void merge(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    const kernels *ker = run_kernels(run);
    const bool softmax = !cur_is_laplace(run->p);
    if (head->mode == LNT_CUR_ALL_KEYS) return;
    if (!head->stored) merge_max(group, s, head);
    memset(head->rv, 0, s->Q * s->mp * sizeof(real));
    for (size_t i = 0; i < head->queries; i++) head->sum[i] = 0;
    for (int64_t g = 0; g < cur_segments(run->p); g++) {
        const cur_part part = lnt_cur_part(run->p, head, g);
        for (size_t i = 0; i < head->queries; i++) {
            real factor = 1; /* a segment without keys has no maximum */
            if (softmax && !head->stored)
                factor = part.sum[i] > 0 ? (real)exp((double)(part.max[i] - head->max[i])) : 0;
            head->sum[i] += factor * part.sum[i];
            ker->axpy(head->rv + i * s->mp, factor, part.rows + i * s->mp, s->m);
        }
    }
    for (size_t i = 0; i < head->queries && softmax; i++) {
        const bool above = head->sum[i] > 0;
        ker->scale(head->rv + i * s->mp, above ? 1 / head->sum[i] : 0, s->m);
        head->lse[i] = above ? head->max[i] + (real)log((double)head->sum[i]) : 0;
        s->undivided += !cur_divides(head->sum[i]);
    }
    for (size_t i = head->queries; i < pad(head->queries); i++) head->lse[i] = 0;
}

void lnt_cur_rows(const cur_group *group)
{
    if (group->stored) {
        lnt_cur_each_tile(group, true, clear_part, stored_scores);
        lnt_cur_each(group, 1, merge_max);
        lnt_cur_each_tile(group, true, NULL, stored_weights);
    } else {
        lnt_cur_each_tile(group, true, clear_part, flash_tile);
    }
    lnt_cur_each(group, 1, merge);
    if (group->stored) lnt_cur_each_tile(group, true, NULL, stored_divide);
}
