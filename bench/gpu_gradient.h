/* bench/gpu_gradient.h - gradients of attention in double precision on the host, straight from the
 * formulas of docs/math, for one kv head and the heads that share it. */
#ifndef BENCH_GPU_GRADIENT_H
#define BENCH_GPU_GRADIENT_H

#include "gpu_reference.h"

struct gradient_reference {
    lnt_attn_desc p;
    int64_t nq, nk;
    std::vector<double> dk, dv;          /* [nk, dim], [nk, dim_value] */
    std::vector<std::vector<double>> dq; /* of each head of the group [nq, dim] */
    std::vector<double> dtemperature;    /* of each head */

    gradient_reference(const lnt_attn_desc &desc, int64_t queries, int64_t keys)
        : p(desc), nq(queries), nk(keys), dk((size_t)(keys * desc.dim)),
          dv((size_t)(keys * desc.dim_value))
    {
    }

    static double slope(int map, double x)
    {
        if (map == LNT_MAP_RELU) return x > 0 ? 1 : 0;
        if (map == LNT_MAP_EXP) return exp(x);
        return map == LNT_MAP_IDENTITY || x > 0 ? 1 : exp(x);
    }

    double weight_slope(double x) const
    {
        double w = 0, a = 1;
        for (int64_t t = 1; t < p.terms; t++) {
            w += (p.coefficients ? p.coefficients[t] : a) * (double)t * pow(x, (double)(t - 1));
            a /= (double)(t + 1);
        }
        return w;
    }

    /* What a row of q or k is in the product: phi(x), or x normalised, times tau. */
    void mapped(const __nv_bfloat16 *x, double tau, std::vector<double> &y) const
    {
        double length = 0;
        for (int64_t e = 0; e < p.dim; e++) length += reference::at(x, e) * reference::at(x, e);
        length = length > 1e-24 ? sqrt(length) : 1e-12;
        for (int64_t e = 0; e < p.dim; e++) {
            const double v = reference::at(x, e);
            y[(size_t)e] = p.mechanism == LNT_LINEAR ? reference::feature(p.feature_map, v)
                           : p.normalize == LNT_NORMALIZE_TAYLORSHIFT ? tau * v / length
                                                                      : v;
        }
    }

    /* From the gradient of the mapped row to that of x, in place; the gradient of tau. */
    double unmap(const __nv_bfloat16 *x, double tau, double *g) const
    {
        if (p.mechanism == LNT_LINEAR)
            for (int64_t e = 0; e < p.dim; e++) g[e] *= slope(p.feature_map, reference::at(x, e));
        if (p.mechanism != LNT_TAYLOR || p.normalize != LNT_NORMALIZE_TAYLORSHIFT) return 0;
        double length = 0, along = 0;
        for (int64_t e = 0; e < p.dim; e++) length += reference::at(x, e) * reference::at(x, e);
        length = length > 1e-24 ? sqrt(length) : 1e-12;
        for (int64_t e = 0; e < p.dim; e++) along += g[e] * reference::at(x, e) / length;
        for (int64_t e = 0; e < p.dim; e++)
            g[e] = tau * (g[e] - along * reference::at(x, e) / length) / length;
        return along;
    }

    /* Adds head h; all are arrays of one head, [length, width].  rows: only those queries, so that
     * dk and dv are whole only for keys that no other query sees. */
    void add(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
             const __nv_bfloat16 *dout, int64_t h, const std::vector<int64_t> &rows)
    {
        const size_t d = (size_t)p.dim, m = (size_t)p.dim_value;
        const double tau = p.temperature ? p.temperature[h] : 1;
        const double gamma =
            p.mechanism == LNT_LINEAR && p.decay ? p.decay[h * p.kv_heads / p.heads] : 1;
        const double scale = p.mechanism == LNT_LINEAR ? 1 : p.scale;
        std::vector<double> keys((size_t)nk * d), row(d), mine((size_t)nq * d), dkeys(keys.size());
        for (int64_t j = 0; j < nk; j++) {
            mapped(k + j * p.dim, 1, row);
            std::copy(row.begin(), row.end(), keys.begin() + (long)((size_t)j * d));
        }
        double dtau = 0;
        std::vector<double> x((size_t)nk), w((size_t)nk), y(m), g(m);
        for (int64_t i : rows) {
            const int64_t last = i + nk - nq, end = !p.causal ? nk : last < 0 ? 0 : last + 1;
            if (end == 0) continue;
            mapped(q + i * p.dim, tau, row);
            double den = p.mechanism == LNT_LINEAR ? p.eps : 0, top = -INFINITY;
            for (int64_t j = 0; j < end; j++) {
                double s = 0;
                for (size_t e = 0; e < d; e++) s += row[e] * keys[(size_t)j * d + e];
                x[(size_t)j] = s * scale, top = std::max(top, s * scale);
            }
            std::fill(y.begin(), y.end(), 0.0);
            for (int64_t j = 0; j < end; j++) {
                const double s = x[(size_t)j];
                reference ref = { p, q, k, v, nq, nk, h };
                w[(size_t)j] = p.mechanism == LNT_SOFTMAX  ? exp(s - top)
                               : p.mechanism == LNT_TAYLOR ? ref.weight(s)
                                                           : s * pow(gamma, (double)(last - j));
                den += w[(size_t)j];
                for (size_t c = 0; c < m; c++)
                    y[c] += w[(size_t)j] * reference::at(v, j * p.dim_value + (int64_t)c);
            }
            const double norm = p.output_norm ? sqrt((double)end / (double)d) : 1;
            if (den == 0) continue;
            double dden = 0;
            for (size_t c = 0; c < m; c++) {
                const double dy = reference::at(dout, i * p.dim_value + (int64_t)c);
                g[c] = dy * norm / den, dden -= g[c] * y[c] / den;
            }
            for (int64_t j = 0; j < end; j++) {
                double G = dden;
                for (size_t c = 0; c < m; c++) {
                    G += g[c] * reference::at(v, j * p.dim_value + (int64_t)c);
                    dv[(size_t)j * m + c] += w[(size_t)j] * g[c];
                }
                const double s = p.mechanism == LNT_SOFTMAX  ? w[(size_t)j]
                                 : p.mechanism == LNT_TAYLOR ? weight_slope(x[(size_t)j])
                                                             : pow(gamma, (double)(last - j));
                for (size_t e = 0; e < d; e++) {
                    mine[(size_t)i * d + e] += G * s * scale * keys[(size_t)j * d + e];
                    dkeys[(size_t)j * d + e] += G * s * scale * row[e];
                }
            }
            dtau += unmap(q + i * p.dim, tau, &mine[(size_t)i * d]);
        }
        for (int64_t j = 0; j < nk; j++) unmap(k + j * p.dim, 1, &dkeys[(size_t)j * d]);
        for (size_t e = 0; e < dk.size(); e++) dk[e] += dkeys[e];
        dq.push_back(mine), dtemperature.push_back(dtau);
    }
};
#endif
