/* bench/gpu/lengths.cc - lengths of sequences, and what comes after them. */
#include "gpu/lengths.h"

lengths::lengths(const std::vector<int64_t> &queries, const std::vector<int64_t> &keys)
    : q(queries), k(keys), device_q(queries), device_k(keys)
{
}

lengths lengths::three(const lnt_attn_desc &p, int64_t more)
{
    return lengths({ p.length_q, p.length_q / 2, more },
                   { p.length_k, p.length_k - 7 - p.length_q / 2, 5 });
}

void lengths::give(lnt_cuda_io &io) const
{
    io.lengths_q = device_q.data, io.lengths_k = device_k.data;
}

bool rest_is_zero(const problem &x, int64_t b, int64_t h, int64_t length)
{
    const std::vector<float> y = x.out.head(b, h);
    for (size_t i = (size_t)(length * x.p.dim_value); i < y.size(); i++)
        if (y[i] != 0) return false;
    return true;
}
