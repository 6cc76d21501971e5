/* bench/gpu/table.cc - times a work by events, and sets it beside its target and the floor of the
 * device. */
#include "gpu/table.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "gpu/device.h"
#include "gpu/verdict.h"

static double peak_flops, peak_bytes; /* a second */

double median_seconds(const std::function<void()> &run, int repeats)
{
    cudaEvent_t a, b;
    must(cudaEventCreate(&a), "event");
    must(cudaEventCreate(&b), "event");
    std::vector<float> times((size_t)repeats);
    for (int i = 0; i < 2; i++) run();
    for (float &t : times) {
        must(cudaEventRecord(a), "event");
        run();
        must(cudaEventRecord(b), "event");
        must(cudaEventSynchronize(b), "running");
        must(cudaEventElapsedTime(&t, a, b), "event");
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    std::sort(times.begin(), times.end());
    return (double)times[times.size() / 2] * 1e-3;
}

void begin_table(bool once)
{
    lnt_cuda_info info = {};
    info.size = sizeof info;
    must(api->describe(device, &info), "describing");
    double gflops = 0, gbytes = 0, f32 = 0;
    if (!once) {
        must(api->measure_flops(device, LNT_BF16, &gflops), "measuring");
        must(api->measure_flops(device, LNT_F32, &f32), "measuring");
        must(api->measure_bandwidth(device, (size_t)4 << 30, &gbytes), "measuring");
    }
    peak_flops = gflops * 1e9, peak_bytes = gbytes * 1e9;
    printf(
        "%s, %d multiprocessors; products of bf16 %.1f TFLOP/s, f32 %.1f TFLOP/s, copy %.0f GB/s\n",
        info.name, info.multiprocessors, gflops / 1e3, f32 / 1e3, gbytes);
}

void print_line(const table_line &x)
{
    const double by_flops = x.flops * x.products / peak_flops, by_bytes = x.bytes / peak_bytes;
    const double least = std::max(by_flops, by_bytes);
    const bool ok = judge(x.clean && x.error <= x.allowed);
    printf(
        "%-40s %10.3f %-8s target %8.3f %-6s floor %5.2f of time (%s)  %6.1f TFLOP/s %7.1f GB/s  "
        "error %.1e %s\n",
        x.name, x.value, x.unit, x.target,
        x.target <= 0         ? "none"
        : x.value <= x.target ? "met"
                              : "missed",
        least / x.seconds, by_flops > by_bytes ? "flops" : "bytes", x.flops / x.seconds / 1e12,
        x.bytes / x.seconds / 1e9, x.error, ok ? "" : "WRONG");
    fflush(stdout);
}
