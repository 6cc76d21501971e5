/* model/sampler.c - draws a token from p = softmax(logits / temperature), restricted to the k likeliest, to
 * the likeliest of total probability p and to those of a share of the likeliest's, with one uniform number.
 *
 * O(count) without a restriction.  The m likeliest are found by a heap of m, for logits in any order in
 * O(count + m log m log(count / m)), or by sorting where m is no small part of all.  How many a total
 * probability takes is not known: m begins small and grows until they suffice. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "core/struct.h"

enum {
    FIRST_GUESS = 64, GROWTH = 8, /* of m, where only a total probability is given */
    SMALL_PART = 8                /* a larger part of all than 1/8 is sorted: a heap that large is slow */
};

static const double least_penalty = 0.01, most_penalty = 100; /* with which no logit becomes infinite */

static lnt_status check_penalty(lnt_ctx *ctx, lnt_sampling *s)
{
    if (s->repetition_penalty == 0) s->repetition_penalty = 1;
    if (!(s->repetition_penalty >= least_penalty && s->repetition_penalty <= most_penalty))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "sampling: repetition_penalty is %g, must be 0 or 1 (none) or %g to %g",
                        s->repetition_penalty, least_penalty, most_penalty);
    if (s->penalty_tokens < 0 || s->penalty_tokens > LNT_RECENT_TOKENS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sampling: penalty_tokens is %lld, must be 0 (%d) to %d",
                        (long long)s->penalty_tokens, LNT_PENALTY_TOKENS, LNT_RECENT_TOKENS);
    if (!s->penalty_tokens) s->penalty_tokens = LNT_PENALTY_TOKENS;
    return LNT_OK;
}

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
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sampling: min_p is %g, must be 0 (all) to 1", s->min_p);
    return check_penalty(ctx, s);
}

/* ---- the penalty --------------------------------------------------------------------------- */

static bool is_among(int32_t token, const int32_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == token) return true;
    return false;
}

void lnt_sampler_penalise(double penalty, const int32_t *recent, size_t recent_count, double *logits,
                          size_t count)
{
    for (size_t i = 0; i < recent_count; i++) {
        if (recent[i] < 0 || (size_t)recent[i] >= count || is_among(recent[i], recent, i)) continue;
        double *x = &logits[recent[i]];
        *x = *x > 0 ? *x / penalty : *x * penalty;
    }
}

/* ---- the likeliest ------------------------------------------------------------------------- */

/* Likelier first, equals by token: one order of all tokens. */
static bool goes_before(lnt_candidate a, lnt_candidate b)
{
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

/* Puts x where it belongs in a heap [count] whose root, now free, is the one that all others go before. */
static void sift(lnt_candidate *heap, size_t count, lnt_candidate x)
{
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && goes_before(heap[child], heap[child + 1])) child++;
        if (!goes_before(x, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

/* Puts x into a heap that has `count` already. */
static void rise(lnt_candidate *heap, size_t count, lnt_candidate x)
{
    size_t at = count;
    for (size_t parent; at && goes_before(heap[parent = (at - 1) / 2], x); at = parent)
        heap[at] = heap[parent];
    heap[at] = x;
}

static int compare(const void *a, const void *b)
{
    const lnt_candidate *x = a, *y = b;
    return goes_before(*x, *y) ? -1 : goes_before(*y, *x);
}

/* The `most` likeliest of logits [count], likelier first, their logits as weights; scratch c [count]. */
static void select_likeliest(const double *logits, size_t count, lnt_candidate *c, size_t most)
{
    if (most > count / SMALL_PART) {
        for (size_t i = 0; i < count; i++) c[i] = (lnt_candidate){ logits[i], (int32_t)i };
        qsort(c, count, sizeof *c, compare);
        return;
    }
    for (size_t i = 0; i < most; i++) rise(c, i, (lnt_candidate){ logits[i], (int32_t)i });
    for (size_t i = most; i < count; i++)
        if (logits[i] > c[0].weight) sift(c, most, (lnt_candidate){ logits[i], (int32_t)i });
    for (size_t left = most; left > 1; left--) {
        const lnt_candidate last = c[0];
        sift(c, left - 1, c[left - 1]);
        c[left - 1] = last;
    }
}

static size_t likeliest(const double *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ---- the draw ------------------------------------------------------------------------------ */

/* Of a logit; the likeliest's is 1. */
static double weight_of(const lnt_sampling *s, double logit, double best)
{
    return exp((logit - best) / s->temperature);
}

/* In the order of tokens; returns how many. */
static size_t take_all(const lnt_sampling *s, const double *logits, size_t count, double best,
                       lnt_candidate *c)
{
    const double least = best + s->temperature * log(s->min_p) - 1e-6 * fabs(best); /* saves exp of many */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (logits[i] < least) continue;
        const double weight = weight_of(s, logits[i], best);
        if (weight >= s->min_p) c[kept++] = (lnt_candidate){ weight, (int32_t)i };
    }
    return kept;
}

/* How many of the first of c [count] together have at least `share`; or all. */
static size_t take_share(const lnt_candidate *c, size_t count, double share, bool *enough)
{
    double sum = 0;
    size_t few = 0;
    while (few < count && (few == 0 || sum < share)) sum += c[few++].weight;
    *enough = sum >= share;
    return few;
}

/* Likelier first; returns how many. */
static size_t take_likeliest(const lnt_sampling *s, const double *logits, size_t count, double best,
                             lnt_candidate *c)
{
    const size_t most = s->top_k && (size_t)s->top_k < count ? (size_t)s->top_k : count;
    const bool guess = most == count && s->top_p < 1;
    double total = 0;
    bool enough = false;
    for (size_t i = 0; guess && i < count; i++) total += weight_of(s, logits[i], best);
    size_t n = guess && FIRST_GUESS < most ? FIRST_GUESS : most;
    for (;; n = GROWTH * n < most / SMALL_PART ? GROWTH * n : most) {
        select_likeliest(logits, count, c, n);
        for (size_t i = 0; i < n; i++) c[i].weight = weight_of(s, c[i].weight, best);
        for (size_t i = 0; !guess && i < n; i++) total += c[i].weight;
        size_t few = s->top_p < 1 ? take_share(c, n, s->top_p * total, &enough) : n;
        if (!enough && n < most) continue;
        while (few > 1 && c[few - 1].weight < s->min_p) few--;
        return few;
    }
}

int32_t lnt_sampler_draw(const lnt_sampling *s, const double *logits, size_t count, double u,
                         lnt_candidate *c)
{
    const size_t first = likeliest(logits, count);
    if (s->temperature <= 0) return (int32_t)first;
    const double best = logits[first];
    const bool sorted = s->top_k || s->top_p < 1;
    count = sorted ? take_likeliest(s, logits, count, best, c) : take_all(s, logits, count, best, c);
    double kept = 0;
    for (size_t n = 0; n < count; n++) kept += c[n].weight;
    double left = u * kept;
    size_t i = 0;
    while (i + 1 < count && left >= c[i].weight) left -= c[i++].weight;
    return c[i].token;
}
