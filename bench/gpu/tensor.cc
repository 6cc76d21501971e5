/* bench/gpu/tensor.cc - where the heads of a tensor stand in its buffer. */
#include "gpu/tensor.h"

tensor::tensor(const lnt_attn_desc &p, int64_t heads_, int64_t length_, int64_t width_,
               bool interleaved_)
    : buffer(p.dtype, (size_t)(p.batch * heads_ * length_ * width_)), batch(p.batch), heads(heads_),
      length(length_), width(width_), interleaved(interleaved_)
{
}

lnt_tensor tensor::view() const
{
    lnt_tensor t = { data, dtype, { batch, heads, length, width }, {} };
    t.stride[3] = 1, t.stride[2] = interleaved ? heads * width : width;
    t.stride[1] = interleaved ? width : length * width;
    t.stride[0] = heads * length * width;
    return t;
}

std::vector<float> tensor::head(int64_t b, int64_t h) const
{
    const int64_t sequence = b * heads * length * width, size = length * width;
    if (!interleaved) return numbers((size_t)(sequence + h * size), (size_t)size);
    return gathered((size_t)(sequence + h * width), (size_t)length, (size_t)(heads * width),
                    (size_t)width);
}

lnt_tensor rows_of(lnt_tensor t, int64_t first, int64_t n)
{
    t.data = (char *)t.data + first * t.stride[2] * (int64_t)lnt_dtype_size(t.dtype);
    t.shape[2] = n;
    return t;
}
