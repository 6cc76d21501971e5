/* bench/gpu/gradient_reference.cc - the backward pass of softmax, linear and Taylor attention,
 * query by query, straight from the formulas of docs/math, O(nq nk (d + m)):
 *
 *     y = sum_j w_j v_j / den     dv_j += w_j g     dx_j = w'_j (g.v_j + dden),   g = dy / den */
#include "gpu/gradient_reference.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>

#include "gpu/reference.h"

static double feature_slope(lnt_feature_map map, double x)
{
    if (map == LNT_MAP_RELU) return x > 0 ? 1 : 0;
    if (map == LNT_MAP_EXP) return exp(x);
    return map == LNT_MAP_IDENTITY || x > 0 ? 1 : exp(x);
}

static double taylor_slope(const lnt_attn_desc &p, double x)
{
    double w = 0, a = 1;
    for (int64_t t = 1; t < p.taylor.terms; t++) {
        w += (p.taylor.coefficients ? p.taylor.coefficients[t] : a) * (double)t * pow(x, (double)(t - 1));
        a /= (double)(t + 1);
    }
    return w;
}

static double rounded(const lnt_attn_desc &p, double x)
{
    const bool rounds = p.dtype == LNT_BF16 && !p.state;
    return rounds ? (double)__bfloat162float(__float2bfloat16((float)x)) : x;
}

/* What a row x of q or k is in the product: phi(x), or x normalised, times tau.  x, y [d] */
static void map_row(const lnt_attn_desc &p, const float *x, double tau, double *y)
{
    const double length = length_of(x, p.dim);
    for (int64_t e = 0; e < p.dim; e++) {
        const double v = (double)x[e];
        y[e] = p.mechanism == LNT_LINEAR                  ? feature_of(p.linear.feature_map, v)
               : p.taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? rounded(p, tau * v / length)
                                                          : v;
    }
}

/* From the gradient of the mapped row to that of x, in place; the gradient of tau.  x, g [d] */
static double unmap_row(const lnt_attn_desc &p, const float *x, double tau, double *g)
{
    if (p.mechanism == LNT_LINEAR)
        for (int64_t e = 0; e < p.dim; e++) g[e] *= feature_slope(p.linear.feature_map, (double)x[e]);
    if (p.mechanism != LNT_TAYLOR || p.taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT) return 0;
    const double length = length_of(x, p.dim);
    double along = 0;
    for (int64_t e = 0; e < p.dim; e++) along += g[e] * (double)x[e] / length;
    for (int64_t e = 0; e < p.dim; e++)
        g[e] = tau * (g[e] - along * (double)x[e] / length) / length;
    return along;
}

namespace
{

/* One head on its way through add(). */
struct head_pass {
    gradient_reference &all;
    const lnt_attn_desc &p;
    const float *q, *k, *v, *dout;
    size_t d, m;
    double tau, gamma, scale;
    std::vector<double> keys, dkeys; /* [nk,d], mapped */
    std::vector<double> dq;          /* [nq,d] */
    std::vector<double> row;         /* [d], the query at hand, mapped */
    std::vector<double> x, w;        /* [nk], its scores and weights */
    std::vector<double> y, g;        /* [m + 1], its sums, the denominator last; their gradients */
    double dtau = 0, square = 0;

    head_pass(gradient_reference &to, const float *q_, const float *k_, const float *v_,
              const float *dout_, int64_t h);
    void go_back(int64_t i);
    void finish();

  private:
    void weigh(int64_t last, int64_t end);
    void take_gradient(int64_t i, int64_t end);
    void spread(int64_t i, int64_t last, int64_t end);
    void read_state(double left);
    void read_state_back(double left, double *drow);
    void write_state_back(int64_t j);
};

} // namespace

head_pass::head_pass(gradient_reference &to, const float *q_, const float *k_, const float *v_,
                     const float *dout_, int64_t h)
    : all(to), p(to.p), q(q_), k(k_), v(v_), dout(dout_), d((size_t)p.dim), m((size_t)p.dim_value),
      tau(p.taylor.temperature ? p.taylor.temperature[h] : 1),
      gamma(p.mechanism == LNT_LINEAR && p.decay ? p.decay[h * p.kv_heads / p.heads] : 1),
      scale(p.mechanism == LNT_LINEAR ? 1 : p.scale), keys((size_t)to.nk * d), dkeys(keys.size()),
      dq((size_t)to.nq * d), row(d), x((size_t)to.nk), w((size_t)to.nk), y(m + 1), g(m + 1)
{
    for (int64_t j = 0; j < to.nk; j++) map_row(p, k + j * p.dim, 1, &keys[(size_t)j * d]);
}

/* What the state before the first key adds to a query, of which `left` is left. */
void head_pass::read_state(double left)
{
    for (size_t f = 0; f < all.state.size(); f++)
        y[f % (m + 1)] += left * row[f / (m + 1)] * all.state[f];
}

void head_pass::read_state_back(double left, double *drow)
{
    all.dstate_in.resize(all.state.size());
    for (size_t f = 0; f < all.state.size(); f++) {
        drow[f / (m + 1)] += left * all.state[f] * g[f % (m + 1)];
        all.dstate_in[f] += left * row[f / (m + 1)] * g[f % (m + 1)];
    }
}

/* What the gradient of the state after the last key gives key j and its value. */
void head_pass::write_state_back(int64_t j)
{
    const double left = pow(gamma, (double)(all.nk - 1 - j));
    const size_t key = (size_t)j * d, value = (size_t)j * m;
    for (size_t f = 0; f < all.dstate_out.size(); f++) {
        const size_t e = f / (m + 1), c = f % (m + 1);
        const bool is_z = c == m;
        dkeys[key + e] += left * all.dstate_out[f] * (is_z ? 1 : (double)v[value + c]);
        if (!is_z) all.dv[value + c] += left * all.dstate_out[f] * keys[key + e];
    }
}

/* Scores, weights and sums over the keys before `end`; `last` is the place of the query. */
void head_pass::weigh(int64_t last, int64_t end)
{
    double top = -INFINITY;
    for (size_t j = 0; j < (size_t)end; j++) {
        double s = 0;
        for (size_t e = 0; e < d; e++) s += row[e] * keys[j * d + e];
        x[j] = s * scale, top = std::max(top, s * scale);
    }
    std::fill(y.begin(), y.end(), 0.0);
    read_state(pow(gamma, (double)(last + 1)));
    if (p.mechanism == LNT_LINEAR) y[m] += p.linear.eps;
    for (int64_t j = 0; j < end; j++) {
        const double s = x[(size_t)j];
        const double weight = p.mechanism == LNT_SOFTMAX  ? exp(s - top)
                              : p.mechanism == LNT_TAYLOR ? taylor_weight(p, s)
                                                          : s * pow(gamma, (double)(last - j));
        w[(size_t)j] = weight, y[m] += weight;
        for (size_t c = 0; c < m; c++) y[c] += weight * (double)v[(size_t)j * m + c];
    }
}

/* g of query i, whose denominator is not 0. */
void head_pass::take_gradient(int64_t i, int64_t end)
{
    const double norm = p.taylor.output_norm ? sqrt((double)end / (double)d) : 1, den = y[m];
    g[m] = 0;
    for (size_t c = 0; c < m; c++) {
        g[c] = (double)dout[(size_t)i * m + c] * norm / den;
        g[m] -= g[c] * y[c] / den;
    }
}

/* From g to the query and to the keys and values that it saw. */
void head_pass::spread(int64_t i, int64_t last, int64_t end)
{
    double *mine = &dq[(size_t)i * d];
    read_state_back(pow(gamma, (double)(last + 1)), mine);
    for (int64_t j = 0; j < end; j++) {
        const size_t key = (size_t)j * d, value = (size_t)j * m;
        double dw = g[m];
        for (size_t c = 0; c < m; c++) {
            dw += g[c] * (double)v[value + c];
            all.dv[value + c] += w[(size_t)j] * g[c];
        }
        const double slope = p.mechanism == LNT_SOFTMAX  ? w[(size_t)j]
                             : p.mechanism == LNT_TAYLOR ? taylor_slope(p, x[(size_t)j])
                                                         : pow(gamma, (double)(last - j));
        for (size_t e = 0; e < d; e++) {
            mine[e] += dw * slope * scale * keys[key + e];
            dkeys[key + e] += dw * slope * scale * row[e];
        }
    }
}

void head_pass::go_back(int64_t i)
{
    const int64_t last = i + all.nk - all.nq, end = !p.causal ? all.nk : last < 0 ? 0 : last + 1;
    if (end == 0) return;
    map_row(p, q + i * p.dim, tau, row.data());
    weigh(last, end);
    if (y[m] == 0) return;
    take_gradient(i, end);
    spread(i, last, end);
    const double one = unmap_row(p, q + i * p.dim, tau, &dq[(size_t)i * d]);
    dtau += one, square += one * one;
}

void head_pass::finish()
{
    const bool first = all.dq.empty(); /* of the heads that share the state */
    for (int64_t j = 0; j < all.nk; j++) {
        if (first) write_state_back(j);
        unmap_row(p, k + j * p.dim, 1, &dkeys[(size_t)j * d]);
    }
    for (size_t f = 0; first && f < all.dstate_out.size() && f < all.dstate_in.size(); f++)
        all.dstate_in[f] += pow(gamma, (double)all.nk) * all.dstate_out[f];
    for (size_t e = 0; e < dkeys.size(); e++) all.dk[e] += dkeys[e];
    all.dq.push_back(dq), all.dtemperature.push_back(dtau), all.along.push_back(square);
}

gradient_reference::gradient_reference(const lnt_attn_desc &desc, int64_t queries, int64_t keys)
    : p(desc), nq(queries), nk(keys), dk((size_t)(keys * desc.dim)),
      dv((size_t)(keys * desc.dim_value))
{
}

void gradient_reference::add(const float *q, const float *k, const float *v, const float *dout,
                             int64_t h, const std::vector<int64_t> &rows)
{
    head_pass pass(*this, q, k, v, dout, h);
    for (int64_t i : rows) pass.go_back(i);
    pass.finish();
}
