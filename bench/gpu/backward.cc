/* bench/gpu/backward.cc - one backward pass, every gradient of every head held against double
 * precision. */
#include "gpu/backward.h"

#include <cmath>

#include "gpu/device.h"
#include "gpu/dtype.h"
#include "gpu/gradient_errors.h"
#include "gpu/lengths.h"
#include "gpu/rows.h"
#include "gpu/selection.h"
#include "gpu/state_memory.h"
#include "gpu/verdict.h"

void verify_gradients(const std::string &name, const lnt_attn_desc &p, bool interleaved)
{
    verify_gradients_of(name, p, interleaved, false);
}

void verify_gradients_of(const std::string &name, lnt_attn_desc p, bool interleaved, bool positive,
                         float mean)
{
    static uint64_t seeds[3] = { 300, 300, 300 }; /* of each dtype */
    const uint64_t seed = seeds[p.dtype]++;
    p.backward = 1;
    if (!is_wanted(name)) return;
    problem x(p, interleaved, seed);
    gradients g(x, seed + 1);
    if (positive) x.q.make_positive(), x.k.make_positive();
    if (mean != 0) x.v.add_mean(mean);
    const bool clean = g.run_twice();
    gradient_errors e;
    e.add_all(g);
    e.finish(g);
    e.report(name + " [" + x.info.algorithm + ":" + x.info.form_backward + "]", p.dtype, clean);
}

void verify_gradient_lengths(const std::string &name, lnt_attn_desc p)
{
    if (!is_wanted(name)) return;
    p.batch = 3, p.backward = 1;
    problem x(p, true, 177);
    gradients g(x, 178);
    const lengths n = lengths::three(p);
    n.give(x.io);
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t b = 0; b < 3; b++)
        for (int64_t kv = 0; kv < p.kv_heads; kv++)
            e.add(g, b, kv, n.q[(size_t)b], n.k[(size_t)b]);
    e.finish(g);
    e.report(name, p.dtype, clean);
}

/* ---- after forward --------------------------------------------------------------------------- */

/* Over all rows of all heads. */
static double forward_error(const problem &x)
{
    const lnt_attn_desc &p = x.p;
    double sum = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h++) {
            const double e = x.error(all_rows(p.length_q), b, h, p.length_q, p.length_k);
            sum += e * e;
        }
    return sqrt(sum / (double)(p.batch * p.heads));
}

void verify_after_forward(const std::string &name, lnt_attn_desc p, float mean)
{
    static uint64_t seed = 500;
    p.backward = 1, seed++;
    if (!is_wanted(name)) return;
    problem x(p, true, seed), other(p, true, seed + 1000);
    gradients g(x, seed);
    x.v.add_mean(mean);
    const auto backward = [&](int after_forward) {
        g.grads.after_forward = after_forward;
        g.poison();
        g.backward();
        must(cudaDeviceSynchronize(), "running");
        return g.bits();
    };
    bool clean = x.run_twice();
    const double error = forward_error(x);
    const std::vector<char> after = backward(1);
    clean = after == backward(0) && clean;
    lnt_cuda_io elsewhere = x.io;
    elsewhere.k = other.io.k, elsewhere.v = other.io.v;
    must(api->forward(x.plan, &elsewhere), "forward");
    clean = after == backward(1) && clean;
    clean = after == backward(1) && clean; /* whose states are gone */
    report(name, error, allowed_for(p.dtype), clean);
}

/* ---- states ---------------------------------------------------------------------------------- */

namespace
{

/* Tokens first ... first + n - 1 of a problem and of its gradients. */
struct part {
    lnt_cuda_io io;
    lnt_cuda_grads grads;
    part(const gradients &g, int64_t first, int64_t n) : io(g.x.io), grads(g.grads)
    {
        take_tokens(io, g.x.io, first, n);
        for (lnt_tensor *t : { &grads.dout, &grads.dq, &grads.dk, &grads.dv })
            *t = rows_of(*t, first, n);
        grads.dtemperature = nullptr; /* a run gives its own part's alone */
    }
};

} // namespace

void verify_gradients_in_parts(const std::string &name, lnt_attn_desc p, int64_t half)
{
    if (!is_wanted(name)) return;
    p.backward = 1, p.state = 1;
    problem x(p, false, 191);
    gradients g(x, 192);
    state_memory between(x, p.batch), gradient(x, p.batch);
    part first(g, 0, half), second(g, half, p.length_q - half);
    second.io.state_in = &between.states, second.grads.dstate_in = &gradient.states;
    first.grads.dstate_out = &gradient.states;
    lnt_cuda_io ahead = first.io;
    ahead.state_out = &between.states;
    const bool clean = g.run_twice([&] {
        must(api->forward(x.plan, &ahead), "forward");
        must(api->backward(x.plan, &second.io, &second.grads), "backward");
        must(api->backward(x.plan, &first.io, &first.grads), "backward");
    });
    g.grads.dtemperature = nullptr;
    gradient_errors e;
    e.add_all(g);
    e.finish(g);
    e.report(name, p.dtype, clean);
}
