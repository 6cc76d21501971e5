/* attention/options.h - the options of a mechanism, which its room names, completes and checks. */
#ifndef LNT_ATTENTION_OPTIONS_H
#define LNT_ATTENTION_OPTIONS_H

#include "core/context.h"

/* Of an extent, and of the tokens of a state: products of a few still fit 64 bits with room. */
#define LNT_MAX_EXTENT (INT64_C(1) << 40)

typedef struct lnt_option_rules {
    /* Fills in the defaults of its options in p, whose shape is checked, and checks them. */
    lnt_status (*resolve)(lnt_ctx *ctx, lnt_attn_desc *p);
    void (*drop)(lnt_attn_desc *p); /* forgets the caller's arrays among them: p has another mechanism */
    unsigned takes; /* mechanisms whose options it takes too: bits 1 << lnt_mechanism */
} lnt_option_rules;

/* An option that is one of several words: they end with NULL, and stand as its enumerators do.  The word of
 * number i, NULL past the last; and the sentence that lists them, where there is none of number i. */
const char *lnt_options_word(const char *const *words, int i);
lnt_status lnt_options_check_word(lnt_ctx *ctx, const char *name, const char *const *words, int i);

extern const lnt_option_rules lnt_softmax_rules, lnt_linear_rules, lnt_taylor_rules, lnt_cur_rules,
    lnt_hybrid_rules;

/* Why p, of another mechanism, cannot have the options of softmax that it has. */
lnt_status lnt_softmax_refuse(lnt_ctx *ctx, const lnt_attn_desc *p);

/* Those that hybrid takes too. */
lnt_status lnt_linear_resolve(lnt_ctx *ctx, lnt_attn_desc *p);
lnt_status lnt_taylor_resolve(lnt_ctx *ctx, lnt_attn_desc *p);

/* Why hybrid is refused where the order of the keys does not count. */
extern const char lnt_hybrid_needs_causal[];

/* a_term of taylor; and the factor by which q'.k' inside taylor exceeds its score x: sqrt(dim) with
 * taylorshift, else 1. */
double lnt_taylor_coefficient(const lnt_attn_desc *p, int64_t term);
double lnt_taylor_score_factor(const lnt_attn_desc *p);

/* The largest of the numbers that a run of p computes with, and whether x is one of them. */
double lnt_options_largest(const lnt_attn_desc *p);
bool lnt_options_is_number(const lnt_attn_desc *p, double x);

lnt_status lnt_options_check_mechanism(lnt_ctx *ctx, lnt_mechanism mechanism);
lnt_status lnt_options_check_extent(lnt_ctx *ctx, const char *name, int64_t value, int64_t least);
lnt_status lnt_options_check_decay(lnt_ctx *ctx, const lnt_attn_desc *p);

#endif
