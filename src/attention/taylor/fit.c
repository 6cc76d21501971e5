/* attention/taylor/fit.c - the polynomial nearest to e^x, in the mean square over normal scores.
 *
 * With He_n the Hermite polynomials, e^x = e^{s^2/2} sum_n s^n / n! He_n(x / s), and these are
 * orthogonal under x ~ N(0, s^2): the best polynomial of degree below P is the sum of the first P
 * terms.  s = 0 gives the Taylor series.  See docs/math/taylor.md */
#include <math.h>
#include <string.h>

#include "attention/taylor/basis.h"
#include "core/context.h"

lnt_status lnt_taylor_fit(lnt_ctx *ctx, int64_t terms, double sigma, double *coefficients)
{
    if (terms < 1 || terms > LNT_MAX_TERMS)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "terms is %lld, must be 1 to %d", (long long)terms,
                        LNT_MAX_TERMS);
    if (!(sigma >= 0) || sigma > 10)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "sigma is %g, must be 0 to 10", sigma);
    if (!coefficients) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "coefficients is NULL");

    double now[LNT_MAX_TERMS + 1] = { 1 }, before[LNT_MAX_TERMS + 1] = { 0 };
    double factorial = 1;
    memset(coefficients, 0, (size_t)terms * sizeof *coefficients);
    for (int n = 0; n < terms; n++) { /* now is He_n */
        for (int p = 0; p <= n; p++)
            coefficients[p] += exp(sigma * sigma / 2) / factorial * pow(sigma, n - p) * now[p];
        double next[LNT_MAX_TERMS + 1] = { 0 }; /* He_{n+1}(t) = t He_n(t) - n He_{n-1}(t) */
        for (int p = 0; p <= n; p++) next[p + 1] += now[p];
        for (int p = 0; p < n; p++) next[p] -= n * before[p];
        memcpy(before, now, sizeof now);
        memcpy(now, next, sizeof now);
        factorial *= n + 1;
    }
    return LNT_OK;
}
