/* model/config_drop_in.c - another attention in place of the one that a model was trained with.
 *
 * Every layer gets it, also those of a kind of their own; where tokens are, and how queries and keys turn,
 * stays the model's. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/config_parts.h"

/* Arrays that a config has no place for: they are of a number of heads and a width that only the model
 * knows. */
static lnt_status check_arrays(lnt_ctx *ctx, const lnt_attn_desc *with)
{
    const char *name = with->taylor.center        ? "taylor.center"
                       : with->taylor.temperature ? "taylor.temperature"
                       : with->softmax.slopes     ? "softmax.slopes"
                                                  : NULL;
    if (name)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED,
                        "attention: %s must be NULL, for every layer would need its own", name);
    if (with->taylor.center_mean)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "attention: taylor.center_mean must be 0 in a model");
    return LNT_OK;
}

/* list [count] becomes that of the config; count 0: none. */
static lnt_status take_list(lnt_ctx *ctx, const char *name, const void *list, int64_t count, int64_t most,
                            void *into, int64_t *into_count)
{
    if (!list) count = 0;
    if (count < 0 || count > most)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "attention: %s has %lld numbers, must have 0 to %lld", name,
                        (long long)count, (long long)most);
    if (count) memcpy(into, list, (size_t)count * sizeof(double));
    *into_count = count;
    return LNT_OK;
}

static lnt_status take_lists(lnt_ctx *ctx, const lnt_attn_desc *with, lnt_config *c)
{
    static_assert(sizeof(int64_t) == sizeof(double), "the lists have items of one size");
    const int64_t kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    if (with->cur.pins && !with->cur.pin)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "attention: cur.pin is NULL but cur.pins is not 0");
    if (with->taylor.coefficients && !with->taylor.terms)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "attention: taylor.terms must say how many taylor.coefficients there are");
    lnt_status status = take_list(ctx, "taylor.coefficients", with->taylor.coefficients, with->taylor.terms,
                                  LNT_CONFIG_TERMS, c->coefficients, &c->coefficient_count);
    if (!status)
        status = take_list(ctx, "decay", with->decay, kv_heads, LNT_CONFIG_DECAYS, c->decay, &c->decay_count);
    if (!status)
        status = take_list(ctx, "cur.pin", with->cur.pin, with->cur.pins, LNT_CONFIG_PINS, c->pin,
                           &c->pin_count);
    return status;
}

/* The options of `with`; everything else is as a config begins. */
static void take_options(const lnt_attn_desc *with, const lnt_attn_desc *plain, lnt_attn_desc *a)
{
    const double scale = isnan(with->scale) ? a->scale : with->scale;
    const double cap = a->softmax.cap;
    const int64_t window = a->mechanism == LNT_SOFTMAX ? a->hybrid.window : 0;
    *a = *plain;
    a->mechanism = with->mechanism;
    a->scale = scale;
    a->compensated = with->compensated;
    a->seed = with->seed;
    a->linear = with->linear;
    a->taylor = with->taylor;
    a->cur = with->cur;
    a->hybrid = with->hybrid;
    if (with->mechanism == LNT_SOFTMAX) { /* a window and a cap are what the model was trained with */
        a->hybrid.window = with->softmax.window ? with->softmax.window : window;
        a->softmax.cap = with->softmax.cap > 0 ? with->softmax.cap : cap;
    }
    a->taylor.coefficients = NULL; /* the config has them */
    a->cur.pin = NULL;
    a->cur.pins = 0;
}

lnt_status lnt_config_set_attention(lnt_ctx *ctx, const lnt_attn_desc *with, lnt_config *config)
{
    lnt_config plain;
    if (!lnt_mechanism_name(with->mechanism))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "attention: mechanism is %d, which is none",
                        (int)with->mechanism);
    lnt_status status = lnt_config_default(ctx, &plain);
    if (!status) status = check_arrays(ctx, with);
    for (size_t k = 0; !status && k <= (size_t)config->kind_count; k++) {
        lnt_config view = lnt_config_view(config, k);
        take_options(with, &plain.attention, &view.attention);
        status = take_lists(ctx, with, &view);
        if (k) lnt_config_take_kind(&view, &config->kinds[k - 1]);
        else *config = view;
    }
    return status;
}
