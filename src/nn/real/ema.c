/* nn/real/ema.c - per channel, over `hidden` averages of the past and as many of the future, h and f:
 *
 *     p = s(delta),  q = 1 - p s(alpha)
 *     h[t] = p beta x[t] + q h[t-1],  f[t] = p beta x[t] + q f[t+1]
 *     y[t] = sum gamma h[t] / sqrt(hidden) + sum gamma f[t] / sqrt(hidden) + omega x[t]
 *
 * s is the logistic function; each direction has its own delta, alpha, beta and gamma.  O(n width hidden).
 * Backward computes the averages again, then their adjoint in the other direction.  (Ma et al. 2023.) */
#include "nn/ema.h"

#include <math.h>
#include <omp.h>

typedef struct channel {
    size_t hidden;
    real p[LNT_EMA_HIDDEN], q[LNT_EMA_HIDDEN], gain[LNT_EMA_HIDDEN], gamma[LNT_EMA_HIDDEN];
    real beta[LNT_EMA_HIDDEN], damp[LNT_EMA_HIDDEN]; /* damp = s(alpha) */
} channel;

static real logistic(real x) { return (real)(1 / (1 + exp(-(double)x))); }

static void prepare(const lnt_ema *l, size_t c, channel *out)
{
    const real over = (real)(1 / sqrt((double)l->hidden));
    out->hidden = l->hidden;
    for (size_t i = 0; i < l->hidden; i++) {
        const size_t at = c * l->hidden + i;
        out->p[i] = logistic(l->delta[at]);
        out->damp[i] = logistic(l->alpha[at]);
        out->q[i] = 1 - out->p[i] * out->damp[i];
        out->beta[i] = l->beta[at];
        out->gain[i] = out->p[i] * l->beta[at];
        out->gamma[i] = l->gamma[at] * over;
    }
}

/* A sequence of one channel, walked from its first token (way 0) or from its last (way 1). */
typedef struct walk {
    size_t length, first; /* tokens, and the place of the one that comes first */
    ptrdiff_t step;       /* numbers between tokens */
} walk;

static walk walk_of(const lnt_pass *pass, size_t width, size_t b, size_t c, size_t way)
{
    const size_t own = nn_length(pass, b);
    const size_t start = way && own ? own - 1 : 0;
    return (walk){ .length = own, .first = (b * pass->length + start) * width + c,
                   .step = way ? -(ptrdiff_t)width : (ptrdiff_t)width };
}

static void clear_padding(const lnt_pass *pass, size_t width, size_t b, size_t c, real *x)
{
    for (size_t t = nn_length(pass, b); t < pass->length; t++) x[(b * pass->length + t) * width + c] = 0;
}

/* Adds the averages of one way to y. */
static void average(const channel *ch, const walk *s, const real *x, real *y)
{
    real now[LNT_EMA_HIDDEN] = { 0 };
    ptrdiff_t at = (ptrdiff_t)s->first;
    for (size_t t = 0; t < s->length; t++, at += s->step) {
        const real in = x[at];
        real sum = 0;
        for (size_t i = 0; i < ch->hidden; i++) {
            now[i] = ch->gain[i] * in + ch->q[i] * now[i];
            sum += ch->gamma[i] * now[i];
        }
        y[at] += sum;
    }
}

void lnt_ema_forward(const lnt_pass *pass, const lnt_ema *l, const real *x, real *y)
{
    const size_t width = l->width;
    const double work = 8 * (double)nn_tokens(pass) * (double)(width * l->hidden);
    const int threads = lnt_threads_for(pass->ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)(pass->batch * width); unit++) {
        const size_t b = (size_t)unit / width, c = (size_t)unit % width;
        for (size_t way = 0; way < 2; way++) {
            const walk s = walk_of(pass, width, b, c, way);
            channel ch;
            prepare(l, c + way * width, &ch);
            if (way == 0) {
                clear_padding(pass, width, b, c, y);
                for (size_t t = 0; t < s.length; t++)
                    y[s.first + t * width] = l->omega[c] * x[s.first + t * width];
            }
            average(&ch, &s, x, y);
        }
    }
}

/* Gradients by gain, q and gamma, in the order of channel. */
typedef struct channel_grads {
    real gain[LNT_EMA_HIDDEN], q[LNT_EMA_HIDDEN], gamma[LNT_EMA_HIDDEN];
} channel_grads;

/* Back through average; dx added to. */
static void average_back(const channel *ch, const walk *s, const real *x, const real *dy, real *dx,
                         channel_grads *d, real *past)
{
    const size_t hidden = ch->hidden;
    real g[LNT_EMA_HIDDEN] = { 0 };
    ptrdiff_t at = (ptrdiff_t)s->first;
    for (size_t t = 0; t < s->length; t++, at += s->step)
        for (size_t i = 0; i < hidden; i++)
            past[t * hidden + i] =
                ch->gain[i] * x[at] + (t ? ch->q[i] * past[(t - 1) * hidden + i] : 0);
    for (size_t t = s->length; t-- > 0;) {
        at -= s->step;
        real sum = 0;
        for (size_t i = 0; i < hidden; i++) {
            g[i] = ch->gamma[i] * dy[at] + ch->q[i] * g[i];
            d->gamma[i] += dy[at] * past[t * hidden + i];
            d->gain[i] += g[i] * x[at];
            if (t) d->q[i] += g[i] * past[(t - 1) * hidden + i];
            sum += ch->gain[i] * g[i];
        }
        dx[at] += sum;
    }
}

static void store_grads(const lnt_ema *l, size_t c, const channel *ch, const channel_grads *d)
{
    const real over = (real)(1 / sqrt((double)ch->hidden));
    for (size_t i = 0; i < ch->hidden; i++) {
        const size_t at = c * ch->hidden + i;
        const real p = ch->p[i], damp = ch->damp[i];
        const real dp = d->gain[i] * ch->beta[i] - d->q[i] * damp;
        l->dgamma[at] += d->gamma[i] * over;
        l->dbeta[at] += d->gain[i] * p;
        l->ddelta[at] += dp * p * (1 - p);
        l->dalpha[at] -= d->q[i] * p * damp * (1 - damp);
    }
}

/* The part of the gradients that y has of x itself; dx overwritten. */
static void straight_back(const lnt_ema *l, size_t c, const walk *s, const real *x, const real *dy,
                          real *dx)
{
    const real omega = l->omega[c];
    for (size_t t = 0; t < s->length; t++) {
        const size_t at = s->first + t * l->width;
        dx[at] = omega * dy[at];
        l->domega[c] += dy[at] * x[at];
    }
}

void lnt_ema_backward(const lnt_pass *pass, const lnt_ema *l, const real *x, const real *dy,
                      real *dx, real *scratch)
{
    const size_t width = l->width;
    const double work = 24 * (double)nn_tokens(pass) * (double)(width * l->hidden);
    const int threads = lnt_threads_for(pass->ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)width; unit++) {
        const size_t c = (size_t)unit;
        real *past = scratch + (size_t)omp_get_thread_num() * pass->length * l->hidden;
        for (size_t way = 0; way < 2; way++) {
            channel ch;
            channel_grads d = { 0 };
            prepare(l, c + way * width, &ch);
            for (size_t b = 0; b < pass->batch; b++) {
                const walk s = walk_of(pass, width, b, c, way);
                if (way == 0) {
                    clear_padding(pass, width, b, c, dx);
                    straight_back(l, c, &s, x, dy, dx);
                }
                average_back(&ch, &s, x, dy, dx, &d, past);
            }
            store_grads(l, c + way * width, &ch, &d);
        }
    }
}
