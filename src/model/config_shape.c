/* model/config_shape.c - what a config is to the layers: shapes, and descriptions of attention. */
#include <math.h>

#include "model/config_parts.h"

unsigned lnt_config_usual_bias(const lnt_config *c)
{
    return c->norm == LNT_NORM_LAYER ? LNT_BIAS_ALL : LNT_BIAS_HEAD;
}

/* Exact attention of MEGA, where the library's softmax is not it. */
bool lnt_config_is_full(const lnt_config *c)
{
    return c->averages && c->attention.mechanism == LNT_SOFTMAX &&
           (c->distance_bias || c->attention.cur.activation == LNT_ACTIVATION_LAPLACE);
}

/* Of scores; NaN: what attention takes by itself. */
static double scale_of(const lnt_config *c)
{
    const bool weighs = c->averages && c->attention.cur.activation == LNT_ACTIVATION_LAPLACE;
    if (!isnan(c->attention.scale) || !weighs) return c->attention.scale;
    return 1 / (double)c->length; /* as MEGA has it: weights have no sum */
}

static lnt_full_shape full_shape(const lnt_config *c)
{
    const double scale = scale_of(c);
    return (lnt_full_shape){ .used = lnt_config_is_full(c),
                             .laplace = c->attention.cur.activation == LNT_ACTIVATION_LAPLACE,
                             .reach = c->distance_bias ? (size_t)c->length : 0,
                             .scale = isnan(scale) ? 1 / sqrt((double)c->head_dim) : scale };
}

unsigned lnt_config_bias(const lnt_config *c)
{
    return c->bias < 0 ? lnt_config_usual_bias(c) : (unsigned)c->bias;
}

const lnt_rotary *lnt_config_rotary(const lnt_config *c, size_t kind)
{
    return kind ? &c->kinds[kind - 1].rotary : &c->rotary;
}

bool lnt_config_normalises(const lnt_config *c, size_t kind)
{
    const lnt_attn_desc *a = kind ? &c->kinds[kind - 1].attention : &c->attention;
    return a->mechanism == LNT_TAYLOR && a->taylor.normalize == LNT_NORMALIZE_TAYLORSHIFT;
}

lnt_block_shape lnt_config_block(const lnt_config *config, size_t kind)
{
    const lnt_config view = lnt_config_view(config, kind), *c = &view;
    return (lnt_block_shape){ .dim = (size_t)c->dim, .heads = (size_t)c->heads,
                              .kv_heads = (size_t)c->kv_heads, .head_dim = (size_t)c->head_dim,
                              .ff = (size_t)c->ff, .depth = (size_t)c->layers,
                              .activation = (lnt_act)c->activation, .norm = (lnt_norm_kind)c->norm,
                              .epsilon = c->epsilon, .bias = lnt_config_bias(c),
                              .post = c->post == LNT_PLACE_POST, .after = c->post == LNT_PLACE_BOTH,
                              .parallel = c->parallel != 0, .qk_norm = c->qk_norm != 0,
                              .rotary = c->position == LNT_POSITION_ROTARY && !c->rotary.off,
                              .half = c->rotary.halves ? lnt_rotary_width(&c->rotary, (size_t)c->head_dim) / 2
                                                       : 0,
                              .temperature = c->learned_temperature != 0,
                              .averages = (size_t)c->averages, .values = (size_t)c->values,
                              .full = full_shape(c), .dropout = c->dropout, .drop_path = c->drop_path };
}

lnt_attn_desc lnt_config_attention(const lnt_config *c, size_t kind)
{
    const lnt_config view = lnt_config_view(c, kind);
    const lnt_attention_kind *own = kind ? &c->kinds[kind - 1] : NULL;
    lnt_attn_desc desc = view.attention;
    if (desc.mechanism == LNT_SOFTMAX) { /* the config has one window for both */
        desc.softmax.window = desc.hybrid.window;
        desc.hybrid.window = 0;
    }
    desc.scale = scale_of(&view);
    if (view.coefficient_count) desc.taylor.coefficients = own ? own->coefficients : c->coefficients;
    if (view.decay_count) desc.decay = own ? own->decay : c->decay;
    if (view.pin_count) desc.cur.pin = own ? own->pin : c->pin;
    desc.cur.pins = view.pin_count;
    return desc;
}
