/* attention/cost.c - useful operations, by the formulas and not by what an algorithm happens to do. */
#include "attention/mechanism.h"

double lnt_pairs(const lnt_attn_desc *p)
{
    const double nq = (double)p->length_q, nk = (double)p->length_k;
    const double heads = (double)p->batch * (double)p->heads;
    return heads * (p->causal ? nq * (nk - nq) + nq * (nq + 1) / 2 : nq * nk);
}

/* softmax: 2d + 2m + 3 for each visible pair.  linear: adding to S and z (2Dm + D) for each key,
 * reading them (2Dm + 2D) for each query. */
double lnt_useful_flops(const lnt_attn_desc *p)
{
    const double m = (double)p->dim_value, D = (double)lnt_problem_width(p), B = (double)p->batch;
    if (p->mechanism == LNT_SOFTMAX) return lnt_pairs(p) * (2 * (double)p->dim + 2 * m + 3);
    return B * (double)p->kv_heads * (double)p->length_k * (2 * D * m + D) +
           B * (double)p->heads * (double)p->length_q * (2 * D * m + 2 * D);
}

/* softmax: scores, dy.v, dq, dk, dv: five products where forward has two.  linear: S again, reading
 * it for y and for dq, adding to R, reading it for dk and for dv. */
double lnt_useful_flops_backward(const lnt_attn_desc *p)
{
    const double m = (double)p->dim_value, D = (double)lnt_problem_width(p), B = (double)p->batch;
    if (p->mechanism == LNT_SOFTMAX)
        return lnt_pairs(p) * (6 * (double)p->dim + 4 * m + 4);
    return B * (double)p->kv_heads * (double)p->length_k * (6 * D * m) +
           B * (double)p->heads * (double)p->length_q * (6 * D * m);
}

double lnt_run_pairs(const lnt_run *run)
{
    double pairs = 0;
    for (int64_t s = 0; s < run->sequences; s++) {
        const lnt_sequence q = lnt_io_sequence(run->io, s);
        pairs += (double)q.nq * (double)q.nk;
    }
    return pairs;
}

double lnt_run_tokens(const lnt_run *run)
{
    double tokens = 0;
    for (int64_t s = 0; s < run->sequences; s++) {
        const lnt_sequence q = lnt_io_sequence(run->io, s);
        tokens += (double)q.nq + (double)q.nk;
    }
    return tokens;
}
