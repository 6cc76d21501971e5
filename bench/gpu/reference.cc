/* bench/gpu/reference.cc - a row of softmax, linear or Taylor attention over all the keys it sees,
 * O(nk (d + m)):
 *
 *     y[i] = sum_j w(q[i].k[j]) v[j] / sum_j w(q[i].k[j])          docs/math has what w is */
#include "gpu/reference.h"

#include <algorithm>
#include <cmath>
#include <thread>

double feature_of(lnt_feature_map map, double x)
{
    if (map == LNT_MAP_RELU) return x > 0 ? x : 0;
    if (map == LNT_MAP_EXP) return exp(x);
    if (map == LNT_MAP_IDENTITY) return x;
    return x > 0 ? x + 1 : exp(x);
}

double length_of(const float *x, int64_t d)
{
    double s = 0;
    for (int64_t e = 0; e < d; e++) s += (double)x[e] * (double)x[e];
    return s > 1e-24 ? sqrt(s) : 1e-12;
}

double taylor_weight(const lnt_attn_desc &p, double x)
{
    double w = 0, a = 1;
    for (int64_t t = 0; t < p.taylor.terms; t++) {
        w += (p.taylor.coefficients ? p.taylor.coefficients[t] : a) * pow(x, (double)t);
        a /= (double)(t + 1);
    }
    return w;
}

double reference::score(int64_t i, int64_t j) const
{
    const float *a = q + i * p.dim, *b = k + j * p.dim;
    double x = 0;
    for (int64_t e = 0; e < p.dim; e++)
        x += p.mechanism == LNT_LINEAR ? feature_of(p.linear.feature_map, (double)a[e]) *
                                             feature_of(p.linear.feature_map, (double)b[e])
                                       : (double)a[e] * (double)b[e];
    if (p.mechanism == LNT_LINEAR) return x;
    if (p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT)
        x *= (p.taylor.temperature ? p.taylor.temperature[h] : 1) /
             (length_of(a, p.dim) * length_of(b, p.dim));
    return p.scale * x;
}

void reference::row(int64_t i, double *y) const
{
    const int64_t past = nk - nq, end = p.causal ? std::min(i + past + 1, nk) : nk;
    std::vector<double> x((size_t)(end > 0 ? end : 0));
    double top = -INFINITY, den = p.mechanism == LNT_LINEAR ? p.linear.eps : 0;
    for (int64_t j = 0; j < end; j++) {
        x[(size_t)j] = score(i, j);
        if (x[(size_t)j] > top) top = x[(size_t)j];
    }
    for (int64_t c = 0; c < p.dim_value; c++) y[c] = 0;
    for (int64_t j = 0; j < end; j++) {
        double w = x[(size_t)j];
        if (p.mechanism == LNT_SOFTMAX) w = exp(w - top);
        if (p.mechanism == LNT_TAYLOR) w = taylor_weight(p, w);
        if (p.mechanism == LNT_LINEAR && p.decay)
            w *= pow(p.decay[h * p.kv_heads / p.heads], (double)(end - 1 - j));
        den += w;
        for (int64_t c = 0; c < p.dim_value; c++) y[c] += w * (double)v[j * p.dim_value + c];
    }
    for (int64_t c = 0; c < p.dim_value; c++) {
        y[c] = den != 0 ? y[c] / den : 0;
        if (p.taylor.output_norm) y[c] *= sqrt((double)end / (double)p.dim);
    }
}

double reference::square_error(int64_t i, const float *y) const
{
    std::vector<double> want((size_t)p.dim_value);
    row(i, want.data());
    double error = 0, size = 0;
    for (int64_t c = 0; c < p.dim_value; c++) {
        const double ref = want[(size_t)c], off = (double)y[i * p.dim_value + c] - ref;
        error += off * off, size += ref * ref;
    }
    return size > 0 ? error / size : error;
}

double reference::error(const std::vector<int64_t> &rows, const float *y) const
{
    std::vector<double> squares(rows.size());
    std::vector<std::thread> threads;
    const size_t parts = std::min<size_t>(16, std::max(1u, std::thread::hardware_concurrency()));
    for (size_t t = 0; t < parts; t++)
        threads.emplace_back([&, t] {
            for (size_t r = t; r < rows.size(); r += parts) squares[r] = square_error(rows[r], y);
        });
    for (std::thread &t : threads) t.join();
    double sum = 0;
    for (double e : squares) sum += e;
    return sqrt(sum / (double)squares.size());
}
