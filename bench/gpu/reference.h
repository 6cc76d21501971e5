/* bench/gpu/reference.h - attention in double precision on the host, straight from the formulas,
 * for rows picked out of large problems. */
#ifndef BENCH_GPU_REFERENCE_H
#define BENCH_GPU_REFERENCE_H

#include <vector>

#include "linnet.h"

/* phi(x) of linear attention. */
double feature_of(lnt_feature_map map, double x);

/* |x|, x [d], at least 1e-12. */
double length_of(const float *x, int64_t d);

/* The polynomial that taylor has in place of e^x. */
double taylor_weight(const lnt_attn_desc &p, double x);

/* Head h of a sequence of nq queries and nk keys. */
struct reference {
    lnt_attn_desc p;
    const float *q, *k, *v; /* [nq,d], [nk,d], [nk,m] */
    int64_t nq, nk, h;

    void row(int64_t i, double *y) const; /* y [m] */

    /* Root mean square over rows of |y - ref| / |ref|; y [nq,m]. */
    double error(const std::vector<int64_t> &rows, const float *y) const;

  private:
    double score(int64_t i, int64_t j) const;
    double square_error(int64_t i, const float *y) const;
};

#endif
