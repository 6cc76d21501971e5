/* bench/gpu/rows.h - which rows of a head are held against double precision. */
#ifndef BENCH_GPU_ROWS_H
#define BENCH_GPU_ROWS_H

#include <cstdint>
#include <vector>

std::vector<int64_t> all_rows(int64_t n);

/* `count` of them: the first, the last, and as many in each doubling between. */
std::vector<int64_t> some_rows(int64_t n, int count);

#endif
