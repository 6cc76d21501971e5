/* cli/measure/step.c - see step.h. */
#include "cli/measure/step.h"

#include <stdbool.h>

enum { WAITING = 16 }; /* tokens of hybrid before taylor sums them; see docs/math/hybrid.md */

static bool grows(const lnt_attn_desc *d) { return d->mechanism == LNT_SOFTMAX; }

const char *step_algorithm(lnt_mechanism mechanism)
{
    switch (mechanism) {
    case LNT_SOFTMAX: return "softmax/rows";
    case LNT_LINEAR: return "linear/recurrent";
    case LNT_TAYLOR: return "taylor/recurrent";
    case LNT_HYBRID: return "hybrid/recurrent";
    case LNT_CUR: break; /* has no state */
    }
    return "";
}

double step_flops(const lnt_attn_desc *d, const lnt_plan_info *info)
{
    return info->flops_per_token * (double)d->batch;
}

/* Bytes of a number in a state; only a cache holds tokens in their own dtype. */
static double state_width(const lnt_attn_desc *d) { return d->dtype == LNT_F64 ? 8 : 4; }

double step_cache_bytes(const lnt_attn_desc *d, const lnt_plan_info *info)
{
    if (grows(d)) return (double)info->state_bytes;
    return info->kv_cache_elements * (double)d->batch * (double)lnt_dtype_size(d->dtype);
}

double step_state_bytes(const lnt_attn_desc *d, const lnt_plan_info *info)
{
    if (grows(d)) return step_cache_bytes(d, info);
    return info->state_elements * (double)d->batch * state_width(d);
}

/* Read and written of a state: tokens that it holds as they are are read; sums, once there are any, both. */
static double touched_bytes(const lnt_attn_desc *d, const lnt_plan_info *info)
{
    const double all = step_state_bytes(d, info);
    if (d->mechanism != LNT_HYBRID) return grows(d) ? all : 2 * all;
    const int64_t near = d->hybrid.window + d->hybrid.sink,
                  waiting = d->hybrid.far == LNT_LINEAR ? 0 : WAITING;
    const bool filled = d->length_k == 0 || d->length_k > near; /* 0: of any length */
    const double token = (double)(d->dim + d->dim_value) * (double)d->batch * (double)d->kv_heads *
                         state_width(d);
    return filled ? 2 * all - (double)(near + waiting) * token : (double)d->length_k * token;
}

double step_bytes(const lnt_attn_desc *d, const lnt_plan_info *info)
{
    const double numbers = (double)(d->heads + d->kv_heads) * (double)(d->dim + d->dim_value);
    const double token = numbers * (double)d->batch * (double)lnt_dtype_size(d->dtype); /* q, k, v, out */
    return touched_bytes(d, info) + token;
}
