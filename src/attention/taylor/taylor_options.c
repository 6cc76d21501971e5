/* attention/taylor/taylor_options.c - the options of Taylor attention: their names, defaults and checks, and
 * the numbers they stand for. */
#include <math.h>

#include "attention/options.h"
#include "attention/taylor/basis.h"

static const char *const normalizes[] = { "none", "taylorshift", NULL };

const char *lnt_normalize_name(lnt_normalize normalize)
{
    return lnt_options_word(normalizes, (int)normalize);
}

double lnt_taylor_coefficient(const lnt_attn_desc *p, int64_t term)
{
    double factorial = 1;
    for (int64_t t = 2; t <= term; t++) factorial *= (double)t;
    return p->taylor.coefficients ? p->taylor.coefficients[term] : 1 / factorial;
}

double lnt_taylor_score_factor(const lnt_attn_desc *p)
{
    return p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? sqrt((double)p->dim) : 1;
}

static lnt_status check_center(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    if (!p->taylor.center && !p->taylor.center_mean) return LNT_OK;
    if (p->taylor.center && p->taylor.center_mean)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "center and center_mean cannot both be given");
    if (p->taylor.normalize != LNT_NORMALIZE_NONE)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "center: keys of length 1 are not centred; normalize must be none");
    if (p->taylor.center_mean && (p->causal || p->state))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "center_mean: the mean key is known when all keys are, not with %s; give "
                        "center instead",
                        p->causal ? "causal" : "a state");
    for (int64_t i = 0; p->taylor.center && i < p->kv_heads * p->dim; i++)
        if (!lnt_options_is_number(p, p->taylor.center[i]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "center: number %lld of kv head %lld is %g, must be %g to %g",
                            (long long)(i % p->dim), (long long)(i / p->dim), p->taylor.center[i],
                            -lnt_options_largest(p), lnt_options_largest(p));
    return LNT_OK;
}

lnt_status lnt_taylor_resolve(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (p->taylor.terms == 0) p->taylor.terms = p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT ? 3 : 4;
    if (p->taylor.terms < 1 || p->taylor.terms > LNT_MAX_TERMS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "terms is %lld, must be 1 to %d",
                        (long long)p->taylor.terms, LNT_MAX_TERMS);
    for (int64_t t = 0; p->taylor.coefficients && t < p->taylor.terms; t++)
        if (!lnt_options_is_number(p, p->taylor.coefficients[t]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "coefficient %lld is %g, must be %g to %g",
                            (long long)t, p->taylor.coefficients[t], -lnt_options_largest(p),
                            lnt_options_largest(p));
    lnt_status status = lnt_options_check_word(ctx, "normalize", normalizes, (int)p->taylor.normalize);
    if (status) return status;
    if (p->taylor.temperature && p->taylor.normalize != LNT_NORMALIZE_TAYLORSHIFT)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "temperature needs normalize taylorshift");
    for (int64_t h = 0; p->taylor.temperature && h < p->heads; h++)
        if (!lnt_options_is_number(p, p->taylor.temperature[h]))
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "temperature of head %lld is %g, must be %g to %g",
                            (long long)h, p->taylor.temperature[h], -lnt_options_largest(p),
                            lnt_options_largest(p));
    if (p->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT && isnan(p->scale)) p->scale = 1;
    return check_center(ctx, p);
}

static void drop(lnt_attn_desc *p)
{
    p->taylor.coefficients = p->taylor.temperature = p->taylor.center = NULL;
    p->taylor.center_mean = 0;
}

const lnt_option_rules lnt_taylor_rules = { .resolve = lnt_taylor_resolve, .drop = drop };
