/* attention/state/state_fit.c - whether a state can stand before or after a run: same shapes, and
 * numbers that
 * mean the same. */
#include "attention/linear/feature.h"
#include "attention/state/state.h"

static lnt_status check_center(lnt_ctx *ctx, const char *name, const lnt_attn_desc *own,
                               const lnt_attn_desc *p)
{
    for (int64_t i = 0; i < p->kv_heads * p->dim; i++) {
        const double found = own->taylor.center ? own->taylor.center[i] : 0,
                     expected = p->taylor.center ? p->taylor.center[i] : 0;
        if (found != expected)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "%s: number %lld of the center of kv head %lld is %g, expected %g", name,
                            (long long)(i % p->dim), (long long)(i / p->dim), found, expected);
    }
    return LNT_OK;
}

/* What the numbers in a state of sums mean: the map they were made with, and how they age. */
static lnt_status check_meaning(lnt_ctx *ctx, const char *name, const lnt_attn_desc *own,
                                const lnt_attn_desc *p)
{
    if (own->compensated != p->compensated)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: compensated is %d, expected %d", name,
                        own->compensated, p->compensated);
    if (p->mechanism == LNT_HYBRID && own->hybrid.far != p->hybrid.far)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: far is %s, expected %s", name,
                        lnt_mechanism_name(own->hybrid.far), lnt_mechanism_name(p->hybrid.far));
    for (int64_t h = 0; h < p->kv_heads; h++) {
        const double found = own->decay ? own->decay[h] : 1, expected = p->decay ? p->decay[h] : 1;
        if (found != expected)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: decay of kv head %lld is %g, expected %g",
                            name, (long long)h, found, expected);
    }
    const bool taylor = lnt_problem_sums(p) == LNT_TAYLOR;
    if (taylor && own->taylor.terms != p->taylor.terms)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: terms is %lld, expected %lld", name,
                        (long long)own->taylor.terms, (long long)p->taylor.terms);
    if (taylor && own->taylor.normalize != p->taylor.normalize)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: normalize is %s, expected %s", name,
                        lnt_normalize_name(own->taylor.normalize), lnt_normalize_name(p->taylor.normalize));
    if (taylor) return check_center(ctx, name, own, p); /* the rest is q's */
    if (own->linear.feature_map != p->linear.feature_map)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: feature_map is %s, expected %s", name,
                        lnt_feature_map_name(own->linear.feature_map),
                        lnt_feature_map_name(p->linear.feature_map));
    if (lnt_feature_is_random(p->linear.feature_map) && own->seed != p->seed)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s: seed is %llu, expected %llu", name,
                        (unsigned long long)own->seed, (unsigned long long)p->seed);
    return LNT_OK;
}

lnt_status lnt_state_fits(lnt_ctx *ctx, const char *name, const lnt_state *state,
                          const lnt_attn_desc *p, int64_t sequences)
{
    const lnt_attn_desc *own = &state->work.p;
    if (own->mechanism != p->mechanism)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "%s is a %s state, expected %s", name,
                        lnt_mechanism_name(own->mechanism), lnt_mechanism_name(p->mechanism));
    const struct {
        const char *what;
        int64_t found, expected;
    } fields[] = { { "batch", own->batch, sequences },
                   { "window", own->mechanism == LNT_HYBRID ? own->hybrid.window : own->softmax.window,
                     p->mechanism == LNT_HYBRID ? p->hybrid.window : p->softmax.window },
                   { "sink", own->mechanism == LNT_HYBRID ? own->hybrid.sink : 0,
                     p->mechanism == LNT_HYBRID ? p->hybrid.sink : 0 },
                   { "kv_heads", own->kv_heads, p->kv_heads },
                   { "dim", own->dim, p->dim },
                   { "dim_value", own->dim_value, p->dim_value },
                   { "feature width", lnt_problem_width(own), lnt_problem_width(p) } };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].found != fields[i].expected)
            return lnt_fail(ctx, LNT_ERR_SHAPE, "%s: %s is %lld, expected %lld", name,
                            fields[i].what, (long long)fields[i].found,
                            (long long)fields[i].expected);
    if (own->softmax.cache != p->softmax.cache)
        return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: cache is %s, expected %s", name,
                        lnt_cache_name(own->softmax.cache), lnt_cache_name(p->softmax.cache));
    if (state->kind->dtype(own) != state->kind->dtype(p))
        return lnt_fail(ctx, LNT_ERR_DTYPE, "%s: dtype is %s, expected %s", name,
                        lnt_dtype_name(state->kind->dtype(own)),
                        lnt_dtype_name(state->kind->dtype(p)));
    return own->mechanism == LNT_SOFTMAX ? LNT_OK : check_meaning(ctx, name, own, p);
}
