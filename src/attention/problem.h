/* attention/problem.h - a descriptor with its defaults filled in and checked. */
#ifndef LNT_ATTENTION_PROBLEM_H
#define LNT_ATTENTION_PROBLEM_H

#include "attention/options.h"

/* desc.state inside a state: every run is given one before and after. */
enum { LNT_STATE_ALWAYS = 2 };

/* *out = *desc with every default resolved (kv_heads, length_k, dim_value, scale, features), or the
 * sentence that says which field is wrong.  decay, coefficients, temperature, center and pin still point at
 * the caller's arrays. */
LNT_PRIVATE_API lnt_status lnt_problem_resolve(lnt_ctx *ctx, const lnt_attn_desc *desc,
                                               lnt_attn_desc *out);

/* The mechanism whose sums a state of p holds: that of the keys far away in hybrid. */
static inline lnt_mechanism lnt_problem_sums(const lnt_attn_desc *p)
{
    return p->mechanism == LNT_HYBRID ? p->hybrid.far : p->mechanism;
}

/* Heads of queries that share one of keys; 0 where there are none. */
static inline size_t lnt_problem_group(const lnt_attn_desc *p)
{
    return p->kv_heads ? (size_t)(p->heads / p->kv_heads) : 0;
}

/* Width of the q and k whose product is a score: dim, or `features` for the random maps. */
int64_t lnt_score_width(const lnt_attn_desc *p);

/* Width of what a state sums over: dim, `features` for the random maps, the number of monomials for
 * taylor.  p is resolved. */
int64_t lnt_problem_width(const lnt_attn_desc *p);

/* False where the monomials are too many to count: lnt_problem_width is then INT64_MAX, and what is
 * computed from it is not the size or the cost of anything. */
bool lnt_problem_countable(const lnt_attn_desc *p);

#endif
