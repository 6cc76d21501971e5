/* bench/gpu/gradient_errors.cc - gradients held against double precision, head by head. */
#include "gpu/gradient_errors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gpu/dtype.h"
#include "gpu/rows.h"
#include "gpu/verdict.h"

void squares::add(double a, double b)
{
    error += (a - b) * (a - b), size += b * b;
}

double squares::relative() const { return size > 0 ? sqrt(error / size) : sqrt(error); }

void gradient_errors::compare(squares &s, const std::vector<float> &got,
                              const std::vector<double> &want)
{
    for (size_t i = 0; i < want.size(); i++) s.add((double)got[i], want[i]);
    for (size_t i = want.size(); i < got.size(); i++) rest = rest && got[i] == 0;
}

void gradient_errors::add(const gradients &g, int64_t b, int64_t kv, int64_t nq, int64_t nk)
{
    gradient_reference ref(g.x.p, nq, nk);
    add(g, b, kv, ref);
}

void gradient_errors::add(const gradients &g, int64_t b, int64_t kv, gradient_reference &ref)
{
    const problem &x = g.x;
    const int64_t group = x.p.heads / x.p.kv_heads;
    const std::vector<float> hk = x.k.head(b, kv), hv = x.v.head(b, kv);
    for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
        const std::vector<float> hq = x.q.head(b, h), hdout = g.dout.head(b, h);
        ref.add(hq.data(), hk.data(), hv.data(), hdout.data(), h, all_rows(ref.nq));
        compare(q, g.dq.head(b, h), ref.dq.back());
    }
    compare(k, g.dk.head(b, kv), ref.dk);
    compare(v, g.dv.head(b, kv), ref.dv);
    if (temperature.empty()) temperature.resize((size_t)x.p.heads);
    for (int64_t h = 0; h < group; h++) {
        temperature[(size_t)(kv * group + h)] += ref.dtemperature[(size_t)h];
        tau.size += ref.along[(size_t)h];
    }
}

void gradient_errors::add_all(const gradients &g)
{
    const lnt_attn_desc &p = g.x.p;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++) add(g, b, kv, p.length_q, p.length_k);
}

void gradient_errors::finish(const gradients &g)
{
    if (!g.grads.dtemperature) {
        tau = {};
        return;
    }
    const std::vector<float> got = g.dtemperature.numbers(0, temperature.size());
    for (size_t h = 0; h < got.size(); h++) {
        const double e = (double)got[h] - temperature[h];
        tau.error += e * e; /* relative to the terms, which may cancel */
    }
}

double gradient_errors::worst() const
{
    return std::max({ q.relative(), k.relative(), v.relative(), tau.relative(), state.relative() });
}

void gradient_errors::report(const std::string &name, lnt_dtype dtype, bool clean) const
{
    const bool ok = judge(clean && rest && worst() <= allowed_for(dtype));
    printf("%-58s dq %.2e dk %.2e dv %.2e", name.c_str(), q.relative(), k.relative(), v.relative());
    if (tau.size > 0) printf(" dtau %.2e", tau.relative());
    if (state.size > 0) printf(" dstate %.2e", state.relative());
    printf("  %s%s%s\n", ok ? "ok" : "WRONG", clean ? "" : " (unsteady or unwritten)",
           rest ? "" : " (rows past the length)");
    fflush(stdout);
}
