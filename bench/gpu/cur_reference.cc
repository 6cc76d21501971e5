/* bench/gpu/cur_reference.cc - CUR attention by whole matrices, as docs/math/cur.md has them:
 *
 *     y = C U^+ (R v),   C = softmax(q K^T), U = softmax(Q K^T), R = softmax(Q k^T)
 *
 * Q and K [M,d] are the landmarks; O(n M (d + m + M)). */
#include "gpu/cur_reference.h"

#include <algorithm>
#include <cmath>

namespace
{

struct matrix {
    size_t rows, columns;
    std::vector<double> x;
    matrix(size_t r, size_t c) : rows(r), columns(c), x(r * c) {}
    double &operator()(size_t i, size_t j) { return x[i * columns + j]; }
    double operator()(size_t i, size_t j) const { return x[i * columns + j]; }
};

} // namespace

static matrix matrix_of(const float *head, int64_t n, int64_t d)
{
    matrix x((size_t)n, (size_t)d);
    for (size_t i = 0; i < x.x.size(); i++) x.x[i] = (double)head[i];
    return x;
}

static matrix product(const matrix &a, const matrix &b)
{
    matrix c(a.rows, b.columns);
    for (size_t i = 0; i < a.rows; i++)
        for (size_t k = 0; k < a.columns; k++)
            for (size_t j = 0; j < b.columns; j++) c(i, j) += a(i, k) * b(k, j);
    return c;
}

static matrix transposed(const matrix &a)
{
    matrix b(a.columns, a.rows);
    for (size_t i = 0; i < a.rows; i++)
        for (size_t j = 0; j < a.columns; j++) b(j, i) = a(i, j);
    return b;
}

/* c - x */
static matrix from_diagonal(double c, matrix x)
{
    for (size_t i = 0; i < x.rows; i++)
        for (size_t j = 0; j < x.columns; j++) x(i, j) = (i == j ? c : 0) - x(i, j);
    return x;
}

static matrix softmax_of(const matrix &q, const matrix &k, double scale)
{
    matrix a = product(q, transposed(k));
    for (size_t i = 0; i < a.rows; i++) {
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < a.columns; j++) top = std::max(top, scale * a(i, j));
        for (size_t j = 0; j < a.columns; j++) sum += a(i, j) = exp(scale * a(i, j) - top);
        for (size_t j = 0; j < a.columns; j++) a(i, j) /= sum;
    }
    return a;
}

/* (U^T U + r)^-1 by elimination. */
static matrix ridge_inverse(const lnt_attn_desc &p, const matrix &u)
{
    matrix g = product(transposed(u), u);
    const size_t n = g.rows;
    double square = 0;
    for (double e : u.x) square += e * e;
    matrix y(n, n);
    for (size_t i = 0; i < n; i++) g(i, i) += p.cur.ridge * square, y(i, i) = 1;
    for (size_t i = 0; i < n; i++) {
        const double pivot = g(i, i);
        for (size_t j = 0; j < n; j++) g(i, j) /= pivot, y(i, j) /= pivot;
        for (size_t r = 0; r < n; r++) {
            const double times = r == i ? 0 : g(r, i);
            for (size_t j = 0; j < n && times != 0; j++)
                g(r, j) -= times * g(i, j), y(r, j) -= times * y(i, j);
        }
    }
    return y;
}

static matrix pseudo_inverse(const lnt_attn_desc &p, const matrix &u)
{
    if (p.cur.pinv == LNT_PINV_RIDGE) return product(ridge_inverse(p, u), transposed(u));
    double most = 0;
    for (size_t j = 0; j < u.columns; j++) {
        double sum = 0;
        for (size_t i = 0; i < u.rows; i++) sum += u(i, j);
        most = std::max(most, sum);
    }
    matrix z = transposed(u);
    for (double &e : z.x) e /= most; /* the rows of softmax sum to 1 */
    for (int64_t k = 0; k < p.cur.pinv_iterations; k++) {
        const matrix a = product(u, z);
        z = product(
            z, from_diagonal(13, product(a, from_diagonal(15, product(a, from_diagonal(7, a))))));
        for (double &e : z.x) e /= 4;
    }
    return z;
}

/* The first rows of M runs of x, or the means of the runs. */
static matrix landmarks_of(const matrix &x, size_t M, bool mean)
{
    matrix y(M, x.columns);
    for (size_t l = 0; l < M; l++) {
        const size_t first = l * x.rows / M, end = mean ? (l + 1) * x.rows / M : first + 1;
        for (size_t i = first; i < end; i++)
            for (size_t e = 0; e < x.columns; e++) y(l, e) += x(i, e) / (double)(end - first);
    }
    return y;
}

static matrix attend(const lnt_attn_desc &p, const matrix &q, const matrix &k, const matrix &v)
{
    const size_t M = (size_t)p.cur.landmarks;
    if (q.rows <= M || k.rows <= M) return product(softmax_of(q, k, p.scale), v);
    const matrix queries = landmarks_of(q, M, p.cur.select == LNT_SELECT_MEAN),
                 keys = landmarks_of(k, M, p.cur.select != LNT_SELECT_STEP);
    const matrix rows = product(softmax_of(queries, k, p.scale), v);
    const matrix inverse = pseudo_inverse(p, softmax_of(queries, keys, p.scale));
    matrix y = product(softmax_of(q, keys, p.scale), product(inverse, rows));
    for (size_t l = 0; l < M && p.cur.copy_rows && p.cur.select != LNT_SELECT_MEAN; l++)
        for (size_t c = 0; c < v.columns; c++) y(l * q.rows / M, c) = rows(l, c);
    return y;
}

std::vector<double> cur_reference(const lnt_attn_desc &p, const float *q, const float *k,
                                  const float *v, int64_t nq, int64_t nk)
{
    return attend(p, matrix_of(q, nq, p.dim), matrix_of(k, nk, p.dim),
                  matrix_of(v, nk, p.dim_value))
        .x;
}
