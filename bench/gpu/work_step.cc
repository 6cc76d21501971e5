/* bench/gpu/work_step.cc - decoding steps: 16 of them verified, then timed in a graph, so that the
 * launches' own time is not in it; from nothing, and after many tokens. */
#include <algorithm>
#include <cstdio>

#include "gpu/device.h"
#include "gpu/rows.h"
#include "gpu/state_memory.h"
#include "gpu/table.h"
#include "gpu/verdict.h"
#include "gpu/work.h"

enum { STEPS = 16 };

static void step_token(problem &x, const lnt_cuda_states &states, int64_t i, cudaStream_t stream)
{
    lnt_cuda_io io = x.io;
    io.stream = stream;
    must(x.step(io, states, i, 1), "step");
}

/* Seconds of one step. */
static double step_seconds(problem &x, lnt_cuda_states states)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    states.tokens = nullptr; /* one kernel a step */
    must(cudaStreamCreate(&stream), "stream");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (int64_t i = 0; i < STEPS; i++) step_token(x, states, i, stream);
    must(cudaStreamEndCapture(stream, &graph), "capture");
    must(cudaGraphInstantiate(&ready, graph, 0), "graph");
    const double s = median_seconds([&] { must(cudaGraphLaunch(ready, NULL), "graph"); }, 21);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return s / STEPS;
}

void work_step(const char *name, lnt_attn_desc p, double target, bool once)
{
    p.length_q = p.length_k = STEPS;
    problem x(p, false, 9);
    state_memory memory(x, 1);
    for (int64_t i = 0; i < (once ? 1 : STEPS); i++) step_token(x, memory.states, i, NULL);
    must(cudaDeviceSynchronize(), "running");
    if (once) return;
    const double D = (double)x.info.features, m = (double)p.dim_value, H = (double)p.heads;
    table_line line;
    line.name = name;
    line.error = x.error(all_rows(STEPS), p.heads - 1);
    line.seconds = step_seconds(x, memory.states);
    line.value = line.seconds * 1e3, line.target = target;
    line.flops = 4 * D * m * H, line.bytes = 8 * D * (m + 1) * H;
    print_line(line);
}

/* ---- after many tokens ----------------------------------------------------------------------- */

/* The first n tokens of head 0 of x, after those that are there. */
static void remember(std::vector<float> &all, const tensor &x, int64_t n)
{
    const std::vector<float> head = x.head(0, 0);
    all.insert(all.end(), head.begin(), head.begin() + n * x.width);
}

/* Seconds of a step after so many tokens, which forward put into the state, 50,000 at a time;
 * *error is that of the steps, of one head. */
static double step_after(lnt_attn_desc p, int64_t tokens, double *error)
{
    const int64_t at_once = std::min<int64_t>(tokens, 50000);
    p.length_q = p.length_k = at_once, p.state = 1;
    problem x(p, false, 70);
    state_memory memory(x, 1);
    std::vector<float> k, v;
    x.io.state_out = &memory.states;
    for (int64_t i = 0; i < tokens; i += at_once) {
        x.k.fill((uint64_t)i + 1001), x.v.fill((uint64_t)i + 1002);
        x.forward();
        x.io.state_in = &memory.states;
        remember(k, x.k, at_once), remember(v, x.v, at_once);
    }
    x.k.fill(31), x.v.fill(32);
    remember(k, x.k, STEPS), remember(v, x.v, STEPS);
    for (int64_t i = 0; i < STEPS; i++) step_token(x, memory.states, i, NULL);
    must(memory.tokens() == tokens + STEPS, "the state does not hold all tokens");
    std::vector<float> q = x.q.head(0, 0);
    q.resize((size_t)(STEPS * p.dim));
    *error = rows_error(p, 0, all_rows(STEPS), q, k, v, x.out.head(0, 0));
    return step_seconds(x, memory.states);
}

void work_context(const char *name, const lnt_attn_desc &p)
{
    double error[2];
    const double few = step_after(p, 1000, &error[0]), many = step_after(p, 1000000, &error[1]);
    const bool ok = judge(many < 1.1 * few && std::max(error[0], error[1]) <= 3e-3);
    printf("%-40s after 1000 tokens %.4f ms, after 1,000,000 %.4f ms: ratio %.3f  error %.1e %.1e "
           "%s\n",
           name, few * 1e3, many * 1e3, many / few, error[0], error[1], ok ? "" : "WRONG");
    fflush(stdout);
}
