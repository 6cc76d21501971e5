/* bench/gpu/work_cur.cc - CUR attention: a short problem verified, a long one timed. */
#include "gpu/cur.h"
#include "gpu/device.h"
#include "gpu/dtype.h"
#include "gpu/table.h"
#include "gpu/work.h"

void work_cur(const char *name, lnt_dtype dtype, bool once)
{
    /* 65,536 tokens cannot be held against whole matrices. */
    verify_cur_problem(name, describe_cur(dtype, 2, 64, 2048, 64), false);
    problem x(describe_cur(dtype, 16, 64, 65536, 64), false, 5);
    x.forward();
    must(cudaDeviceSynchronize(), "running");
    if (once) return;
    const double n = 65536, M = 64, H = 16;
    table_line line;
    line.name = name;
    line.seconds = median_seconds([&] { x.forward(); }, 11);
    line.value = line.seconds * 1e9 / n, line.unit = "ns/token";
    line.flops = H * (2 * n * M * 2 * 128 + M * M * 256 + 24 * M * M * M);
    line.bytes = n * H * 256 * (double)bytes_of(dtype);
    line.products = SPLIT_PRODUCTS;
    line.allowed = allowed_for(dtype);
    print_line(line);
}
