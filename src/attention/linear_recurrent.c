/* attention/linear_recurrent.c - linear attention token by token, phi a feature map.  Backward is
 * that of the chunked form.  See docs/math/linear.md */
#include "attention/recurrent.h"

static void phi(const lnt_run *run, lnt_feature_tile *feature, const lnt_tensor *x, int64_t b,
                int64_t h, int64_t n, bool query, real *out, size_t ld)
{
    (void)query; /* both sides are mapped alike */
    lnt_feature_rows_of(run, feature, x, b, h, n, 1, out, ld);
}

static void forward(lnt_run *run) { lnt_recurrent_forward(phi, run); }

static size_t scratch(const lnt_attn_desc *p)
{
    const size_t own = lnt_recurrent_scratch(p), back = p->backward ? lnt_chunk_scratch(p) : 0;
    return own > back ? own : back;
}

const lnt_algo LNT_REAL_NAME(lnt_algo_linear_recurrent) = { .mechanism = LNT_LINEAR,
                                                            .name = "linear/recurrent",
                                                            .rate = 8e-11,
                                                            .cost = lnt_recurrent_cost,
                                                            .takes_state = true,
                                                            .shared = lnt_two_per_query,
                                                            .scratch = scratch,
                                                            .forward = forward,
                                                            .backward = lnt_chunk_backward };
