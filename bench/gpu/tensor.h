/* bench/gpu/tensor.h - a buffer with the shape of q, k, v or out: what the plug-in is given, and
 * heads of it for the host. */
#ifndef BENCH_GPU_TENSOR_H
#define BENCH_GPU_TENSOR_H

#include "gpu/buffer.h"

/* In memory [B,H,N,d], or [B,N,H,d] where heads are interleaved. */
struct tensor : buffer {
    int64_t batch, heads, length, width;
    bool interleaved;

    tensor(const lnt_attn_desc &p, int64_t heads_, int64_t length_, int64_t width_,
           bool interleaved_);

    lnt_tensor view() const;
    std::vector<float> head(int64_t b, int64_t h) const; /* [N,d] */
};

/* Rows first ... first + n - 1 of every head. */
lnt_tensor rows_of(lnt_tensor t, int64_t first, int64_t n);

#endif
