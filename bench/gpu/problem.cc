/* bench/gpu/problem.cc - makes a problem of random numbers, runs it, and holds rows against double
 * precision. */
#include "gpu/problem.h"

#include <algorithm>
#include <cmath>

#include "gpu/device.h"

lnt_attn_desc describe(lnt_mechanism m, int64_t heads, int64_t dim, int64_t n, lnt_dtype dtype)
{
    lnt_attn_desc p;
    must(lnt_attn_desc_init(&p, sizeof p), "describing a problem");
    p.mechanism = m, p.dtype = dtype, p.heads = p.kv_heads = heads, p.length_q = p.length_k = n;
    p.dim = p.dim_value = dim, p.scale = 1 / sqrt((double)dim), p.taylor.terms = 4, p.causal = 1;
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

lnt_attn_desc head_of(const lnt_attn_desc &p, int64_t h, int64_t nq, int64_t nk)
{
    lnt_attn_desc one = p;
    one.dtype = LNT_F32, one.batch = one.heads = one.kv_heads = 1;
    one.length_q = nq, one.length_k = nk, one.algorithm = nullptr;
    if (p.taylor.temperature) one.taylor.temperature += h;
    if (p.decay) one.decay += h * p.kv_heads / p.heads;
    return one;
}

double rows_error(const lnt_attn_desc &p, int64_t h, const std::vector<int64_t> &rows, std::vector<float> &q,
                  std::vector<float> &k, std::vector<float> &v, const std::vector<float> &y)
{
    const int64_t nq = (int64_t)q.size() / p.dim, nk = (int64_t)k.size() / p.dim, m = p.dim_value;
    const lnt_attn_desc one = head_of(p, h, nq, nk);
    lnt_attn_io io = {};
    io.size = sizeof io;
    io.q = lnt_tensor_bhnd(q.data(), LNT_F32, 1, 1, nq, p.dim);
    io.k = lnt_tensor_bhnd(k.data(), LNT_F32, 1, 1, nk, p.dim);
    io.v = lnt_tensor_bhnd(v.data(), LNT_F32, 1, 1, nk, m);
    io.out = lnt_tensor_bhnd(nullptr, LNT_F32, 1, 1, nq, m);
    std::vector<double> want((size_t)m);
    double sum = 0;
    for (int64_t i : rows) {
        double error = 0, size = 0;
        must(lnt_reference_row(host, &one, &io, 0, 0, i, want.data()), "the reference");
        for (int64_t j = 0; j < m; j++) {
            const double e = (double)y[(size_t)(i * m + j)] - want[(size_t)j];
            error += e * e, size += want[(size_t)j] * want[(size_t)j];
        }
        sum += size > 0 ? error / size : error;
    }
    return sqrt(sum / (double)rows.size());
}

double problem::error(const std::vector<int64_t> &rows, int64_t h) const
{
    const int64_t kv = h * p.kv_heads / p.heads;
    std::vector<float> hq = q.head(0, h), hk = k.head(0, kv), hv = v.head(0, kv);
    return rows_error(p, h, rows, hq, hk, hv, out.head(0, h));
}

double allowed_for(lnt_dtype dtype)
{
    return dtype == LNT_BF16 ? 3e-3 : dtype == LNT_F16 ? 4e-4 : 2e-5;
}

void take_tokens(lnt_cuda_io &io, const lnt_cuda_io &all, int64_t first, int64_t n)
{
    io.q = rows_of(all.q, first, n), io.k = rows_of(all.k, first, n);
    io.v = rows_of(all.v, first, n), io.out = rows_of(all.out, first, n);
}
