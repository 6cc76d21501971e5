/* attention/cost.c - useful operations, by the formulas and not by what an algorithm does. */
#include <math.h>

#include "attention/algorithm.h"
#include "attention/band.h"
#include "attention/cur/pinv.h"

/* The sum over x from 0 to `to` - 1 of the lesser of x and nk. */
static double clipped_sum(double to, double nk)
{
    if (to <= 0) return 0;
    return to <= nk + 1 ? to * (to - 1) / 2 : nk * (nk + 1) / 2 + (to - nk - 1) * nk;
}

/* Pairs of a head where query i sees the keys up to position i + past. */
static double pairs_up_to(const lnt_attn_desc *p, int64_t past)
{
    const double first = (double)(past + 1), nk = (double)p->length_k;
    return clipped_sum(first + (double)p->length_q, nk) - clipped_sum(first, nk);
}

double lnt_pairs(const lnt_attn_desc *p)
{
    const double nq = (double)p->length_q, nk = (double)p->length_k;
    const double heads = (double)p->batch * (double)p->heads;
    const lnt_band band = lnt_band_of(p, p->causal != 0, p->length_q, p->length_k);
    if (p->mechanism == LNT_SOFTMAX && p->softmax.window)
        return heads * (pairs_up_to(p, band.offset + band.ahead) -
                        pairs_up_to(p, band.offset - band.behind - 1));
    if (p->mechanism == LNT_SOFTMAX && p->softmax.align_begin && p->causal)
        return heads * pairs_up_to(p, 0);
    return heads * (p->causal ? nq * (nk - nq) + nq * (nq + 1) / 2 : nq * nk);
}

/* 2D + 2m + 3 for each visible pair. */
double lnt_direct_flops(const lnt_attn_desc *p)
{
    return lnt_pairs(p) * (2 * (double)(lnt_score_width(p) + p->dim_value) + 3);
}

/* Scores, dy.v, dq, dk, dv: five products where forward has two. */
double lnt_direct_flops_backward(const lnt_attn_desc *p)
{
    return lnt_pairs(p) * (6 * (double)lnt_score_width(p) + 4 * (double)p->dim_value + 4);
}

/* hybrid: pairs of a query and one of the last W keys or the first S; and how many of a sequence's keys
 * go into S, and of its queries read it. */
static double near_pairs(const lnt_attn_desc *p)
{
    const double heads = (double)p->batch * (double)p->heads,
                 near = (double)(p->hybrid.window + p->hybrid.sink);
    const double first = (double)(p->length_k - p->length_q), last = (double)p->length_k;
    /* Query at position t sees min(t + 1, near) of them: the sum over t from first to last - 1. */
    const double full = last > near ? last - (first > near ? first : near) : 0;
    const double growing = last - first - full, end = first + growing;
    return heads * (full * near + (growing > 0 ? (end * (end + 1) - first * (first + 1)) / 2 : 0));
}

static int64_t far_tokens(const lnt_attn_desc *p, int64_t most)
{
    const int64_t far = p->length_k - p->hybrid.window - p->hybrid.sink;
    return far < 0 ? 0 : far < most ? far : most;
}

/* For each key adding to S and z, for each query reading them.  linear: 2Dm + D and 2Dm + 2D.
 * taylor: (4m + 2(Pd + 1)/(d + 1) + 2) F for both together, which includes making the monomials. */
double lnt_state_flops(const lnt_attn_desc *p)
{
    const double m = (double)p->dim_value, D = (double)lnt_problem_width(p);
    double add = 2 * D * m + D, read = 2 * D * m + 2 * D;
    if (p->mechanism == LNT_SOFTMAX || p->mechanism == LNT_CUR) return 0;
    if (lnt_problem_sums(p) == LNT_TAYLOR) {
        const double d = (double)p->dim, P = (double)p->taylor.terms;
        add = read = D * (2 * m + 1) + D * (P * d + 1) / (d + 1); /* a half of a whole number */
    }
    const bool hybrid = p->mechanism == LNT_HYBRID;
    const int64_t keys = hybrid ? far_tokens(p, p->length_k) : p->length_k;
    const int64_t queries = hybrid ? far_tokens(p, p->length_q) : p->length_q;
    const double each = 2 * (double)(p->dim + p->dim_value) + 3;
    return (double)p->batch * ((double)p->kv_heads * (double)keys * add +
                               (double)p->heads * (double)queries * read) +
           (hybrid ? near_pairs(p) * each : 0);
}

/* S again, reading it for y and for dq, adding to R, reading it for dk and for dv: three times.  hybrid:
 * and what is near as the direct form does. */
double lnt_state_flops_backward(const lnt_attn_desc *p)
{
    if (p->mechanism != LNT_HYBRID) return 3 * lnt_state_flops(p);
    const double d = (double)p->dim, m = (double)p->dim_value, pairs = near_pairs(p);
    return 3 * (lnt_state_flops(p) - pairs * (2 * (d + m) + 3)) + pairs * (6 * d + 4 * m + 4);
}

/* Operations of U, its inverse and U^+ RV, for one head.  An iteration is four products of symmetric
 * matrices; many are by eigenvectors, and count as those they take as long as. */
static double small_flops(const lnt_attn_desc *p)
{
    const double M = (double)p->cur.landmarks, d = (double)p->dim, m = (double)p->dim_value;
    const int64_t products = p->cur.pinv_iterations < LNT_PINV_PRODUCTS ? p->cur.pinv_iterations
                                                                    : LNT_PINV_PRODUCTS;
    const double tuned = p->cur.pinv == LNT_PINV_TUNED ? 1 + LNT_PINV_TRIED / 3.0 : 0;
    const double ridge = 10.0 / 3 + tuned;
    const double inverse = p->cur.pinv == LNT_PINV_ITERATE ? 4 * (double)products : ridge;
    return M * M * (2 * d + 3 + 2 * m + inverse * M);
}

/* The same with the way back, which of iterations is by eigenvectors. */
static double small_flops_backward(const lnt_attn_desc *p)
{
    const double M = (double)p->cur.landmarks, d = (double)p->dim, m = (double)p->dim_value;
    const double inverse = p->cur.pinv == LNT_PINV_ITERATE ? 22 : 10;
    return M * M * (3 * (2 * d + 3 + 2 * m) + inverse * M);
}

static bool has_landmarks(const lnt_attn_desc *p)
{
    return p->length_q > p->cur.landmarks && p->length_k > p->cur.landmarks;
}

/* Every query meets the landmark keys, every key the landmark queries, and those that tune the inverse. */
static double landmark_pairs(const lnt_attn_desc *p)
{
    const double probes = p->cur.pinv == LNT_PINV_TUNED ? 16 : 0, M = (double)p->cur.landmarks;
    return M * ((double)p->length_q + (double)p->length_k) + probes * (double)p->length_k;
}

double lnt_cur_flops(const lnt_attn_desc *p)
{
    if (!has_landmarks(p)) return lnt_direct_flops(p);
    const double each = 2 * (double)(p->dim + p->dim_value) + 3;
    const double nearest = p->cur.select == LNT_SELECT_KMEANS
                               ? 2 * (double)p->cur.landmarks * (double)p->length_k * (double)p->dim
                               : 0;
    return (double)p->batch * (double)p->heads *
           (landmark_pairs(p) * each + nearest + small_flops(p));
}

/* As for the direct form; and back through the inverse. */
double lnt_cur_flops_backward(const lnt_attn_desc *p)
{
    if (!has_landmarks(p)) return lnt_direct_flops_backward(p);
    const double each = 6 * (double)p->dim + 4 * (double)p->dim_value + 4;
    return (double)p->batch * (double)p->heads * (landmark_pairs(p) * each + small_flops_backward(p));
}

double lnt_run_pairs(const lnt_run *run)
{
    double pairs = 0;
    for (int64_t s = 0; s < run->sequences; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        const lnt_band band = lnt_band_of(run->p, run->causal, seq.nq, seq.nk);
        pairs += (double)seq.nq * fmin((double)seq.nk, (double)(band.behind + 1 + band.ahead));
    }
    return pairs;
}

double lnt_run_tokens(const lnt_run *run)
{
    double tokens = 0;
    for (int64_t s = 0; s < run->sequences; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        tokens += (double)seq.nq + (double)seq.nk;
    }
    return tokens;
}

int64_t lnt_run_longest(const lnt_run *run, int64_t first, int64_t count, bool keys)
{
    int64_t most = 0;
    for (int64_t s = first; s < first + count; s++) {
        const lnt_sequence seq = lnt_io_sequence(run->io, s);
        const int64_t n = keys ? seq.nk : seq.nq;
        most = n > most ? n : most;
    }
    return most;
}
