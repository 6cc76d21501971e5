/* bench/gpu/works.h - the works of docs/gpu.md. */
#ifndef BENCH_GPU_WORKS_H
#define BENCH_GPU_WORKS_H

#include <string>
#include <vector>

/* All works, or those that begin with one of the names; once: one run of each, for a profiler. */
void time_works(const std::vector<std::string> &names, bool once);

#endif
