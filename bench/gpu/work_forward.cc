/* bench/gpu/work_forward.cc - forward: rows picked out of two heads verified, then timed. */
#include <algorithm>

#include "gpu/device.h"
#include "gpu/problem.h"
#include "gpu/rows.h"
#include "gpu/table.h"
#include "gpu/work.h"

/* Of one token, by a state. */
static double state_flops(const lnt_attn_desc &p)
{
    const double d = (double)p.dim, m = (double)p.dim_value, P = (double)p.taylor.terms;
    double features = 1;
    for (int t = 1; t < p.taylor.terms; t++) features = features * (d + t) / t;
    if (p.mechanism == LNT_LINEAR) return (4 * d * m + 3 * d) * (double)p.heads;
    return (4 * m + 2 * (P * d + 1) / (d + 1) + 2) * features * (double)p.heads;
}

double forward_flops(const lnt_attn_desc &p)
{
    const double n = (double)p.length_q;
    if (p.mechanism != LNT_SOFTMAX) return state_flops(p) * n;
    return n * n / (p.causal ? 2 : 1) * 2 * (double)(p.dim + p.dim_value) * (double)p.heads;
}

void work_forward(const char *name, const lnt_attn_desc &p, double target, bool in_ms, bool once)
{
    problem x(p, false, 5);
    if (once) {
        x.forward();
        must(cudaDeviceSynchronize(), "running");
        return;
    }
    const double n = (double)p.length_q;
    const bool split = p.dtype == LNT_F32 || (p.mechanism == LNT_TAYLOR && p.taylor.terms > 4);
    table_line line;
    line.name = name;
    line.clean = x.run_twice();
    const std::vector<int64_t> rows = some_rows(p.length_q, 24);
    line.error = std::max(x.error(rows, 0), x.error(rows, p.heads - 1));
    line.allowed = allowed_for(p.dtype);
    line.seconds = median_seconds([&] { x.forward(); }, 11);
    line.unit = in_ms ? "ms" : "ns/token", line.target = target;
    line.value = in_ms ? line.seconds * 1e3 : line.seconds * 1e9 / n;
    line.flops = forward_flops(p);
    line.bytes = n * (double)p.heads * (double)(2 * p.dim + 2 * p.dim_value) *
                 (double)lnt_dtype_size(p.dtype);
    line.products = split ? SPLIT_PRODUCTS : 1;
    print_line(line);
}
