/* attention/cur/real/cur_landmarks.c - the landmarks of CUR attention, and U^+ (R V).
 *
 *     ql, kl = the landmark queries (times scale) and keys     U = activation(ql kl^T)
 *
 * Landmarks, U and its inverse are in double whatever the tensors are: see attention/cur/pinv.h.
 * O(M (d + M) d) for U, more for the inverse; loading means is O(n d).  See docs/math/cur.md */
#include <string.h>

#include "attention/cur/cur_pass.h"
#include "attention/cur/laplace.h"

/* to [count, dp] = rows of head h of t: token[i], or the mean from token[i] to before the next. */
static void load_landmarks(const cur_scratch *s, const lnt_tensor *t, int64_t b, int64_t h,
                           int64_t first, int64_t n, const int64_t *token, size_t count, bool means,
                           double scale, double *to)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    for (size_t i = 0; i < count; i++) {
        double *row = to + i * s->dp;
        const int64_t end = i + 1 < count ? token[i + 1] : n;
        if (!means) {
            ker->load_rows(row, s->dp, lnt_tensor_row(t, b, h, first + token[i]), (int)t->dtype,
                           t->stride[2], t->stride[3], 1, s->d, scale);
            continue;
        }
        memset(row, 0, s->dp * sizeof *row);
        for (int64_t r = token[i]; r < end; r++) {
            ker->load_rows(s->narrow, s->dp, lnt_tensor_row(t, b, h, first + r), (int)t->dtype,
                           t->stride[2], t->stride[3], 1, s->d, 1);
            ker->axpy(row, 1, s->narrow, s->d);
        }
        ker->scale(row, scale / (double)(end - token[i]), s->d);
    }
}

void lnt_cur_load(const lnt_run *run, cur_scratch *s, const cur_head *head)
{
    const lnt_sequence *seq = &head->seq;
    load_landmarks(s, &run->io->q, seq->b, head->h, seq->q0, seq->nq, head->i, s->M,
                   lnt_cur_query_means(run->p), run->p->scale, s->ql);
    load_landmarks(s, &run->io->q, seq->b, head->h, seq->q0, seq->nq, head->i + s->M, head->queries - s->M,
                   false, run->p->scale, s->ql + s->M * s->dp);
    if (lnt_cur_clusters(run->p))
        lnt_cur_cluster_load(run, s, head, s->kl);
    else
        load_landmarks(s, &run->io->k, seq->b, head->kvh, seq->k0, seq->nk, head->j, s->M,
                       lnt_cur_key_means(run->p), 1, s->kl);
}

/* The scores of the landmarks become their weights. */
static void activate(const lnt_run *run, const cur_scratch *s, size_t rows, double *u)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    for (size_t i = 0; i < rows; i++) {
        double *row = u + i * s->ld, max = -INFINITY, sum = 0;
        if (cur_is_laplace(run->p)) {
            for (size_t j = 0; j < s->M; j++)
                row[j] = laplace(row[j]);
            continue;
        }
        for (size_t j = 0; j < s->M; j++) max = row[j] > max ? row[j] : max;
        if (max == -INFINITY) max = 0; /* then all weights are 0 */
        for (size_t j = 0; j < s->M; j++) row[j] -= max;
        ker->map_exp(row, row, lnt_round_up(s->M, ker->lanes));
        for (size_t j = 0; j < s->M; j++) sum += row[j];
        ker->scale(row, sum > 0 ? 1 / sum : 0, s->M);
    }
}

static void make_u(const lnt_run *run, cur_scratch *s, size_t rows, double *u)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    ker->load_columns(s->qlt, s->Mp, s->ql, LNT_F64, (int64_t)s->dp, 1, rows, s->d, 1);
    ker->load_columns(s->klt, s->ld, s->kl, LNT_F64, (int64_t)s->dp, 1, s->M, s->d, 1);
    ker->gemm_tn(u, s->ld, s->qlt, s->Mp, s->klt, s->ld, rows, lnt_round_up(s->M, ker->lanes), s->d, 0);
    activate(run, s, rows, u);
}

/* Chooses the landmarks and loads them; U. */
static void prepare(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    const kernels *ker = run_kernels(run);
    const lnt_sequence *seq = &head->seq;
    const lnt_attn_io *io = run->io;
    switch (head->mode) {
    case LNT_CUR_ALL_KEYS: /* C is the attention matrix, and W is V */
        load_rows(ker, head->k, s->dp, &io->k, seq->b, head->kvh, seq->k0, head->keys, 1);
        load_rows(ker, head->w, s->mp, &io->v, seq->b, head->kvh, seq->k0, head->keys, 1);
        return;
    case LNT_CUR_ALL_QUERIES: /* R is */
        load_columns(ker, head->qt, s->Mp, &io->q, seq->b, head->h, seq->q0, head->queries,
                     run->p->scale);
        return;
    case LNT_CUR_LANDMARKS: break;
    }
    lnt_landmark_choose(run->ctx, run->p, io, seq, head->h, head->i, head->j, s->choosing);
    lnt_cur_place_probes(head, s->M);
    lnt_cur_load(run, s, head);
    make_u(run, s, head->queries, head->u);
    ker->load_columns(head->qt, s->Mp, s->ql, LNT_F64, (int64_t)s->dp, 1, head->queries, s->d, 1);
    ker->load_rows(head->k, s->dp, s->kl, LNT_F64, (int64_t)s->dp, 1, s->M, s->d, 1);
}

void lnt_cur_begin(const cur_group *group)
{
    lnt_cur_each(group, 1, prepare);
    lnt_cur_rows(group);
}

void lnt_cur_weigh(cur_scratch *s, cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    for (size_t i = 0; i < s->M * s->mp; i++) s->narrow[i] = (double)head->rv[i];
    ker->gemm_nn(s->wide, s->mp, s->z, s->ld, s->narrow, s->mp, s->M,
                 lnt_round_up(s->m, ker->lanes), s->M, 0);
    for (size_t i = 0; i < s->M; i++)
        for (size_t c = 0; c < s->mp; c++)
            head->w[i * s->mp + c] = c < s->m ? (real)s->wide[i * s->mp + c] : 0;
}
