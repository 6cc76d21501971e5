/* nn/real/logistics.c - a pixel v (scaled to -1 .. 1) of 256 values has probability
 *
 *     p(v) = sum_k w_k [s((v + h - mu_k) / e^l_k) - s((v - h - mu_k) / e^l_k)],   h = 1/255
 *
 * s the logistic function, w = softmax; the lowest value takes all that is below it, the highest all
 * above, so that p sums to 1.  l is kept above -7.  Per component in double: 30 numbers a pixel are
 * nothing beside the layers that made them. */
#include "nn/logistics.h"

#include <math.h>

enum { K = LNT_LOGISTICS_MIXTURES };
static const double HALF = 1.0 / 255, LOWEST = -7;

/* s(b) - s(a) of one component and its derivatives by mean and by l. */
typedef struct part {
    double log_p, dmean, dl;
} part;

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* The logarithm of s(x) and its slope, 1 - s(x), for any x and by one exponential. */
static double log_logistic(double x, double *slope)
{
    const double e = exp(-fabs(x));
    *slope = (x > 0 ? e : 1) / (1 + e);
    return fmin(x, 0) - log1p(e);
}

static part component(int pixel, double mean, double l)
{
    const bool fixed = l < LOWEST;
    if (fixed) l = LOWEST;
    const double value = pixel * 2.0 / 255 - 1, inverse = exp(-l);
    const double a = (value - HALF - mean) * inverse, b = (value + HALF - mean) * inverse;
    const bool lowest = pixel == 0, highest = pixel == LNT_LOGISTICS_VALUES - 1;
    part r = { 0 };
    double less = 0, more = 0; /* slopes of log_p by -a and by b */
    if (!lowest) r.log_p += log_logistic(-a, &less);
    if (!highest) r.log_p += log_logistic(b, &more);
    if (!lowest && !highest) { /* s(b) - s(a) = s(b) s(-a) (1 - e^(a-b)), with no cancellation */
        const double share = -expm1(a - b), slope = (1 - share) / share;
        r.log_p += log(share);
        less += slope;
        more += slope;
    }
    r.dmean = inverse * (less - more);
    r.dl = fixed ? 0 : a * less - b * more;
    return r;
}

/* The logarithm of the sum of e^x; the shares of that sum. */
static double log_sum_exp(const double *x, double *share)
{
    double max = x[0], sum = 0;
    for (int k = 1; k < K; k++) max = x[k] > max ? x[k] : max;
    for (int k = 0; k < K; k++) sum += share[k] = exp(x[k] - max);
    for (int k = 0; k < K; k++) share[k] /= sum;
    return max + log(sum);
}

static void row(const real *x, int32_t pixel, double *loss, real *dx, double weight)
{
    double w[K], joint[K], prior[K], share[K];
    part parts[K];
    *loss = 0;
    if (pixel < 0) {
        for (int i = 0; dx && i < LNT_LOGISTICS_WIDTH; i++) dx[i] = 0;
        return;
    }
    for (int k = 0; k < K; k++) {
        w[k] = (double)x[k];
        parts[k] = component(pixel, (double)x[K + k], (double)x[2 * K + k]);
        joint[k] = w[k] + parts[k].log_p;
    }
    *loss = log_sum_exp(w, prior) - log_sum_exp(joint, share);
    for (int k = 0; dx && k < K; k++) {
        dx[k] = (real)(weight * (prior[k] - share[k]));
        dx[K + k] = (real)(-weight * share[k] * parts[k].dmean);
        dx[2 * K + k] = (real)(-weight * share[k] * parts[k].dl);
    }
}

void lnt_logistics_loss(const lnt_ctx *ctx, const real *x, const int32_t *pixel, double *loss,
                        real *dx, double weight, size_t n)
{
    const int threads = lnt_threads_for(ctx, 3000 * (double)n);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const size_t at = (size_t)i * LNT_LOGISTICS_WIDTH;
        row(x + at, pixel[i], loss + i, dx ? dx + at : NULL, weight);
    }
}

/* p[1 .. 254] += w times what one component says of them.  With a the lower edge of a value, b = a + g
 * the upper one, r = e^-g and t = e^-|a|:
 *
 *     s(b) - s(a) = (1 - r) t / ((1 + t) (1 + t r)),   below 0: (1 - r) t / ((1 + t) (t + r))
 *
 * Edges are evenly spaced, so t follows from that of the neighbour; away from 0 it only shrinks. */
static void add_inner(double *p, double w, double mean, double inverse)
{
    enum { LAST = LNT_LOGISTICS_VALUES - 2 };
    const double gap = 2 * HALF * inverse, r = exp(-gap), share = -w * expm1(-gap);
    const double first = (HALF - 1 - mean) * inverse; /* the edge below value 1 */
    const double below = fmin(fmax(ceil(-first / gap), 0), LAST);
    const int middle = 1 + (int)below; /* the first value whose lower edge is not below 0 */
    double t = exp(-(first + below * gap));
    for (int v = middle; v <= LAST; v++, t *= r) p[v] += share * t / ((1 + t) * (1 + t * r));
    t = exp(first + (below - 1) * gap);
    for (int v = middle - 1; v >= 1; v--, t *= r) p[v] += share * t / ((1 + t) * (t + r));
}

void lnt_logistics_probability(const real *x, double *p)
{
    double w[K], prior[K];
    for (int k = 0; k < K; k++) w[k] = (double)x[k];
    log_sum_exp(w, prior);
    for (int v = 0; v < LNT_LOGISTICS_VALUES; v++) p[v] = 0;
    for (int k = 0; k < K; k++) {
        const double mean = (double)x[K + k], inverse = exp(-fmax((double)x[2 * K + k], LOWEST));
        p[0] += prior[k] * logistic((HALF - 1 - mean) * inverse);
        add_inner(p, prior[k], mean, inverse);
        p[LNT_LOGISTICS_VALUES - 1] += prior[k] * logistic((HALF - 1 + mean) * inverse);
    }
}
