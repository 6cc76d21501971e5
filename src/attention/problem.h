/* attention/problem.h - a descriptor with its defaults filled in and checked, and the sequences
 * that one run consists of. */
#ifndef LNT_ATTENTION_PROBLEM_H
#define LNT_ATTENTION_PROBLEM_H

#include "core/context.h"

/* Of an extent, and of the tokens of a state: products of a few still fit 64 bits with room. */
#define LNT_MAX_EXTENT (INT64_C(1) << 40)

/* desc.state inside a state: every run is given one before and after. */
enum { LNT_STATE_ALWAYS = 2 };

/* *out = *desc with every default resolved (kv_heads, length_k, dim_value, scale, features), or the
 * sentence that says which field is wrong.  decay, coefficients, temperature, center and pin still point at
 * the caller's arrays. */
lnt_status lnt_problem_resolve(lnt_ctx *ctx, const lnt_attn_desc *desc, lnt_attn_desc *out);

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

/* Why hybrid is refused where the order of the keys does not count. */
extern const char lnt_hybrid_needs_causal[];

/* a_term of taylor. */
double lnt_problem_coefficient(const lnt_attn_desc *p, int64_t term);

/* The factor by which q'.k' inside taylor exceeds its score x: sqrt(dim) with taylorshift, else 1. */
double lnt_problem_score_factor(const lnt_attn_desc *p);

/* Width of the q and k whose product is a score: dim, or `features` for the random maps. */
int64_t lnt_score_width(const lnt_attn_desc *p);

/* Width of what a state sums over: dim, `features` for the random maps, the number of monomials for
 * taylor.  p is resolved. */
int64_t lnt_problem_width(const lnt_attn_desc *p);

/* False where the monomials are too many to count: lnt_problem_width is then INT64_MAX, and what is
 * computed from it is not the size or the cost of anything. */
bool lnt_problem_countable(const lnt_attn_desc *p);

/* One sequence of a run: rows q0 .. q0+nq-1 of q and k0 .. k0+nk-1 of k, v at batch index b, and how
 * many tokens the state before it holds. */
typedef struct lnt_sequence {
    int64_t b, q0, nq, k0, nk, before;
} lnt_sequence;

/* Checks io's tensors, lengths and states against the problem; how many sequences it holds.
 * `with_out` is false where io->out is not used. */
lnt_status lnt_io_check(lnt_ctx *ctx, const lnt_attn_desc *p, const lnt_attn_io *io, bool with_out,
                        int64_t *sequences);

/* Sequence s of a checked io. */
lnt_sequence lnt_io_sequence(const lnt_attn_io *io, int64_t s);

#endif
