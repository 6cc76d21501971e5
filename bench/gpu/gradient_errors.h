/* bench/gpu/gradient_errors.h - how far gradients are from those in double precision. */
#ifndef BENCH_GPU_GRADIENT_ERRORS_H
#define BENCH_GPU_GRADIENT_ERRORS_H

#include <string>

#include "gpu/gradient_reference.h"
#include "gpu/gradients.h"

/* |a - b|^2 and |b|^2, summed. */
struct squares {
    double error = 0, size = 0;
    void add(double a, double b);
    double relative() const;
};

/* Over a whole problem, or as much of it as is added. */
struct gradient_errors {
    squares q, k, v, tau, state;
    bool rest = true; /* rows past the lengths are 0 */

    /* All heads on kv head `kv` of sequence b, which has nq queries and nk keys. */
    void add(const gradients &g, int64_t b, int64_t kv, int64_t nq, int64_t nk);
    void add(const gradients &g, int64_t b, int64_t kv, gradient_reference &ref);
    void add_all(const gradients &g); /* sequences of full length */

    /* After the last: the temperatures, whose gradients are sums over the batch. */
    void finish(const gradients &g);

    double worst() const;
    void report(const std::string &name, lnt_dtype dtype, bool clean) const;

  private:
    std::vector<double> temperature; /* [H] */
    void compare(squares &s, const std::vector<float> &got, const std::vector<double> &want);
};

#endif
