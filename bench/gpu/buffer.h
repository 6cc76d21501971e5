/* bench/gpu/buffer.h - numbers in the memory of the device: made there, read back here. */
#ifndef BENCH_GPU_BUFFER_H
#define BENCH_GPU_BUFFER_H

#include <cstdint>
#include <vector>

#include "linnet.h"

struct buffer {
    lnt_dtype dtype;
    size_t count;
    void *data = nullptr;

    buffer(lnt_dtype dtype_, size_t count_);
    ~buffer();
    buffer(const buffer &) = delete;

    void fill(uint64_t seed); /* normal numbers */
    void poison();            /* NaN, so that what is not written shows */

    bool is_finite() const;
    size_t bytes() const;
    std::vector<char> bits(size_t n) const; /* of the first n, as they are */
    std::vector<float> numbers(size_t first, size_t n) const;
    /* n rows of d, `stride` apart, side by side. */
    std::vector<float> gathered(size_t first, size_t n, size_t stride, size_t d) const;
};

#endif
