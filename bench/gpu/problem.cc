/* bench/gpu/problem.cc - makes a problem of random numbers, runs it, and holds rows against double
 * precision. */
#include "gpu/problem.h"

#include <algorithm>
#include <cmath>

#include "gpu/device.h"
#include "gpu/reference.h"

lnt_attn_desc describe(lnt_mechanism m, int64_t heads, int64_t dim, int64_t n, lnt_dtype dtype)
{
    lnt_attn_desc p = {};
    p.size = sizeof p, p.mechanism = m, p.dtype = dtype;
    p.batch = 1, p.heads = p.kv_heads = heads, p.length_q = p.length_k = n;
    p.dim = p.dim_value = dim, p.scale = 1 / sqrt((double)dim), p.linear.eps = 1e-6,
    p.taylor.terms = 4, p.cur.copy_rows = 1, p.causal = 1;
    return p;
}

problem::problem(const lnt_attn_desc &desc, bool interleaved, uint64_t seed)
    : p(desc), q(p, p.heads, p.length_q, p.dim, interleaved),
      k(p, p.kv_heads, p.length_k, p.dim, interleaved),
      v(p, p.kv_heads, p.length_k, p.dim_value, interleaved),
      out(p, p.heads, p.length_q, p.dim_value, interleaved)
{
    q.fill(3 * seed), k.fill(3 * seed + 1), v.fill(3 * seed + 2);
    must(api->plan_create(device, &p, &plan), "making a plan");
    info.size = sizeof info;
    must(api->plan_describe(plan, &info), "describing a plan");
    io.size = sizeof io;
    io.q = q.view(), io.k = k.view(), io.v = v.view(), io.out = out.view();
    io.workspace_bytes = std::max(info.workspace_bytes, info.backward_bytes);
    must(api->allocate(device, io.workspace_bytes, &io.workspace), "allocating");
    must(cudaMemset(io.workspace, 0xff, io.workspace_bytes), "filling");
}

problem::~problem()
{
    api->plan_destroy(plan);
    api->release(device, io.workspace);
}

void problem::forward() { must(api->forward(plan, &io), "forward"); }

bool problem::run_twice()
{
    const size_t n = std::min<size_t>(out.count, 1 << 26);
    std::vector<char> first;
    bool clean = true;
    for (int turn = 0; turn < 2; turn++) {
        out.poison();
        forward();
        must(cudaDeviceSynchronize(), "running");
        clean = out.is_finite() && clean;
        if (turn)
            clean = clean && out.bits(n) == first;
        else
            first = out.bits(n);
    }
    return clean;
}

lnt_status problem::step(lnt_cuda_io given, const lnt_cuda_states &states, int64_t first, int64_t n)
{
    take_tokens(given, io, first, n);
    return api->step(plan, &given, &states, LNT_CUDA_APPEND | LNT_CUDA_QUERY);
}

double problem::error(const std::vector<int64_t> &rows, int64_t b, int64_t h, int64_t nq,
                      int64_t nk) const
{
    const int64_t kv = h * p.kv_heads / p.heads;
    const std::vector<float> hq = q.head(b, h), hk = k.head(b, kv), hv = v.head(b, kv),
                             y = out.head(b, h);
    const reference ref = { p, hq.data(), hk.data(), hv.data(), nq, nk, h };
    return ref.error(rows, y.data());
}

void take_tokens(lnt_cuda_io &io, const lnt_cuda_io &all, int64_t first, int64_t n)
{
    io.q = rows_of(all.q, first, n), io.k = rows_of(all.k, first, n);
    io.v = rows_of(all.v, first, n), io.out = rows_of(all.out, first, n);
}
