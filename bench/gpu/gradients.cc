/* bench/gpu/gradients.cc - runs a backward pass and sees that it writes everything, twice the
 * same. */
#include "gpu/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "gpu/device.h"

gradients::gradients(problem &of, uint64_t seed)
    : x(of), dout(x.p, x.p.heads, x.p.length_q, x.p.dim_value, x.out.interleaved),
      dq(x.p, x.p.heads, x.p.length_q, x.p.dim, x.q.interleaved),
      dk(x.p, x.p.kv_heads, x.p.length_k, x.p.dim, x.k.interleaved),
      dv(x.p, x.p.kv_heads, x.p.length_k, x.p.dim_value, x.v.interleaved),
      dtemperature(LNT_F32, (size_t)x.p.heads)
{
    dout.fill(seed * 7 + 3);
    grads.size = sizeof grads;
    grads.dout = dout.view(), grads.dq = dq.view(), grads.dk = dk.view(), grads.dv = dv.view();
    if (x.p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT) grads.dtemperature = (float *)dtemperature.data;
}

void gradients::poison()
{
    for (tensor *t : { &dq, &dk, &dv }) t->poison();
}

void gradients::backward() { must(api->backward(x.plan, &x.io, &grads), "backward"); }

bool gradients::run_twice()
{
    std::vector<float> first[3];
    const tensor *const all[3] = { &dq, &dk, &dv };
    bool clean = true;
    for (int turn = 0; turn < 2; turn++) {
        poison();
        backward();
        must(cudaDeviceSynchronize(), "running backward");
        for (int i = 0; i < 3; i++) {
            std::vector<float> now = all[i]->numbers(0, std::min<size_t>(all[i]->count, 1 << 26));
            for (float e : now) clean = clean && std::isfinite(e);
            if (turn)
                clean = clean && !memcmp(now.data(), first[i].data(), now.size() * sizeof now[0]);
            else
                first[i] = std::move(now);
        }
    }
    return clean;
}

/* The root mean square over n rows of |x - y| / |y|; rows of y that are 0 but for rounding left out. */
static double error_of(const std::vector<float> &x, const std::vector<double> &y, int64_t n)
{
    const size_t width = y.size() / (size_t)n;
    double sum = 0;
    for (size_t i = 0; i < y.size(); i += width) {
        double error = 0, size = 0;
        for (size_t j = i; j < i + width; j++) {
            const double e = (double)x[j] - y[j];
            error += e * e, size += y[j] * y[j];
        }
        if (size > 1e-20) sum += error / size;
    }
    return sqrt(sum / (double)n);
}

double gradients::error(int64_t h) const
{
    const lnt_attn_desc &p = x.p;
    const int64_t n = p.length_q, d = p.dim, m = p.dim_value, kv = h * p.kv_heads / p.heads;
    lnt_attn_desc one = head_of(p, h, n, p.length_k);
    lnt_attn_io io = {};
    lnt_attn_grads g = {};
    lnt_plan *plan;
    one.dtype = LNT_F64;
    auto in_double = [](const std::vector<float> &from) {
        return std::vector<double>(from.begin(), from.end());
    };
    std::vector<double> q = in_double(x.q.head(0, h)), k = in_double(x.k.head(0, kv)),
                        v = in_double(x.v.head(0, kv)), dy = in_double(dout.head(0, h)), gq(q.size()),
                        gk(k.size()), gv(v.size());
    auto view = [](std::vector<double> &of, int64_t width) {
        return lnt_tensor_bhnd(of.data(), LNT_F64, 1, 1, (int64_t)of.size() / width, width);
    };
    io.size = sizeof io, io.q = view(q, d), io.k = view(k, d), io.v = view(v, m), io.out = view(dy, m);
    g.size = sizeof g, g.dout = io.out, g.dq = view(gq, d), g.dk = view(gk, d), g.dv = view(gv, m);
    must(lnt_plan_create(host, &one, &plan), "making a plan of the CPU");
    must(lnt_plan_backward(plan, &io, &g), "backward on the CPU");
    lnt_plan_destroy(plan);
    const double errors[] = { error_of(dq.head(0, h), gq, n), error_of(dk.head(0, kv), gk, p.length_k),
                              error_of(dv.head(0, kv), gv, p.length_k) };
    printf("    gradients of head %d: dq %.2e dk %.2e dv %.2e\n", (int)h, errors[0], errors[1], errors[2]);
    return *std::max_element(errors, errors + 3);
}
