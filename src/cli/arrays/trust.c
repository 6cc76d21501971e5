/* cli/arrays/trust.c - says whether an approximation of softmax can be trusted on the data it was compared
 * on.
 *
 *     ||y - s|| / ||s|| < 1 %    can be trusted
 *                       < 5 %    is rough
 *     otherwise                  cannot be trusted
 *
 * It cannot be trusted either if a denominator was not above zero or overflowed.  For taylor the sentence
 * also
 * says why: how far the scores reach, and how far the polynomial follows e^x. */
#include "cli/arrays/trust.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/amount.h"
#include "cli/show/report.h"

static const double TRUSTED = 0.01, ROUGH = 0.05, WITHIN = 0.01;

/* w(x) / e^x */
static double ratio(const lnt_attn_desc *desc, double x)
{
    double weight = 0;
    for (int64_t t = desc->taylor.terms - 1; t >= 0; t--)
        weight = weight * x + (desc->taylor.coefficients ? desc->taylor.coefficients[t]
                                                  : 1 / tgamma((double)t + 1));
    return weight * exp(-x);
}

/* The largest X, in steps of 0.01 up to 64, such that the weights of taylor are within 1 % of e^x
 * (coefficients of its own: of a multiple of e^x) wherever |x| <= X. */
static double radius_of(const lnt_attn_desc *desc)
{
    enum { STEPS_PER_UNIT = 100, UNITS = 64 };
    double low = INFINITY, high = -INFINITY;
    for (int step = 0; step <= STEPS_PER_UNIT * UNITS; step++) {
        const double x = (double)step / STEPS_PER_UNIT;
        low = fmin(low, fmin(ratio(desc, x), ratio(desc, -x)));
        high = fmax(high, fmax(ratio(desc, x), ratio(desc, -x)));
        /* A common factor of all weights cancels in the division. */
        const double centre = desc->taylor.coefficients ? (low + high) / 2 : 1;
        if (!(low >= (1 - WITHIN) * centre && high <= (1 + WITHIN) * centre && centre > 0))
            return fmax(x - 1.0 / STEPS_PER_UNIT, 0);
    }
    return UNITS;
}

/* Appends to text. */
static void add(char *text, size_t capacity, const char *format, ...) PRINTF_LIKE(3, 4);
static void add(char *text, size_t capacity, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

static void add_reason(const lnt_attn_desc *desc, const comparison *c, char *text, size_t capacity)
{
    const double farthest = scores_farthest(&c->scores), radius = radius_of(desc);
    const char *times = desc->taylor.coefficients ? "a multiple of " : "";
    const long long terms = desc->taylor.terms;
    if (isnan(farthest)) return; /* there are none */
    if (farthest > radius)
        add(text, capacity,
            "; scores reach |x| = %.3g, and %lld terms are within 1 %% of %se^x only for "
            "|x| <= %.2f", farthest, terms, times, radius);
    else
        add(text, capacity,
            "; scores reach only |x| = %.3g, where %lld terms are within 1 %% of %se^x", farthest,
            terms, times);
    if (desc->taylor.normalize != LNT_NORMALIZE_NONE)
        add(text, capacity, "; they are scores of normalised q and k, which softmax does not use");
    if (desc->taylor.output_norm) add(text, capacity, "; --output-norm multiplies what softmax does not");
}

void trust_sentence(const lnt_attn_desc *desc, const comparison *c, int64_t nonpositive, char *text,
                    size_t capacity)
{
    const bool positive = nonpositive == 0;
    const char *verdict = c->relative < TRUSTED && positive ? "can be trusted here"
                          : c->relative < ROUGH && positive ? "is rough here"
                                                            : "cannot be trusted here";
    text[0] = '\0';
    if (!c->stretches) {
        add(text, capacity, "there is nothing to compare");
        return;
    }
    add(text, capacity, "%s %s: ", lnt_mechanism_name(desc->mechanism), verdict);
    if (isnan(c->relative)) add(text, capacity, "not every number is finite");
    else add(text, capacity, "the relative error is %.4g %%", 100 * c->relative);
    if (!positive)
        add(text, capacity,
            "; %lld row%s had a denominator that was not above zero, or too large for a number",
            (long long)nonpositive, plural(nonpositive));
    if (desc->mechanism == LNT_TAYLOR) add_reason(desc, c, text, capacity);
}
