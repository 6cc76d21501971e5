/* bench/gpu/forward.cc - forward and steps of a small problem, held against double precision. */
#include "gpu/forward.h"

#include <algorithm>
#include <cmath>

#include "gpu/device.h"
#include "gpu/dtype.h"
#include "gpu/lengths.h"
#include "gpu/rows.h"
#include "gpu/selection.h"
#include "gpu/state_memory.h"
#include "gpu/verdict.h"

void verify_forward(const std::string &name, const lnt_attn_desc &p, bool interleaved)
{
    verify_forward_within(allowed_for(p.dtype), name, p, interleaved);
}

void verify_forward_within(double allowed, const std::string &name, const lnt_attn_desc &p,
                           bool interleaved, int64_t step)
{
    static uint64_t seeds[3] = { 100, 100, 100 }; /* of each dtype */
    const uint64_t seed = seeds[p.dtype]++;
    if (!is_wanted(name)) return;
    problem x(p, interleaved, seed);
    const bool clean = x.run_twice();
    const auto rows = p.length_q < 5000 ? all_rows(p.length_q) : some_rows(p.length_q, 24);
    double sum = 0;
    int64_t heads = 0;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t h = 0; h < p.heads; h += step, heads++) {
            const double e = x.error(rows, b, h, p.length_q, p.length_k);
            sum += e * e;
        }
    report(name + " [" + x.info.algorithm + ":" + x.info.form + "]", sqrt(sum / (double)heads), allowed,
           clean);
}

void verify_lengths(const std::string &name, lnt_attn_desc p, int64_t more)
{
    if (!is_wanted(name)) return;
    p.batch = 3;
    problem x(p, false, 77);
    const lengths n = lengths::three(p, more);
    n.give(x.io);
    bool clean = x.run_twice();
    double worst = 0;
    for (int64_t b = 0; b < 3; b++) {
        const int64_t nq = n.q[(size_t)b], nk = n.k[(size_t)b];
        if (nq) worst = std::max(worst, x.error(all_rows(nq), b, 0, nq, nk));
        clean = clean && rest_is_zero(x, b, 0, nq);
    }
    report(name, worst, allowed_for(p.dtype), clean);
}

/* The largest error of the heads of the first sequence. */
static double worst_head(const problem &x)
{
    double worst = 0;
    for (int64_t h = 0; h < x.p.heads; h++)
        worst = std::max(worst, x.error(all_rows(x.p.length_q), 0, h, x.p.length_q, x.p.length_k));
    return worst;
}

void verify_continued(const std::string &name, const lnt_attn_desc &p, int64_t part)
{
    if (!is_wanted(name)) return;
    problem x(p, false, 66);
    state_memory memory(x, p.batch);
    x.out.poison();
    lnt_cuda_io io = x.io;
    io.state_out = &memory.states;
    for (int64_t i = 0; i < p.length_q; i += part) {
        take_tokens(io, x.io, i, std::min(part, p.length_q - i));
        must(api->forward(x.plan, &io), "forward");
        io.state_in = &memory.states;
    }
    must(cudaDeviceSynchronize(), "running");
    report(name, worst_head(x), allowed_for(p.dtype), true);
}

void verify_steps(const std::string &name, const lnt_attn_desc &p, int64_t before, int64_t at_once)
{
    if (!is_wanted(name)) return;
    problem x(p, false, 55);
    state_memory memory(x, p.batch + 1);
    x.out.poison();
    lnt_cuda_io io = x.io;
    if (before) {
        take_tokens(io, x.io, 0, before);
        io.state_in = io.state_out = &memory.states;
        must(api->forward(x.plan, &io), "forward");
        must(cudaDeviceSynchronize(), "running");
    }
    for (int64_t i = before; i < p.length_q; i += at_once)
        must(x.step(io, memory.states, i, std::min(at_once, p.length_q - i)), "step");
    must(cudaDeviceSynchronize(), "running");
    const double allowed = allowed_for(p.dtype);
    report(name, worst_head(x), before ? allowed : allowed / 1.2, memory.tokens() == p.length_q);
}

void each_width(lnt_mechanism m, int64_t tokens, lnt_dtype dtype, const std::string &name,
                void (*verify)(const std::string &, const lnt_attn_desc &, bool))
{
    for (int64_t d : { 8, 16, 32, 64, 128 })
        for (int causal = 0; causal < 2; causal++) {
            lnt_attn_desc p = describe(m, 2, d, tokens, dtype);
            p.causal = causal;
            verify(name + " d " + std::to_string(d) + (causal ? " causal" : " full"), p, causal);
        }
}
