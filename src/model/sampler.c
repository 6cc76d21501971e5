/* model/sampler.c - draws a token from p = softmax(logits / temperature), restricted to the k likeliest and
 * to the likeliest of total probability p, with one uniform number.
 *
 * O(count); O(count log count) with a restriction. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "core/struct.h"

lnt_status lnt_sampling_take(lnt_ctx *ctx, const lnt_sampling *given, lnt_sampling *s)
{
    *s = (lnt_sampling){ .size = sizeof *s, .top_p = 1 };
    const lnt_struct kind = LNT_STRUCT(lnt_sampling, temperature);
    const lnt_status status = lnt_struct_take(ctx, kind, "sampling", given, s);
    if (status) return status;
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sampling: temperature is %g, must be 0 or more",
                        s->temperature);
    if (s->top_k < 0)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sampling: top_k is %lld, must be 0 (all) or more",
                        (long long)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "sampling: top_p is %g, must be above 0 and at most 1", s->top_p);
    return LNT_OK;
}

/* Likelier first, equals by token: one order whatever qsort does. */
static int by_weight(const void *a, const void *b)
{
    const lnt_candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int32_t likeliest(const double *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

int32_t lnt_sampler_draw(const lnt_sampling *s, const double *logits, size_t count, double u,
                         lnt_candidate *c)
{
    const int32_t best = likeliest(logits, count);
    if (s->temperature <= 0) return best;
    double total = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        const double weight = exp((logits[i] - logits[best]) / s->temperature);
        c[i] = (lnt_candidate){ weight, (int32_t)i };
    }
    if (s->top_k || s->top_p < 1) qsort(c, count, sizeof *c, by_weight);
    if (s->top_k && (size_t)s->top_k < count) count = (size_t)s->top_k;
    for (size_t i = 0; i < count; i++) total += c[i].weight;
    size_t few = 0;
    while (few < count && (few == 0 || kept < s->top_p * total)) kept += c[few++].weight;
    if (s->top_p < 1) count = few;
    double left = u * kept;
    size_t i = 0;
    while (i + 1 < count && left >= c[i].weight) left -= c[i++].weight;
    return c[i].token;
}
