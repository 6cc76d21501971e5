/* attention/cur/real/cur_backward.c - the gradients of CUR attention, through the pseudo-inverse too.
 *
 * With Z = U^+, W = Z RV, and dx = activation'(x) of what follows it:
 *
 *     queries   dW = C^T dY
 *     landmarks dZ = dW RV^T   dRV = Z^T dW    dU by attention/cur/pinv.c, and Z and W, then as C
 *     queries   dC = dY W^T    dq = dx_C k_J   dk_J = dx_C^T q
 *     keys      dv = R^T dRV   dR = dRV v^T    dk = dx_R^T q_I  dq_I = dx_R k
 *
 * and the gradients of landmarks are added to their tokens.  Where y of a landmark is its row of
 * RV, dY of it goes to dRV.  The inverse is found once, with its gradient; C is made again for each
 * of its passes, R too unless it is stored.  Each pass is cut as forward is: nothing depends on the
 * number of threads.  See docs/math/cur.md */
#include <math.h>
#include <string.h>

#include "attention/cur/cur_pass.h"
#include "attention/cur/laplace.h"

enum { TQ = LNT_CUR_TILE_QUERIES, TK = LNT_CUR_TILE_KEYS };

/* dx (= the gradient of the weights) becomes that of the scores. */
static void through_activation(const lnt_run *run, const cur_scratch *s, real *dx, const real *x,
                               size_t ld, size_t rows, size_t width)
{
    if (!cur_is_laplace(run->p)) {
        run_kernels(run)->softmax_grad(dx, x, ld, rows, width, s->delta);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) dx[r * ld + c] *= s->slope[r * ld + c];
}

/* ---- queries --------------------------------------------------------------------------------- */

/* dY of a tile; rows that were copied from RV are left out. */
static void load_dy(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t q0, size_t nq)
{
    const kernels *ker = run_kernels(run);
    const int64_t row = head->seq.q0 + q0;
    load_rows(ker, s->dy, s->mp, &run->grads->dout, head->seq.b, head->h, row, nq, 1);
    for (size_t l = cur_first_copied(run->p, head); l < head->queries; l++) {
        const int64_t at = head->i[l] - q0;
        if (at < 0 || at >= (int64_t)nq) continue;
        memset(s->dy + (size_t)at * s->mp, 0, s->mp * sizeof(real));
    }
}

/* C of a tile, divided. */
static real *query_weights(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t q0,
                           size_t nq)
{
    const kernels *ker = run_kernels(run);
    real *x = head->stored ? head->c + (size_t)q0 * s->M : s->x;
    lnt_cur_query_weights(run, s, head, q0, nq, x, s->slope);
    for (size_t i = 0; i < TQ; i++)
        s->rescale[i] = i < nq && s->sum[i] != 0 ? 1 / s->sum[i] : 0;
    ker->multiply_rows(x, TQ, x, TQ, s->rescale, head->keys, lnt_round_up(nq, ker->lanes));
    return x;
}

/* What a tile gives to dW. */
static void weigh_tile(const lnt_run *run, cur_scratch *s, const cur_head *head,
                       const cur_part *part, int64_t q0, size_t nq)
{
    const kernels *ker = run_kernels(run);
    load_dy(run, s, head, q0, nq);
    const real *x = query_weights(run, s, head, q0, nq);
    ker->gemm_nn(part->rows, s->mp, x, TQ, s->dy, s->mp, head->keys, lnt_round_up(s->m, ker->lanes),
                 nq, 1);
}

/* Its dq, and what it gives to dk of the landmarks. */
static void query_tile(const lnt_run *run, cur_scratch *s, const cur_head *head,
                       const cur_part *part, int64_t q0, size_t nq)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(nq, ker->lanes), width = lnt_round_up(s->d, ker->lanes);
    load_dy(run, s, head, q0, nq);
    const real *x = query_weights(run, s, head, q0, nq);
    ker->gemm_tn(s->o, s->mp, x, TQ, head->w, s->mp, nq, lnt_round_up(s->m, ker->lanes),
                 head->keys, 0);
    for (size_t i = 0; i < TQ; i++) /* dY.Y */
        s->delta[i] = i < nq ? ker->dot(s->dy + i * s->mp, s->o + i * s->mp, s->m) : 0;
    ker->load_columns(s->dyt, TQ, s->dy, LNT_REAL_DTYPE, (int64_t)s->mp, 1, nq, s->m, 1);
    ker->gemm_nn(s->dx, TQ, head->w, s->mp, s->dyt, TQ, head->keys, lanes, s->m, 0);
    through_activation(run, s, s->dx, x, TQ, head->keys, lanes);
    transpose(ker, s->q, s->dp, s->qt, TQ, nq, s->d);
    ker->gemm_nn(part->land, s->dp, s->dx, TQ, s->q, s->dp, head->keys, width, nq, 1);
    ker->gemm_tn(s->dtq, s->dp, s->dx, TQ, head->k, s->dp, nq, width, head->keys, 0);
    ker->scale(s->dtq, (real)run->p->scale, nq * s->dp);
    store_rows(ker, &run->grads->dq, head->seq.b, head->h, head->seq.q0 + q0, nq, s->dtq, s->dp,
               NULL);
}

static void clear_part(const cur_scratch *s, const cur_part *part)
{
    memset(part->rows, 0, s->Q * s->mp * sizeof(real));
    memset(part->land, 0, s->Q * s->dp * sizeof(real));
    memset(s->q, 0, TQ * s->dp * sizeof(real)); /* the margins of its rows */
}

/* ---- landmarks ------------------------------------------------------------------------------- */

/* dw = the sum of the segments. */
static void merge_weights(const lnt_run *run, const cur_scratch *s, cur_head *head)
{
    memset(head->dw, 0, s->M * s->mp * sizeof(real));
    for (int64_t g = 0; g < cur_segments(run->p); g++)
        run_kernels(run)->axpy(head->dw, 1, lnt_cur_part(run->p, head, g).rows, s->M * s->mp);
}

/* du becomes the gradient of the scores of the landmarks. */
static void through_u(const lnt_run *run, cur_scratch *s, size_t rows, const double *u)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    if (!cur_is_laplace(run->p)) {
        for (size_t i = 0; i < rows; i++) {
            double *row = s->du + i * s->ld;
            const double along = ker->dot(row, u + i * s->ld, s->M);
            for (size_t j = 0; j < s->M; j++) row[j] = u[i * s->ld + j] * (row[j] - along);
        }
        return;
    }
    ker->load_columns(s->klt, s->ld, s->kl, LNT_F64, (int64_t)s->dp, 1, s->M, s->d, 1);
    ker->gemm_nn(s->dz, s->ld, s->ql, s->dp, s->klt, s->ld, rows, lnt_round_up(s->M, ker->lanes), s->d, 0);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < s->M; j++)
            s->du[i * s->ld + j] *= laplace_slope(s->dz[i * s->ld + j]);
}

/* Adds du kl to dq and du^T ql to dk. */
static void add_landmarks(cur_scratch *s, cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const size_t width = lnt_round_up(s->d, ker->lanes), rows = head->queries;
    ker->gemm_nn(s->wide, s->dp, s->du, s->ld, s->kl, s->dp, rows, width, s->M, 0);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < s->d; c++) head->dq[i * s->dp + c] += (real)s->wide[i * s->dp + c];
    ker->gemm_tn(s->wide, s->dp, s->du, s->ld, s->ql, s->dp, s->M, width, rows, 0);
    for (size_t i = 0; i < s->M; i++)
        for (size_t c = 0; c < s->d; c++) head->dk[i * s->dp + c] += (real)s->wide[i * s->dp + c];
}

/* dz = dw rv^T, du, drv = z^T dw, and w. */
static lnt_pinv_report through_inverse(const lnt_run *run, cur_scratch *s, cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const size_t M = s->M, mp = s->mp, ld = s->ld;
    for (size_t i = 0; i < M * mp; i++) s->narrow[i] = (double)head->dw[i];
    for (size_t i = 0; i < M * mp; i++) s->wide[i] = (double)head->rv[i];
    for (size_t i = 0; i < M; i++)
        ker->gemv(s->dz + i * ld, s->wide, mp, s->narrow + i * mp, M, s->m);
    const lnt_pinv_report report = lnt_pinv_backward(&s->pinv, head->u, lnt_cur_kept_of(run, head),
                                                     s->z, s->dz, s->du);
    ker->gemm_tn(s->wide, mp, s->z, ld, s->narrow, mp, M, lnt_round_up(s->m, ker->lanes), M, 0);
    for (size_t i = 0; i < M; i++)
        for (size_t c = 0; c < mp; c++)
            head->drv[i * mp + c] = c < s->m ? (real)s->wide[i * mp + c] : 0;
    lnt_cur_weigh(s, head);
    return report;
}

/* dw to drv and to the landmarks, by way of U. */
static void through_landmarks(const lnt_run *run, cur_scratch *s, cur_head *head)
{
    const bool tuned = run->p->cur.pinv == LNT_PINV_TUNED;
    cur_report(s, tuned ? lnt_cur_fit_back(s, head) : through_inverse(run, s, head));
    lnt_cur_load(run, s, head);
    through_u(run, s, head->queries, head->u);
    add_landmarks(s, head);
}

/* dY of the landmarks, whose rows of RV were the answer, to drv. */
static void add_copied_rows(const lnt_run *run, cur_scratch *s, cur_head *head)
{
    const kernels *ker = run_kernels(run);
    for (size_t l = cur_first_copied(run->p, head); l < head->queries; l++) {
        load_rows(ker, s->dy, s->mp, &run->grads->dout, head->seq.b, head->h,
                  head->seq.q0 + head->i[l], 1, 1);
        ker->axpy(head->drv + l * s->mp, 1, s->dy, s->m);
    }
}

static void grad_landmarks(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    if (head->mode != LNT_CUR_ALL_QUERIES) merge_weights(run, s, head);
    memset(head->dq, 0, s->Q * s->dp * sizeof(real));
    memset(head->dk, 0, s->M * s->dp * sizeof(real));
    if (head->mode == LNT_CUR_LANDMARKS) {
        through_landmarks(run, s, head);
        add_copied_rows(run, s, head);
    }
    if (head->mode == LNT_CUR_ALL_QUERIES)
        load_rows(run_kernels(run), head->drv, s->mp, &run->grads->dout, head->seq.b, head->h,
                  head->seq.q0, head->queries, 1);
}

/* Adds what the queries of all segments gave to dk of the landmarks. */
static void merge_queries(const cur_group *group, cur_scratch *s, cur_head *head)
{
    const lnt_run *run = group->run;
    if (head->mode == LNT_CUR_ALL_QUERIES) return;
    for (int64_t g = 0; g < cur_segments(run->p); g++)
        run_kernels(run)->axpy(head->dk, 1, lnt_cur_part(run->p, head, g).land, s->M * s->dp);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* What every tile of keys needs of a head: rows of its queries, drv as columns, drv.rv. */
static void transpose_head(const lnt_run *run, cur_scratch *s, const cur_head *head)
{
    const kernels *ker = run_kernels(run);
    const size_t rows = head->queries;
    memset(s->rows, 0, s->Q * s->dp * sizeof(real));
    transpose(ker, s->rows, s->dp, head->qt, s->Mp, rows, s->d);
    ker->load_columns(s->transposed, s->Mp, head->drv, LNT_REAL_DTYPE, (int64_t)s->mp, 1, rows, s->m, 1);
    for (size_t i = 0; i < s->Mp; i++)
        s->delta[i] = i < rows ? ker->dot(head->drv + i * s->mp, head->rv + i * s->mp, s->m) : 0;
}

/* Adds what head gives to dk and dv of a tile of keys, and what the tile gives to its dq. */
static void key_tile(const lnt_run *run, cur_scratch *s, const cur_head *head,
                     const cur_part *part, int64_t k0, size_t nk)
{
    const kernels *ker = run_kernels(run);
    const size_t lanes = lnt_round_up(head->queries, ker->lanes);
    const size_t width = lnt_round_up(s->d, ker->lanes);
    const bool made = head->stored && !cur_is_laplace(run->p);
    size_t ldk = s->dp, ldv = s->mp;
    const real *x = made ? head->r + (size_t)k0 * s->Mp : s->x, *k;
    const int64_t row = head->seq.k0 + k0;
    const real *v = read_rows(ker, s->v_own, &ldv, &run->io->v, head->seq.b, head->kvh, row, nk);
    if (made) {
        k = read_rows(ker, s->k_own, &ldk, &run->io->k, head->seq.b, head->kvh, row, nk);
    } else {
        k = lnt_cur_key_scores(run, s, head, k0, nk, s->x, &ldk);
        if (cur_is_laplace(run->p)) lnt_cur_laplace(s->x, s->slope, s->Mp, nk, lanes);
        else ker->softmax_weights(s->x, s->Mp, nk, lanes, head->lse);
    }
    ker->gemm_nn(s->dtv, s->mp, x, s->Mp, head->drv, s->mp, nk, lnt_round_up(s->m, ker->lanes),
                 head->queries, 1);
    ker->gemm_nn(s->dx, s->Mp, v, ldv, s->transposed, s->Mp, nk, lanes, s->m, 0);
    through_activation(run, s, s->dx, x, s->Mp, nk, lanes);
    ker->gemm_nn(s->dtk, s->dp, s->dx, s->Mp, s->rows, s->dp, nk, width, head->queries, 1);
    ker->gemm_tn(part->land, s->dp, s->dx, s->Mp, k, ldk, head->queries, width, nk, 1);
}

/* The piece of a head is a segment of its keys.  Of the heads that share them the first does it for all. */
static void key_segment(const cur_group *group, cur_scratch *s, cur_head *lead)
{
    const lnt_run *run = group->run;
    const kernels *ker = run_kernels(run);
    const int64_t shared = run->p->heads / run->p->kv_heads, g = lead->piece;
    const int64_t begin = cur_segment_start(run->p, lead->seq.nk, TK, g);
    const int64_t end = cur_segment_start(run->p, lead->seq.nk, TK, g + 1);
    if (lead->h % shared) return;
    for (int64_t h = lead->h; h < lead->h + shared; h++) {
        const cur_head head = lnt_cur_head(group, lead->slot, h);
        memset(lnt_cur_part(run->p, &head, g).land, 0, s->Q * s->dp * sizeof(real));
    }
    if (lead->mode == LNT_CUR_ALL_KEYS) return;
    for (int64_t k0 = begin; k0 < end; k0 += TK) {
        const size_t nk = smaller(end - k0, TK);
        memset(s->dtk, 0, nk * s->dp * sizeof(real));
        memset(s->dtv, 0, nk * s->mp * sizeof(real));
        for (int64_t h = lead->h; h < lead->h + shared; h++) {
            const cur_head head = lnt_cur_head(group, lead->slot, h);
            const cur_part part = lnt_cur_part(run->p, &head, g);
            if (shared > 1 || k0 == begin) transpose_head(run, s, &head);
            key_tile(run, s, &head, &part, k0, nk);
        }
        const int64_t b = lead->seq.b, row = lead->seq.k0 + k0;
        store_rows(ker, &run->grads->dk, b, lead->kvh, row, nk, s->dtk, s->dp, NULL);
        store_rows(ker, &run->grads->dv, b, lead->kvh, row, nk, s->dtv, s->mp, NULL);
    }
}

/* ---- back to the tokens ---------------------------------------------------------------------- */

/* Adds land [count, dp] to the tokens it came from, or, of a mean, an equal part to each of them. */
static void spread(const lnt_run *run, cur_scratch *s, const lnt_tensor *to, int64_t b, int64_t h,
                   int64_t first, int64_t n, const int64_t *token, size_t count, bool means, const real *land)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t end = !means ? token[i] + 1 : i + 1 < count ? token[i + 1] : n;
        const real part = 1 / (real)(end - token[i]);
        for (int64_t r = token[i]; r < end; r++)
            lnt_cur_add_row(run, s, to, b, h, first + r, part, land + i * s->dp);
    }
}

static void finish_queries(const lnt_run *run, cur_scratch *s, cur_head *head)
{
    const kernels *ker = run_kernels(run);
    const lnt_sequence *seq = &head->seq;
    for (int64_t g = 0; g < cur_segments(run->p); g++)
        ker->axpy(head->dq, 1, lnt_cur_part(run->p, head, g).land, s->Q * s->dp);
    ker->scale(head->dq, (real)run->p->scale, s->Q * s->dp);
    if (head->mode == LNT_CUR_ALL_QUERIES)
        store_rows(ker, &run->grads->dq, seq->b, head->h, seq->q0, head->queries, head->dq, s->dp,
                   NULL);
    if (head->mode != LNT_CUR_LANDMARKS) return;
    spread(run, s, &run->grads->dq, seq->b, head->h, seq->q0, seq->nq, head->i, s->M,
           lnt_cur_query_means(run->p), head->dq);
    spread(run, s, &run->grads->dq, seq->b, head->h, seq->q0, seq->nq, head->i + s->M,
           head->queries - s->M, false, head->dq + s->M * s->dp);
}

/* dq of the heads that share keys, and dk and dv from them, in their order; the first does it for all. */
static void finish_keys(const cur_group *group, cur_scratch *s, cur_head *lead)
{
    const lnt_run *run = group->run;
    const kernels *ker = run_kernels(run);
    const lnt_sequence *seq = &lead->seq;
    const int64_t shared = run->p->heads / run->p->kv_heads, kvh = lead->kvh;
    if (lead->h % shared) return;
    for (int64_t h = lead->h; h < lead->h + shared; h++) {
        cur_head head = lnt_cur_head(group, lead->slot, h);
        finish_queries(run, s, &head);
        if (head.mode == LNT_CUR_LANDMARKS && lnt_cur_clusters(run->p))
            lnt_cur_cluster_spread(run, s, &head, head.dk);
        else if (head.mode == LNT_CUR_LANDMARKS)
            spread(run, s, &run->grads->dk, seq->b, kvh, seq->k0, seq->nk, head.j, s->M,
                   lnt_cur_key_means(run->p), head.dk);
        if (head.mode != LNT_CUR_ALL_KEYS || h == lead->h) continue;
        ker->axpy(lead->dk, 1, head.dk, s->M * s->dp);
        ker->axpy(lead->dw, 1, head.dw, s->M * s->mp);
    }
    if (lead->mode != LNT_CUR_ALL_KEYS) return;
    store_rows(ker, &run->grads->dk, seq->b, kvh, seq->k0, lead->keys, lead->dk, s->dp, NULL);
    store_rows(ker, &run->grads->dv, seq->b, kvh, seq->k0, lead->keys, lead->dw, s->mp, NULL);
}

static void backward(const cur_group *group)
{
    lnt_cur_begin(group);
    lnt_cur_each_tile(group, false, clear_part, weigh_tile);
    lnt_cur_each(group, 1, grad_landmarks);
    lnt_cur_each_tile(group, false, clear_part, query_tile);
    lnt_cur_each(group, 1, merge_queries);
    lnt_cur_each(group, cur_segments(group->run->p), key_segment);
    lnt_cur_each(group, 1, finish_keys);
}

void lnt_cur_backward(lnt_run *run, bool stored)
{
    lnt_clear_gaps(run);
    lnt_cur_each_group(run, stored, backward);
}
