/* attention/taylor/real/taylor_recurrent.c - Taylor attention token by token, phi the monomials.  Each is its
 * prefix times one element; a run of them is a number times a piece of x.  Backward is that of the
 * chunks.  See docs/math/taylor.md */
#include "attention/recurrent.h"
#include "attention/taylor/taylor_chunk.h"

/* The monomials of one run; prefix[t] is the product of its first t indices, of a query times
 * coefficient and orderings. */
static real *make_run(const lnt_basis_run *run, const real *x, const real prefix[LNT_MAX_TERMS],
                      bool query, real *out)
{
    const int p = run->degree;
    if (p == 0) {
        *out = prefix[0];
        return out + 1;
    }
    const real factor = prefix[p - 1] * (query ? (real)p : 1);
    const size_t length = (size_t)lnt_basis_length(run);
    x += run->first;
    for (size_t j = 1; j < length; j++) out[j] = factor * x[j];
    out[0] = factor * x[0];
    if (query && p > 1) out[0] /= (real)(lnt_basis_new_repeats(run, p - 1) + 1);
    return out + length;
}

static void update_prefix(const lnt_basis_run *run, const real *x, bool query,
                          real prefix[LNT_MAX_TERMS])
{
    for (int t = run->changed + 1; t < run->degree; t++) {
        prefix[t] = prefix[t - 1] * x[run->prefix[t - 1]];
        if (query) prefix[t] *= (real)t / (real)lnt_basis_new_repeats(run, t);
    }
}

static void score(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h, int64_t n,
                  bool query, real *out)
{
    (void)feature;
    lnt_taylor_row(run, query, b, h, n, out);
}

void lnt_taylor_monomials(const lnt_attn_desc *p, const real *a, const real *x, bool query,
                          real *out)
{
    for (int t = 0; t < p->taylor.terms; t++) {
        real prefix[LNT_MAX_TERMS];
        prefix[0] = query ? a[t] : 1;
        lnt_basis_run r = lnt_basis_begin(p->dim, t);
        do {
            update_prefix(&r, x, query, prefix);
            out = make_run(&r, x, prefix, query, out);
        } while (lnt_basis_next(&r));
    }
}

static void phi(const lnt_run *run, lnt_feature_tile *feature, int64_t b, int64_t h, int64_t n,
                bool query, real *out)
{
    real *x = feature->phi /* [d] */, a[LNT_MAX_TERMS] = { 0 };
    lnt_taylor_coefficients(run->p, a);
    lnt_taylor_row(run, query, b, h, n, x);
    lnt_taylor_monomials(run->p, a, x, query, out);
}

static void weights(const lnt_run *run, const kernels *ker, real *x, size_t padded)
{
    real a[LNT_MAX_TERMS] = { 0 };
    lnt_taylor_coefficients(run->p, a);
    ker->polynomial(x, x, a, (size_t)run->p->taylor.terms, padded);
}

static void absorb_take(lnt_arena *arena, const lnt_attn_desc *p) { lnt_taylor_take(arena, p); }

static void absorb(const head_job *job, lnt_arena *arena, head_sums sums, const real *k, size_t ldk,
                   real *v, size_t ldv, size_t n)
{
    taylor_scratch s = lnt_taylor_open_in(arena, job);
    s.sums = sums;
    job->ker->load_columns(s.kt, TOKENS, k, LNT_REAL_DTYPE, (int64_t)ldk, 1, n, s.d, 1);
    s.v = v;
    s.ldv = ldv;
    lnt_taylor_walk(job, &s, 0, n);
}

static const lnt_recurrent kind = { .phi = phi,
                                    .score = score,
                                    .weights = weights,
                                    .absorb = absorb,
                                    .absorb_take = absorb_take };

static const char *refuses(const lnt_attn_desc *p)
{
    return p->taylor.center_mean ? "token by token the mean key is not known" : NULL;
}

static void forward(lnt_run *run) { lnt_recurrent_forward(&kind, run); }

static double cost(const lnt_attn_desc *p) { return lnt_recurrent_cost(p, 2000); }

static size_t scratch(const lnt_attn_desc *p)
{
    const size_t own = lnt_recurrent_scratch(&kind, p);
    const size_t back = p->backward ? lnt_taylor_scratch(p) : 0;
    return own > back ? own : back;
}

static size_t shared(const lnt_attn_desc *p)
{
    return p->backward ? lnt_taylor_parts_shared(p) : lnt_taylor_shared(p);
}

const lnt_algo LNT_REAL_NAME(lnt_algo_taylor_recurrent) = { .mechanism = LNT_TAYLOR,
                                                            .name = "taylor/recurrent",
                                                            .rate = 8e-11,
                                                            .cost = cost,
                                                            .both = 4.8,
                                                            .refuses = refuses,
                                                            .takes_state = true,
                                                            .state_runs = LNT_STATE_RUNS_FEW,
                                                            .shared = shared,
                                                            .scratch = scratch,
                                                            .forward = forward,
                                                            .backward = lnt_taylor_backward };
