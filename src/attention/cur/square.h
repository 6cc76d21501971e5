/* attention/cur/square.h - what an inverse does with matrices [M, ld] and their norms. */
#ifndef LNT_ATTENTION_CUR_SQUARE_H
#define LNT_ATTENTION_CUR_SQUARE_H

#include <math.h>
#include <string.h>

#include "attention/cur/pinv_work.h"

static inline size_t width(const lnt_pinv_work *w) { return lnt_round_up(w->M, w->ker->lanes); }

static inline void copy(const lnt_pinv_work *w, double *to, const double *from)
{
    memcpy(to, from, w->M * w->ld * sizeof *to);
}

/* c = a b, or added to it */
static inline void multiply(const lnt_pinv_work *w, double *c, const double *a, const double *b, int add)
{
    w->ker->gemm_nn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, add);
}

/* c = a^T b */
static inline void multiply_tn(const lnt_pinv_work *w, double *c, const double *a, const double *b)
{
    w->ker->gemm_tn(c, w->ld, a, w->ld, b, w->ld, w->M, width(w), w->M, 0);
}

static inline void transpose(const lnt_pinv_work *w, double *to, const double *from)
{
    w->ker->load_columns(to, w->ld, from, LNT_F64, (int64_t)w->ld, 1, w->M, w->M, 1);
}

static inline void scale(const lnt_pinv_work *w, double *x, double factor)
{
    w->ker->scale(x, factor, w->M * w->ld);
}

static inline void add_times(const lnt_pinv_work *w, double *y, double factor, const double *x)
{
    w->ker->axpy(y, factor, x, w->M * w->ld);
}

/* The sum of all a_ij b_ij. */
static inline double inner(const lnt_pinv_work *w, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < w->M; i++) sum += w->ker->dot(a + i * w->ld, b + i * w->ld, w->M);
    return sum;
}

/* The largest sum of magnitudes of a column (one) and of a row (inf), and which they are. */
typedef struct norms {
    double one, inf;
    size_t column, row;
} norms;

/* Overwrites t[0]. */
static inline norms norms_of(const lnt_pinv_work *w, const double *u)
{
    norms n = { -1, -1, 0, 0 };
    double *columns = w->t[0];
    for (size_t j = 0; j < w->M; j++) columns[j] = 0;
    for (size_t i = 0; i < w->M; i++) {
        double row = 0;
        for (size_t j = 0; j < w->M; j++) columns[j] += fabs(u[i * w->ld + j]);
        for (size_t j = 0; j < w->M; j++) row += fabs(u[i * w->ld + j]);
        if (row > n.inf) n.inf = row, n.row = i;
    }
    for (size_t j = 0; j < w->M; j++)
        if (columns[j] > n.one) n.one = columns[j], n.column = j;
    return n;
}

/* c of the start Z = U^T / c: the product of both norms, which is safe, or |U|_1. */
static inline double start_divisor(const norms *n, bool safe)
{
    const double c = safe ? n->one * n->inf : n->one;
    return c > 0 ? c : 1; /* U = 0: so is Z */
}

#endif
