/* bench/gpu/work_backward.cc - forward and backward together: gradients of picked rows verified,
 * then timed. */
#include <algorithm>
#include <cstdio>

#include "gpu/device.h"
#include "gpu/dtype.h"
#include "gpu/gradient_errors.h"
#include "gpu/rows.h"
#include "gpu/table.h"
#include "gpu/work.h"

enum { LAST = 12 }; /* keys that few queries see */

/* The first rows, the last, and some others, in order. */
static std::vector<int64_t> picked_rows(int64_t n)
{
    std::vector<int64_t> rows = some_rows(n, 20);
    for (int64_t i = 0; i < 64; i++) rows.push_back(i);
    for (int64_t i = n - LAST; i < n; i++) rows.push_back(i);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

/* Adds the relative error of one row. */
static void compare_row(squares &s, const std::vector<float> &got, const std::vector<double> &want,
                        int64_t row, int64_t width)
{
    squares one;
    for (size_t i = (size_t)(row * width); i < (size_t)((row + 1) * width); i++)
        one.add((double)got[i], want[i]);
    s.error += one.error / one.size, s.size += 1;
}

/* dq of picked rows, and dk and dv of the last keys, of one head: each row relative to itself, as
 * forward's are, for the first are the longest by far. */
static double picked_error(const gradients &g, int64_t h)
{
    const problem &x = g.x;
    const lnt_attn_desc &p = x.p;
    const int64_t n = p.length_q;
    const std::vector<float> hq = x.q.head(0, h), hk = x.k.head(0, h), hv = x.v.head(0, h),
                             hdout = g.dout.head(0, h), dq = g.dq.head(0, h), dk = g.dk.head(0, h),
                             dv = g.dv.head(0, h);
    const std::vector<int64_t> rows = picked_rows(n);
    gradient_reference ref(p, n, n);
    ref.add(hq.data(), hk.data(), hv.data(), hdout.data(), h, rows);
    squares q, k, v;
    for (int64_t i : rows) /* causal, the first sees one key, and its gradient is 0 */
        if (i || !p.causal) compare_row(q, dq, ref.dq[0], i, p.dim);
    for (int64_t j = n - LAST; j < n && p.causal; j++) {
        compare_row(k, dk, ref.dk, j, p.dim);
        compare_row(v, dv, ref.dv, j, p.dim_value);
    }
    printf("    picked rows of head %d: dq %.2e dk %.2e dv %.2e\n", (int)h, q.relative(),
           k.relative(), v.relative());
    return std::max({ q.relative(), k.relative(), v.relative() });
}

void work_backward(const char *name, lnt_attn_desc p, double target, double times_forward,
                   bool once)
{
    p.backward = 1;
    problem x(p, false, 5);
    gradients g(x, 6);
    if (once) {
        g.backward();
        must(cudaDeviceSynchronize(), "running");
        return;
    }
    table_line line;
    line.name = name;
    line.clean = g.run_twice();
    const double last = picked_error(g, p.heads - 1), first = picked_error(g, 0);
    line.error = std::max(first, last);
    line.allowed = allowed_for(p.dtype);
    const double f = median_seconds([&] { x.forward(); }, 11),
                 b = median_seconds([&] { g.backward(); }, 11);
    g.grads.after_forward = 1;
    const double s = median_seconds([&] { x.forward(), g.backward(); }, 11);
    line.seconds = s, line.value = s * 1e3;
    line.target = times_forward > 0 ? times_forward * f * 1e3 : target;
    line.flops = 3.5 * forward_flops(p);
    line.bytes = (double)p.length_q * (double)p.heads * (double)(5 * p.dim + 6 * p.dim_value) *
                 (double)bytes_of(p.dtype);
    line.products = p.dtype == LNT_F32 ? SPLIT_PRODUCTS : 1;
    printf("    forward %.3f ms, backward alone %.3f ms = %.2f forward, after forward %.3f ms\n",
           f * 1e3, b * 1e3, b / f, (s - f) * 1e3);
    print_line(line);
}
