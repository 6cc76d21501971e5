/* case.h - one attention problem to test: a descriptor, its data and how it is laid out, made from
 * dice so that a failure can be repeated from what it prints. */
#ifndef LNT_TESTS_CASE_H
#define LNT_TESTS_CASE_H

#include "mask.h"
#include "support.h"

enum { MAX_SEQUENCES = 6, MAX_HEADS = 8 };
enum { LAST_MAP = LNT_MAP_POSITIVE }; /* the tests try all feature maps up to it */

typedef struct attn_case {
    lnt_attn_desc desc;
    layout lay_q, lay_k, lay_v, lay_out;
    bool with_lengths;
    int64_t lengths_q[MAX_SEQUENCES], lengths_k[MAX_SEQUENCES];
    int64_t sequences; /* > 0: packed */
    int64_t cu_q[MAX_SEQUENCES + 1], cu_k[MAX_SEQUENCES + 1];
    int64_t state_tokens; /* > 0: a state of so many tokens comes before the keys */
    double decay[MAX_HEADS];
    double coefficients[8], temperature[MAX_HEADS], center[MAX_HEADS * 128];
    double slopes[MAX_HEADS];
    mask_form mask;
    int64_t pin[2];
    uint64_t seed; /* of the data */
} attn_case;

/* Defaults: f32, one batch, BHND everywhere. */
attn_case case_make(lnt_mechanism mechanism, int64_t heads, int64_t kv_heads, int64_t length_q,
                    int64_t length_k, int64_t dim, int64_t dim_value);
/* Anything the contract allows for this mechanism, biased to the edges. */
void case_random(dice *d, lnt_mechanism mechanism, lnt_dtype dtype, attn_case *c);
/* Head 0 decays by `first`, the others more slowly.  desc.decay points into the case. */
void case_set_decay(attn_case *c, double first);
/* Taylor with so many monomials that few states are cut into parts, whatever the budget. */
void case_set_parts(attn_case *c);
/* Options of softmax, some or none of them, but for the mask and for the alignment. */
void case_random_scores(dice *d, attn_case *c);
void case_random_lengths(dice *d, attn_case *c);
void case_random_packing(dice *d, attn_case *c);
/* Fields with their defaults filled in. */
int64_t case_length_k(const attn_case *c);
int64_t case_dim_value(const attn_case *c);

void case_print(const attn_case *c, const char *algorithm, lnt_ctx *ctx);

/* The data of a case. */
typedef struct trial {
    block q, k, v, out;
    mask_data mask;
    lnt_attn_io io;
    lnt_state *state;
} trial;

/* q, k, v drawn so that no denominator is near 0, in a size each map meets in use.  The trial
 * points into the case. */
trial trial_new(lnt_ctx *ctx, const attn_case *c);
void trial_free(trial *t);
void draw_values(dice *d, const lnt_tensor *t);

/* The plan of registry entry `algorithm`; NULL if it does not do this case.  -1: the planner's. */
lnt_plan *case_plan(lnt_ctx *ctx, const attn_case *c, int algorithm);

/* Of runs since the last. */
lnt_report plan_report(lnt_plan *plan);
int64_t plan_nonpositive(lnt_plan *plan);
int64_t state_nonpositive(lnt_state *state);
size_t plan_kept_bytes(const lnt_plan *plan);

/* Runs forward. */
void case_forward(lnt_ctx *ctx, const attn_case *c, const char *algorithm, lnt_plan *plan,
                  const lnt_attn_io *io);

/* Relative error of io->out against the oracle over at most `rows` rows of each head. */
double oracle_error(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io, int64_t rows);
/* Every row, into want (f64, shaped as out). */
void oracle_fill(lnt_ctx *ctx, const lnt_attn_desc *desc, const lnt_attn_io *io,
                 const lnt_tensor *want);

/* The largest relative error allowed for a forward pass in this dtype. */
double forward_bound(const lnt_attn_desc *desc);

/* Prints the case and fails unless error <= bound; NaN fails. */
void expect_below(const attn_case *c, const char *algorithm, lnt_ctx *ctx, const char *what,
                  double error, double bound);
/* Prints the case and fails unless `good`. */
void expect_true(const attn_case *c, const char *algorithm, lnt_ctx *ctx, const char *what,
                 bool good);

/* Holds that every registered algorithm, or every one of a mechanism, was supported at least once. */
typedef struct coverage {
    int supported[64];
} coverage;
void coverage_check(const coverage *cover);
void coverage_check_of(const coverage *cover, lnt_mechanism mechanism);

#endif
