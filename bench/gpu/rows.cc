/* bench/gpu/rows.cc - rows of a head: every one, or some from all over it. */
#include "gpu/rows.h"

#include <algorithm>
#include <cmath>

std::vector<int64_t> all_rows(int64_t n)
{
    std::vector<int64_t> rows((size_t)n);
    for (int64_t i = 0; i < n; i++) rows[(size_t)i] = i;
    return rows;
}

std::vector<int64_t> some_rows(int64_t n, int count)
{
    std::vector<int64_t> rows = { 0, 1, n / 2, n - 1 };
    for (int i = 4; i < count; i++)
        rows.push_back(std::min(n - 1, (int64_t)pow((double)n, (i - 3.0) / (count - 3.0))));
    return rows;
}
