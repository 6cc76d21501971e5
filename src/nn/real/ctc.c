/* nn/real/ctc.c - CTC: p(labels) is the sum over all paths that give the labels when repeats are merged and
 * blanks dropped, by forward and backward sums over the labels with blanks between them:
 *
 *     alpha[t,s] = (alpha[t-1,s] + alpha[t-1,s-1] + alpha[t-1,s-2] if s may be skipped to) y[t,s]
 *     dx[t,c] = softmax(x[t])[c] - sum over s with class c of alpha[t,s] beta[t,s] / (y[t,s] p)
 *
 * O(frames labels), in logarithms and double.  (Graves et al. 2006.) */
#include "nn/ctc.h"

#include <math.h>
#include <string.h>

typedef struct lattice {
    const int32_t *label;
    size_t frames, classes, states; /* 2 labels + 1 */
    double *log_y;                  /* [frames,classes] */
    double *alpha, *beta;           /* [frames,states] */
} lattice;

static double log_add(double a, double b)
{
    if (a < b) {
        const double c = a;
        a = b;
        b = c;
    }
    return b == -INFINITY ? a : a + log1p(exp(b - a));
}

static size_t class_of(const lattice *l, size_t s) { return s % 2 ? (size_t)l->label[s / 2] : 0; }

/* Whether state s may follow s - 2: over a blank between different labels. */
static bool may_skip(const lattice *l, size_t s)
{
    return s % 2 && s >= 2 && l->label[s / 2] != l->label[s / 2 - 1];
}

static void log_softmax(const real *x, double *y, size_t classes)
{
    double max = (double)x[0], sum = 0;
    for (size_t c = 1; c < classes; c++) max = (double)x[c] > max ? (double)x[c] : max;
    for (size_t c = 0; c < classes; c++) sum += exp((double)x[c] - max);
    for (size_t c = 0; c < classes; c++) y[c] = (double)x[c] - max - log(sum);
}

static void fill_alpha(const lattice *l)
{
    for (size_t t = 0; t < l->frames; t++)
        for (size_t s = 0; s < l->states; s++) {
            const double *before = t ? l->alpha + (t - 1) * l->states : NULL;
            double sum = t ? before[s] : s < 2 ? 0 : -INFINITY;
            if (t && s) sum = log_add(sum, before[s - 1]);
            if (t && may_skip(l, s)) sum = log_add(sum, before[s - 2]);
            l->alpha[t * l->states + s] = sum + l->log_y[t * l->classes + class_of(l, s)];
        }
}

/* beta as alpha, from the end; the frame's own y is in it as well. */
static void fill_beta(const lattice *l)
{
    for (size_t t = l->frames; t-- > 0;)
        for (size_t s = l->states; s-- > 0;) {
            const double *after = l->beta + (t + 1) * l->states;
            const bool last = t + 1 == l->frames;
            double sum = !last ? after[s] : s + 2 >= l->states ? 0 : -INFINITY;
            if (!last && s + 1 < l->states) sum = log_add(sum, after[s + 1]);
            if (!last && s + 2 < l->states && may_skip(l, s + 2)) sum = log_add(sum, after[s + 2]);
            l->beta[t * l->states + s] = sum + l->log_y[t * l->classes + class_of(l, s)];
        }
}

static void fill_gradient(const lattice *l, double log_p, real *dx, double weight)
{
    for (size_t t = 0; t < l->frames; t++) {
        double *y = l->log_y + t * l->classes;
        real *row = dx + t * l->classes;
        for (size_t c = 0; c < l->classes; c++) row[c] = (real)(weight * exp(y[c]));
        for (size_t s = 0; s < l->states; s++) {
            const size_t at = t * l->states + s, c = class_of(l, s);
            const double share = exp(l->alpha[at] + l->beta[at] - y[c] - log_p);
            row[c] -= (real)(weight * share);
        }
    }
}

double lnt_ctc_loss(const real *x, const int32_t *label, real *dx, double weight, size_t frames,
                    size_t classes, size_t labels, double *scratch)
{
    lattice l = { label, frames, classes, 2 * labels + 1, scratch, NULL, NULL };
    l.alpha = l.log_y + frames * classes;
    l.beta = l.alpha + frames * l.states;
    if (!frames) return labels ? INFINITY : 0;
    for (size_t t = 0; t < frames; t++) log_softmax(x + t * classes, l.log_y + t * classes, classes);
    fill_alpha(&l);
    const double *end = l.alpha + (frames - 1) * l.states + l.states - 1;
    const double log_p = l.states > 1 ? log_add(end[0], end[-1]) : end[0];
    if (dx && log_p == -INFINITY) memset(dx, 0, frames * classes * sizeof *dx);
    if (dx && log_p > -INFINITY) {
        fill_beta(&l);
        fill_gradient(&l, log_p, dx, weight);
    }
    return -log_p;
}

size_t lnt_ctc_decode(const real *x, int32_t *out, size_t frames, size_t classes)
{
    size_t count = 0, before = 0;
    for (size_t t = 0; t < frames; t++) {
        const real *row = x + t * classes;
        size_t best = 0;
        for (size_t c = 1; c < classes; c++)
            if (row[c] > row[best]) best = c;
        if (best && best != before) out[count++] = (int32_t)best;
        before = best;
    }
    return count;
}
