/* attention/linear/linear_options.c - the options of linear attention: their names, defaults and checks. */
#include "attention/linear/feature.h"
#include "attention/options.h"

static const char *const maps[] = { "elu1", "relu", "exp", "identity", "fourier", "positive", NULL };

const char *lnt_feature_map_name(lnt_feature_map map) { return lnt_options_word(maps, (int)map); }

lnt_status lnt_linear_resolve(lnt_ctx *ctx, lnt_attn_desc *p)
{
    lnt_status status = lnt_options_check_word(ctx, "feature_map", maps, (int)p->linear.feature_map);
    if (status) return status;
    if (p->linear.features == 0) p->linear.features = 2 * p->dim;
    if (lnt_feature_is_random(p->linear.feature_map)) {
        status = lnt_options_check_extent(ctx, "features", p->linear.features, 1);
        if (status) return status;
        if (p->linear.feature_map == LNT_MAP_FOURIER && p->linear.features % 2)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "features is %lld, must be even for fourier (cosines and sines)",
                            (long long)p->linear.features);
    }
    if (!(p->linear.eps >= 0) || !lnt_options_is_number(p, p->linear.eps))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "eps is %g, must be 0 to %g", p->linear.eps,
                        lnt_options_largest(p));
    return lnt_options_check_decay(ctx, p);
}

static void drop(lnt_attn_desc *p) { p->decay = NULL; }

const lnt_option_rules lnt_linear_rules = { .resolve = lnt_linear_resolve, .drop = drop };
