/* attention/hybrid/real/hybrid_window.c - the keys and values of hybrid attention as they are: out of the
 * window of a state, or from the run; and into the window of the state after it. */
#include "attention/hybrid/hybrid.h"

#include <string.h>

/* Tokens from `key` on that lie one behind the other, n at most; where the first of them is. */
static size_t stretch(const head_job *job, int i, int64_t key, size_t n, const lnt_tensor **t,
                      int64_t *b, int64_t *row)
{
    const lnt_run *run = job->run;
    const int64_t before = job->seq.before, left = before - key, sink = run->p->hybrid.sink;
    if (left <= 0) {
        *t = i == LNT_STATE_WINDOW_K ? &run->io->k : &run->io->v;
        *b = job->seq.b;
        *row = job->seq.k0 - left;
        return n;
    }
    *t = &lnt_state_parts(run->io->state_in)[i];
    *b = job->sequence;
    *row = lnt_window_row(run->p, key);
    const int64_t end = key < sink ? sink : (*t)->shape[2];
    const int64_t most = left < (int64_t)n ? left : (int64_t)n;
    return (size_t)(end - *row < most ? end - *row : most);
}

const real *lnt_hybrid_rows(const head_job *job, int i, int64_t key, size_t n, real *own,
                            size_t *ld, bool copy)
{
    const lnt_tensor *t;
    int64_t b, row;
    size_t done = stretch(job, i, key, n, &t, &b, &row);
    if (done == n && !copy) return read_rows(job->ker, own, ld, t, b, job->kvh, row, n);
    for (size_t at = 0; at < n; at += done) {
        done = stretch(job, i, key + (int64_t)at, n - at, &t, &b, &row);
        load_rows(job->ker, own + at * *ld, *ld, t, b, job->kvh, row, done, 1);
    }
    return own;
}

void lnt_hybrid_load_keys(const head_job *job, hybrid_scratch *s, int64_t key, size_t n)
{
    taylor_scratch *t = &s->t;
    t->ldk = t->dp;
    t->ldv = t->mp;
    t->k = lnt_hybrid_rows(job, LNT_STATE_WINDOW_K, key, n, t->k_own, &t->ldk, t->center);
    t->v = lnt_hybrid_rows(job, LNT_STATE_WINDOW_V, key, n, t->v_own, &t->ldv, false);
    for (size_t j = 0; t->center && j < n; j++)
        for (size_t c = 0; c < t->d; c++) t->k_own[j * t->dp + c] -= (real)t->center[c];
}

void lnt_hybrid_transpose_keys(const head_job *job, hybrid_scratch *s, size_t n)
{
    taylor_scratch *t = &s->t;
    job->ker->load_columns(t->kt, TOKENS, t->k, LNT_REAL_DTYPE, (int64_t)t->ldk, 1, n, t->d, 1);
}

/* One token of the window from state to state, or from the run. */
static void keep_token(const head_job *job, int i, int64_t token)
{
    const lnt_run *run = job->run;
    const int64_t before = job->seq.before, row = lnt_window_row(run->p, token);
    const lnt_tensor *to = &lnt_state_parts(run->io->state_out)[i];
    real *at = (real *)(void *)lnt_tensor_row(to, job->sequence, job->kvh, row);
    if (token >= before) {
        load_rows(job->ker, at, (size_t)to->stride[2],
                  i == LNT_STATE_WINDOW_K ? &run->io->k : &run->io->v, job->seq.b, job->kvh,
                  job->seq.k0 + token - before, 1, 1);
    } else {
        const lnt_tensor *from = &lnt_state_parts(run->io->state_in)[i];
        memcpy(at, lnt_tensor_row(from, job->sequence, job->kvh, row),
               (size_t)to->stride[2] * sizeof(real));
    }
}

void lnt_hybrid_keep_window(const head_job *job, int64_t first)
{
    const lnt_attn_desc *p = job->run->p;
    const int64_t before = job->seq.before, tokens = before + job->seq.nk;
    const bool in_place = job->run->io->state_in == job->run->io->state_out;
    const int64_t kept = in_place ? before : 0; /* tokens that are there already */
    const int64_t sinks = p->hybrid.sink < tokens ? p->hybrid.sink : tokens;
    if (first < sinks) first = sinks;
    if (first < kept) first = kept;
    for (int i = LNT_STATE_WINDOW_K; i <= LNT_STATE_WINDOW_V; i++) {
        for (int64_t t = kept; t < sinks; t++) keep_token(job, i, t);
        for (int64_t t = first; t < tokens; t++) keep_token(job, i, t);
    }
}
