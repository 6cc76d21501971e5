/* bench/gpu/selection.h - which problems are verified: all, or those whose names have one of the
 * parts asked for. */
#ifndef BENCH_GPU_SELECTION_H
#define BENCH_GPU_SELECTION_H

#include <string>

void select_like(const std::string &part);
bool is_wanted(const std::string &name);

#endif
