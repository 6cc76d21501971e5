/* bench/gpu/work_backward.cc - forward and backward together: gradients of a head verified, then timed. */
#include <cstdio>

#include "gpu/device.h"
#include "gpu/gradients.h"
#include "gpu/table.h"
#include "gpu/work.h"

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
    line.error = g.error(p.heads - 1);
    line.allowed = allowed_for(p.dtype);
    const double f = median_seconds([&] { x.forward(); }, 11),
                 b = median_seconds([&] { g.backward(); }, 11);
    g.grads.after_forward = 1;
    const double s = median_seconds([&] { x.forward(), g.backward(); }, 11);
    line.seconds = s, line.value = s * 1e3;
    line.target = times_forward > 0 ? times_forward * f * 1e3 : target;
    line.flops = 3.5 * forward_flops(p);
    line.bytes = (double)p.length_q * (double)p.heads * (double)(5 * p.dim + 6 * p.dim_value) *
                 (double)lnt_dtype_size(p.dtype);
    line.products = p.dtype == LNT_F32 ? SPLIT_PRODUCTS : 1;
    printf("    forward %.3f ms, backward alone %.3f ms = %.2f forward, after forward %.3f ms\n",
           f * 1e3, b * 1e3, b / f, (s - f) * 1e3);
    print_line(line);
}
