/* nn/block_shape.c - the parameters of a residual block. */
#include <math.h>

#include "nn/block.h"

static lnt_param dense(const char *name, size_t in, size_t out, double gain)
{
    return lnt_param_matrix(name, in, out, gain / sqrt((double)in));
}

lnt_mega_shape lnt_block_mega(const lnt_block_shape *s)
{
    lnt_full_shape full = s->full;
    full.heads = s->heads;
    full.dim = s->head_dim;
    full.values = s->values / s->heads;
    return (lnt_mega_shape){ .dim = s->dim, .heads = s->heads, .head_dim = s->head_dim,
                             .values = s->values, .hidden = s->averages, .full = full };
}

/* Parameters of attention, which MEGA has in its own way. */
static bool of_attention(int i) { return i >= LNT_BLOCK_QKV && i <= LNT_BLOCK_OUT_BIAS; }

/* Those that not every block has. */
static lnt_param later_param(const lnt_block_shape *s, int i)
{
    const bool bias = s->after && s->bias & LNT_BIAS_NORM;
    const lnt_param none = { 0 };
    switch (i) {
    case LNT_BLOCK_Q_NORM: return s->qk_norm ? lnt_param_vector("q_norm.gain", s->head_dim, 1) : none;
    case LNT_BLOCK_K_NORM: return s->qk_norm ? lnt_param_vector("k_norm.gain", s->head_dim, 1) : none;
    case LNT_BLOCK_AFTER1_GAIN: return s->after ? lnt_param_vector("after1.gain", s->dim, 1) : none;
    case LNT_BLOCK_AFTER1_BIAS: return bias ? lnt_param_vector("after1.bias", s->dim, 0) : none;
    case LNT_BLOCK_AFTER2_GAIN: return s->after ? lnt_param_vector("after2.gain", s->dim, 1) : none;
    case LNT_BLOCK_AFTER2_BIAS: return bias ? lnt_param_vector("after2.bias", s->dim, 0) : none;
    default: return none;
    }
}

lnt_param lnt_block_param(const lnt_block_shape *s, int i)
{
    if (s->averages && i >= LNT_BLOCK_MEGA && i < LNT_BLOCK_DRAWN) {
        const lnt_mega_shape mega = lnt_block_mega(s);
        return lnt_mega_param(&mega, i - LNT_BLOCK_MEGA);
    }
    if (s->averages && of_attention(i)) return (lnt_param){ 0 };
    const size_t mixed = s->heads * s->head_dim;
    const size_t width = mixed + 2 * s->kv_heads * s->head_dim;
    const size_t up = s->ff * lnt_act_inputs(s->activation);
    const double branch = s->post ? 1 : 1 / sqrt(2 * (double)s->depth);
    const lnt_param none = { 0 };
    if (i >= LNT_BLOCK_DRAWN) return later_param(s, i);
    const unsigned bias = s->bias;
    switch (i) {
    case LNT_BLOCK_NORM1_GAIN: return lnt_param_vector("norm1.gain", s->dim, 1);
    case LNT_BLOCK_NORM1_BIAS: return bias & LNT_BIAS_NORM ? lnt_param_vector("norm1.bias", s->dim, 0) : none;
    case LNT_BLOCK_QKV: return dense("qkv.weight", s->dim, width, 1);
    case LNT_BLOCK_QKV_BIAS: return bias & LNT_BIAS_QKV ? lnt_param_vector("qkv.bias", width, 0) : none;
    case LNT_BLOCK_TEMPERATURE: return s->temperature ? lnt_param_vector("temperature", s->heads, 1) : none;
    case LNT_BLOCK_OUT: return dense("out.weight", mixed, s->dim, branch);
    case LNT_BLOCK_OUT_BIAS: return bias & LNT_BIAS_OUT ? lnt_param_vector("out.bias", s->dim, 0) : none;
    case LNT_BLOCK_NORM2_GAIN: return lnt_param_vector("norm2.gain", s->dim, 1);
    case LNT_BLOCK_NORM2_BIAS: return bias & LNT_BIAS_NORM ? lnt_param_vector("norm2.bias", s->dim, 0) : none;
    case LNT_BLOCK_UP: return dense("up.weight", s->dim, up, 1);
    case LNT_BLOCK_UP_BIAS: return bias & LNT_BIAS_FEED ? lnt_param_vector("up.bias", up, 0) : none;
    case LNT_BLOCK_DOWN: return dense("down.weight", s->ff, s->dim, branch);
    case LNT_BLOCK_DOWN_BIAS: return bias & LNT_BIAS_FEED ? lnt_param_vector("down.bias", s->dim, 0) : none;
    default: return none;
    }
}
