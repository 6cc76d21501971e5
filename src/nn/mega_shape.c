/* nn/mega_shape.c - the parameters of MEGA's gated attention. */
#include <math.h>

#include "nn/mega.h"

static lnt_param vector(const char *name, size_t width, double constant)
{
    return (lnt_param){ .name = name, .rank = 1, .shape = { width }, .constant = constant };
}

static lnt_param matrix(const char *name, size_t in, size_t out, double deviation, bool decays)
{
    return (lnt_param){ .name = name, .rank = 2, .shape = { in, out }, .decays = decays,
                        .deviation = deviation };
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
    return matrix("distance.bias", s->heads, lnt_full_distances(&s->full), 0.02, false);
}

static lnt_param dense(const char *name, size_t in, size_t out)
{
    return matrix(name, in, out, 1 / sqrt((double)in), true);
}

lnt_param lnt_mega_param(const lnt_mega_shape *s, int i)
{
    const size_t shared = s->heads * s->head_dim;
    lnt_param gain = matrix("qk.gain", 2, shared, 0.1, false);
    gain.constant = 1;
    switch (i) {
    case LNT_MEGA_VALUE: return dense("value.weight", s->dim, s->values);
    case LNT_MEGA_VALUE_BIAS: return vector("value.bias", s->values, 0);
    case LNT_MEGA_DELTA: return averages("ema.delta", s, 0.2);
    case LNT_MEGA_ALPHA: return averages("ema.alpha", s, 0.2);
    case LNT_MEGA_BETA: return averages("ema.beta", s, 1);
    case LNT_MEGA_GAMMA: return averages("ema.gamma", s, 1);
    case LNT_MEGA_OMEGA: return vector("ema.omega", s->dim, 1);
    case LNT_MEGA_GATE: return dense("gate.weight", s->dim, s->dim);
    case LNT_MEGA_GATE_BIAS: return vector("gate.bias", s->dim, 0);
    case LNT_MEGA_SHARED: return dense("shared.weight", s->dim, shared);
    case LNT_MEGA_SHARED_BIAS: return vector("shared.bias", shared, 0);
    case LNT_MEGA_RESET: return dense("reset.weight", s->dim, s->values);
    case LNT_MEGA_RESET_BIAS: return vector("reset.bias", s->values, 0);
    case LNT_MEGA_CANDIDATE: return dense("candidate.weight", s->dim, s->dim);
    case LNT_MEGA_CANDIDATE_BIAS: return vector("candidate.bias", s->dim, 0);
    case LNT_MEGA_ATTENDED: return dense("attended.weight", s->values, s->dim);
    case LNT_MEGA_QK_GAIN: return gain;
    case LNT_MEGA_QK_BIAS: return matrix("qk.bias", 2, shared, 0, false);
    case LNT_MEGA_DISTANCE: return distance(s);
    default: return (lnt_param){ 0 };
    }
}
