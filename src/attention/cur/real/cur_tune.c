/* attention/cur/real/cur_tune.c - U^+ R V of a head by least squares over more rows than U has; its ridge.
 *
 *     W = (F^T F + r |U|^2)^-1 F^T Y,   F = [U; C_t],   Y = [R V; y_t],   y_t = softmax(scale q_t k^T) V
 *     r = argmin sum_t |C_t (U^T U + r |U|^2)^-1 U^T R V - y_t|^2
 *
 * Up to 16 queries t between the landmarks, the probes, are computed exactly, as rows of R are, and in the
 * same pass.  How much of U is signal differs from layer to layer by orders of magnitude, and these queries
 * tell; then they are fitted too, and keep their y.  O(16 n (d + m)), and 12 factors of M^3/3.
 *
 * Backward, with S = (...)^-1 dW and the ridge as given:
 *
 *     dY = F S     dF = Y S^T - F (S W^T + W S^T)     dU, beside that, - 2 r trace(S W^T) U
 *
 * See docs/math/cur.md */
#include "attention/cur/cur_pass.h"

static bool is_taken(const cur_head *head, size_t count, int64_t token)
{
    for (size_t l = 0; l < count; l++)
        if (head->i[l] == token) return true;
    return false;
}

/* Evenly over the sequence, half a step from landmarks that are so too. */
void lnt_cur_place_probes(cur_head *head, size_t landmarks)
{
    const int64_t n = head->seq.nq, all = (int64_t)(head->queries - landmarks);
    for (int64_t t = 0; t < all; t++) {
        int64_t token = ((2 * t + 1) * n / (2 * all) + n / (2 * (int64_t)landmarks)) % n;
        while (is_taken(head, landmarks + (size_t)t, token)) token = (token + 1) % n;
        head->i[landmarks + (size_t)t] = token;
    }
}

/* s->narrow = Y, s->wide = F^T Y over `rows`. */
static void project(cur_scratch *s, const cur_head *head, size_t rows)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    for (size_t i = 0; i < head->queries * s->mp; i++) s->narrow[i] = (double)head->rv[i];
    ker->gemm_tn(s->wide, s->mp, head->u, s->ld, s->narrow, s->mp, s->M, lnt_round_up(s->m, ker->lanes), rows,
                 0);
}

lnt_pinv_report lnt_cur_fit(cur_scratch *s, cur_head *head)
{
    project(s, head, s->M);
    s->pinv.ridge = lnt_pinv_tune(&s->pinv, head->u,
                                  &(lnt_pinv_probes){ .count = head->queries - s->M,
                                                      .width = s->m,
                                                      .ld = s->mp,
                                                      .c = head->u + s->M * s->ld,
                                                      .y = s->narrow + s->M * s->mp,
                                                      .b = s->wide,
                                                      .row = s->row });
    project(s, head, head->queries);
    const lnt_pinv_report report = lnt_pinv_fit(&s->pinv, head->u, head->queries, s->wide, s->mp, s->m);
    for (size_t i = 0; i < s->M; i++)
        for (size_t c = 0; c < s->mp; c++)
            head->w[i * s->mp + c] = c < s->m ? (real)s->wide[i * s->mp + c] : 0;
    return report;
}

/* s->z = -(S W^T + W S^T); gives trace(S W^T). */
static double pair_up(cur_scratch *s)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    double *z = s->z, trace = 0;
    for (size_t i = 0; i < s->M; i++)
        ker->gemv(z + i * s->ld, s->wide, s->mp, s->dwide + i * s->mp, s->M, s->m);
    for (size_t i = 0; i < s->M; i++) {
        trace += z[i * s->ld + i];
        for (size_t j = 0; j <= i; j++)
            z[i * s->ld + j] = z[j * s->ld + i] = -(z[i * s->ld + j] + z[j * s->ld + i]);
    }
    return trace;
}

lnt_pinv_report lnt_cur_fit_back(cur_scratch *s, cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const size_t M = s->M, mp = s->mp, ld = s->ld, rows = head->queries;
    const lnt_pinv_report report = lnt_cur_fit(s, head);
    double size = 0;
    for (size_t i = 0; i < M * mp; i++) s->dwide[i] = (double)head->dw[i];
    lnt_pinv_solve(&s->pinv, s->dwide, mp, s->m);
    const double trace = pair_up(s);
    for (size_t i = 0; i < rows; i++) ker->gemv(s->du + i * ld, s->dwide, mp, s->narrow + i * mp, M, s->m);
    ker->gemm_nn(s->du, ld, head->u, ld, s->z, ld, rows, lnt_round_up(M, ker->lanes), M, 1);
    for (size_t i = 0; i < M; i++) size += ker->dot(head->u + i * ld, head->u + i * ld, M);
    for (size_t i = 0; i < M && size > 0; i++)
        ker->axpy(s->du + i * ld, -2 * s->pinv.ridge * trace, head->u + i * ld, M);
    ker->gemm_nn(s->narrow, mp, head->u, ld, s->dwide, mp, rows, lnt_round_up(s->m, ker->lanes), M, 0);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < mp; c++) head->drv[i * mp + c] = c < s->m ? (real)s->narrow[i * mp + c] : 0;
    return report;
}
