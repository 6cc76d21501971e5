/* bench/gpu_gradient.h - gradients of attention in double precision on the host, straight from the
 * formulas of docs/math, for one kv head and the heads that share it.
 *
 * Of bf16, normalised rows are rounded here too, since that is what is attended with: then all that
 * differs is what the backward pass itself does.  Not so where it runs in the precision of f32. */
#ifndef BENCH_GPU_GRADIENT_H
#define BENCH_GPU_GRADIENT_H

#include <type_traits>

#include "gpu_reference.h"

template <class T> struct gradient_reference {
    typedef reference_of<T> reference;
    lnt_attn_desc p;
    int64_t nq, nk;
    std::vector<double> dk, dv;          /* [nk, dim], [nk, dim_value] */
    std::vector<std::vector<double>> dq; /* of each head of the group [nq, dim] */
    std::vector<double> dtemperature;    /* of each head: a sum over its rows */
    std::vector<double> along;           /* and the sum of the squares of what it is a sum of */
    /* Linear: a state before the first key and the gradient of that after the last, [dim] rows of
     * dim_value + 1, where z stands last; empty: none.  And the gradient of the first. */
    std::vector<double> state, dstate_out, dstate_in;

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

    double rounded(double x) const
    {
        const bool rounds = std::is_same<T, __nv_bfloat16>::value && !p.state;
        return rounds ? (double)__bfloat162float(__float2bfloat16((float)x)) : x;
    }

    /* What a row of q or k is in the product: phi(x), or x normalised, times tau. */
    void mapped(const T *x, double tau, std::vector<double> &y) const
    {
        double length = 0;
        for (int64_t e = 0; e < p.dim; e++) length += reference::at(x, e) * reference::at(x, e);
        length = length > 1e-24 ? sqrt(length) : 1e-12;
        for (int64_t e = 0; e < p.dim; e++) {
            const double v = reference::at(x, e);
            y[(size_t)e] = p.mechanism == LNT_LINEAR ? reference::feature(p.feature_map, v)
                           : p.normalize == LNT_NORMALIZE_TAYLORSHIFT ? rounded(tau * v / length)
                                                                      : v;
        }
    }

    /* From the gradient of the mapped row to that of x, in place; the gradient of tau. */
    double unmap(const T *x, double tau, double *g) const
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

    /* What the state before the first key adds to a query that stands `behind` it, and its
     * gradients; y, g [dim_value + 1], the denominator last. */
    void read_state(const std::vector<double> &row, double left, double *y) const
    {
        const size_t m = (size_t)p.dim_value + 1;
        for (size_t f = 0; f < state.size(); f++) y[f % m] += left * row[f / m] * state[f];
    }
    void read_state_back(const std::vector<double> &row, double left, const double *g, double *drow)
    {
        const size_t m = (size_t)p.dim_value + 1;
        dstate_in.resize(state.size());
        for (size_t f = 0; f < state.size(); f++) {
            drow[f / m] += left * state[f] * g[f % m];
            dstate_in[f] += left * row[f / m] * g[f % m];
        }
    }
    /* What the state after the last key gives key j, as phi(k), and its value. */
    void write_state_back(const double *key, const T *value, double left, double *dkey,
                          double *dvalue) const
    {
        const size_t m = (size_t)p.dim_value + 1;
        for (size_t f = 0; f < dstate_out.size(); f++) {
            const bool is_z = f % m == m - 1;
            dkey[f / m] +=
                left * dstate_out[f] * (is_z ? 1 : reference::at(value, (int64_t)(f % m)));
            if (!is_z) dvalue[f % m] += left * dstate_out[f] * key[f / m];
        }
    }

    /* Adds head h; all are arrays of one head, [length, width].  rows: only those queries, so that
     * dk and dv are whole only for keys that no other query sees. */
    void add(const T *q, const T *k, const T *v, const T *dout, int64_t h,
             const std::vector<int64_t> &rows)
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
        double dtau = 0, square = 0;
        std::vector<double> x((size_t)nk), w((size_t)nk), y(m + 1), g(m + 1);
        for (int64_t i : rows) {
            const int64_t last = i + nk - nq, end = !p.causal ? nk : last < 0 ? 0 : last + 1;
            if (end == 0) continue;
            mapped(q + i * p.dim, tau, row);
            double top = -INFINITY;
            for (int64_t j = 0; j < end; j++) {
                double s = 0;
                for (size_t e = 0; e < d; e++) s += row[e] * keys[(size_t)j * d + e];
                x[(size_t)j] = s * scale, top = std::max(top, s * scale);
            }
            std::fill(y.begin(), y.end(), 0.0);
            read_state(row, pow(gamma, (double)(last + 1)), y.data());
            double den = y[m] + (p.mechanism == LNT_LINEAR ? p.eps : 0);
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
            g[m] = dden;
            read_state_back(row, pow(gamma, (double)(last + 1)), g.data(), &mine[(size_t)i * d]);
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
            const double one = unmap(q + i * p.dim, tau, &mine[(size_t)i * d]);
            dtau += one, square += one * one;
        }
        const bool first = dq.empty(); /* of the heads that share the state */
        for (int64_t j = 0; j < nk; j++) {
            if (first)
                write_state_back(&keys[(size_t)j * d], v + j * p.dim_value,
                                 pow(gamma, (double)(nk - 1 - j)), &dkeys[(size_t)j * d],
                                 &dv[(size_t)j * m]);
            unmap(k + j * p.dim, 1, &dkeys[(size_t)j * d]);
        }
        for (size_t f = 0; first && f < dstate_out.size() && f < dstate_in.size(); f++)
            dstate_in[f] += pow(gamma, (double)nk) * dstate_out[f];
        for (size_t e = 0; e < dk.size(); e++) dk[e] += dkeys[e];
        dq.push_back(mine), dtemperature.push_back(dtau), along.push_back(square);
    }
};
#endif
