/* model/import/gemma.c - Gemma 1 and 2: as Llama, but GEGLU, embeddings times sqrt(dim), and gains that a
 * directory keeps less 1; Gemma 2 also has norms after its branches and soft caps. */
#include <math.h>
#include <string.h>

#include "model/config_parts.h"
#include "model/import/arch.h"
#include "model/import/rope.h"

#define BLOCK(name) LNT_RULE_BLOCK + LNT_BLOCK_##name
#define LAYER "layers.%d."

static const lnt_rule rules[] = {
    { LNT_PARAM_EMBED, 0, { "embed_tokens.weight" } },
    { LNT_PARAM_NORM_GAIN, LNT_TURN_PLUS_ONE, { "norm.weight" } },
    { LNT_PARAM_HEAD, 0, { "lm_head.weight" } },
    { BLOCK(NORM1_GAIN), LNT_TURN_PLUS_ONE, { LAYER "input_layernorm.weight" } },
    { BLOCK(QKV),
      0,
      { LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight", LAYER "self_attn.v_proj.weight" } },
    { BLOCK(OUT), 0, { LAYER "self_attn.o_proj.weight" } },
    { BLOCK(NORM2_GAIN), LNT_TURN_PLUS_ONE, { LAYER "pre_feedforward_layernorm.weight" } }, /* of Gemma 2 */
    { BLOCK(NORM2_GAIN), LNT_TURN_PLUS_ONE, { LAYER "post_attention_layernorm.weight" } },
    { BLOCK(AFTER1_GAIN), LNT_TURN_PLUS_ONE, { LAYER "post_attention_layernorm.weight" } },
    { BLOCK(AFTER2_GAIN), LNT_TURN_PLUS_ONE, { LAYER "post_feedforward_layernorm.weight" } },
    { BLOCK(UP), 0, { LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight" } },
    { BLOCK(DOWN), 0, { LAYER "mlp.down_proj.weight" } },
    { 0 },
};

/* Norms after the branches too, soft caps, and a window in every other layer, the first among them. */
static void configure_second(lnt_source *s, lnt_config *c)
{
    const double wide = lnt_source_real_or(s, NULL, "query_pre_attn_scalar", (double)c->head_dim);
    c->post = LNT_PLACE_BOTH;
    c->logit_cap = lnt_source_real_or(s, "final_logit_softcapping", "final_logit_softcapping", 0);
    c->attention.softmax.cap = lnt_source_real_or(s, "attn_logit_softcapping", "attn_logit_softcapping", 0);
    c->attention.scale = 1 / sqrt(wide);
    const int64_t window =
        lnt_source_whole_in(s, "attention.sliding_window", "sliding_window", 0, 0, LNT_ARCH_LENGTH);
    if (!(wide > 0)) lnt_source_refuse(s, "query_pre_attn_scalar is %g", wide);
    if (s->status || !window) return;
    lnt_config view = *c;
    view.attention.hybrid.window = window; /* of softmax: config_shape.c */
    lnt_config_take_kind(&view, &c->kinds[0]);
    c->kinds[0].every = 2;
    c->kind_count = 1;
}

static void configure(lnt_source *s, const lnt_arch *arch, lnt_config *c)
{
    c->kind = LNT_DECODER;
    lnt_arch_extents(s, c);
    c->norm = LNT_NORM_RMS;
    c->epsilon = lnt_source_real_or(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    c->activation = LNT_ACT_GEGLU;
    c->embedding_scale = sqrt((double)c->dim);
    lnt_rope_read(s, false, c);
    lnt_arch_common(s, arch, c);
    if (strcmp(s->name, "gemma2") == 0 || strcmp(s->name, "Gemma2ForCausalLM") == 0) configure_second(s, c);
    c->tied = !lnt_arch_has(s, arch, LNT_PARAM_HEAD); /* config.json need not say it */
}

static const char *const gguf[] = { "gemma", "gemma2", NULL };
static const char *const classes[] = { "GemmaForCausalLM", "Gemma2ForCausalLM", NULL };
static const char *const ignored[] = { "rotary_emb.inv_freq", NULL };

const lnt_arch lnt_arch_gemma = { .gguf = gguf,
                                  .classes = classes,
                                  .prefix = "model.",
                                  .rules = rules,
                                  .ignored = ignored,
                                  .configure = configure };
