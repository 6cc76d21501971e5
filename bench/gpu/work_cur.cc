/* bench/gpu/work_cur.cc - CUR attention: rows picked out of a head verified, then timed. */
#include "gpu/device.h"
#include "gpu/problem.h"
#include "gpu/rows.h"
#include "gpu/table.h"
#include "gpu/work.h"

void work_cur(const char *name, lnt_dtype dtype, bool once)
{
    lnt_attn_desc p = describe(LNT_CUR, 16, 64, 65536, dtype);
    p.causal = 0, p.cur.landmarks = 64, p.cur.select = LNT_SELECT_STEP_MEAN, p.cur.pinv_iterations = 6;
    problem x(p, false, 5);
    x.forward();
    must(cudaDeviceSynchronize(), "running");
    if (once) return;
    const double n = 65536, M = 64, H = 16;
    table_line line;
    line.name = name;
    line.error = x.error(some_rows(65536, 8), 15);
    line.seconds = median_seconds([&] { x.forward(); }, 11);
    line.value = line.seconds * 1e9 / n, line.unit = "ns/token";
    line.flops = H * (2 * n * M * 2 * 128 + M * M * 256 + 24 * M * M * M);
    line.bytes = n * H * 256 * (double)lnt_dtype_size(dtype);
    line.products = SPLIT_PRODUCTS;
    line.allowed = allowed_for(dtype);
    print_line(line);
}
