/* nn/ema.c - per channel, over `hidden` averages of the past and as many of the future, h and f:
 *
 *     p = s(delta),  q = 1 - p s(alpha)
 *     h[t] = p beta x[t] + q h[t-1],  f[t] = p beta x[t] + q f[t+1]
 *     y[t] = sum gamma h[t] / sqrt(hidden) + sum gamma f[t] / sqrt(hidden) + omega x[t]
 *
 * s the logistic function; each way has its own delta, alpha, beta and gamma.  O(n width hidden);
 * backward runs the averages once more, then their adjoint the other way.  (Ma et al. 2023.) */
#include "nn/ema.h"

#include <math.h>
#include <omp.h>

typedef struct channel {
    size_t hidden;
    real p[LNT_EMA_HIDDEN], q[LNT_EMA_HIDDEN], gain[LNT_EMA_HIDDEN], gamma[LNT_EMA_HIDDEN];
    real beta[LNT_EMA_HIDDEN], damp[LNT_EMA_HIDDEN]; /* damp = s(alpha) */
} channel;

static real logistic(real x) { return (real)(1 / (1 + exp(-(double)x))); }

static void prepare(const lnt_ema_weights *w, size_t c, size_t hidden, channel *out)
{
    const real over = (real)(1 / sqrt((double)hidden));
    out->hidden = hidden;
    for (size_t i = 0; i < hidden; i++) {
        const size_t at = c * hidden + i;
        out->p[i] = logistic(w->delta[at]);
        out->damp[i] = logistic(w->alpha[at]);
        out->q[i] = 1 - out->p[i] * out->damp[i];
        out->beta[i] = w->beta[at];
        out->gain[i] = out->p[i] * w->beta[at];
        out->gamma[i] = w->gamma[at] * over;
    }
}

/* A sequence of one channel, walked from its first token (way 0) or from its last (way 1). */
typedef struct walk {
    size_t length, first; /* tokens, and the place of the one that comes first */
    ptrdiff_t step;       /* numbers between tokens */
} walk;

static walk walk_of(const int64_t *lengths, size_t b, size_t c, size_t way, size_t length,
                    size_t width)
{
    const size_t own = lengths ? (size_t)lengths[b] : length;
    const size_t start = way && own ? own - 1 : 0;
    return (walk){ .length = own, .first = (b * length + start) * width + c,
                   .step = way ? -(ptrdiff_t)width : (ptrdiff_t)width };
}

static void clear_padding(real *x, size_t b, size_t c, const walk *s, size_t length, size_t width)
{
    for (size_t t = s->length; t < length; t++) x[(b * length + t) * width + c] = 0;
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

void lnt_ema_forward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x,
                     const int64_t *lengths, real *y, size_t batch, size_t length, size_t width,
                     size_t hidden)
{
    const double work = 8 * (double)(batch * length) * (double)(width * hidden);
    const int threads = lnt_threads_for(ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)(batch * width); unit++) {
        const size_t b = (size_t)unit / width, c = (size_t)unit % width;
        for (size_t way = 0; way < 2; way++) {
            const walk s = walk_of(lengths, b, c, way, length, width);
            channel ch;
            prepare(w, c + way * width, hidden, &ch);
            if (way == 0) {
                clear_padding(y, b, c, &s, length, width);
                for (size_t t = 0; t < s.length; t++)
                    y[s.first + t * width] = w->omega[c] * x[s.first + t * width];
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

static void store_grads(const channel *ch, const channel_grads *d, const lnt_ema_grads *g, size_t c)
{
    const real over = (real)(1 / sqrt((double)ch->hidden));
    for (size_t i = 0; i < ch->hidden; i++) {
        const size_t at = c * ch->hidden + i;
        const real p = ch->p[i], damp = ch->damp[i];
        const real dp = d->gain[i] * ch->beta[i] - d->q[i] * damp;
        g->gamma[at] += d->gamma[i] * over;
        g->beta[at] += d->gain[i] * p;
        g->delta[at] += dp * p * (1 - p);
        g->alpha[at] -= d->q[i] * p * damp * (1 - damp);
    }
}

/* The part of the gradients that y has of x itself; dx overwritten. */
static void straight_back(real omega, const walk *s, const real *x, const real *dy, real *dx,
                          real *domega, size_t width)
{
    for (size_t t = 0; t < s->length; t++) {
        const size_t at = s->first + t * width;
        dx[at] = omega * dy[at];
        *domega += dy[at] * x[at];
    }
}

void lnt_ema_backward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x,
                      const int64_t *lengths, const real *dy, real *dx, const lnt_ema_grads *g,
                      real *scratch, size_t batch, size_t length, size_t width, size_t hidden)
{
    const double work = 24 * (double)(batch * length) * (double)(width * hidden);
    const int threads = lnt_threads_for(ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)width; unit++) {
        const size_t c = (size_t)unit;
        real *past = scratch + (size_t)omp_get_thread_num() * length * hidden;
        for (size_t way = 0; way < 2; way++) {
            channel ch;
            channel_grads d = { 0 };
            prepare(w, c + way * width, hidden, &ch);
            for (size_t b = 0; b < batch; b++) {
                const walk s = walk_of(lengths, b, c, way, length, width);
                if (way == 0) {
                    clear_padding(dx, b, c, &s, length, width);
                    straight_back(w->omega[c], &s, x, dy, dx, g->omega + c, width);
                }
                average_back(&ch, &s, x, dy, dx, &d, past);
            }
            store_grads(&ch, &d, g, c + way * width);
        }
    }
}
