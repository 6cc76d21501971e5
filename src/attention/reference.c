/* attention/reference.c - the oracle: one output row in double, straight from the definition.
 *
 *     softmax:  y = sum_j e^{x_j} v_j / sum_j e^{x_j},  x_j = c tanh(s q.k_j / c) - slope |t - j| + mask_j,
 *               over keys with |t - j| < window
 *     linear:   y = sum_j w_j v_j / (sum_j w_j + eps),  w_j = g^{t-j} phi(q).phi(k_j)
 *     taylor:   y = sum_j w_j v_j / sum_j w_j,  w_j = sum_p a_p (s q.(k_j - mu))^p
 *     cur:      see attention/reference_cur.c
 *     hybrid:   y = sum_j w_j v_j / sum_j w_j,  w_j = e^{s q.(k_j - mu)} where t - j < W or j < S, else
 *               as linear or taylor (mu is 0 for linear)
 *
 * over the keys j that the query, itself at key position t = i + n_k - n_q, or t = i where softmax is
 * aligned at the begin, may see.  O(n (d + m))
 * a row for softmax; linear maps every key again for every row.  Slow on purpose: nothing here is
 * shared with the algorithms that are held against it but the random weights and the coefficients.
 * See docs/math. */
#include <math.h>
#include <string.h>

#include "attention/taylor/basis.h"
#include "attention/state/state_view.h"
#include "attention/linear/feature.h"
#include "attention/problem.h"
#include "attention/cur/reference_cur.h"
#include "attention/io.h"
#include "attention/mask.h"
#include "core/overlap.h"
#include "core/tensor.h"

/* One row to compute, and the room for it. */
typedef struct row {
    const lnt_attn_desc *p; /* resolved */
    const lnt_attn_io *io;
    lnt_sequence seq;
    int64_t s, h, kv, i;   /* sequence, head, its kv head, row of q */
    int64_t position;      /* of the query among the keys; */
    int64_t begin, end;    /* keys seen are begin .. end-1; begin is 0 but for softmax */
    double *w;             /* [rows, d], random maps only */
    double *q, *k, *v;     /* [d], [d], [m]: the query, and the token last looked at */
    double factor;         /* of the query: the scale, and with taylorshift tau / |q| */
    double *center;        /* [d]: what is taken from every key; 0 but for taylor */
    double *phi_q, *phi_k; /* [D] */
    lnt_tensor window_k, window_v; /* hybrid: the tokens that state_in holds as they were */
} row;

/* Token j of the sequence; hybrid: before the first key, one that state_in holds as it was. */
static void read_token(const row *r, const lnt_tensor *t, const lnt_tensor *window, int64_t j,
                       double *to)
{
    const int64_t token = r->seq.before + j, sink = r->p->hybrid.sink;
    if (j >= 0)
        lnt_tensor_read(t, r->seq.b, r->kv, r->seq.k0 + j, to);
    else if (token < sink)
        lnt_tensor_read(window, r->s, r->kv, token, to);
    else
        lnt_tensor_read(window, r->s, r->kv, sink + (token - sink) % (window->shape[2] - sink), to);
}

static void read_key(const row *r, int64_t j) { read_token(r, &r->io->k, &r->window_k, j, r->k); }

static void add_value(const row *r, int64_t j, double weight, double *out)
{
    read_token(r, &r->io->v, &r->window_v, j, r->v);
    for (int64_t c = 0; c < r->p->dim_value; c++) out[c] += weight * r->v[c];
}

static bool is_normalised(const row *r)
{
    return r->p->mechanism == LNT_TAYLOR && r->p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

/* |x|, where taylorshift divides by it; else 1. */
static double norm(const row *r, const double *x)
{
    double length = 0;
    if (!is_normalised(r)) return 1;
    for (int64_t c = 0; c < r->p->dim; c++) length = hypot(length, x[c]);
    return fmax(length, 1e-12);
}

static void read_query(row *r)
{
    lnt_tensor_read(&r->io->q, r->seq.b, r->h, r->i, r->q);
    const double tau = is_normalised(r) && r->p->taylor.temperature ? r->p->taylor.temperature[r->h] : 1;
    r->factor = r->p->scale * tau / norm(r, r->q);
}

/* The vector that taylor takes from every key. */
static void find_center(const row *r)
{
    const int64_t d = r->p->dim;
    for (int64_t c = 0; c < d; c++)
        r->center[c] = r->p->taylor.center ? r->p->taylor.center[r->kv * d + c] : 0;
    if (r->p->taylor.center || !r->p->taylor.center_mean) return;
    for (int64_t j = 0; j < r->seq.nk; j++) {
        read_key(r, j);
        for (int64_t c = 0; c < d; c++) r->center[c] += r->k[c];
    }
    for (int64_t c = 0; c < d; c++) r->center[c] /= (double)r->seq.nk;
}

static double logit(const row *r, int64_t j)
{
    double sum = 0;
    read_key(r, j);
    const double length = norm(r, r->k);
    for (int64_t c = 0; c < r->p->dim; c++)
        sum += r->factor * r->q[c] * ((r->k[c] - r->center[c]) / length);
    return sum;
}

/* num [m] / den, 0 where there is nothing to divide by. */
static void divide(double *num, int64_t m, double den)
{
    for (int64_t c = 0; c < m; c++) num[c] = den == 0 ? 0 : num[c] / den;
}

/* What the mask adds to the score of key j. */
static double mask_of(const row *r, int64_t j)
{
    const lnt_mask *m = &r->io->mask;
    if (!m->data) return 0;
    const char *at = lnt_mask_at(m, r->seq.b, r->h, r->i, r->seq.k0 + j);
    if (m->kind == LNT_MASK_KEEP) return *at ? 0 : -INFINITY;
    const lnt_tensor one = { .data = (void *)(uintptr_t)at, .dtype = m->dtype };
    return lnt_tensor_get(&one, 0, 0, 0, 0);
}

static double softmax_score(const row *r, int64_t j)
{
    const lnt_softmax_options *o = &r->p->softmax;
    double x = logit(r, j);
    if (o->cap > 0) x = o->cap * tanh(x / o->cap);
    if (o->slopes) x -= o->slopes[r->h] * fabs((double)(r->position - j));
    return x + mask_of(r, j);
}

static void softmax_row(const row *r, double *out)
{
    double max = -INFINITY, den = 0;
    for (int64_t j = r->begin; j < r->end; j++) max = fmax(max, softmax_score(r, j));
    if (max == -INFINITY) return; /* no key is seen */
    for (int64_t j = r->begin; j < r->end; j++) {
        const double weight = exp(softmax_score(r, j) - max);
        den += weight;
        add_value(r, j, weight, out);
    }
    divide(out, r->p->dim_value, den);
}

/* phi [D] of x [d]. */
static void feature(const lnt_attn_desc *p, const double *w, const double *x, double *phi)
{
    const int64_t d = p->dim;
    const int64_t rows = lnt_feature_is_random(p->linear.feature_map) ? lnt_feature_rows(p) : 0;
    double square = 0;
    for (int64_t c = 0; c < d; c++) square += x[c] * x[c];
    for (int64_t f = 0; f < rows; f++) {
        double wx = 0;
        for (int64_t c = 0; c < d; c++) wx += w[f * d + c] * x[c];
        if (p->linear.feature_map == LNT_MAP_FOURIER) { /* all cosines, then all sines */
            phi[f] = sqrt(2.0 / (double)p->linear.features) * cos(wx);
            phi[rows + f] = sqrt(2.0 / (double)p->linear.features) * sin(wx);
        } else {
            phi[f] = exp(wx - square / 2) / sqrt((double)p->linear.features);
        }
    }
    for (int64_t c = 0; c < d && !rows; c++) {
        switch (p->linear.feature_map) {
        case LNT_MAP_ELU1: phi[c] = x[c] > 0 ? x[c] + 1 : exp(x[c]); break;
        case LNT_MAP_RELU: phi[c] = x[c] > 0 ? x[c] : 0; break;
        case LNT_MAP_EXP: phi[c] = exp(x[c]); break;
        case LNT_MAP_IDENTITY: phi[c] = x[c]; break;
        case LNT_MAP_FOURIER:
        case LNT_MAP_POSITIVE: break; /* done above */
        }
    }
}

/* Adds the tokens before the first key; they are one decay older than it.  Gives their weight. */
static double add_state(const row *r, double gamma, double *num)
{
    lnt_tensor s, z;
    const char *name;
    lnt_state *state = (lnt_state *)(uintptr_t)r->io->state_in; /* only read */
    if (lnt_state_tensor(state, 0, &name, &s) || lnt_state_tensor(state, 1, &name, &z)) return NAN;
    const double age = pow(gamma, (double)(r->position + 1));
    double den = 0;
    for (int64_t f = 0; f < lnt_problem_width(r->p); f++) {
        den += age * r->phi_q[f] * lnt_tensor_get(&z, r->s, r->kv, 0, f);
        lnt_tensor_read(&s, r->s, r->kv, f, r->v);
        for (int64_t c = 0; c < r->p->dim_value; c++) num[c] += age * r->phi_q[f] * r->v[c];
    }
    return den;
}

/* phi(q).phi(k_j), the query mapped. */
static double linear_weight(const row *r, int64_t j)
{
    double weight = 0;
    read_key(r, j);
    feature(r->p, r->w, r->k, r->phi_k);
    for (int64_t f = 0; f < lnt_problem_width(r->p); f++) weight += r->phi_q[f] * r->phi_k[f];
    return weight;
}

static void linear_row(const row *r, double *out)
{
    const lnt_attn_desc *p = r->p;
    const double gamma = p->decay ? p->decay[r->kv] : 1;
    feature(p, r->w, r->q, r->phi_q);

    double den = r->io->state_in ? add_state(r, gamma, out) : 0;
    for (int64_t j = 0; j < r->end; j++) {
        const double weight = linear_weight(r, j) * pow(gamma, (double)(r->position - j));
        den += weight;
        add_value(r, j, weight, out);
    }
    divide(out, p->dim_value, den + p->linear.eps);
}

/* Orderings of the p indices of a monomial, which are sorted: p! / prod r!. */
static double orderings(const int64_t *index, int p)
{
    double count = 1;
    for (int i = 0, repeats = 0; i < p; i++) {
        repeats = i && index[i] == index[i - 1] ? repeats + 1 : 1;
        count *= (double)(i + 1) / repeats;
    }
    return count;
}

/* One state to read: what is summed, and the place of the next monomial in it. */
typedef struct reading {
    const row *r;
    lnt_tensor s, z;
    int64_t feature;
    double *num, den;
} reading;

/* Every monomial of degree p whose first n indices are given. */
static void read_monomials(reading *x, int64_t index[LNT_MAX_TERMS], int n, int p)
{
    const row *r = x->r;
    if (n < p) {
        for (index[n] = n ? index[n - 1] : 0; index[n] < r->p->dim; index[n]++)
            read_monomials(x, index, n + 1, p);
        return;
    }
    /* A state holds the monomials of keys times the root of the score factor. */
    double weight = lnt_taylor_coefficient(r->p, p) * orderings(index, p) *
                    pow(lnt_taylor_score_factor(r->p), -0.5 * p);
    for (int i = 0; i < p; i++) weight *= r->factor * r->q[index[i]];
    x->den += weight * lnt_tensor_get(&x->z, r->s, r->kv, 0, x->feature);
    lnt_tensor_read(&x->s, r->s, r->kv, x->feature, r->v);
    for (int64_t c = 0; c < r->p->dim_value; c++) x->num[c] += weight * r->v[c];
    x->feature++;
}

static double add_taylor_state(const row *r, double *num)
{
    const char *name;
    reading x = { .r = r, .num = num };
    int64_t index[LNT_MAX_TERMS];
    lnt_state *state = (lnt_state *)(uintptr_t)r->io->state_in; /* only read */
    if (lnt_state_tensor(state, 0, &name, &x.s) || lnt_state_tensor(state, 1, &name, &x.z))
        return NAN;
    for (int p = 0; p < r->p->taylor.terms; p++) read_monomials(&x, index, 0, p);
    return x.den;
}

static double taylor_weight(const row *r, int64_t j)
{
    const double x = logit(r, j);
    double weight = 0, power = 1;
    for (int64_t t = 0; t < r->p->taylor.terms; t++, power *= x)
        weight += lnt_taylor_coefficient(r->p, t) * power;
    return weight;
}

static void taylor_row(const row *r, double *out)
{
    double den = r->io->state_in ? add_taylor_state(r, out) : 0;
    for (int64_t j = 0; j < r->end; j++) {
        const double weight = taylor_weight(r, j);
        den += weight;
        add_value(r, j, weight, out);
    }
    divide(out, r->p->dim_value, den);
    const double keys = (double)(r->seq.before + r->end);
    for (int64_t c = 0; c < r->p->dim_value && r->p->taylor.output_norm; c++)
        out[c] *= sqrt(keys / (double)r->p->dim);
}

static bool is_near(const row *r, int64_t j)
{
    return r->position - j < r->p->hybrid.window || r->seq.before + j < r->p->hybrid.sink;
}

/* Whether a token before the first key is in the sums of state_in, which its window has left. */
static bool is_summed(const row *r, int64_t j)
{
    return j < -r->p->hybrid.window && r->seq.before + j >= r->p->hybrid.sink;
}

static lnt_status open_window(row *r)
{
    const char *name;
    lnt_state *state = (lnt_state *)(uintptr_t)r->io->state_in; /* only read */
    if (!state) return LNT_OK;
    const lnt_status status = lnt_state_tensor(state, 2, &name, &r->window_k);
    return status ? status : lnt_state_tensor(state, 3, &name, &r->window_v);
}

static void hybrid_row(const row *r, double *out)
{
    const lnt_attn_desc *p = r->p;
    const bool linear = p->hybrid.far == LNT_LINEAR;
    double max = -INFINITY, den = 0;
    bool far = false;
    for (int64_t j = -r->seq.before; j < r->end; j++) {
        if (is_near(r, j) && !is_summed(r, j)) max = fmax(max, logit(r, j));
        else far = true;
    }
    if (far) max = fmax(max, 0); /* relative to it, as e^x is */
    if (linear) feature(p, r->w, r->q, r->phi_q);
    if (r->io->state_in) den = linear ? add_state(r, 1, out) : add_taylor_state(r, out);
    const double shrink = far ? exp(-max) : 0, gamma = p->decay ? p->decay[r->kv] : 1;
    const double age = pow(gamma, (double)(r->position + 1)); /* of the last token in the sums */
    den *= shrink * age;
    for (int64_t c = 0; c < p->dim_value; c++) out[c] *= shrink * age;
    for (int64_t j = -r->seq.before; j < r->end; j++) {
        if (is_summed(r, j)) continue;
        const double past = pow(gamma, (double)(r->position - j - p->hybrid.window));
        const double weight = is_near(r, j) ? exp(logit(r, j) - max)
                              : shrink * past * (linear ? linear_weight(r, j) : taylor_weight(r, j));
        den += weight;
        add_value(r, j, weight, out);
    }
    divide(out, p->dim_value, den);
}

/* Where query `local` of the sequence stands, and which keys it sees by that. */
static void find_keys(row *r, int64_t local)
{
    const lnt_softmax_options none = { 0 }, *o = r->p->mechanism == LNT_SOFTMAX ? &r->p->softmax : &none;
    r->position = o->align_begin ? local : local + r->seq.nk - r->seq.nq;
    r->end = r->p->causal ? r->position + 1 : r->seq.nk;
    if (o->window && r->position - o->window + 1 > 0) r->begin = r->position - o->window + 1;
    if (o->window && r->end > r->position + o->window) r->end = r->position + o->window;
    if (r->end > r->seq.nk) r->end = r->seq.nk;
}

/* The sequence that row i at batch index b belongs to; false: none, so the row is zeros. */
static bool find_sequence(row *r, int64_t sequences, int64_t b)
{
    for (r->s = 0; r->s < sequences; r->s++) {
        r->seq = lnt_io_sequence(r->io, r->s);
        const int64_t local = r->i - r->seq.q0;
        if (r->seq.b != b || local < 0 || local >= r->seq.nq) continue;
        find_keys(r, local);
        return true;
    }
    return false;
}

/* Cuts the room for all arrays from one allocation; fills q, center and w. */
static lnt_status open_scratch(lnt_ctx *ctx, row *r, size_t *bytes)
{
    const lnt_attn_desc *p = r->p;
    const bool linear = lnt_problem_sums(p) == LNT_LINEAR;
    const bool random = linear && lnt_feature_is_random(p->linear.feature_map);
    const size_t d = (size_t)p->dim, m = (size_t)p->dim_value;
    const size_t width = linear ? (size_t)lnt_problem_width(p) : 0;
    size_t weights;
    if (!lnt_size_product(random ? (size_t)lnt_feature_rows(p) : 0, d, 1, &weights) ||
        __builtin_add_overflow(weights, 3 * d + m + 2 * width, &weights) ||
        !lnt_size_product(weights, sizeof(double), 1, bytes))
        return lnt_fail(ctx, LNT_ERR_MEMORY, "the reference: the size asked for cannot exist");
    r->q = lnt_allocate(ctx, *bytes, "the reference");
    if (!r->q) return LNT_ERR_MEMORY;
    r->k = r->q + d;
    r->v = r->k + d;
    r->center = r->v + m;
    r->phi_q = r->center + d;
    r->phi_k = r->phi_q + width;
    r->w = r->phi_k + width;
    if (random) lnt_feature_weights(p, r->w);
    read_query(r);
    find_center(r);
    return LNT_OK;
}

static lnt_status check_index(lnt_ctx *ctx, const char *name, int64_t index, int64_t extent)
{
    if (index >= 0 && index < extent) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "the reference: %s is %lld, must be 0 to %lld", name,
                    (long long)index, (long long)extent - 1);
}

lnt_status lnt_reference_row(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *given,
                             int64_t b, int64_t h, int64_t i, double *out)
{
    lnt_attn_io whole;
    const lnt_attn_io *io = &whole;
    lnt_attn_desc p;
    int64_t sequences;
    if (!ctx) return LNT_ERR_ARGUMENT;
    if (!out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "the reference: out is NULL");
    lnt_status status = lnt_problem_resolve(ctx, desc, &p);
    if (!status) status = lnt_io_take(ctx, given, &whole);
    if (!status) status = lnt_io_check(ctx, &p, io, false, &sequences);
    if (!status && io->state_in && !lnt_state_device(io->state_in)->host_memory)
        status = lnt_fail(ctx, LNT_ERR_ARGUMENT, "the reference: state_in is in the memory of a device");
    const lnt_tensor row_out = lnt_tensor_bhnd(out, LNT_F64, 1, 1, 1, p.dim_value);
    const lnt_tensor mask = status ? (lnt_tensor){ .data = NULL } : lnt_mask_memory(&io->mask);
    const lnt_named_tensor read[] = { { "q", &io->q }, { "k", &io->k }, { "v", &io->v }, { "mask", &mask } };
    if (!status)
        status = lnt_tensor_expect_apart(ctx, (lnt_named_tensor){ "out", &row_out }, read, 4);
    if (!status) status = check_index(ctx, "b", b, io->q.shape[0]);
    if (!status) status = check_index(ctx, "h", h, p.heads);
    if (!status) status = check_index(ctx, "i", i, io->q.shape[2]);
    if (!status && p.mechanism == LNT_HYBRID && !p.causal)
        status = lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "hybrid: %s", lnt_hybrid_needs_causal);
    if (status) return status;

    memset(out, 0, (size_t)p.dim_value * sizeof *out);
    row r = { .p = &p, .io = io, .h = h, .kv = h * p.kv_heads / p.heads, .i = i };
    if (!find_sequence(&r, sequences, b)) return LNT_OK;
    if (p.mechanism == LNT_CUR)
        return lnt_reference_cur_row(ctx, &p, io, &r.seq, h, i - r.seq.q0, out);
    size_t bytes;
    if (p.mechanism == LNT_HYBRID) status = open_window(&r);
    if (!status) status = open_scratch(ctx, &r, &bytes);
    if (status) return status;
    switch (p.mechanism) {
    case LNT_SOFTMAX: softmax_row(&r, out); break;
    case LNT_LINEAR: linear_row(&r, out); break;
    case LNT_TAYLOR: taylor_row(&r, out); break;
    case LNT_HYBRID: hybrid_row(&r, out); break;
    case LNT_CUR: break; /* went above */
    }
    lnt_release(ctx, r.q, bytes);
    return LNT_OK;
}
