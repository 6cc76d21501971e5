/* attention/cur/real/cur_tune.c - the ridge of a head, by what it does to queries that are no landmarks.
 *
 *     r = argmin sum_t |c_t (U^T U + r |U|^2)^-1 U^T R V - y_t|^2,   y_t = softmax(scale q_t k^T) V
 *
 * Up to 16 queries t between the landmarks are computed exactly, as rows of R are.  How much of U is signal
 * differs from layer to layer by orders of magnitude, and these queries tell.  O(16 n (d + m)), and 11
 * factors of M^3/3.  See docs/math/cur.md */
#include <math.h>
#include <string.h>

#include "attention/cur/cur_pass.h"
#include "attention/cur/laplace.h"

static bool is_landmark(const cur_head *head, int64_t token)
{
    for (size_t l = 0; l < head->queries; l++)
        if (head->i[l] == token) return true;
    return false;
}

/* Evenly over the sequence, half a step from landmarks that are so too. */
static int64_t probe_token(const cur_head *head, size_t t, size_t count)
{
    const int64_t n = head->seq.nq, all = (int64_t)count;
    int64_t token = ((2 * (int64_t)t + 1) * n / (2 * all) + n / (2 * (int64_t)head->queries)) % n;
    while (is_landmark(head, token)) token = (token + 1) % n;
    return token;
}

static void load_probes(const lnt_run *run, cur_scratch *s, const cur_head *head, size_t count)
{
    memset(s->probe_qt, 0, s->d * s->Mp * sizeof(real));
    for (size_t t = 0; t < count; t++) {
        load_rows(run_kernels(run), s->k_own, s->dp, &run->io->q, head->seq.b, head->h,
                  head->seq.q0 + probe_token(head, t, count), 1, run->p->scale);
        for (size_t c = 0; c < s->d; c++) s->probe_qt[c * s->Mp + t] = s->k_own[c];
    }
}

/* What they attend to among the landmark keys. */
static void weigh_landmarks(const lnt_run *run, const cur_scratch *s, const cur_head *head, size_t t)
{
    double *row = s->probe_c + t * s->ld, max = -INFINITY, sum = 0;
    for (size_t j = 0; j < s->M; j++) {
        row[j] = 0;
        for (size_t c = 0; c < s->d; c++)
            row[j] += (double)s->probe_qt[c * s->Mp + t] * (double)head->k[j * s->dp + c];
        max = row[j] > max ? row[j] : max;
    }
    if (max == -INFINITY) max = 0; /* then all weights are 0 */
    for (size_t j = 0; j < s->M; j++)
        row[j] = cur_is_laplace(run->p) ? laplace(row[j]) : exp(row[j] - max), sum += row[j];
    for (size_t j = 0; j < s->M && !cur_is_laplace(run->p); j++) row[j] /= sum;
}

/* Their y, exactly. */
static void attend(const lnt_run *run, cur_scratch *s, const cur_head *head, size_t count)
{
    cur_head probe = *head;
    const cur_part part = { .rows = s->probe_rows, .max = s->max, .sum = s->sum };
    probe.qt = s->probe_qt;
    probe.queries = count;
    lnt_cur_rows_of(run, s, &probe, &part);
    for (size_t t = 0; t < count; t++) {
        const double sum = cur_is_laplace(run->p) ? 1 : (double)part.sum[t];
        for (size_t c = 0; c < s->m; c++)
            s->probe_y[t * s->mp + c] = (double)part.rows[t * s->mp + c] / sum;
    }
}

void lnt_cur_tune(const lnt_run *run, cur_scratch *s, const cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const size_t count = cur_probes(run->p);
    if (!count) return;
    load_probes(run, s, head, count);
    for (size_t t = 0; t < count; t++) weigh_landmarks(run, s, head, t);
    attend(run, s, head, count);
    for (size_t i = 0; i < s->M * s->mp; i++) s->narrow[i] = (double)head->rv[i];
    ker->gemm_tn(s->wide, s->mp, head->u, s->ld, s->narrow, s->mp, s->M, lnt_round_up(s->m, ker->lanes),
                 s->M, 0);
    double *row = s->narrow; /* R V has gone into U^T R V */
    s->pinv.ridge = lnt_pinv_tune(&s->pinv, head->u,
                                  &(lnt_pinv_probes){ .count = count,
                                                      .width = s->m,
                                                      .ld = s->mp,
                                                      .c = s->probe_c,
                                                      .y = s->probe_y,
                                                      .b = s->wide,
                                                      .row = row });
}
