/* bench/gpu/gradients.cc - runs a backward pass and sees that it writes everything, twice the
 * same. */
#include "gpu/gradients.h"

#include <algorithm>
#include <cmath>
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
    return run_twice([&] { backward(); });
}

bool gradients::run_twice(const std::function<void()> &run)
{
    std::vector<float> first[3];
    const tensor *const all[3] = { &dq, &dk, &dv };
    bool clean = true;
    for (int turn = 0; turn < 2; turn++) {
        poison();
        run();
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

std::vector<char> gradients::bits() const
{
    std::vector<char> together;
    for (const tensor *t : { &dq, &dk, &dv }) {
        const std::vector<char> one = t->bits(t->count);
        together.insert(together.end(), one.begin(), one.end());
    }
    return together;
}
