/* bench/gpu/state_gradients.cc - gradients through states of linear attention, of those before the
 * keys and from those after them, held against double precision. */
#include <random>

#include "gpu/backward.h"
#include "gpu/device.h"
#include "gpu/gradient_errors.h"
#include "gpu/selection.h"
#include "gpu/state_memory.h"

/* A head's numbers of a state, as gradient_reference has them: [d] rows of m + 1. */
static std::vector<double> state_of(const problem &x, const lnt_cuda_states &from, int64_t kv)
{
    const size_t d = (size_t)x.info.features, m = (size_t)x.p.dim_value;
    std::vector<float> s(d * m), z(d);
    must(cudaMemcpy(s.data(), from.s + (size_t)kv * d * m, d * m * 4, cudaMemcpyDeviceToHost),
         "copying");
    must(cudaMemcpy(z.data(), from.z + (size_t)kv * d, d * 4, cudaMemcpyDeviceToHost), "copying");
    std::vector<double> all;
    for (size_t f = 0; f < d; f++) {
        all.insert(all.end(), s.begin() + (long)(f * m), s.begin() + (long)((f + 1) * m));
        all.push_back((double)z[f]);
    }
    return all;
}

/* Random numbers that give the keys about as much as the queries do. */
static void fill_state(const problem &x, const lnt_cuda_states &to)
{
    const size_t rows = (size_t)(x.p.kv_heads * x.info.features), m = (size_t)x.p.dim_value;
    std::mt19937 dice(4);
    std::normal_distribution<float> normal(0, 1.0f / (float)x.p.length_k);
    std::vector<float> numbers(rows * m + rows);
    for (float &e : numbers) e = normal(dice);
    must(cudaMemcpy(to.s, numbers.data(), rows * m * 4, cudaMemcpyHostToDevice), "copying");
    must(cudaMemcpy(to.z, numbers.data() + rows * m, rows * 4, cudaMemcpyHostToDevice), "copying");
}

void verify_state_gradients(const std::string &name, lnt_attn_desc p)
{
    if (!is_wanted(name)) return;
    p.backward = 1, p.state = 1;
    problem x(p, false, 211);
    gradients g(x, 212);
    state_memory before(x, 1), after(x, 1), found(x, 1);
    fill_state(x, after.states);
    x.io.state_out = &before.states;
    x.forward();
    x.io.state_out = nullptr, x.io.state_in = &before.states;
    g.grads.dstate_out = &after.states, g.grads.dstate_in = &found.states;
    const bool clean = g.run_twice();
    gradient_errors e;
    for (int64_t kv = 0; kv < p.kv_heads; kv++) {
        gradient_reference ref(p, p.length_q, p.length_k);
        ref.state = state_of(x, before.states, kv), ref.dstate_out = state_of(x, after.states, kv);
        e.add(g, 0, kv, ref);
        const std::vector<double> got = state_of(x, found.states, kv);
        for (size_t f = 0; f < got.size(); f++) e.state.add(got[f], ref.dstate_in[f]);
    }
    e.finish(g);
    e.report(name, p.dtype, clean);
}
