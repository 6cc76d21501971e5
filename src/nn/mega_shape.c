/* nn/mega_shape.c - the parameters of MEGA's gated attention. */
#include <math.h>

#include "nn/mega.h"

/* Rows that are as gains and biases are. */
static lnt_param rows(const char *name, size_t count, size_t width, double deviation)
{
    lnt_param p = lnt_param_matrix(name, count, width, deviation);
    p.decays = false;
    return p;
}

/* Of the past, and of the future. */
static lnt_param averages(const char *name, const lnt_mega_shape *s, double deviation)
{
    return (lnt_param){ .name = name, .rank = 3, .shape = { 2, s->dim, s->hidden },
                        .deviation = deviation };
}

static lnt_param distance(const lnt_mega_shape *s)
{
    if (!s->full.reach) return (lnt_param){ 0 };
    return rows("distance.bias", s->heads, lnt_full_distances(&s->full), 0.02);
}

static lnt_param dense(const char *name, size_t in, size_t out)
{
    return lnt_param_matrix(name, in, out, 1 / sqrt((double)in));
}

lnt_param lnt_mega_param(const lnt_mega_shape *s, int i)
{
    const size_t shared = s->heads * s->head_dim;
    lnt_param gain = rows("qk.gain", 2, shared, 0.1);
    gain.constant = 1;
    switch (i) {
    case LNT_MEGA_VALUE: return dense("value.weight", s->dim, s->values);
    case LNT_MEGA_VALUE_BIAS: return lnt_param_vector("value.bias", s->values, 0);
    case LNT_MEGA_DELTA: return averages("ema.delta", s, 0.2);
    case LNT_MEGA_ALPHA: return averages("ema.alpha", s, 0.2);
    case LNT_MEGA_BETA: return averages("ema.beta", s, 1);
    case LNT_MEGA_GAMMA: return averages("ema.gamma", s, 1);
    case LNT_MEGA_OMEGA: return lnt_param_vector("ema.omega", s->dim, 1);
    case LNT_MEGA_GATE: return dense("gate.weight", s->dim, s->dim);
    case LNT_MEGA_GATE_BIAS: return lnt_param_vector("gate.bias", s->dim, 0);
    case LNT_MEGA_SHARED: return dense("shared.weight", s->dim, shared);
    case LNT_MEGA_SHARED_BIAS: return lnt_param_vector("shared.bias", shared, 0);
    case LNT_MEGA_RESET: return dense("reset.weight", s->dim, s->values);
    case LNT_MEGA_RESET_BIAS: return lnt_param_vector("reset.bias", s->values, 0);
    case LNT_MEGA_CANDIDATE: return dense("candidate.weight", s->dim, s->dim);
    case LNT_MEGA_CANDIDATE_BIAS: return lnt_param_vector("candidate.bias", s->dim, 0);
    case LNT_MEGA_ATTENDED: return dense("attended.weight", s->values, s->dim);
    case LNT_MEGA_QK_GAIN: return gain;
    case LNT_MEGA_QK_BIAS: return rows("qk.bias", 2, shared, 0);
    case LNT_MEGA_DISTANCE: return distance(s);
    default: return (lnt_param){ 0 };
    }
}
