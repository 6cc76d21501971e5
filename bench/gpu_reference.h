/* bench/gpu_reference.h - attention in double precision on the host, straight from the formulas,
 * for rows picked out of large problems.  Heads are plain arrays [length, width] of bf16, f16 or
 * f32. */
#ifndef BENCH_GPU_REFERENCE_H
#define BENCH_GPU_REFERENCE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "linnet.h"

template <class T> struct reference_of {
    lnt_attn_desc p;    /* resolved */
    const T *q, *k, *v; /* one head each */
    int64_t nq, nk, h;

    static double at(const T *x, int64_t i) { return (double)(float)x[i]; }

    static double feature(int map, double x)
    {
        if (map == LNT_MAP_RELU) return x > 0 ? x : 0;
        if (map == LNT_MAP_EXP) return exp(x);
        if (map == LNT_MAP_IDENTITY) return x;
        return x > 0 ? x + 1 : exp(x);
    }

    double length_of(const T *x) const
    {
        double s = 0;
        for (int64_t i = 0; i < p.dim; i++) s += at(x, i) * at(x, i);
        return s > 1e-24 ? sqrt(s) : 1e-12;
    }

    double score(int64_t i, int64_t j) const
    {
        const T *a = q + i * p.dim, *b = k + j * p.dim;
        double x = 0;
        for (int64_t e = 0; e < p.dim; e++)
            x += p.mechanism == LNT_LINEAR
                     ? feature(p.feature_map, at(a, e)) * feature(p.feature_map, at(b, e))
                     : at(a, e) * at(b, e);
        if (p.mechanism == LNT_LINEAR) return x;
        if (p.normalize == LNT_NORMALIZE_TAYLORSHIFT)
            x *= (p.temperature ? p.temperature[h] : 1) / (length_of(a) * length_of(b));
        return p.scale * x;
    }

    double weight(double x) const
    {
        double w = 0, a = 1;
        for (int64_t t = 0; t < p.terms; t++) {
            w += (p.coefficients ? p.coefficients[t] : a) * pow(x, (double)t);
            a /= (double)(t + 1);
        }
        return w;
    }

    void row(int64_t i, double *y) const
    {
        const int64_t past = nk - nq, end = p.causal ? (i + past + 1 < nk ? i + past + 1 : nk) : nk;
        std::vector<double> x((size_t)(end > 0 ? end : 0));
        double top = -INFINITY, den = p.mechanism == LNT_LINEAR ? p.eps : 0;
        for (int64_t j = 0; j < end; j++) {
            x[(size_t)j] = score(i, j);
            if (x[(size_t)j] > top) top = x[(size_t)j];
        }
        for (int64_t c = 0; c < p.dim_value; c++) y[c] = 0;
        for (int64_t j = 0; j < end; j++) {
            double w = x[(size_t)j];
            if (p.mechanism == LNT_SOFTMAX) w = exp(w - top);
            if (p.mechanism == LNT_TAYLOR) w = weight(w);
            if (p.mechanism == LNT_LINEAR && p.decay)
                w *= pow(p.decay[h * p.kv_heads / p.heads], (double)(end - 1 - j));
            den += w;
            for (int64_t c = 0; c < p.dim_value; c++) y[c] += w * at(v, j * p.dim_value + c);
        }
        for (int64_t c = 0; c < p.dim_value; c++) {
            y[c] = den != 0 ? y[c] / den : 0;
            if (p.output_norm) y[c] *= sqrt((double)end / (double)p.dim);
        }
    }
};

typedef reference_of<__nv_bfloat16> reference;
#endif
