/* bench/gpu/cur.cc - a problem of CUR attention, every head held against whole matrices. */
#include "gpu/cur.h"

#include <algorithm>
#include <cmath>

#include "gpu/cur_reference.h"
#include "gpu/dtype.h"
#include "gpu/selection.h"
#include "gpu/verdict.h"

lnt_attn_desc describe_cur(lnt_dtype dtype, int64_t heads, int64_t dim, int64_t n,
                           int64_t landmarks)
{
    lnt_attn_desc p = describe(LNT_CUR, heads, dim, n, dtype);
    p.causal = 0, p.cur.landmarks = landmarks, p.cur.select = LNT_SELECT_STEP_MEAN, p.cur.ridge = 1e-3;
    p.cur.pinv_iterations = 6;
    return p;
}

double cur_error(const problem &x, int64_t b, int64_t h, int64_t nq, int64_t nk)
{
    const int64_t kv = h * x.p.kv_heads / x.p.heads;
    const std::vector<float> q = x.q.head(b, h), k = x.k.head(b, kv), v = x.v.head(b, kv),
                             got = x.out.head(b, h);
    const std::vector<double> y = cur_reference(x.p, q.data(), k.data(), v.data(), nq, nk);
    double e = 0, n = 0;
    for (size_t i = 0; i < y.size(); i++) {
        const double off = (double)got[i] - y[i];
        e += off * off, n += y[i] * y[i];
    }
    return n > 0 ? sqrt(e / n) : e;
}

void verify_cur_problem(const std::string &name, const lnt_attn_desc &p, bool interleaved)
{
    if (!is_wanted(name)) return;
    problem x(p, interleaved, 31);
    const bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h++)
            worst = std::max(worst, cur_error(x, b, h, p.length_q, p.length_k));
    report(name, worst, allowed_for(p.dtype), clean);
}
