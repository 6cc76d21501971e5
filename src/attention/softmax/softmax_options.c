/* attention/softmax/softmax_options.c - the options of softmax: names, checks, refusals elsewhere. */
#include <float.h>
#include <math.h>

#include "attention/options.h"

static const char *const caches[] = { "same", "f16", "bf16", "q8", NULL };

const char *lnt_cache_name(lnt_cache cache) { return lnt_options_word(caches, (int)cache); }

static lnt_status check_cap(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const double least = p->dtype == LNT_F64 ? DBL_MIN : FLT_MIN, cap = p->softmax.cap;
    if (cap == 0 || (cap >= least && lnt_options_is_number(p, cap))) return LNT_OK;
    return lnt_fail(ctx, LNT_ERR_ARGUMENT, "cap is %g, must be 0 (none) or %g to %g", cap, least,
                    lnt_options_largest(p));
}

static lnt_status check_slopes(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    for (int64_t h = 0; p->softmax.slopes && h < p->heads; h++)
        if (!lnt_options_is_number(p, p->softmax.slopes[h]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "slope of head %lld is %g, must be %g to %g", (long long)h,
                            p->softmax.slopes[h], -lnt_options_largest(p), lnt_options_largest(p));
    return LNT_OK;
}

static lnt_status check_cache(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const lnt_cache cache = p->softmax.cache;
    const lnt_status status = lnt_options_check_word(ctx, "softmax.cache", caches, (int)cache);
    if (status || cache == LNT_CACHE_SAME || p->dtype != LNT_F64) return status;
    return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "softmax.cache is %s, must be same where dtype is f64",
                    lnt_cache_name(cache));
}

static lnt_status resolve(lnt_ctx *ctx, lnt_attn_desc *p)
{
    p->softmax.align_begin = p->softmax.align_begin != 0;
    lnt_status status = lnt_options_check_extent(ctx, "window", p->softmax.window, 0);
    if (!status) status = check_cap(ctx, p);
    if (!status) status = check_slopes(ctx, p);
    return status ? status : check_cache(ctx, p);
}

lnt_status lnt_softmax_refuse(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        bool given;
        const char *name, *why;
    } options[] = {
        { p->softmax.window != 0, "window",
          p->mechanism == LNT_HYBRID ? "its own is hybrid.window" : "every key counts in its sums" },
        { p->softmax.cap != 0, "cap", "only scores of softmax are capped" },
        { p->softmax.slopes != NULL, "slopes", "only scores of softmax lose by distance" },
        { p->softmax.align_begin != 0, "align_begin", "its last query stands at the last key" },
        { p->softmax.cache != LNT_CACHE_SAME, "cache", "its state is not one of keys and values" }
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given)
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "%s has no softmax.%s: %s",
                            lnt_mechanism_name(p->mechanism), options[i].name, options[i].why);
    return LNT_OK;
}

const lnt_option_rules lnt_softmax_rules = { .resolve = resolve };
