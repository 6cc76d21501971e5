/* nn/ema.c - per channel, over `hidden` averages at once:
 *
 *     p = s(delta),  q = 1 - p s(alpha),  h[t] = p beta x[t] + q h[t-1]
 *     y[t] = sum gamma h[t] / sqrt(hidden) + omega x[t]
 *
 * s the logistic function.  O(n width hidden); backward runs h forward once more, then its adjoint
 * back.  (Ma et al. 2023.) */
#include "nn/ema.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct channel {
    size_t hidden;
    real p[LNT_EMA_HIDDEN], q[LNT_EMA_HIDDEN], gain[LNT_EMA_HIDDEN], gamma[LNT_EMA_HIDDEN];
    real beta[LNT_EMA_HIDDEN], damp[LNT_EMA_HIDDEN]; /* damp = s(alpha) */
    real omega;
} channel;

static real logistic(real x) { return (real)(1 / (1 + exp(-(double)x))); }

static void prepare(const lnt_ema_weights *w, size_t c, size_t hidden, channel *out)
{
    const real over = (real)(1 / sqrt((double)hidden));
    out->hidden = hidden;
    out->omega = w->omega[c];
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

void lnt_ema_forward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x, real *y, real *h,
                     size_t batch, size_t length, size_t width, size_t hidden)
{
    const double work = 4 * (double)(batch * length) * (double)(width * hidden);
    const int threads = lnt_threads_for(ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t unit = 0; unit < (int64_t)(batch * width); unit++) {
        const size_t b = (size_t)unit / width, c = (size_t)unit % width;
        real now[LNT_EMA_HIDDEN] = { 0 };
        real *kept = h ? h + (size_t)unit * hidden : NULL;
        channel ch;
        prepare(w, c, hidden, &ch);
        if (kept) memcpy(now, kept, hidden * sizeof *now);
        for (size_t t = 0; t < length; t++) {
            const size_t at = (b * length + t) * width + c;
            const real in = x[at];
            real sum = ch.omega * in;
            for (size_t i = 0; i < hidden; i++) {
                now[i] = ch.gain[i] * in + ch.q[i] * now[i];
                sum += ch.gamma[i] * now[i];
            }
            y[at] = sum;
        }
        if (kept) memcpy(kept, now, hidden * sizeof *now);
    }
}

/* Gradients by gain, q, gamma, in the order of channel, and omega. */
typedef struct channel_grads {
    real gain[LNT_EMA_HIDDEN], q[LNT_EMA_HIDDEN], gamma[LNT_EMA_HIDDEN], omega;
} channel_grads;

/* One sequence of one channel; x, dy, dx start at its first token, `step` numbers a token. */
static void backward_sequence(const channel *ch, const real *x, const real *dy, real *dx,
                              channel_grads *d, real *past, size_t length, size_t step)
{
    const size_t hidden = ch->hidden;
    real g[LNT_EMA_HIDDEN] = { 0 };
    for (size_t t = 0; t < length; t++)
        for (size_t i = 0; i < hidden; i++)
            past[t * hidden + i] =
                ch->gain[i] * x[t * step] + (t ? ch->q[i] * past[(t - 1) * hidden + i] : 0);
    for (size_t t = length; t-- > 0;) {
        const real grad = dy[t * step], in = x[t * step];
        real sum = ch->omega * grad;
        d->omega += grad * in;
        for (size_t i = 0; i < hidden; i++) {
            g[i] = ch->gamma[i] * grad + ch->q[i] * g[i];
            d->gamma[i] += grad * past[t * hidden + i];
            d->gain[i] += g[i] * in;
            if (t) d->q[i] += g[i] * past[(t - 1) * hidden + i];
            sum += ch->gain[i] * g[i];
        }
        dx[t * step] = sum;
    }
}

static void store_grads(const channel *ch, const channel_grads *d, const lnt_ema_grads *g, size_t c)
{
    const real over = (real)(1 / sqrt((double)ch->hidden));
    g->omega[c] += d->omega;
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

void lnt_ema_backward(const lnt_ctx *ctx, const lnt_ema_weights *w, const real *x, const real *dy,
                      real *dx, const lnt_ema_grads *g, real *scratch, size_t batch, size_t length,
                      size_t width, size_t hidden)
{
    const double work = 12 * (double)(batch * length) * (double)(width * hidden);
    const int threads = lnt_threads_for(ctx, work);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < (int64_t)width; c++) {
        real *past = scratch + (size_t)omp_get_thread_num() * length * hidden;
        channel ch;
        channel_grads d = { 0 };
        prepare(w, (size_t)c, hidden, &ch);
        for (size_t b = 0; b < batch; b++) {
            const size_t at = b * length * width + (size_t)c;
            backward_sequence(&ch, x + at, dy + at, dx + at, &d, past, length, width);
        }
        store_grads(&ch, &d, g, (size_t)c);
    }
}
