/* attention/cur/cur_options.c - the options of CUR attention: their names, defaults and checks. */
#include "attention/cur/cur.h"

#include <math.h>

#include "attention/options.h"

enum { MAX_LANDMARKS = 1 << 20 }; /* a square of them still fits 64 bits with room */

static const char *const selects[] = { "sum",    "abs",  "embed",     "step",
                                       "random", "mean", "step-mean", "kmeans", NULL };
static const char *const pinvs[] = { "iterate", "ridge", "tuned", NULL };
static const char *const pinv_inits[] = { "norms", "paper1", NULL };
static const char *const activations[] = { "softmax", "laplace", NULL };

const char *lnt_select_name(lnt_select select) { return lnt_options_word(selects, (int)select); }

const char *lnt_pinv_name(lnt_pinv pinv) { return lnt_options_word(pinvs, (int)pinv); }

const char *lnt_pinv_init_name(lnt_pinv_init init) { return lnt_options_word(pinv_inits, (int)init); }

const char *lnt_activation_name(lnt_activation activation)
{
    return lnt_options_word(activations, (int)activation);
}

static lnt_status check_pins(lnt_ctx *ctx, const lnt_attn_desc *p)
{
    const int64_t tokens = p->length_q > p->length_k ? p->length_q : p->length_k;
    if (!p->cur.pins) return LNT_OK;
    if (p->cur.pins < 0 || p->cur.pins > p->cur.landmarks)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "pins is %lld, must be 0 to landmarks, which is %lld", (long long)p->cur.pins,
                        (long long)p->cur.landmarks);
    if (!p->cur.pin) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pin is NULL but pins is not 0");
    if (p->cur.select == LNT_SELECT_MEAN)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pin: the landmarks of select mean are no tokens");
    for (int64_t i = 0; i < p->cur.pins; i++) {
        if (p->cur.pin[i] < 0)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pin %lld is %lld, must not be negative",
                            (long long)i, (long long)p->cur.pin[i]);
        if (p->cur.pin[i] >= tokens)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                            "pin %lld is %lld, not one of the %lld tokens, which are 0 to %lld",
                            (long long)i, (long long)p->cur.pin[i], (long long)tokens,
                            (long long)tokens - 1);
        for (int64_t other = 0; other < i; other++)
            if (p->cur.pin[i] == p->cur.pin[other])
                return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pin %lld is %lld, as pin %lld is",
                                (long long)i, (long long)p->cur.pin[i], (long long)other);
    }
    return LNT_OK;
}

static lnt_status check_pinv(lnt_ctx *ctx, lnt_attn_desc *p)
{
    lnt_status status = lnt_options_check_word(ctx, "pinv", pinvs, (int)p->cur.pinv);
    if (!status) status = lnt_options_check_word(ctx, "pinv_init", pinv_inits, (int)p->cur.pinv_init);
    if (status) return status;
    if (p->cur.pinv_iterations == 0) p->cur.pinv_iterations = 6;
    if (p->cur.pinv_iterations < 1 || p->cur.pinv_iterations > LNT_MAX_PINV_ITERATIONS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "pinv_iterations is %lld, must be 1 to %d",
                        (long long)p->cur.pinv_iterations, LNT_MAX_PINV_ITERATIONS);
    if (!(p->cur.ridge >= 1e-12) || isinf(p->cur.ridge))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "ridge is %g, must be finite and at least 1e-12",
                        p->cur.ridge);
    return LNT_OK;
}

static lnt_status resolve(lnt_ctx *ctx, lnt_attn_desc *p)
{
    if (p->causal)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "cur: causal is not offered, because the row of a landmark sees every key "
                        "and the others are made from it; use softmax, linear, taylor or hybrid");
    if (!p->cur.pins) p->cur.pin = NULL;
    if (p->cur.landmarks == 0) p->cur.landmarks = 64;
    if (p->cur.landmarks < 1 || p->cur.landmarks > MAX_LANDMARKS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "landmarks is %lld, must be 1 to %d",
                        (long long)p->cur.landmarks, MAX_LANDMARKS);
    lnt_status status = lnt_options_check_word(ctx, "select", selects, (int)p->cur.select);
    if (status) return status;
    if (p->cur.select == LNT_SELECT_EMBED && (p->cur.embed_column < 0 || p->cur.embed_column >= p->dim))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "embed_column is %lld, must be 0 to %lld",
                        (long long)p->cur.embed_column, (long long)p->dim - 1);
    status = lnt_options_check_word(ctx, "activation", activations, (int)p->cur.activation);
    if (!status) status = check_pins(ctx, p);
    return status ? status : check_pinv(ctx, p);
}

static void drop(lnt_attn_desc *p) { p->cur.pin = NULL; }

const lnt_option_rules lnt_cur_rules = { .resolve = resolve, .drop = drop };
