/* attention/hybrid/hybrid_options.c - the options of hybrid attention: their defaults and checks, over those
 * of the mechanism that is far. */
#include "attention/options.h"

const char lnt_hybrid_needs_causal[] = "which keys are the last ones needs an order; set causal";

static lnt_status refuse_options(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const struct {
        bool given;
        const char *name, *why;
    } options[] = {
        { p->taylor.normalize != LNT_NORMALIZE_NONE, "normalize", "its near keys are not normalised" },
        { p->taylor.output_norm, "output_norm", "the output of softmax is not multiplied" },
        { p->taylor.center_mean, "center_mean", "the mean key is known when all keys are; give center" }
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given)
            return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "hybrid has no %s: %s", options[i].name,
                            options[i].why);
    return LNT_OK;
}

static lnt_status resolve(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (p->hybrid.far != LNT_LINEAR && p->hybrid.far != LNT_TAYLOR)
        return lnt_fail(
            ctx, LNT_ERR_ARGUMENT, "far is %d (%s), must be linear or taylor", (int)p->hybrid.far,
            lnt_mechanism_name(p->hybrid.far) ? lnt_mechanism_name(p->hybrid.far) : "no mechanism");
    if (p->hybrid.window == 0) p->hybrid.window = 128;
    lnt_status status = lnt_options_check_extent(ctx, "window", p->hybrid.window, 1);
    if (!status) status = lnt_options_check_extent(ctx, "sink", p->hybrid.sink, 0);
    if (!status) status = refuse_options(ctx, p);
    if (status) return status;
    if (p->hybrid.far == LNT_LINEAR) {
        p->taylor.terms = 1; /* the constant: nothing of it is used */
        p->taylor.coefficients = p->taylor.temperature = p->taylor.center = NULL;
        return lnt_linear_resolve(ctx, p);
    }
    /* An even number of terms has a last power that is odd: its weights are not all positive. */
    if (p->taylor.terms == 0) p->taylor.terms = 3;
    status = lnt_taylor_resolve(ctx, p);
    return status ? status : lnt_options_check_decay(ctx, p);
}

const lnt_option_rules lnt_hybrid_rules = { .resolve = resolve,
                                            .takes = 1u << LNT_LINEAR | 1u << LNT_TAYLOR };
